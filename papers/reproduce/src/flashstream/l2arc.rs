//! A model of ZFS with an L2ARC: what `zfs-fuse` of 2010 does with its SSD, as far as its sources'
//! remarks and tunables say.
//!
//! The one idea: once a second a feeder looks at the end of memory's list, twice as far as it may
//! write, and writes what is not there yet, up to 8 MiB, to the next place of a ring: first in, first
//! out, whatever was read since. Twice as much until the ring has gone round once.
//!
//! ZFS reads records of 128 KiB and, once two have followed one another, ahead of the reader.
//! `l2arc_noprefetch`, on by default, keeps such reads from the SSD. The model has both settings,
//! for the paper does not say how its ZFS was set.
//!
//! Simpler than life: memory is one list by last use and not two lists that adapt; records lie as the
//! titles do; the feeder's own time is nothing.

use std::collections::{HashMap, VecDeque};

use headlong_units::{Duration, Instant, KIB, MIB};

use super::library::Segment;
use super::memory::Memory;
use super::station::Part;
use super::tier::{Found, Tier};

const RECORD_BYTES: u64 = 128 * KIB;
/// Records that are read before it is seen that they follow one another.
const DEMANDED: u64 = 2;
/// `l2arc_write_max`: in each second; as much again until the SSD is full (`l2arc_write_boost`).
const WRITE_BYTES: u64 = 8 * MIB;
/// `l2arc_feed_secs`.
const FEED: Duration = Duration::from_secs(1);
/// `l2arc_headroom`: so many times of what may be written is looked at.
const HEADROOM: u64 = 2;

/// An L2ARC.
#[derive(Debug, Default)]
pub(super) struct L2arc {
    bytes: u64,
    /// Whether reads ahead pass by the SSD.
    no_prefetch: bool,
    /// Where each segment lies.
    places: HashMap<u64, Part>,
    /// In the order of the ring.
    ring: VecDeque<(u64, Part)>,
    hand: u64,
    has_gone_round: bool,
    next: Vec<(u64, Part)>,
    writing: Vec<(u64, Part)>,
    /// When the feeder looks next.
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

    /// What of a segment is written and read there.
    fn kept_bytes(&self, segment: &Segment) -> u64 {
        match self.no_prefetch {
            true => u64::from(segment.bytes).min(DEMANDED * RECORD_BYTES),
            false => u64::from(segment.bytes),
        }
    }

    /// The next place of the ring; what lies there is gone.
    fn place(&mut self, bytes: u64) -> Part {
        if self.hand + bytes > self.bytes {
            self.hand = 0;
            self.has_gone_round = true;
        }
        let place = Part {
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
    fn find(&mut self, segment: &Segment) -> Found {
        match self.places.get(&segment.physical) {
            None => Found::nothing(),
            Some(part) => Found {
                on_ssd: vec![*part],
                disk_from: (part.bytes < u64::from(segment.bytes)).then_some(part.bytes as u32),
            },
        }
    }

    fn tick(&mut self, now: Instant, memory: &Memory, _: f64) {
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

    fn poll_write(&mut self) -> Option<Vec<Part>> {
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
