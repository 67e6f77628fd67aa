//! Where a piece is: a table of runs of records.
//!
//! The one idea: pieces of a title that were read together lie one behind the other in a block, so
//! that one place in the table serves a run of them: it names block and row of the first, and how
//! many follow. The table holds nothing else in its 8 bytes: the records say what they are. A run
//! lies within 16 neighbouring pieces of a file, by which it is looked for, so that a piece costs one
//! look whatever runs there are. The table is many small ones, each of which grows alone: a large one
//! would be spread anew in seconds, or take its memory for the worst case at once.
//!
//! Invariants: the rows of a run are of one file and of consecutive pieces, none of them gone; no two
//! runs have a piece in common. So there are never more runs than records.

use alloc::vec::Vec;

use hashbrown::HashTable;

use super::heat::spread;
use crate::names::FileKey;

/// Neighbouring pieces of a file among which a run lies.
const STRETCH: u32 = 16;
/// Tables: one of them has some hundred thousand runs at most, for tens of millions of records.
const TABLES: usize = 256;
/// Where a hash says which table: not the lowest bits nor the upper seven, which the table takes.
const TABLE_BIT: u32 = 48;

/// Block and row of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) block: u32,
    pub(crate) row: u16,
}

/// Records of consecutive pieces in consecutive rows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    block: u32,
    row: u16,
    /// The first piece, as it is counted within the stretch.
    first: u8,
    count: u8,
}

const _: () = assert!(size_of::<Run>() == 8);

impl Run {
    /// The record of a piece alone.
    pub(crate) fn new(at: At, piece: u32) -> Self {
        Self {
            block: at.block,
            row: at.row,
            first: (piece % STRETCH) as u8,
            count: 1,
        }
    }

    /// The first record.
    pub(crate) fn at(&self) -> At {
        At {
            block: self.block,
            row: self.row,
        }
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Takes in one piece more, which has the next row; `false` if it begins another stretch.
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

    fn has(&self, at: At) -> bool {
        let row = usize::from(at.row).checked_sub(usize::from(self.row));
        self.block == at.block && row.is_some_and(|row| row < self.count())
    }

    fn at_piece(&self, piece: u32) -> Option<At> {
        let behind = (piece % STRETCH) as u8;
        let behind = behind.checked_sub(self.first)?;
        (behind < self.count).then(|| At {
            block: self.block,
            row: self.row + u16::from(behind),
        })
    }
}

/// Whether two pieces lie in one stretch.
pub(crate) fn is_together(piece: u32, other: u32) -> bool {
    piece / STRETCH == other / STRETCH
}

/// Where the table has the runs of a stretch.
pub(crate) fn hash(file: FileKey, piece: u32) -> u64 {
    spread(file, u64::from(piece / STRETCH))
}

/// The table. Who asks says what a run's first record is.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<HashTable<Run>>,
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

    fn table(&self, hash: u64) -> &HashTable<Run> {
        &self.tables[table_of(hash)]
    }

    fn table_mut(&mut self, hash: u64) -> &mut HashTable<Run> {
        &mut self.tables[table_of(hash)]
    }

    /// Room for so many runs in all.
    pub(crate) fn reserve(&mut self, runs: usize, hash_of: impl Fn(At) -> u64) {
        for table in &mut self.tables {
            let more = (runs / TABLES).saturating_sub(table.len());
            table.reserve(more, |run| hash_of(run.at()));
        }
    }

    /// The record of a piece. `is_it`: whether a record's file and stretch are the piece's.
    pub(crate) fn find(&self, hash: u64, piece: u32, is_it: impl Fn(At) -> bool) -> Option<At> {
        let found = self
            .table(hash)
            .find(hash, |run| run.at_piece(piece).is_some() && is_it(run.at()));
        found?.at_piece(piece)
    }

    /// Whether a piece of a run has a record already.
    pub(crate) fn knows(&self, hash: u64, of: Run, is_it: impl Fn(At) -> bool) -> bool {
        let found = self
            .table(hash)
            .find(hash, |run| run.shares_with(&of) && is_it(run.at()));
        found.is_some()
    }

    /// A run of pieces that have no record.
    pub(crate) fn add(&mut self, hash: u64, run: Run, hash_of: impl Fn(At) -> u64) {
        self.table_mut(hash)
            .insert_unique(hash, run, |run| hash_of(run.at()));
    }

    /// The next row, of the next piece, joins the run of a record; `false` if it cannot.
    pub(crate) fn extend(&mut self, hash: u64, last: At) -> bool {
        let run = self.table_mut(hash).find_mut(hash, |run| run.has(last));
        run.is_some_and(Run::grow)
    }

    /// A record is gone; its run is cut in two, or becomes shorter.
    pub(crate) fn remove(&mut self, hash: u64, at: At, hash_of: impl Fn(At) -> u64) {
        let Ok(found) = self.table_mut(hash).find_entry(hash, |run| run.has(at)) else {
            return;
        };
        let (run, _) = found.remove();
        let before = (at.row - run.row) as u8;
        let head = Run {
            count: before,
            ..run
        };
        let tail = Run {
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

    /// A run goes as a whole, by its first record. Answers how many records it had.
    pub(crate) fn remove_run(&mut self, hash: u64, first: At) -> usize {
        let found = self
            .table_mut(hash)
            .find_entry(hash, |run| run.at() == first);
        found.map_or(0, |found| found.remove().0.count())
    }

    /// All runs, in no order; for checks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.tables.iter().flatten()
    }
}
