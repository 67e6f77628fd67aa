//! Index of the sendfile cache: maps slots, and pieces of files, to places in the file of copies.
//!
//! Invariants: a place has an owner exactly while that slot's number refers to it; a place listed
//! in a file has an owner; a file without places is not in the table.

use std::collections::HashMap;
use std::sync::Arc;

use headlong_engine::{PartInMemory, Slot, StreamId};
use smallvec::SmallVec;

/// Upper limit of a block's use counter.
const USES_MAX: u32 = 64;
/// Owner of a free place.
const NO_OWNER: u32 = u32::MAX;
/// A reader closer to the end of the cached range goes to the engine, which starts to read when the
/// remaining data lasts for about ten seconds.
const AHEAD_BYTES: u64 = 4 << 20;
/// One in this many requests goes to the engine, so that it sees that the stream is in use.
const SEEN_ONE_IN: u32 = 64;
/// The cached range of a stream is determined for one in this many requests.
const ASKED_ONE_IN: u32 = 16;

/// Identity of a piece: its stream, file and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceIdentity {
    /// The stream.
    pub stream: StreamId,
    /// Index of its file in the stream.
    pub part: u32,
    /// Number of the piece within that file.
    pub number: u32,
}

#[derive(Debug, Default)]
pub(super) struct CopyTable {
    /// Per place: its owner and piece.
    places: Vec<CopyPlace>,
    pub(super) blocks: Vec<Block>,
    pub(super) ghosts: Vec<Arc<()>>,
    /// Clock hand: the block considered next for eviction.
    hand: usize,
    files: HashMap<StreamId, StreamCopies>,
    /// Number of files whose cached range is known.
    residents: usize,
    /// Used places that have not been reported to the engine yet.
    used: Vec<u32>,
    /// Number of requests and bytes that the engine did not see.
    pub(super) unseen: (u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct CopyPlace {
    owner: u32,
    of: Option<PieceIdentity>,
    /// Whether the place is in `CopyTable::used`.
    is_noted: bool,
}

const NOBODYS: CopyPlace = CopyPlace {
    owner: NO_OWNER,
    of: None,
    is_noted: false,
};

#[derive(Debug)]
pub(super) struct Block {
    pub(super) is_hole: bool,
    pub(super) live: u32,
    uses: u32,
    pub(super) used_by: Arc<BlockGeneration>,
}

/// One generation of a block; referenced while anything reads it.
#[derive(Debug, Default)]
pub(super) struct BlockGeneration {
    pub(super) pin: Arc<()>,
}

/// Pieces that are consecutive both in their file and in a block.
#[derive(Debug)]
pub(super) struct CopyRun {
    pub(super) place: u32,
    pub(super) count: u32,
    pub(super) used: Arc<BlockGeneration>,
}

/// Copies of one stream.
#[derive(Debug, Default)]
struct StreamCopies {
    /// Place by part and piece number.
    places: HashMap<(u32, u32), u32>,
    /// The cached range of the stream, if determined.
    resident: Option<PartInMemory>,
    /// Whether a request went beyond that range since: more may be in memory now.
    is_outgrown: bool,
    asked: u32,
}

impl Block {
    fn new() -> Self {
        Self {
            is_hole: true,
            live: 0,
            uses: 0,
            used_by: Arc::default(),
        }
    }

    /// Whether nothing reads the block.
    pub(super) fn is_left(&self) -> bool {
        Arc::strong_count(&self.used_by) == 1
    }

    /// Starts a new generation.
    pub(super) fn begin(&mut self) {
        (self.is_hole, self.uses) = (false, 1);
    }

    /// Counts `count` uses and returns a reference to the generation.
    fn count_uses(&mut self, count: u32) -> Arc<BlockGeneration> {
        self.uses = (self.uses + count).min(USES_MAX);
        Arc::clone(&self.used_by)
    }
}

/// Whether a reader at this range of a part needs no read.
fn is_enough(there: &PartInMemory, part: u32, start: u64, end: u64) -> bool {
    let start_of = |part: usize| there.part_starts.get(part).copied();
    let part = part as usize;
    let Some(first) = start_of(part) else {
        return false;
    };
    let (start, end) = (first.saturating_add(start), first.saturating_add(end));
    let (from, until) = (there.range.start, there.range.end);
    let is_within = from <= start && end <= start_of(part + 1).unwrap_or(there.stream_bytes);
    is_within && (until == there.stream_bytes || end.saturating_add(AHEAD_BYTES) <= until)
}

impl CopyTable {
    pub(super) fn new(places: usize, blocks: usize) -> Self {
        Self {
            places: vec![NOBODYS; places],
            blocks: (0..blocks).map(|_| Block::new()).collect(),
            ..Self::default()
        }
    }

    fn per_block(&self) -> usize {
        self.places.len() / self.blocks.len()
    }

    fn block_of(&mut self, place: usize) -> &mut Block {
        let block = place / self.per_block();
        &mut self.blocks[block]
    }

    /// Counts a use of a place.
    pub(super) fn count_use(&mut self, place: u32) -> Arc<BlockGeneration> {
        self.block_of(place as usize).count_uses(1)
    }

    /// Stores the owner and piece of a place.
    pub(super) fn add(&mut self, place: usize, slot: Slot, of: Option<PieceIdentity>) {
        self.places[place] = CopyPlace {
            owner: slot.0,
            of,
            is_noted: false,
        };
        self.block_of(place).live += 1;
        if let Some(PieceIdentity {
            stream,
            part,
            number,
        }) = of
        {
            let file = self.files.entry(stream).or_default();
            file.places.insert((part, number), place as u32);
        }
    }

    /// Frees a place; returns its owner.
    fn remove(&mut self, place: usize) -> Option<Slot> {
        let CopyPlace { owner, of, .. } = std::mem::replace(&mut self.places[place], NOBODYS);
        if owner == NO_OWNER {
            return None;
        }
        self.block_of(place).live -= 1;
        if let Some(of) = of {
            self.forget_piece(of, place as u32);
        }
        Some(Slot(owner))
    }

    fn forget_piece(&mut self, of: PieceIdentity, place: u32) {
        let Some(file) = self.files.get_mut(&of.stream) else {
            return;
        };
        // The piece may have been reread into another slot and copied from there since.
        if file.places.get(&(of.part, of.number)) == Some(&place) {
            file.places.remove(&(of.part, of.number));
        }
        if file.places.is_empty() {
            self.residents -= usize::from(file.resident.is_some());
            self.files.remove(&of.stream);
        }
    }

    /// The slot at this place was refilled.
    pub(super) fn forget(&mut self, place: u32) {
        self.remove(place as usize);
    }

    /// Whether it is worth determining which range of a stream is in memory.
    pub(super) fn asks_for(&mut self, stream: StreamId) -> bool {
        let file = self.files.get_mut(&stream);
        file.is_some_and(|file| {
            let is_open = file.resident.is_none() || file.is_outgrown;
            let asks = is_open && file.asked.is_multiple_of(ASKED_ONE_IN);
            file.asked = file.asked.wrapping_add(1);
            asks
        })
    }

    /// Sets the range of a stream that is in memory.
    pub(super) fn set_resident(&mut self, stream: StreamId, of_it: PartInMemory) {
        if let Some(file) = self.files.get_mut(&stream) {
            file.is_outgrown = false;
            self.residents += usize::from(file.resident.replace(of_it).is_none());
        }
    }

    /// A piece of a stream has left memory.
    pub(super) fn set_missing(&mut self, stream: StreamId) {
        if self.residents == 0 {
            return;
        }
        let file = self.files.get_mut(&stream);
        let was_resident = file.is_some_and(|file| file.resident.take().is_some());
        self.residents -= usize::from(was_resident);
    }

    /// Finds the pieces of a part, in as few runs as possible. `None` if any is missing, if the
    /// reader of `start..end` would need a read, or if the engine is to see this request, which
    /// sends `sent_bytes` of the range.
    pub(super) fn find(
        &mut self,
        (stream, part): (StreamId, u32),
        numbers: std::ops::RangeInclusive<u32>,
        (start, end): (u64, u64),
        sent_bytes: u64,
    ) -> Option<SmallVec<[CopyRun; 1]>> {
        let per_block = self.per_block() as u32;
        let file = self.files.get_mut(&stream)?;
        if !is_enough(file.resident.as_ref()?, part, start, end) {
            file.is_outgrown = true;
            return None;
        }
        file.asked = file.asked.wrapping_add(1);
        if file.asked.is_multiple_of(SEEN_ONE_IN) {
            return None;
        }
        let mut runs: SmallVec<[(u32, u32); 8]> = SmallVec::new();
        for number in numbers {
            let place = *file.places.get(&(part, number))?;
            match runs.last_mut() {
                Some((first, count))
                    if *first + *count == place && !place.is_multiple_of(per_block) =>
                {
                    *count += 1;
                }
                _ => runs.push((place, 1)),
            }
        }
        self.unseen.0 += 1;
        self.unseen.1 += sent_bytes;
        let look = |(place, count): (u32, u32)| {
            (place..place + count).for_each(|place| self.note_used(place));
            let used = self.block_of(place as usize).count_uses(count);
            CopyRun { place, count, used }
        };
        Some(runs.into_iter().map(look).collect())
    }

    fn note_used(&mut self, place: u32) {
        let is_noted = &mut self.places[place as usize].is_noted;
        if !std::mem::replace(is_noted, true) {
            self.used.push(place);
        }
    }

    /// The slots used since the last call, each once.
    pub(super) fn take_used(&mut self) -> Vec<Slot> {
        let used = std::mem::take(&mut self.used);
        // A place freed meanwhile is not marked any more.
        let noted = |place: u32| {
            let place = &mut self.places[place as usize];
            std::mem::take(&mut place.is_noted).then_some(Slot(place.owner))
        };
        used.into_iter().filter_map(noted).collect()
    }

    /// A block that is free immediately: empty, or without valid copies and readers.
    pub(super) fn unused_block(&self) -> Option<usize> {
        let hole = self.blocks.iter().position(|block| block.is_hole);
        let unused = |block: &Block| block.live == 0 && block.is_left();
        hole.or_else(|| self.blocks.iter().position(unused))
    }

    /// Evicts the copies of a block that was not used recently. Returns their owners, and the block
    /// if nothing reads it. `full` is the block filled last.
    pub(super) fn take_least_used(&mut self, full: Option<usize>) -> (Vec<Slot>, Option<usize>) {
        let per_block = self.per_block();
        for _ in 0..self.blocks.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.blocks.len();
            let block = &mut self.blocks[at];
            block.uses /= 2;
            if block.uses > 0 || Some(at) == full || block.live == 0 {
                continue;
            }
            let places = at * per_block..(at + 1) * per_block;
            let owners = places.filter_map(|place| self.remove(place)).collect();
            return (owners, self.blocks[at].is_left().then_some(at));
        }
        (Vec::new(), None)
    }
}

#[cfg(test)]
mod tests {
    use headlong_units::ByteRange;

    use super::*;

    const STREAM: StreamId = StreamId(7);

    fn piece(number: u32) -> Option<PieceIdentity> {
        Some(PieceIdentity {
            stream: STREAM,
            part: 0,
            number,
        })
    }

    /// A table with copies of both pieces of a fully cached stream, in places 0 and 1.
    fn resident() -> CopyTable {
        let mut table = CopyTable::new(8, 2);
        table.blocks[0].begin();
        assert!(!table.asks_for(STREAM), "the stream has no copies");
        table.add(0, Slot(10), piece(0));
        table.add(1, Slot(11), piece(1));
        assert!(table.asks_for(STREAM));
        assert!(!table.asks_for(STREAM), "only for a sample of requests");
        assert!(table.used.is_empty());
        table.set_resident(STREAM, there(0, 1500));
        table
    }

    /// A stream of two parts, of which the first has 1500 bytes.
    fn there(from: u64, until: u64) -> PartInMemory {
        PartInMemory {
            part_starts: vec![0, 1500],
            stream_bytes: 1500,
            range: ByteRange::new(from, until),
        }
    }

    fn found(table: &mut CopyTable, numbers: std::ops::RangeInclusive<u32>, end: u64) -> Vec<u32> {
        let start = u64::from(*numbers.start()) * 1000;
        let found = table
            .find((STREAM, 0), numbers, (start, end), end - start)
            .unwrap_or_default();
        let places = |run: CopyRun| run.place..run.place + run.count;
        found.into_iter().flat_map(places).collect()
    }

    #[test]
    fn resident_stream_is_found_except_for_sampled_requests() {
        let mut table = resident();
        let mut given = 0;
        for _ in 0..10 * SEEN_ONE_IN {
            given += u32::from(found(&mut table, 0..=1, 1500) == [0, 1]);
        }
        assert_eq!(given, 10 * (SEEN_ONE_IN - 1));
    }

    #[test]
    fn adjacent_pieces_of_a_block_form_one_run() {
        let mut table = CopyTable::new(8, 2);
        // The block ends after place 3, and piece 5 is elsewhere.
        let places = [2, 3, 4, 5, 6, 1];
        for (number, place) in places.into_iter().enumerate() {
            table.add(place, Slot(place as u32), piece(number as u32));
        }
        assert!(table.asks_for(STREAM));
        let there = PartInMemory {
            part_starts: vec![0],
            stream_bytes: 6000,
            range: ByteRange::new(0, 6000),
        };
        table.set_resident(STREAM, there);
        let found = table
            .find((STREAM, 0), 0..=5, (0, 6000), 5000)
            .expect("found");
        let runs: Vec<_> = found.iter().map(|run| (run.place, run.count)).collect();
        assert_eq!(runs, [(2, 2), (4, 3), (1, 1)]);
        assert_eq!(table.unseen, (1, 5000));
        let is_same = |one: usize, other: usize| Arc::ptr_eq(&found[one].used, &found[other].used);
        assert!(is_same(0, 2) && !is_same(0, 1));
    }

    #[test]
    fn used_slots_are_reported_once() {
        let mut table = resident();
        for _ in 0..3 {
            found(&mut table, 1..=1, 1500);
        }
        assert_eq!(table.take_used(), [Slot(11)]);
        assert!(table.take_used().is_empty());
        found(&mut table, 0..=1, 1500);
        table.forget(0);
        assert_eq!(
            table.take_used(),
            [Slot(11)],
            "the other place has no owner"
        );
    }

    #[test]
    fn range_is_determined_again_after_a_request_beyond_it() {
        let mut table = resident();
        let asks = |table: &mut CopyTable| {
            let times = 0..ASKED_ONE_IN;
            times.filter(|_| table.asks_for(STREAM)).count()
        };
        table.set_resident(STREAM, there(0, 1000));
        assert_eq!(asks(&mut table), 0, "it is known");
        assert!(found(&mut table, 0..=1, 1500).is_empty(), "beyond it");
        assert_eq!(asks(&mut table), 1, "for a sample of requests");
        table.set_resident(STREAM, there(0, 1500));
        assert_eq!(found(&mut table, 0..=1, 1500), [0, 1]);
        assert_eq!(asks(&mut table), 0);
    }

    #[test]
    fn missing_pieces_are_not_found() {
        let mut table = resident();
        assert!(
            found(&mut table, 0..=1, 1501).is_empty(),
            "range ends after the file"
        );
        assert!(found(&mut table, 1..=2, 1500).is_empty(), "no such piece");
        assert!(
            table.find((STREAM, 1), 0..=0, (0, 1), 1).is_none(),
            "no such part"
        );
        assert!(table.find((StreamId(8), 0), 0..=0, (0, 1), 1).is_none());
        table.set_missing(StreamId(8));
        assert_eq!(found(&mut table, 1..=1, 1500), [1]);
        table.set_missing(STREAM);
        assert!(
            found(&mut table, 1..=1, 1500).is_empty(),
            "the rest must be read"
        );
    }

    #[test]
    fn engine_serves_readers_near_end_of_cached_range() {
        let there = |from, until| PartInMemory {
            part_starts: vec![0, 10 * AHEAD_BYTES],
            stream_bytes: 20 * AHEAD_BYTES,
            range: ByteRange::new(from, until),
        };
        let some = there(AHEAD_BYTES, 4 * AHEAD_BYTES);
        let (start, end) = (2 * AHEAD_BYTES, 3 * AHEAD_BYTES);
        assert!(is_enough(&some, 0, start, end));
        assert!(
            !is_enough(&some, 0, start, end + 1),
            "the data ahead is not cached"
        );
        assert!(
            !is_enough(&some, 0, AHEAD_BYTES - 1, end),
            "the first bytes are not cached"
        );
        assert!(!is_enough(&some, 1, 0, 1) && !is_enough(&some, 2, 0, 1));
        let rest = there(12 * AHEAD_BYTES, 20 * AHEAD_BYTES);
        assert!(
            is_enough(&rest, 1, start, 10 * AHEAD_BYTES),
            "cached to the end"
        );
        assert!(
            !is_enough(&rest, 1, start, 10 * AHEAD_BYTES + 1),
            "range ends after the stream"
        );
    }

    #[test]
    fn removed_copy_is_not_found_by_piece() {
        let mut table = resident();
        table.forget(0);
        assert!(found(&mut table, 0..=0, 1000).is_empty());
        assert_eq!(found(&mut table, 1..=1, 1500), [1]);
        table.forget(1);
        assert_eq!((table.files.len(), table.residents), (0, 0));
    }

    #[test]
    fn reread_piece_is_found_at_its_latest_copy() {
        let mut table = resident();
        table.add(2, Slot(12), piece(0));
        table.forget(0);
        assert_eq!(found(&mut table, 0..=1, 1500), [2, 1]);
    }

    #[test]
    fn evicting_a_block_removes_its_copies() {
        let mut table = resident();
        let looked_at = table.count_use(0);
        assert_eq!(
            table.take_least_used(None),
            (Vec::new(), None),
            "a used block is kept first"
        );
        let (owners, block) = table.take_least_used(None);
        assert_eq!((owners, block), (vec![Slot(10), Slot(11)], None));
        assert_eq!((table.files.len(), table.residents), (0, 0));
        assert_eq!(table.unused_block(), Some(1), "the other block is empty");
        table.blocks[1].begin();
        table.add(4, Slot(12), None);
        assert_eq!(table.unused_block(), None, "the block has a reader");
        drop(looked_at);
        assert_eq!(table.unused_block(), Some(0));
    }
}
