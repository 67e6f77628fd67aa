//! Access frequency: how often segments of files were read recently, whether on flash or not.
//!
//! Recent reads predict future reads. Each segment of a file has a read count that decays
//! exponentially. There are many more segments than worthwhile counts, so the table has a fixed
//! size: a new segment replaces the smallest count among a few, which was small anyway.
//!
//! Invariants: the table never grows; a count grows only by reads of its segment, or of another
//! segment with the same tag (one in four billion).

use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use crate::names::{FileKey, PieceId};

/// Size of a segment. Viewers leave a title within minutes, so later segments are read less.
pub const SEGMENT_BYTES: u64 = 2 << 20;

/// The count of one complete read of a segment.
pub(crate) const ONE_READ: u32 = 1 << 16;

/// Associativity: segments that compete for the same places.
const WAYS: usize = 4;
/// Steps in which a count halves.
const STEPS: u64 = 16;
/// One half to the power of 1/[`STEPS`], in units of 1/65,536.
const FADED: u64 = 62_757;

#[derive(Debug, Clone, Copy, Default)]
struct AccessCount {
    /// Tag of the segment; zero if unused.
    mark: u32,
    /// Count as of `step`.
    reads: u32,
    step: u32,
}

impl AccessCount {
    fn at(&self, step: u32) -> u32 {
        let passed = u64::from(step.saturating_sub(self.step));
        let halved = u64::from(self.reads)
            .checked_shr(u32::try_from(passed / STEPS).unwrap_or(u32::MAX))
            .unwrap_or(0);
        let faded = (0..passed % STEPS).fold(halved, |reads, _| (reads * FADED) >> 16);
        faded as u32
    }
}

/// The table of counts.
#[derive(Debug)]
pub(crate) struct AccessFrequency {
    counts: Vec<AccessCount>,
    step: Duration,
}

impl AccessFrequency {
    /// Creates a table with room for at least `segments` segments.
    pub(crate) fn new(segments: u64, horizon: Duration) -> Self {
        let size = segments.clamp(1024, 1 << 24).next_power_of_two();
        Self {
            counts: alloc::vec![AccessCount::default(); size as usize],
            step: step_of(horizon),
        }
    }

    /// Sets the half-life. Existing counts keep their age in steps.
    pub(crate) fn set_horizon(&mut self, horizon: Duration) {
        self.step = step_of(horizon);
    }

    /// Counts a read of `bytes` bytes of a segment of `of_bytes` bytes.
    pub(crate) fn record(&mut self, now: Instant, at: (FileKey, u64), bytes: u64, of_bytes: u64) {
        let step = self.step_at(now);
        let (set, mark) = self.place(at);
        let ways = &mut self.counts[set..set + WAYS];
        let known = ways.iter().position(|count| count.mark == mark);
        let least = || (0..WAYS).min_by_key(|way| ways[*way].at(step)).unwrap_or(0);
        let way = known.unwrap_or_else(least);
        let before = match known {
            Some(_) => ways[way].at(step),
            None => 0,
        };
        let part = u128::from(bytes) * u128::from(ONE_READ) / u128::from(of_bytes.max(1));
        let reads = u64::from(before) + part.min(u128::from(ONE_READ)) as u64;
        ways[way] = AccessCount {
            mark,
            reads: u32::try_from(reads).unwrap_or(u32::MAX),
            step,
        };
    }

    /// The decayed count of a segment, in units of [`ONE_READ`].
    pub(crate) fn reads(&self, now: Instant, at: (FileKey, u64)) -> u32 {
        let (set, mark) = self.place(at);
        let mut ways = self.counts[set..set + WAYS].iter();
        let known = ways.find(|count| count.mark == mark);
        known.map_or(0, |count| count.at(self.step_at(now)))
    }

    fn step_at(&self, now: Instant) -> u32 {
        (now.0 / self.step.0.max(1)) as u32
    }

    /// The set and tag of a segment.
    fn place(&self, (file, segment): (FileKey, u64)) -> (usize, u32) {
        let spread = spread(file, segment);
        let sets = self.counts.len() / WAYS;
        let set = (spread as usize) % sets * WAYS;
        (set, (spread >> 32) as u32 | 1)
    }
}

fn step_of(horizon: Duration) -> Duration {
    Duration((horizon.0 / STEPS).max(1))
}

/// The segment that contains a piece.
pub(crate) fn segment(piece: PieceId, piece_bytes: u64) -> (FileKey, u64) {
    let segment = u64::from(piece.piece) * piece_bytes / SEGMENT_BYTES;
    (piece.file, segment)
}

/// Hashes a name to 64 bits.
pub(crate) fn spread(file: FileKey, number: u64) -> u64 {
    let mixed = (file.0 as u64) ^ ((file.0 >> 64) as u64).rotate_left(32);
    let product = u128::from(mixed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93))
        * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn count_halves_after_the_horizon() {
        let mut heat = AccessFrequency::new(1024, HOUR);
        let at = (FileKey(7), 3);
        heat.record(Instant::ZERO, at, SEGMENT_BYTES, SEGMENT_BYTES);
        assert_eq!(heat.reads(Instant::ZERO, at), ONE_READ);
        let half = heat.reads(Instant::ZERO + HOUR, at);
        assert!((ONE_READ / 2).abs_diff(half) < ONE_READ / 50, "{half}");
        let none = heat.reads(Instant::ZERO + HOUR.times(200), at);
        assert_eq!(none, 0);
    }

    proptest! {
        #[test]
        fn frequent_segment_survives_many_single_reads(others in 5_000_u64..20_000) {
            let mut heat = AccessFrequency::new(1024, HOUR);
            let at = (FileKey(1), 0);
            for turn in 0..others {
                if turn % 100 == 0 {
                    heat.record(Instant(turn), at, SEGMENT_BYTES, SEGMENT_BYTES);
                }
                let once = (FileKey(1000 + u128::from(turn)), 0);
                heat.record(Instant(turn), once, SEGMENT_BYTES, SEGMENT_BYTES);
            }
            let reads = u64::from(heat.reads(Instant(others), at) / ONE_READ);
            prop_assert!(reads + 5 >= others / 100, "{reads} of {others}");
        }
    }
}
