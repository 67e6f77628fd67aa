//! Index: the location of each piece, as a hash table of runs of records.
//!
//! Pieces of a title that were read together are contiguous in a block, so one entry serves a run:
//! it holds block and row of the first record and the number of records. An entry has only 8 bytes;
//! the records hold the identity. A run lies within a stretch of 16 neighbouring pieces of a file,
//! which is the hash key, so a piece costs one lookup. The table consists of many small ones that
//! grow independently: rehashing a single large table would take seconds, or require memory for the
//! worst case up front.
//!
//! Invariants: the rows of a run belong to one file and to consecutive live pieces; runs are
//! disjoint. So there are never more runs than records.

use alloc::vec::Vec;

use hashbrown::HashTable;

use super::access_frequency::spread;
use crate::names::FileKey;

/// Pieces per stretch: a run never crosses a stretch.
const STRETCH: u32 = 16;
/// Number of tables: for tens of millions of records, each has at most some hundred thousand runs.
const TABLES: usize = 256;
/// Hash bit that selects the table: neither the lowest bits nor the upper seven, which the table
/// uses.
const TABLE_BIT: u32 = 48;

/// Block and row of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordIndex {
    pub(crate) block: u32,
    pub(crate) row: u16,
}

/// Records of consecutive pieces in consecutive rows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRun {
    block: u32,
    row: u16,
    /// The first piece, relative to its stretch.
    first: u8,
    count: u8,
}

const _: () = assert!(size_of::<RecordRun>() == 8);

impl RecordRun {
    /// A run of a single record.
    pub(crate) fn new(at: RecordIndex, piece: u32) -> Self {
        Self {
            block: at.block,
            row: at.row,
            first: (piece % STRETCH) as u8,
            count: 1,
        }
    }

    /// The first record.
    pub(crate) fn at(&self) -> RecordIndex {
        RecordIndex {
            block: self.block,
            row: self.row,
        }
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Extends the run by the next piece and row; `false` if that piece belongs to another stretch.
    pub(crate) fn grow(&mut self) -> bool {
        let has_room = u32::from(self.first + self.count) < STRETCH;
        self.count += u8::from(has_room);
        has_room
    }

    fn end(&self) -> u8 {
        self.first + self.count
    }

    fn shares_with(&self, other: &Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    fn has(&self, at: RecordIndex) -> bool {
        let row = usize::from(at.row).checked_sub(usize::from(self.row));
        self.block == at.block && row.is_some_and(|row| row < self.count())
    }

    fn at_piece(&self, piece: u32) -> Option<RecordIndex> {
        let behind = (piece % STRETCH) as u8;
        let behind = behind.checked_sub(self.first)?;
        (behind < self.count).then(|| RecordIndex {
            block: self.block,
            row: self.row + u16::from(behind),
        })
    }
}

/// Whether two pieces are in the same stretch.
pub(crate) fn is_together(piece: u32, other: u32) -> bool {
    piece / STRETCH == other / STRETCH
}

/// Hash of a stretch.
pub(crate) fn hash(file: FileKey, piece: u32) -> u64 {
    spread(file, u64::from(piece / STRETCH))
}

/// The index. Callers provide the hash of a run's first record.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<HashTable<RecordRun>>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            tables: alloc::vec![HashTable::new(); TABLES],
        }
    }
}

const fn table_of(hash: u64) -> usize {
    (hash >> TABLE_BIT) as usize % TABLES
}

impl Index {
    pub(crate) fn runs(&self) -> usize {
        self.tables.iter().map(HashTable::len).sum()
    }

    fn table(&self, hash: u64) -> &HashTable<RecordRun> {
        &self.tables[table_of(hash)]
    }

    fn table_mut(&mut self, hash: u64) -> &mut HashTable<RecordRun> {
        &mut self.tables[table_of(hash)]
    }

    /// Reserves space for `runs` runs in total.
    pub(crate) fn reserve(&mut self, runs: usize, hash_of: impl Fn(RecordIndex) -> u64) {
        for table in &mut self.tables {
            let more = (runs / TABLES).saturating_sub(table.len());
            table.reserve(more, |run| hash_of(run.at()));
        }
    }

    /// The record of a piece. `is_it`: whether a record belongs to the piece's file and stretch.
    pub(crate) fn find(
        &self,
        hash: u64,
        piece: u32,
        is_it: impl Fn(RecordIndex) -> bool,
    ) -> Option<RecordIndex> {
        let found = self
            .table(hash)
            .find(hash, |run| run.at_piece(piece).is_some() && is_it(run.at()));
        found?.at_piece(piece)
    }

    /// Whether a piece of a run already has a record.
    pub(crate) fn knows(
        &self,
        hash: u64,
        of: RecordRun,
        is_it: impl Fn(RecordIndex) -> bool,
    ) -> bool {
        let found = self
            .table(hash)
            .find(hash, |run| run.shares_with(&of) && is_it(run.at()));
        found.is_some()
    }

    /// Adds a run of pieces without records.
    pub(crate) fn add(&mut self, hash: u64, run: RecordRun, hash_of: impl Fn(RecordIndex) -> u64) {
        self.table_mut(hash)
            .insert_unique(hash, run, |run| hash_of(run.at()));
    }

    /// Extends the run of a record by the next piece and row; `false` if it cannot be extended.
    pub(crate) fn extend(&mut self, hash: u64, last: RecordIndex) -> bool {
        let run = self.table_mut(hash).find_mut(hash, |run| run.has(last));
        run.is_some_and(RecordRun::grow)
    }

    /// Removes a record, which shortens its run or splits it in two.
    pub(crate) fn remove(
        &mut self,
        hash: u64,
        at: RecordIndex,
        hash_of: impl Fn(RecordIndex) -> u64,
    ) {
        let Ok(found) = self.table_mut(hash).find_entry(hash, |run| run.has(at)) else {
            return;
        };
        let (run, _) = found.remove();
        let before = (at.row - run.row) as u8;
        let head = RecordRun {
            count: before,
            ..run
        };
        let tail = RecordRun {
            row: at.row.saturating_add(1),
            first: run.first + before + 1,
            count: run.count - before - 1,
            ..run
        };
        for part in [head, tail] {
            if part.count > 0 {
                self.add(hash, part, &hash_of);
            }
        }
    }

    /// Removes a whole run, identified by its first record. Returns its number of records.
    pub(crate) fn remove_run(&mut self, hash: u64, first: RecordIndex) -> usize {
        let found = self
            .table_mut(hash)
            .find_entry(hash, |run| run.at() == first);
        found.map_or(0, |found| found.remove().0.count())
    }

    /// All runs, in no particular order; for checks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecordRun> {
        self.tables.iter().flatten()
    }
}
