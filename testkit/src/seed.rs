//! Reproducible randomness: one seed per test, printed, settable by `HEADLONG_SEED`.

/// A small seeded generator (SplitMix64): good enough to spread offsets and starts.
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// The seed from the environment variable `HEADLONG_SEED`, else `default`. Prints it, so that a
    /// failure can be reproduced.
    pub fn announced(test: &str, default: u64) -> Self {
        let seed = std::env::var("HEADLONG_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default);
        eprintln!("{test}: seed {seed} (HEADLONG_SEED={seed} repeats it)");
        Self(seed)
    }

    /// A generator with the given seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`; zero if the bound is zero. (The bias of the remainder is below
    /// 2^-32 for the bounds that tests use.)
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.next_u64() % bound
        }
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let (mut a, mut b) = (Seed::new(5), Seed::new(5));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert!((0..100).all(|_| a.below(7) < 7 && (0.0..1.0).contains(&b.unit())));
    }
}
