//! The xoshiro256++ generator, with the few distributions that the project needs.

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded pseudorandom generator. A clone produces the same sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
    state: Xoshiro256PlusPlus,
}

impl Generator {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            state: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The generator for the part of the work called `name`. It depends on the seed of this
    /// generator and on the name, not on how many numbers were drawn before.
    pub fn fork(&self, name: &str) -> Self {
        // FNV-1a: any fixed hash of the name is sufficient, because the seeding of xoshiro mixes
        // further.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
        Self::new(self.seed.rotate_left(17) ^ hash)
    }

    /// The generator for the `index`-th of many similar parts, such as one title or one session.
    pub fn fork_at(&self, index: u64) -> Self {
        Self::new(
            self.seed.rotate_left(29) ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        )
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// Uniform in `[0, 1)`, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..count`; 0 if `count` is 0. Unbiased by rejection sampling.
    pub fn below(&mut self, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let surplus = count.wrapping_neg() % count;
        loop {
            let product = u128::from(self.bits()) * u128::from(count);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }

    /// Exponential with this mean: the time between arrivals of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log1p(-self.unit()) * mean
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut generator = Generator::new(1);
        let drawn: Vec<u64> = (0..3).map(|_| generator.bits()).collect();
        assert_eq!(drawn, GOLDEN);
    }

    const GOLDEN: [u64; 3] = [
        14_971_601_782_005_023_387,
        13_781_649_495_232_077_965,
        1_847_458_086_238_483_744,
    ];

    #[test]
    fn a_fork_does_not_depend_on_earlier_draws() {
        let mut parent = Generator::new(7);
        let before = parent.fork("titles");
        parent.bits();
        assert_eq!(before, parent.fork("titles"));
        assert_ne!(before, parent.fork("sessions"));
        assert_ne!(parent.fork_at(0), parent.fork_at(1));
    }

    #[test]
    fn every_number_below_a_bound_is_equally_likely() {
        let mut generator = Generator::new(3);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[generator.below(7) as usize] += 1;
        }
        // Six standard deviations of a binomial count.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 560),
            "{counts:?}"
        );
        assert_eq!(generator.below(0), 0);
    }

    #[test]
    fn exponential_times_follow_their_distribution() {
        let mut generator = Generator::new(11);
        let mut drawn: Vec<f64> = (0..20_000).map(|_| generator.exponential(5.0)).collect();
        drawn.sort_by(f64::total_cmp);
        let distance = drawn.iter().enumerate().map(|(i, x)| {
            let share = (i as f64 + 0.5) / 20_000.0;
            libm::fabs(share - (1.0 - libm::exp(-x / 5.0)))
        });
        let distance = distance.fold(0.0, f64::max);
        // Kolmogorov-Smirnov at 0.1 %: 1.95 / sqrt(n).
        assert!(distance < 1.95 / libm::sqrt(20_000.0), "{distance}");
    }

    #[test]
    fn a_shuffle_keeps_all_items_and_moves_most() {
        let mut items: Vec<u32> = (0..1000).collect();
        Generator::new(5).shuffle(&mut items);
        let unmoved = items.iter().enumerate().filter(|(i, x)| *i == **x as usize);
        assert!(unmoved.count() < 10);
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1000));
    }
}
