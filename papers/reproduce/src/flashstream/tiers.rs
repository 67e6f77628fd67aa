//! Second tiers between memory and disk: their interface, and models of flashcache, ZFS and the
//! paper's system.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;

use headlong_random::Generator;
use headlong_units::{Duration, Instant, KIB, MIB};

use super::block_layer::DriveRange;
use super::library::Segment;
use super::memory::SegmentMemory;

/// Sources of the bytes of a segment that is not in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TierLookup {
    /// On the SSD.
    pub(super) on_ssd: Vec<DriveRange>,
    /// The disk is read from this offset on; `None` if everything is on the SSD.
    pub(super) disk_from: Option<u32>,
}

impl TierLookup {
    /// Everything is on the disk.
    pub(super) fn nothing() -> Self {
        Self {
            on_ssd: Vec::new(),
            disk_from: Some(0),
        }
    }
}

/// A second tier.
pub(super) trait Tier: Debug {
    /// Looks up a segment that is not in memory.
    fn find(&mut self, segment: &Segment) -> TierLookup;

    /// Handles a segment read from the disk; returns the parts to write before delivery.
    fn handle_read(&mut self, _: &Segment) -> Vec<DriveRange> {
        Vec::new()
    }

    /// Whether data read from the SSD is also put into memory.
    fn fills_memory(&self) -> bool {
        true
    }

    /// Periodic work: once a second, more often with a scaled memory. `busy` is the busy share of
    /// the SSD in the last second.
    fn tick(&mut self, _now: Instant, _memory: &SegmentMemory, _busy: f64) {}

    /// The next write; polled whenever no write is in progress.
    fn poll_write(&mut self) -> Option<Vec<DriveRange>> {
        None
    }

    /// The write has completed.
    fn handle_written(&mut self) {}

    /// Share of its capacity that was ever filled.
    fn filled(&self) -> f64 {
        1.0
    }
}

/// No second tier.
#[derive(Debug)]
pub(super) struct NoTier;

impl Tier for NoTier {
    fn find(&mut self, _: &Segment) -> TierLookup {
        TierLookup::nothing()
    }
}

const BLOCK_BYTES: u64 = 4 * KIB;
/// Blocks per set, flashcache's default.
const SET_BLOCKS: u64 = 512;

/// A model of flashcache (2010) in front of the disk: blocks of 4 KiB in sets.
///
/// Missing data is read from the disk and written to the SSD before it is delivered, in single
/// blocks of 4 KiB (FlashStream 5.2: "SSD write operations are in the critical path"). A block's
/// address determines its set of 512 blocks; within a set, replacement is FIFO. Its documentation
/// (doc/flashcache-doc.txt) says "target set = (dbn / block size / set size) mod (number of sets)",
/// so that neighbours on the disk share a set and are adjacent there: 2 MiB regions are scattered,
/// not 4 KiB blocks.
///
/// Simplifications: no block is ever dirty, and metadata writes are left out; both would make it
/// slower. A segment's blocks are evicted individually; it is served from the SSD if all are
/// present.
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

const RECORD_BYTES: u64 = 128 * KIB;
/// Records read before a sequential access is detected.
const DEMANDED: u64 = 2;
/// `l2arc_write_max`: per second; twice until the SSD is full (`l2arc_write_boost`).
const WRITE_BYTES: u64 = 8 * MIB;
/// `l2arc_feed_secs`.
const FEED: Duration = Duration::from_secs(1);
/// `l2arc_headroom`: the feeder scans this multiple of its write limit.
const HEADROOM: u64 = 2;

/// A model of ZFS with an L2ARC: the SSD handling of `zfs-fuse` of 2010, as far as its source
/// comments and tunables describe it.
///
/// Once a second a feeder scans the tail of memory's list, twice as far as it may write, and writes
/// data that is not cached yet, up to 8 MiB, to the next place of a ring: FIFO, independent of
/// later reads. The write limit is doubled until the ring has been filled once.
///
/// ZFS reads records of 128 KiB and, after two consecutive ones, reads ahead. `l2arc_noprefetch`,
/// on by default, keeps such reads from the SSD. The model supports both settings, because the
/// paper does not give that of its ZFS.
///
/// Simplifications: memory is one LRU list instead of two adaptive ones; records are stored in the
/// order of the titles; the feeder takes no time.
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

/// The paper's own system, exactly as described (FlashStream 3.2, 4.2, 4.4).
///
/// A monitor copies segments that will soon leave memory into a ring; a feeder writes whole blocks
/// from the ring when the SSD has been idle enough. A segment is a list of chunks, possibly in
/// several blocks, and is on the SSD only while all of them are.
///
/// Assumptions where the paper is silent: the ring holds 128 MiB; a block being written is never a
/// victim; among blocks read equally often the least recently read one is evicted.
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
