//! A synthetic chain table with the published shapes of thesis 5.3: lengths by Figures 5.11 to
//! 5.13, a quarter of the chains at offset zero, a server of 36 drives over a week of evenings.

use headlong_chain_sim::ChainRow;
use headlong_random::{Empirical, Generator};
use headlong_units::BitRate;

/// Bit rates of sound and video, kbit/s, with their weights.
const KBPS: &[(u64, u64)] = &[
    (96, 25),
    (235, 5),
    (375, 5),
    (560, 8),
    (750, 10),
    (1_050, 12),
    (1_750, 22),
    (2_350, 14),
    (3_000, 14),
    (4_300, 6),
    (5_800, 4),
];
const MEAN_KBPS: f64 = 2_000.0;
const DRIVES: u16 = 36;
const FILES: u64 = 40_000;

/// The given number of chains, deterministic by seed.
pub(crate) fn rows(chains: usize, seed: u64) -> Vec<ChainRow> {
    let mut generator = Generator::new(seed);
    let lengths = Lengths::new();
    let days = Empirical::new(vec![
        (0.0, 0.0),
        (14.0, 0.25),
        (19.0, 0.5),
        (23.0, 0.9),
        (24.0, 1.0),
    ])
    .expect("hours of a day");
    let rows = (0..chains).map(|_| {
        let is_open = generator.unit() < 0.53;
        let is_at_zero = generator.unit() < 0.24;
        let kbps = kbps(&mut generator);
        let length = lengths.draw(is_open, is_at_zero, kbps, &mut generator);
        let bit_rate = BitRate::from_kbps(kbps);
        // Half a minute of playout buffer fills faster than it plays.
        let plays_ms = bit_rate.time_for(length).0 as f64 / 1e6;
        let lasts_ms = (plays_ms - 30_000.0).max(plays_ms / 8.0);
        let day = generator.below(7);
        let start_ms = (day as f64 * 24.0 + days.sample(&mut generator)) * 3.6e6;
        let file = (generator.unit().powi(3) * FILES as f64) as u32;
        ChainRow {
            session: 0,
            file,
            start: if is_at_zero {
                0
            } else {
                1 + generator.below(1 << 30)
            },
            length,
            start_ms: start_ms as i64,
            end_ms: (start_ms + lasts_ms) as i64,
            is_open,
            bit_rate: Some(bit_rate),
            disk: (u64::from(file).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u16 % DRIVES,
        }
    });
    rows.collect()
}

fn kbps(generator: &mut Generator) -> u64 {
    let mut place = generator.below(KBPS.iter().map(|(_, weight)| weight).sum());
    for (kbps, weight) in KBPS {
        if place < *weight {
            return *kbps;
        }
        place -= weight;
    }
    KBPS[0].0
}

struct Lengths {
    chunk_at_zero: Empirical,
    later: Empirical,
}

impl Lengths {
    /// A distribution over ln of bytes, linear between points: a power law in each segment.
    fn new() -> Self {
        let of = |points: &[(f64, f64)]| {
            let logs = points.iter().map(|(bytes, share)| (bytes.ln(), *share));
            Empirical::new(logs.collect()).expect("a distribution")
        };
        Self {
            // 49 % shorter than 16 KB, 98 % than 128 KB (5.3.2).
            chunk_at_zero: of(&[(4e3, 0.0), (16_384.0, 0.49), (131_072.0, 0.98), (5e7, 1.0)]),
            // 33 % shorter than 768 KB (5.3.2); 10 % of all longer than 20 MB, 1 % than 450 MB.
            later: of(&[
                (2e4, 0.0),
                (786_432.0, 0.33),
                (4e6, 0.66),
                (2e7, 0.868),
                (1e8, 0.95),
                (4.5e8, 0.987),
                (3e9, 1.0),
            ]),
        }
    }

    fn draw(&self, is_open: bool, is_at_zero: bool, kbps: u64, generator: &mut Generator) -> u64 {
        // Viewers watch for a time, not for a number of bytes.
        let scale = kbps as f64 / MEAN_KBPS;
        let length = match (is_at_zero, is_open) {
            // 84 % are exactly 768 KB, 0.4 % shorter (5.3.2).
            (true, true) => {
                let share = generator.unit();
                if share < 0.84 {
                    return 786_432;
                }
                if share < 0.844 {
                    return 1 + generator.below(786_431);
                }
                self.later.sample(generator).exp() + 786_433.0
            }
            (true, false) => self.chunk_at_zero.sample(generator).exp(),
            (false, _) => self.later.sample(generator).exp() * scale,
        };
        (length as u64).max(1)
    }
}
