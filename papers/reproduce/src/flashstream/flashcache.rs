//! A model of flashcache (2010) in front of the disk: blocks of 4 KiB in sets.
//!
//! Missing data is read from the disk and written to the SSD before it is delivered, in single
//! blocks of 4 KiB (FlashStream 5.2: "SSD write operations are in the critical path"). A block's
//! address determines its set of 512 blocks; within a set, replacement is FIFO. Its documentation
//! (doc/flashcache-doc.txt) says "target set = (dbn / block size / set size) mod (number of sets)",
//! so that neighbours on the disk share a set and are adjacent there: 2 MiB regions are scattered,
//! not 4 KiB blocks.
//!
//! Simplifications: no block is ever dirty, and metadata writes are left out; both would make it
//! slower. A segment's blocks are evicted individually; it is served from the SSD if all are
//! present.

use std::collections::HashMap;

use headlong_units::KIB;

use super::block_layer::DriveRange;
use super::library::Segment;
use super::tier::{Tier, TierLookup};

const BLOCK_BYTES: u64 = 4 * KIB;
/// Blocks per set, flashcache's default.
const SET_BLOCKS: u64 = 512;

/// A flashcache.
#[derive(Debug)]
pub(super) struct Flashcache {
    sets: u64,
    /// The slot of each cached block.
    slots: HashMap<u32, u32>,
    /// The block in each slot.
    held: Vec<u32>,
    /// For each set, the next victim.
    next: Vec<u16>,
    filled: u64,
}

/// Marks an empty slot.
const NOTHING: u32 = u32::MAX;

impl Flashcache {
    pub(super) fn new(bytes: u64) -> Self {
        let sets = (bytes / BLOCK_BYTES / SET_BLOCKS).max(1);
        Self {
            sets,
            slots: HashMap::new(),
            held: vec![NOTHING; (sets * SET_BLOCKS) as usize],
            next: vec![0; sets as usize],
            filled: 0,
        }
    }

    /// Block numbers on the disk, which fit for up to 16 TB.
    fn blocks(segment: &Segment) -> std::ops::Range<u32> {
        let end = segment.physical + u64::from(segment.bytes);
        (segment.physical / BLOCK_BYTES) as u32..end.div_ceil(BLOCK_BYTES) as u32
    }

    /// Stores a block in the oldest slot of its set and evicts its content.
    fn put(&mut self, block: u32) -> u32 {
        let set = u64::from(block) / SET_BLOCKS % self.sets;
        let next = &mut self.next[set as usize];
        let slot = set * SET_BLOCKS + u64::from(*next);
        *next = (*next + 1) % SET_BLOCKS as u16;
        match std::mem::replace(&mut self.held[slot as usize], block) {
            NOTHING => self.filled += 1,
            old => drop(self.slots.remove(&old)),
        }
        self.slots.insert(block, slot as u32);
        slot as u32
    }
}

fn part(slot: u32) -> DriveRange {
    DriveRange {
        from: u64::from(slot) * BLOCK_BYTES,
        bytes: BLOCK_BYTES,
    }
}

impl Tier for Flashcache {
    fn find(&mut self, segment: &Segment) -> TierLookup {
        let slots = Self::blocks(segment).map(|block| self.slots.get(&block).copied());
        match slots.collect::<Option<Vec<u32>>>() {
            None => TierLookup::nothing(),
            Some(slots) => TierLookup {
                on_ssd: slots.into_iter().map(part).collect(),
                disk_from: None,
            },
        }
    }

    fn handle_read(&mut self, segment: &Segment) -> Vec<DriveRange> {
        let missing = Self::blocks(segment).filter(|block| !self.slots.contains_key(block));
        let missing: Vec<u32> = missing.collect();
        missing
            .into_iter()
            .map(|block| part(self.put(block)))
            .collect()
    }

    fn filled(&self) -> f64 {
        self.filled as f64 / (self.sets * SET_BLOCKS) as f64
    }
}
