//! A model of flashcache (2010) in front of the disk: blocks of 4 KiB in sets.
//!
//! The one idea: what misses is read from the disk and written to the SSD before it is passed on, in
//! single blocks of 4 KiB (FlashStream 5.2: "SSD write operations are in the critical path"). The
//! place of a block is in the set of its address, 512 blocks each; within a set the oldest goes.
//!
//! Simpler than life: nothing is ever dirty, and the metadata's own writes are left out; both would
//! make it slower. A segment's blocks stay or go one by one; it comes from the SSD if all are there.

use std::collections::HashMap;

use headlong_units::KIB;

use super::library::Segment;
use super::station::Part;
use super::tier::{Found, Tier};

const BLOCK_BYTES: u64 = 4 * KIB;
/// Blocks of a set, flashcache's default.
const SET_BLOCKS: u64 = 512;

/// A flashcache.
#[derive(Debug)]
pub(super) struct Flashcache {
    sets: u64,
    /// The slot of each block of the disk that is there.
    slots: HashMap<u64, u64>,
    /// What each slot holds.
    held: HashMap<u64, u64>,
    /// Of each set, the slot that goes next.
    next: HashMap<u64, u64>,
}

impl Flashcache {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            sets: (bytes / BLOCK_BYTES / SET_BLOCKS).max(1),
            slots: HashMap::new(),
            held: HashMap::new(),
            next: HashMap::new(),
        }
    }

    fn blocks(segment: &Segment) -> std::ops::Range<u64> {
        let end = segment.physical + u64::from(segment.bytes);
        segment.physical / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
    }

    /// Puts a block into the oldest slot of its set; what was there is gone.
    fn put(&mut self, block: u64) -> u64 {
        // As flashcache: neighbours on the disk share a set, sets follow from a division.
        let set = block / SET_BLOCKS % self.sets;
        let next = self.next.entry(set).or_insert(0);
        let slot = set * SET_BLOCKS + *next;
        *next = (*next + 1) % SET_BLOCKS;
        if let Some(old) = self.held.insert(slot, block) {
            self.slots.remove(&old);
        }
        self.slots.insert(block, slot);
        slot
    }
}

fn part(slot: u64) -> Part {
    Part {
        from: slot * BLOCK_BYTES,
        bytes: BLOCK_BYTES,
    }
}

impl Tier for Flashcache {
    fn find(&mut self, segment: &Segment) -> Found {
        let slots = Self::blocks(segment).map(|block| self.slots.get(&block).copied());
        match slots.collect::<Option<Vec<u64>>>() {
            None => Found::nothing(),
            Some(slots) => Found {
                on_ssd: slots.into_iter().map(part).collect(),
                disk_from: None,
            },
        }
    }

    fn handle_read(&mut self, segment: &Segment) -> Vec<Part> {
        let missing = Self::blocks(segment).filter(|block| !self.slots.contains_key(block));
        let missing: Vec<u64> = missing.collect();
        missing
            .into_iter()
            .map(|block| part(self.put(block)))
            .collect()
    }

    fn filled(&self) -> f64 {
        self.held.len() as f64 / (self.sets * SET_BLOCKS) as f64
    }
}
