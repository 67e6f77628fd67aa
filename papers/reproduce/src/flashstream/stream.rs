//! The paper's own system (FlashStream 3.2, 4.2, 4.4), as it says and no better.
//!
//! The one idea: a monitor copies what will soon leave memory into a ring; a feeder writes whole
//! blocks from the ring whenever the SSD has been idle enough. A segment is a row of chunks, which may
//! lie in several blocks, and is on the SSD only as long as all of them are.
//!
//! What the paper does not say, and what is taken here: the ring holds 128 MiB; a victim is a block
//! that is not being written; among blocks that were read equally often the least recently read goes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use headlong_random::Generator;
use headlong_units::{Instant, MIB};

use super::library::Segment;
use super::memory::Memory;
use super::station::Part;
use super::tier::{Found, Tier};

/// The monitor room: one in so many segments of memory, those that go next (3.2.1).
const MONITORED: usize = 10;
/// The SSD is not written when it was busier than this in the last epoch (4.4).
const BUSY_MAX: f64 = 0.6;
const RING_BYTES: u64 = 128 * MIB;

/// Which block goes (3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Lru,
    LfuMean,
    LfuMedian,
}

/// How a FlashStream is set up.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamSpec {
    pub(super) victim: Victim,
    /// Bytes of the SSD that are used.
    pub(super) bytes: u64,
    pub(super) block_bytes: u64,
    /// Free blocks are taken in no order, as in 5.3, so that a cold SSD is written as a full one.
    pub(super) takes_any_block: bool,
}

/// A part of a segment in a block.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    block: u64,
    offset: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Block {
    /// Segments with a chunk in it.
    segments: Vec<u64>,
    /// When one of them was read last, in turns.
    read: u64,
}

#[derive(Debug)]
struct Stored {
    chunks: Vec<Chunk>,
    /// Bytes in chunks so far; it can be read when all are written.
    bytes: u64,
    is_whole: bool,
    reads: u32,
}

/// A FlashStream.
#[derive(Debug)]
pub(super) struct Stream {
    spec: StreamSpec,
    /// By name of the segment.
    stored: HashMap<u64, Stored>,
    blocks: HashMap<u64, Block>,
    by_read: BTreeMap<(u64, u64), ()>,
    /// Segments to be written, with what is left of each.
    ring: VecDeque<(Segment, u64)>,
    ring_bytes: u64,
    /// What the write under way completes.
    completes: Vec<u64>,
    is_calm: bool,
    next_free: u64,
    turn: u64,
    chance: Generator,
    pub(super) blocks_written: u64,
}

impl Stream {
    pub(super) fn new(spec: StreamSpec) -> Self {
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

    /// A block that nothing is in.
    fn free_block(&mut self) -> u64 {
        let count = self.block_count();
        if (self.blocks.len() as u64) < count {
            if !self.spec.takes_any_block {
                self.next_free += 1;
                return self.next_free - 1;
            }
            // Nearly all are free where this is asked for.
            for _ in 0..1_000 {
                let block = self.chance.below(count);
                if !self.blocks.contains_key(&block) {
                    return block;
                }
            }
        }
        let victim = match self.spec.victim {
            Victim::Lru => self.by_read.keys().next().map(|(_, block)| *block),
            Victim::LfuMean => self.least(|reads| {
                let sum: u64 = reads.iter().map(|reads| u64::from(*reads)).sum();
                sum * 1024 / reads.len().max(1) as u64
            }),
            Victim::LfuMedian => self.least(|reads| {
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

impl Tier for Stream {
    fn find(&mut self, segment: &Segment) -> Found {
        let Some(stored) = self.stored.get_mut(&segment.physical) else {
            return Found::nothing();
        };
        if !stored.is_whole {
            return Found::nothing();
        }
        stored.reads += 1;
        let chunks = stored.chunks.clone();
        chunks.iter().for_each(|chunk| self.touch(chunk.block));
        let part = |chunk: &Chunk| Part {
            from: chunk.block * self.spec.block_bytes + chunk.offset,
            bytes: chunk.bytes,
        };
        Found {
            on_ssd: chunks.iter().map(part).collect(),
            disk_from: None,
        }
    }

    fn fills_memory(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Instant, memory: &Memory, busy: f64) {
        self.is_calm = busy <= BUSY_MAX;
        for segment in memory.tail().take(memory.len() / MONITORED) {
            let bytes = u64::from(segment.bytes);
            if self.ring_bytes + bytes > RING_BYTES {
                break;
            }
            if let Entry::Vacant(place) = self.stored.entry(segment.physical) {
                let stored = Stored {
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

    fn poll_write(&mut self) -> Option<Vec<Part>> {
        let block_bytes = self.spec.block_bytes;
        if self.ring_bytes < block_bytes || !self.is_calm || !self.completes.is_empty() {
            return None;
        }
        let number = self.free_block();
        self.turn += 1;
        let mut block = Block {
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
            // A block with its first chunks may have gone meanwhile.
            if let Some(stored) = self.stored.get_mut(&name) {
                stored.chunks.push(Chunk {
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
            // Of nothing: the write itself is under way all the same.
            self.completes.push(u64::MAX);
        }
        Some(vec![Part {
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
