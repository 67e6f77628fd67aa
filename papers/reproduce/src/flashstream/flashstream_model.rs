//! The paper's own system, exactly as described (FlashStream 3.2, 4.2, 4.4).
//!
//! A monitor copies segments that will soon leave memory into a ring; a feeder writes whole blocks
//! from the ring when the SSD has been idle enough. A segment is a list of chunks, possibly in
//! several blocks, and is on the SSD only while all of them are.
//!
//! Assumptions where the paper is silent: the ring holds 128 MiB; a block being written is never a
//! victim; among blocks read equally often the least recently read one is evicted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use headlong_random::Generator;
use headlong_units::{Instant, MIB};

use super::block_layer::DriveRange;
use super::library::Segment;
use super::memory::SegmentMemory;
use super::tier::{Tier, TierLookup};

/// The monitored part of memory: one in this many segments, those evicted next (3.2.1).
const MONITORED: usize = 10;
/// The SSD is not written if it was busier than this in the last epoch (4.4).
const BUSY_MAX: f64 = 0.6;
const RING_BYTES: u64 = 128 * MIB;

/// Replacement policy of blocks (3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplacementPolicy {
    Lru,
    LfuMean,
    LfuMedian,
}

/// Configuration of a FlashStream.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlashStreamSpec {
    pub(super) victim: ReplacementPolicy,
    /// Bytes of the SSD in use.
    pub(super) bytes: u64,
    pub(super) block_bytes: u64,
    /// Free blocks are selected at random, as in 5.3, so that a cold SSD is written like a full
    /// one.
    pub(super) takes_any_block: bool,
}

/// The part of a segment in one block.
#[derive(Debug, Clone, Copy)]
struct SegmentChunk {
    block: u64,
    offset: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct FlashBlock {
    /// Segments with a chunk in this block.
    segments: Vec<u64>,
    /// Logical time of the last read of any of them.
    read: u64,
}

#[derive(Debug)]
struct StoredSegment {
    chunks: Vec<SegmentChunk>,
    /// Bytes in chunks so far; readable when all are written.
    bytes: u64,
    is_whole: bool,
    reads: u32,
}

/// A FlashStream.
#[derive(Debug)]
pub(super) struct FlashStream {
    spec: FlashStreamSpec,
    /// Stored segments by name.
    stored: HashMap<u64, StoredSegment>,
    blocks: HashMap<u64, FlashBlock>,
    by_read: BTreeMap<(u64, u64), ()>,
    /// Segments to write, with the remaining bytes of each.
    ring: VecDeque<(Segment, u64)>,
    ring_bytes: u64,
    /// Segments completed by the write in progress.
    completes: Vec<u64>,
    is_calm: bool,
    next_free: u64,
    turn: u64,
    chance: Generator,
    pub(super) blocks_written: u64,
}

impl FlashStream {
    pub(super) fn new(spec: FlashStreamSpec) -> Self {
        Self {
            spec,
            stored: HashMap::new(),
            blocks: HashMap::new(),
            by_read: BTreeMap::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            completes: Vec::new(),
            is_calm: true,
            next_free: 0,
            turn: 0,
            chance: Generator::new(spec.block_bytes),
            blocks_written: 0,
        }
    }

    fn block_count(&self) -> u64 {
        self.spec.bytes / self.spec.block_bytes
    }

    /// Selects a free block.
    fn free_block(&mut self) -> u64 {
        let count = self.block_count();
        if (self.blocks.len() as u64) < count {
            if !self.spec.takes_any_block {
                self.next_free += 1;
                return self.next_free - 1;
            }
            // Where this is used, nearly all blocks are free.
            for _ in 0..1_000 {
                let block = self.chance.below(count);
                if !self.blocks.contains_key(&block) {
                    return block;
                }
            }
        }
        let victim = match self.spec.victim {
            ReplacementPolicy::Lru => self.by_read.keys().next().map(|(_, block)| *block),
            ReplacementPolicy::LfuMean => self.least(|reads| {
                let sum: u64 = reads.iter().map(|reads| u64::from(*reads)).sum();
                sum * 1024 / reads.len().max(1) as u64
            }),
            ReplacementPolicy::LfuMedian => self.least(|reads| {
                let middle = reads.len() / 2;
                match reads.is_empty() {
                    true => 0,
                    false => u64::from(*reads.select_nth_unstable(middle).1),
                }
            }),
        };
        let victim = victim.unwrap_or(0);
        self.clear(victim);
        victim
    }

    fn least(&self, score: impl Fn(&mut [u32]) -> u64) -> Option<u64> {
        let reads = |name: &u64| self.stored.get(name).map(|of| of.reads);
        let scored = self.blocks.iter().map(|(number, block)| {
            let mut reads: Vec<u32> = block.segments.iter().filter_map(reads).collect();
            (score(&mut reads), block.read, *number)
        });
        scored.min().map(|(_, _, number)| number)
    }

    fn clear(&mut self, block: u64) {
        let Some(gone) = self.blocks.remove(&block) else {
            return;
        };
        self.by_read.remove(&(gone.read, block));
        for name in gone.segments {
            self.stored.remove(&name);
        }
    }

    fn touch(&mut self, block: u64) {
        self.turn += 1;
        if let Some(of) = self.blocks.get_mut(&block) {
            self.by_read.remove(&(of.read, block));
            of.read = self.turn;
            self.by_read.insert((self.turn, block), ());
        }
    }
}

impl Tier for FlashStream {
    fn find(&mut self, segment: &Segment) -> TierLookup {
        let Some(stored) = self.stored.get_mut(&segment.physical) else {
            return TierLookup::nothing();
        };
        if !stored.is_whole {
            return TierLookup::nothing();
        }
        stored.reads += 1;
        let chunks = stored.chunks.clone();
        chunks.iter().for_each(|chunk| self.touch(chunk.block));
        let part = |chunk: &SegmentChunk| DriveRange {
            from: chunk.block * self.spec.block_bytes + chunk.offset,
            bytes: chunk.bytes,
        };
        TierLookup {
            on_ssd: chunks.iter().map(part).collect(),
            disk_from: None,
        }
    }

    fn fills_memory(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Instant, memory: &SegmentMemory, busy: f64) {
        self.is_calm = busy <= BUSY_MAX;
        for segment in memory.tail().take(memory.len() / MONITORED) {
            let bytes = u64::from(segment.bytes);
            if self.ring_bytes + bytes > RING_BYTES {
                break;
            }
            if let Entry::Vacant(place) = self.stored.entry(segment.physical) {
                let stored = StoredSegment {
                    chunks: Vec::new(),
                    bytes: 0,
                    is_whole: false,
                    reads: 0,
                };
                place.insert(stored);
                self.ring.push_back((*segment, bytes));
                self.ring_bytes += bytes;
            }
        }
    }

    fn poll_write(&mut self) -> Option<Vec<DriveRange>> {
        let block_bytes = self.spec.block_bytes;
        if self.ring_bytes < block_bytes || !self.is_calm || !self.completes.is_empty() {
            return None;
        }
        let number = self.free_block();
        self.turn += 1;
        let mut block = FlashBlock {
            segments: Vec::new(),
            read: self.turn,
        };
        let mut offset = 0;
        while offset < block_bytes
            && let Some((segment, left)) = self.ring.front_mut()
        {
            let bytes = (*left).min(block_bytes - offset);
            *left -= bytes;
            let name = segment.physical;
            let is_last = *left == 0;
            self.ring_bytes -= bytes;
            // A block with its first chunks may have been evicted meanwhile.
            if let Some(stored) = self.stored.get_mut(&name) {
                stored.chunks.push(SegmentChunk {
                    block: number,
                    offset,
                    bytes,
                });
                stored.bytes += bytes;
                block.segments.push(name);
                if stored.bytes == u64::from(segment.bytes) {
                    self.completes.push(name);
                }
            }
            offset += bytes;
            if is_last {
                self.ring.pop_front();
            }
        }
        self.by_read.insert((block.read, number), ());
        self.blocks.insert(number, block);
        self.blocks_written += 1;
        if self.completes.is_empty() {
            // Completes no segment, but marks a write in progress.
            self.completes.push(u64::MAX);
        }
        Some(vec![DriveRange {
            from: number * block_bytes,
            bytes: block_bytes,
        }])
    }

    fn handle_written(&mut self) {
        for name in std::mem::take(&mut self.completes) {
            if let Some(stored) = self.stored.get_mut(&name) {
                stored.is_whole = true;
            }
        }
    }

    fn filled(&self) -> f64 {
        self.blocks.len() as f64 / self.block_count().max(1) as f64
    }
}
