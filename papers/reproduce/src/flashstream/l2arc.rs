//! A model of ZFS with an L2ARC: the SSD handling of `zfs-fuse` of 2010, as far as its source
//! comments and tunables describe it.
//!
//! Once a second a feeder scans the tail of memory's list, twice as far as it may write, and writes
//! data that is not cached yet, up to 8 MiB, to the next place of a ring: FIFO, independent of
//! later reads. The write limit is doubled until the ring has been filled once.
//!
//! ZFS reads records of 128 KiB and, after two consecutive ones, reads ahead. `l2arc_noprefetch`,
//! on by default, keeps such reads from the SSD. The model supports both settings, because the
//! paper does not give that of its ZFS.
//!
//! Simplifications: memory is one LRU list instead of two adaptive ones; records are stored in the
//! order of the titles; the feeder takes no time.

use std::collections::{HashMap, VecDeque};

use headlong_units::{Duration, Instant, KIB, MIB};

use super::block_layer::DriveRange;
use super::library::Segment;
use super::memory::SegmentMemory;
use super::tier::{Tier, TierLookup};

const RECORD_BYTES: u64 = 128 * KIB;
/// Records read before a sequential access is detected.
const DEMANDED: u64 = 2;
/// `l2arc_write_max`: per second; twice until the SSD is full (`l2arc_write_boost`).
const WRITE_BYTES: u64 = 8 * MIB;
/// `l2arc_feed_secs`.
const FEED: Duration = Duration::from_secs(1);
/// `l2arc_headroom`: the feeder scans this multiple of its write limit.
const HEADROOM: u64 = 2;

/// An L2ARC.
#[derive(Debug, Default)]
pub(super) struct L2arc {
    bytes: u64,
    /// Whether prefetched data bypasses the SSD.
    no_prefetch: bool,
    /// Position of each segment.
    places: HashMap<u64, DriveRange>,
    /// Segments in ring order.
    ring: VecDeque<(u64, DriveRange)>,
    hand: u64,
    has_gone_round: bool,
    next: Vec<(u64, DriveRange)>,
    writing: Vec<(u64, DriveRange)>,
    /// Next run of the feeder.
    feed_at: Instant,
}

impl L2arc {
    pub(super) fn new(bytes: u64, no_prefetch: bool) -> Self {
        Self {
            bytes,
            no_prefetch,
            ..Self::default()
        }
    }

    /// Bytes of a segment that are written to and read from the SSD.
    fn kept_bytes(&self, segment: &Segment) -> u64 {
        match self.no_prefetch {
            true => u64::from(segment.bytes).min(DEMANDED * RECORD_BYTES),
            false => u64::from(segment.bytes),
        }
    }

    /// The next place of the ring; its content is evicted.
    fn place(&mut self, bytes: u64) -> DriveRange {
        if self.hand + bytes > self.bytes {
            self.hand = 0;
            self.has_gone_round = true;
        }
        let place = DriveRange {
            from: self.hand,
            bytes,
        };
        self.hand += bytes.next_multiple_of(4 * KIB);
        if self.has_gone_round {
            while let Some((name, old)) = self.ring.front().copied()
                && old.from < self.hand
                && old.from + old.bytes > place.from
            {
                self.ring.pop_front();
                self.places.remove(&name);
            }
        }
        place
    }
}

impl Tier for L2arc {
    fn find(&mut self, segment: &Segment) -> TierLookup {
        match self.places.get(&segment.physical) {
            None => TierLookup::nothing(),
            Some(part) => TierLookup {
                on_ssd: vec![*part],
                disk_from: (part.bytes < u64::from(segment.bytes)).then_some(part.bytes as u32),
            },
        }
    }

    fn tick(&mut self, now: Instant, memory: &SegmentMemory, _: f64) {
        if now < self.feed_at || !self.next.is_empty() || !self.writing.is_empty() {
            return;
        }
        self.feed_at = now + FEED;
        let most = match self.has_gone_round {
            true => WRITE_BYTES,
            false => 2 * WRITE_BYTES,
        };
        let (mut looked_at, mut bytes) = (0, 0);
        let mut chosen = Vec::new();
        for segment in memory.tail() {
            let kept = self.kept_bytes(segment);
            looked_at += u64::from(segment.bytes);
            if looked_at > HEADROOM * most || bytes + kept > most {
                break;
            }
            if !self.places.contains_key(&segment.physical) {
                bytes += kept;
                chosen.push((segment.physical, kept));
            }
        }
        for (name, bytes) in chosen {
            let place = self.place(bytes);
            self.next.push((name, place));
        }
    }

    fn poll_write(&mut self) -> Option<Vec<DriveRange>> {
        if self.next.is_empty() {
            return None;
        }
        self.writing = std::mem::take(&mut self.next);
        Some(self.writing.iter().map(|(_, part)| *part).collect())
    }

    fn handle_written(&mut self) {
        for (name, part) in std::mem::take(&mut self.writing) {
            self.places.insert(name, part);
            self.ring.push_back((name, part));
        }
    }

    fn filled(&self) -> f64 {
        match self.has_gone_round {
            true => 1.0,
            false => self.hand as f64 / self.bytes.max(1) as f64,
        }
    }
}
