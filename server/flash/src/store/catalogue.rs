//! Catalogue: the records of each block, and the location of each piece.
//!
//! A tier of terabytes has tens of millions of records, so each must cost little memory: 16 bytes
//! in its block's vector, and at most 20 in the index, usually much less. File keys are long and
//! stored once.
//!
//! Invariants: a piece has at most one record; every index entry refers to a record in a block, and
//! every live record is found; a file has a number as long as it has records.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashTable;
use headlong_units::Instant;

use super::access_frequency::spread;
use super::index::{Index, RecordIndex, RecordRun, hash, is_together};
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};
use crate::spec::RecordEntry;

/// Marks a removed record.
const GONE: u32 = u32::MAX;

/// A record in 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatalogueRecord {
    /// Number of the file, or [`GONE`].
    file: u32,
    piece: u32,
    pub(crate) length: u32,
    /// In units of [`RECORD_ALIGN_BYTES`].
    offset: u16,
    /// Number of reads from flash.
    pub(crate) reads: u16,
}

const _: () = assert!(size_of::<CatalogueRecord>() == 16);

impl CatalogueRecord {
    pub(crate) fn is_removed(&self) -> bool {
        self.file == GONE
    }

    pub(crate) fn offset(&self) -> u32 {
        u32::from(self.offset) * RECORD_ALIGN_BYTES
    }

    /// End of the record within the block, exclusive.
    pub(crate) fn end(&self) -> u32 {
        self.offset() + record_bytes(self.length)
    }
}

/// Space of a record in a block: header, bytes and padding.
pub(crate) const fn record_bytes(length: u32) -> u32 {
    RECORD_ALIGN_BYTES + length.next_multiple_of(RECORD_ALIGN_BYTES)
}

/// The records of one block, in ascending order of offset.
#[derive(Debug, Default)]
pub(crate) struct CatalogueBlock {
    pub(crate) records: Vec<CatalogueRecord>,
    /// Bytes of the live records.
    pub(crate) live_bytes: u64,
    /// Number of live records.
    pub(crate) live: u32,
    /// Last read of one of its records, or seal time.
    pub(crate) read_at: Instant,
    /// Number of reads in flight.
    pub(crate) pins: u32,
    /// Position in eviction order; zero unless sealed.
    pub(crate) turn: u64,
    /// Sequence number of the seal.
    pub(crate) sequence: u64,
}

#[derive(Debug)]
struct CatalogueFile {
    key: FileKey,
    records: u32,
    /// Exclusive upper bound of the piece numbers of its records.
    pieces_end: u32,
}

/// All blocks of a tier, with their records.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    blocks: BlockTable,
    index: Index,
    files: Vec<CatalogueFile>,
    /// Unused entries of `files`.
    unused: Vec<u32>,
    by_key: HashTable<u32>,
    records: u64,
    live_bytes: u64,
}

/// Hasher for dense block numbers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BlockHasher(u64);

impl core::hash::Hasher for BlockHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = spread(FileKey(u128::from(self.0)), u64::from(number));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type BuildBlockHasher = core::hash::BuildHasherDefault<BlockHasher>;

type BlockTable = hashbrown::HashMap<u32, CatalogueBlock, BuildBlockHasher>;

fn record_at(blocks: &BlockTable, at: RecordIndex) -> Option<CatalogueRecord> {
    let block = blocks.get(&at.block)?;
    block.records.get(usize::from(at.row)).copied()
}

/// Hash of an index entry, from the record it refers to.
fn hash_of(blocks: &BlockTable, files: &[CatalogueFile]) -> impl Fn(RecordIndex) -> u64 {
    |at| {
        let named =
            record_at(blocks, at).and_then(|of| Some((files.get(of.file as usize)?, of.piece)));
        named.map_or(0, |(file, piece)| hash(file.key, piece))
    }
}

/// Whether a record belongs to this file, in the same stretch of 16 pieces.
fn is_near(blocks: &BlockTable, file: u32, piece: u32) -> impl Fn(RecordIndex) -> bool {
    move |at| {
        let record = record_at(blocks, at);
        record.is_some_and(|of| of.file == file && is_together(of.piece, piece))
    }
}

impl Catalogue {
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Reserves space for `records` records in total, assuming about four per run.
    pub(crate) fn reserve(&mut self, records: u64) {
        let records = usize::try_from(records).unwrap_or(0);
        let hash_of = hash_of(&self.blocks, &self.files);
        self.index.reserve(records / 4, hash_of);
    }

    /// Adds all records of an empty block, in ascending order of offset. If a piece already has a
    /// record, the one in the block for which `older` holds is removed.
    pub(crate) fn add_all(
        &mut self,
        block: u32,
        found: &[RecordEntry],
        older: impl Fn(&CatalogueBlock) -> bool,
    ) {
        let mut last = None;
        let record = |entry: &RecordEntry| {
            let file = match last {
                Some((key, file)) if key == entry.piece.file => file,
                _ => self.file_for(entry.piece.file),
            };
            last = Some((entry.piece.file, file));
            self.count_in(file, entry.piece.piece);
            CatalogueRecord {
                file,
                piece: entry.piece.piece,
                length: entry.length,
                offset: (entry.offset / RECORD_ALIGN_BYTES) as u16,
                reads: 0,
            }
        };
        let records: Vec<CatalogueRecord> = found.iter().map(record).collect();
        let live_bytes = found.iter().map(|entry| u64::from(entry.length)).sum();
        let Some(of) = self.blocks.get_mut(&block) else {
            return;
        };
        of.live = records.len() as u32;
        of.live_bytes = live_bytes;
        of.records = records;
        self.records += found.len() as u64;
        self.live_bytes += live_bytes;
        let mut row = 0;
        while row < found.len() {
            row += self.index_run(block, &found[row..], row as u16, &older);
        }
    }

    /// Indexes the leading records, which start at `row`. Returns how many.
    fn index_run(
        &mut self,
        block: u32,
        rest: &[RecordEntry],
        row: u16,
        older: &impl Fn(&CatalogueBlock) -> bool,
    ) -> usize {
        let at = RecordIndex { block, row };
        let (Some(first), Some(record)) = (rest.first(), self.record(at)) else {
            return 1;
        };
        let mut run = RecordRun::new(at, first.piece.piece);
        for pair in rest.windows(2) {
            let (one, next) = (pair[0].piece, pair[1].piece);
            let follows = one.file == next.file && one.piece.checked_add(1) == Some(next.piece);
            if !follows || !run.grow() {
                break;
            }
        }
        let hash = hash(first.piece.file, first.piece.piece);
        let is_near = is_near(&self.blocks, record.file, record.piece);
        if !self.index.knows(hash, run, is_near) {
            let hash_of = hash_of(&self.blocks, &self.files);
            self.index.add(hash, run, hash_of);
            return run.count();
        }
        if let Some((known, _)) = self.find(first.piece) {
            let of = self.blocks.get(&known.block);
            if !of.is_some_and(older) {
                self.lose(at);
                return 1;
            }
            self.forget(known);
        }
        let hash_of = hash_of(&self.blocks, &self.files);
        self.index
            .add(hash, RecordRun::new(at, first.piece.piece), hash_of);
        1
    }

    pub(crate) fn has_block(&self, block: u32) -> bool {
        self.blocks.contains_key(&block)
    }

    pub(crate) fn add_blocks(&mut self, blocks: Range<u32>) {
        self.blocks
            .extend(blocks.map(|block| (block, CatalogueBlock::default())));
    }

    pub(crate) fn block(&self, block: u32) -> Option<&CatalogueBlock> {
        self.blocks.get(&block)
    }

    pub(crate) fn block_mut(&mut self, block: u32) -> Option<&mut CatalogueBlock> {
        self.blocks.get_mut(&block)
    }

    pub(crate) fn find(&self, piece: PieceId) -> Option<(RecordIndex, CatalogueRecord)> {
        let file = self.file(piece.file)?;
        let hash = hash(piece.file, piece.piece);
        let is_near = is_near(&self.blocks, file, piece.piece);
        let at = self.index.find(hash, piece.piece, is_near)?;
        Some((at, self.record(at)?))
    }

    pub(crate) fn record(&self, at: RecordIndex) -> Option<CatalogueRecord> {
        record_at(&self.blocks, at)
    }

    pub(crate) fn record_mut(&mut self, at: RecordIndex) -> Option<&mut CatalogueRecord> {
        let block = self.blocks.get_mut(&at.block)?;
        block.records.get_mut(usize::from(at.row))
    }

    /// The piece of a record.
    pub(crate) fn piece(&self, record: &CatalogueRecord) -> Option<PieceId> {
        let file = self.files.get(record.file as usize)?;
        Some(PieceId {
            file: file.key,
            piece: record.piece,
        })
    }

    /// Appends a record to a block, for a piece without a record. Returns `false` if the block does
    /// not exist, is full, or has records after that offset.
    pub(crate) fn add(&mut self, block: u32, piece: PieceId, offset: u32, length: u32) -> bool {
        let (Some(of), Ok(place)) = (
            self.blocks.get(&block),
            u16::try_from(offset / RECORD_ALIGN_BYTES),
        ) else {
            return false;
        };
        let Ok(row) = u16::try_from(of.records.len()) else {
            return false;
        };
        let last = of.records.last().copied();
        let is_behind = last.is_none_or(|last| last.end() <= offset);
        if !is_behind || !offset.is_multiple_of(RECORD_ALIGN_BYTES) {
            return false;
        }
        let file = self.file_for(piece.file);
        self.count_in(file, piece.piece);
        let record = CatalogueRecord {
            file,
            piece: piece.piece,
            length,
            offset: place,
            reads: 0,
        };
        if let Some(of) = self.blocks.get_mut(&block) {
            of.records.push(record);
            of.live += 1;
            of.live_bytes += u64::from(length);
        }
        self.records += 1;
        self.live_bytes += u64::from(length);
        let hash = hash(piece.file, piece.piece);
        let follows = last.is_some_and(|last| {
            last.file == file
                && last.piece.checked_add(1) == Some(piece.piece)
                && is_together(last.piece, piece.piece)
        });
        let before = row.checked_sub(1).filter(|_| follows);
        let has_joined =
            before.is_some_and(|row| self.index.extend(hash, RecordIndex { block, row }));
        if !has_joined {
            let run = RecordRun::new(RecordIndex { block, row }, piece.piece);
            let hash_of = hash_of(&self.blocks, &self.files);
            self.index.add(hash, run, hash_of);
        }
        true
    }

    /// Removes a record.
    pub(crate) fn forget(&mut self, at: RecordIndex) {
        let Some(record) = self.record(at).filter(|record| !record.is_removed()) else {
            return;
        };
        let Some(piece) = self.piece(&record) else {
            return;
        };
        let hash_of = hash_of(&self.blocks, &self.files);
        self.index
            .remove(hash(piece.file, piece.piece), at, hash_of);
        self.lose(at);
    }

    /// Removes a record that is not in the index.
    fn lose(&mut self, at: RecordIndex) {
        let record = self.record_mut(at).filter(|record| !record.is_removed());
        let Some(record) = record else {
            return;
        };
        let (file, length) = (record.file, u64::from(record.length));
        record.file = GONE;
        if let Some(block) = self.blocks.get_mut(&at.block) {
            block.live -= 1;
            block.live_bytes -= length;
        }
        self.records -= 1;
        self.live_bytes -= length;
        self.unname(file);
    }

    /// Removes all records of a block.
    pub(crate) fn clear(&mut self, block: u32) {
        let rows = self.blocks.get(&block).map_or(0, |of| of.records.len());
        let mut row = 0;
        while row < rows {
            let at = RecordIndex {
                block,
                row: row as u16,
            };
            let record = self.record(at).filter(|record| !record.is_removed());
            let piece = record.and_then(|record| self.piece(&record));
            let removed = piece.map_or(0, |of| self.index.remove_run(hash(of.file, of.piece), at));
            let end = rows.min(row + removed.max(1));
            for row in row..end {
                self.lose(RecordIndex {
                    block,
                    row: row as u16,
                });
            }
            row = end;
        }
        if let Some(of) = self.blocks.get_mut(&block) {
            of.records = Vec::new();
            of.turn = 0;
        }
    }

    /// Removes a block from the tier.
    pub(crate) fn remove_block(&mut self, block: u32) {
        self.clear(block);
        self.blocks.remove(&block);
    }

    /// Removes all records of a file.
    pub(crate) fn forget_file(&mut self, key: FileKey) {
        let Some(file) = self.file(key) else {
            return;
        };
        for piece in 0..self.files[file as usize].pieces_end {
            let piece = PieceId { file: key, piece };
            if let Some((at, _)) = self.find(piece) {
                self.forget(at);
            }
        }
    }

    fn file(&self, key: FileKey) -> Option<u32> {
        let is_it = |file: &u32| self.files[*file as usize].key == key;
        self.by_key.find(spread(key, 0), is_it).copied()
    }

    /// The number of a file, assigned if necessary.
    fn file_for(&mut self, key: FileKey) -> u32 {
        match self.file(key) {
            Some(number) => number,
            None => {
                let file = CatalogueFile {
                    key,
                    records: 0,
                    pieces_end: 0,
                };
                let number = match self.unused.pop() {
                    Some(number) => {
                        self.files[number as usize] = file;
                        number
                    }
                    None => {
                        self.files.push(file);
                        self.files.len() as u32 - 1
                    }
                };
                let files = &self.files;
                let hash_of = |number: &u32| spread(files[*number as usize].key, 0);
                self.by_key.insert_unique(spread(key, 0), number, hash_of);
                number
            }
        }
    }

    fn count_in(&mut self, file: u32, piece: u32) {
        let file = &mut self.files[file as usize];
        file.records += 1;
        file.pieces_end = file.pieces_end.max(piece.saturating_add(1));
    }

    fn unname(&mut self, number: u32) {
        let file = &mut self.files[number as usize];
        file.records -= 1;
        if file.records == 0 {
            let key = file.key;
            let found = self.by_key.find_entry(spread(key, 0), |of| *of == number);
            if let Ok(found) = found {
                found.remove();
            }
            self.unused.push(number);
        }
    }

    /// Panics if an invariant is violated.
    pub(crate) fn check_invariants(&self) {
        let (mut records, mut bytes) = (0, 0);
        for (number, block) in &self.blocks {
            let mut end = 0;
            let (mut live, mut live_bytes) = (0, 0);
            for (row, record) in block.records.iter().enumerate() {
                assert!(record.offset() >= end, "records of block {number} overlap");
                end = record.end();
                if record.is_removed() {
                    continue;
                }
                let piece = self.piece(record).expect("a record's file has a name");
                let (at, _) = self.find(piece).expect("a record is found");
                let here = RecordIndex {
                    block: *number,
                    row: row as u16,
                };
                assert_eq!(at, here, "{piece:?} has two records");
                live += 1;
                live_bytes += u64::from(record.length);
            }
            assert_eq!((block.live, block.live_bytes), (live, live_bytes));
            records += u64::from(live);
            bytes += live_bytes;
        }
        assert_eq!((self.records, self.live_bytes), (records, bytes));
        let indexed: usize = self.index.iter().map(RecordRun::count).sum();
        assert_eq!(indexed as u64, records);
        assert!(self.index.runs() as u64 <= records);
        assert_eq!(self.by_key.len() + self.unused.len(), self.files.len());
        let named: u64 = (self.by_key.iter())
            .map(|file| u64::from(self.files[*file as usize].records))
            .sum();
        assert_eq!(named, records);
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
