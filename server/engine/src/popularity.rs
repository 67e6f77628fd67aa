//! Popularity: how often each segment of a stream was read lately.
//!
//! The pieces worth keeping are those that will be read again soonest. A viewer a little behind is
//! visible; viewers who have not arrived yet are expected as often as others came before. Of a
//! library that is much larger than memory most titles are read once, so pieces by last use hold
//! mostly bytes without another reader. By a calculation on a trace of SD viewers (Zipf 0.8, 20,000
//! titles) 1.9 GB by last use hold 16 % of requested bytes, by popularity 28 %; with viewers behind
//! 25 and 30 %, with knowledge of the future 37 %.
//!
//! The measure is the decayed number of reads of LRFU (Lee et al., IEEE Transactions on Computers
//! 50(12), 2001): each read counts one, and half of that after [`HALF_LIFE`]. The value stored is
//! the logarithm of the number that the reads would count at the beginning of time. It needs no
//! update as time passes, so that values of different times can be compared.
//!
//! Reads are remembered longer than pieces. The table has a fixed size: a new segment replaces the
//! least popular one of its row.
//!
//! Invariants: integers only are stored and compared; a value never decreases by a read. It grows no
//! more above some 700 decayed reads, nearly one a second: such segments stay in any case.

use alloc::vec::Vec;
use core::hash::Hasher;

use headlong_units::{Duration, Instant};

use crate::id_map::IdHasher;
use crate::ids::StreamId;

/// After this time a read counts half. In the trace above, hits differ by half a percent between
/// 300 and 1,200 s.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// Mean time for which a read counts, seconds.
const LIFE_S: f64 = HALF_LIFE.0 as f64 / 1e9 / core::f64::consts::LN_2;
/// Units of a value for each doubling.
const PARTS: f64 = 256.0;
/// Bytes of a stream that are counted together: a read of them is one viewer passing.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes of memory for which there is an entry.
const BYTES_PER_ENTRY: u64 = 64 << 10;
/// Entries of a row.
const ROW: usize = 8;

/// The logarithm of a decayed number of reads; zero for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Popularity(u32);

impl Popularity {
    pub(crate) const NONE: Self = Self(0);

    /// One read at `now`.
    fn once(now: Instant) -> Self {
        let halves = now.0 as f64 / HALF_LIFE.0 as f64;
        Self((halves * PARTS) as u32 + 1)
    }

    /// Both numbers of reads together.
    fn with(self, other: Self) -> Self {
        let (more, less) = (self.0.max(other.0), self.0.min(other.0));
        if less == 0 {
            return Self(more);
        }
        let apart = f64::from(more - less) / PARTS;
        let more_by = libm::round(PARTS * libm::log2(1.0 + libm::exp2(-apart)));
        Self(more.saturating_add(more_by as u32))
    }

    /// The expected time from `now` to the next read, if reads go on as often as they were: a
    /// steady rate makes the decayed number that rate times the mean life of a read.
    pub(crate) fn next_read_in(self, now: Instant) -> Duration {
        let halves = (f64::from(Self::once(now).0) - f64::from(self.0)) / PARTS;
        // The cast saturates.
        Duration((LIFE_S * 1e9 * libm::exp2(halves)) as u64)
    }
}

/// The probability that a segment counts as one that is read again within `within_s` seconds, if
/// viewers read it `reads_per_s` times a second, each independently of the others.
///
/// Its decayed number of reads has the distribution of shot noise: up to one that of Dickman's
/// function, which is known exactly; above, a gamma distribution of the same mean and variance, in
/// the approximation of Wilson and Hilferty (PNAS 17, 1931), is within 0.03 of it.
pub fn read_again_within(reads_per_s: f64, within_s: f64) -> f64 {
    let (mean, least) = (reads_per_s * LIFE_S, LIFE_S / within_s);
    if mean <= 0.0 || within_s <= 0.0 {
        return 0.0;
    }
    const EULER: f64 = 0.577_215_664_901_532_9;
    let fewer = -EULER * mean + mean * libm::log(least.min(1.0)) - libm::lgamma(mean + 1.0);
    let at_least_one = (1.0 - libm::exp(fewer)).max(0.0);
    if least <= 1.0 {
        return at_least_one;
    }
    let ninth = 1.0 / (18.0 * mean);
    let deviation = (libm::cbrt(least / mean) - (1.0 - ninth)) / libm::sqrt(ninth);
    let tail = libm::erfc(deviation * core::f64::consts::FRAC_1_SQRT_2) / 2.0;
    tail.min(at_least_one)
}

/// Entries that one line of the processor's cache holds.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct PopularityRow([PopularityEntry; ROW]);

#[derive(Debug, Clone, Copy)]
struct PopularityEntry {
    /// Hash of the segment.
    tag: u32,
    popularity: Popularity,
}

const EMPTY: PopularityEntry = PopularityEntry {
    tag: 0,
    popularity: Popularity::NONE,
};

/// The popularity of recently read segments.
#[derive(Debug)]
pub(crate) struct PopularityTable {
    rows: Vec<PopularityRow>,
    segment_pieces: u32,
}

impl PopularityTable {
    /// A table for a memory of `slot_count` pieces of `piece_bytes`: it remembers many times as many
    /// segments as memory holds.
    pub(crate) fn new(slot_count: u32, piece_bytes: u64) -> Self {
        let entries = u64::from(slot_count) * (piece_bytes / BYTES_PER_ENTRY).max(1);
        let rows = (entries as usize).div_ceil(ROW).next_power_of_two();
        let segment_pieces = (SEGMENT_BYTES / piece_bytes.max(1)).max(1);
        Self {
            rows: alloc::vec![PopularityRow([EMPTY; ROW]); rows],
            segment_pieces: u32::try_from(segment_pieces).unwrap_or(u32::MAX),
        }
    }

    /// A viewer begins to read a piece. The first piece of a segment stands for all of it, so that
    /// a segment read in small requests counts once.
    pub(crate) fn record(&mut self, now: Instant, (stream, piece): (StreamId, u32)) {
        if !piece.is_multiple_of(self.segment_pieces) {
            return;
        }
        let once = Popularity::once(now);
        let (row, tag) = self.place((stream, piece));
        let PopularityRow(row) = &mut self.rows[row];
        if let Some(known) = row.iter_mut().find(|entry| is_of(entry, tag)) {
            known.popularity = known.popularity.with(once);
        } else if let Some(least) = row.iter_mut().min_by_key(|entry| entry.popularity) {
            *least = PopularityEntry {
                tag,
                popularity: once,
            };
        }
    }

    /// The popularity of the segment of a piece.
    pub(crate) fn of(&self, key: (StreamId, u32)) -> Popularity {
        let (row, tag) = self.place(key);
        let known = self.rows[row].0.iter().find(|entry| is_of(entry, tag));
        known.map_or(Popularity::NONE, |entry| entry.popularity)
    }

    /// Row and tag of the segment of a piece.
    fn place(&self, (stream, piece): (StreamId, u32)) -> (usize, u32) {
        let mut hasher = IdHasher::default();
        hasher.write_u64(stream.0);
        hasher.write_u64(u64::from(piece / self.segment_pieces));
        let hash = hasher.finish();
        (hash as usize % self.rows.len(), (hash >> 32) as u32)
    }
}

fn is_of(entry: &PopularityEntry, tag: u32) -> bool {
    entry.tag == tag && entry.popularity != Popularity::NONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use headlong_units::KIB;
    use proptest::prelude::*;

    const PIECE_BYTES: u64 = 64 * KIB;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    fn table() -> PopularityTable {
        PopularityTable::new(1024, PIECE_BYTES)
    }

    #[test]
    fn read_counts_half_after_half_life() {
        let mut table = table();
        let (old, new) = ((StreamId(1), 0), (StreamId(2), 0));
        table.record(at(0), old);
        table.record(at(0), old);
        table.record(at(590), new);
        assert!(table.of(old) > table.of(new), "two reads, nearly half each");
        table.record(at(610), (StreamId(3), 0));
        assert!(table.of(old) < table.of((StreamId(3), 0)));
    }

    #[test]
    fn steady_rate_predicts_its_interval() {
        let mut table = table();
        let key = (StreamId(1), 0);
        (0..400).for_each(|turn| table.record(at(turn * 20), key));
        let next = table.of(key).next_read_in(at(8_000)).as_secs_f64();
        assert!((19.0..21.0).contains(&next), "{next}");
    }

    /// Reads at random times, drawn: how often the segment counts as one that is read again soon.
    #[test]
    fn probability_is_that_of_drawn_reads() {
        const SAMPLES: u64 = 40_000;
        let mut draw = headlong_random::Generator::new(11);
        for (every_s, within_s) in [
            (5000, 2000),
            (1500, 4000),
            (900, 870),
            (900, 600),
            (400, 500),
            (100, 120),
        ] {
            let mut table = table();
            let key = (StreamId(1), 0);
            let (mut next_s, mut again) = (0.0, 0);
            for now_s in (0..SAMPLES).map(|sample| sample * every_s / 10) {
                while next_s < now_s as f64 {
                    table.record(Instant((next_s * 1e9) as u64), key);
                    next_s += draw.exponential(every_s as f64);
                }
                let next = table.of(key).next_read_in(at(now_s));
                again += u64::from(next <= Duration::from_secs(within_s));
            }
            let seen = again as f64 / SAMPLES as f64;
            let expected = read_again_within(1.0 / every_s as f64, within_s as f64);
            assert!(
                (seen - expected).abs() < 0.04,
                "every {every_s} s, within {within_s} s: {seen} {expected}"
            );
        }
    }

    #[test]
    fn segment_read_in_small_requests_counts_once() {
        let mut table = table();
        (0..16).for_each(|piece| table.record(at(1), (StreamId(1), piece)));
        table.record(at(1), (StreamId(2), 16));
        let of = |stream, piece| table.of((StreamId(stream), piece));
        assert_eq!(of(1, 0), of(1, 15));
        assert_eq!(of(1, 7), of(2, 20));
        assert_eq!((of(1, 16), of(2, 0)), (Popularity::NONE, Popularity::NONE));
    }

    #[test]
    fn full_table_forgets_least_popular_segments() {
        let mut table = PopularityTable::new(1, PIECE_BYTES);
        let often = (StreamId(0), 0);
        (0..3).for_each(|second| table.record(at(second), often));
        for stream in 1..1_000 {
            table.record(at(3), (StreamId(stream), 0));
            assert_ne!(table.of(often), Popularity::NONE);
        }
        let known =
            (0..1_000).filter(|stream| table.of((StreamId(*stream), 0)) != Popularity::NONE);
        assert_eq!(known.count(), ROW);
    }

    proptest! {
        #[test]
        fn value_is_logarithm_of_decayed_number_of_reads(
            reads in prop::collection::vec((0_u64..8, 0_u64..400), 1..200),
        ) {
            let mut table = table();
            let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let mut now = 0;
            for (stream, later) in reads {
                now += later;
                table.record(at(now), (StreamId(stream), 0));
                model.entry(stream).or_default().push(now);
            }
            for (stream, read_at) in model {
                let count: f64 = read_at.iter().map(|at| libm::exp2(*at as f64 / 600.0)).sum();
                let value = f64::from(table.of((StreamId(stream), 0)).0);
                // Each read is rounded once.
                let error = (value - PARTS * libm::log2(count)).abs();
                prop_assert!(error <= 1.0 + read_at.len() as f64 / 2.0, "{error}");
            }
        }
    }
}
