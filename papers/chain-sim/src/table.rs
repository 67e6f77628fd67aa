//! Chains in columns, sorted by time.

use std::collections::HashMap;
use std::ops::Range;

use headlong_chains::Chain;
use headlong_units::BitRate;

/// Longest chain accepted, bytes: 256 TiB.
pub(crate) const LENGTH_MAX: u64 = 1 << 48;
/// Longest time span of a table, ms: a year. Memory is accounted by the second.
const SPAN_MS_MAX: u64 = 366 * 86_400_000;
/// Largest number of drive minutes: each thread accounts for all of them.
const DRIVE_MINUTES_MAX: u64 = 1 << 25;

/// One line of a chain table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRow {
    /// Its session; any number that identifies sessions.
    pub session: u32,
    /// Its file; any number that identifies files.
    pub file: u32,
    /// Its lowest offset, bytes.
    pub start: u64,
    /// Its length, bytes.
    pub length: u64,
    /// First arrival, ms; negative times count as zero (rule B12).
    pub start_ms: i64,
    /// Last completion, ms; at least the first arrival.
    pub end_ms: i64,
    /// Whether the request at its lowest offset is open-ended.
    pub is_open: bool,
    /// The file's bit rate; if unknown, sizes are those of the reference rate.
    pub bit_rate: Option<BitRate>,
    /// The drive.
    pub disk: u16,
}

impl ChainRow {
    /// A chain of a log, of a file with this bit rate.
    pub fn of(chain: &Chain, bit_rate: Option<BitRate>) -> Self {
        Self {
            session: chain.session,
            file: chain.file,
            start: chain.start,
            length: chain.length,
            start_ms: chain.start_ms,
            end_ms: chain.end_ms,
            is_open: chain.is_open,
            bit_rate,
            disk: chain.disk,
        }
    }
}

headlong_units::names! {
    /// Classes of chains in Table 5.6.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ChainClass {
        /// Starts at offset zero with an open-ended request.
        OpenAtZero => "at zero, open-ended",
        /// Starts at offset zero with a chunk request.
        ChunkAtZero => "at zero, chunk",
        /// Starts later.
        Later => "later than zero",
    }
}

/// Everything that a sizing rule may know about a chain before its first read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainFeatures {
    /// Start and form.
    pub class: ChainClass,
    /// The file's bit rate.
    pub bit_rate: Option<BitRate>,
}

/// A table that cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is empty.
    #[error("there are no chains in the table; at least one line with a length is needed")]
    Empty,
    /// Its time span is implausible.
    #[error(
        "the chains span {days} days; times are milliseconds from the start of the log, and no \
         more than 366 days of them"
    )]
    Span {
        /// From the first start to the last end.
        days: u64,
    },
    /// Overflow of bytes.
    #[error("the chains have more than 2^60 bytes in all; the column `length` is in bytes")]
    Bytes,
    /// Overflow of indices.
    #[error(
        "there are more than 2^32 chains or bit rates, or 2^25 minutes of drives; number drives \
         from 0, or split the table"
    )]
    Count,
}

/// Chains in columns, sorted by start: a simulation scans them once per point, and chains close in
/// time update neighbouring accounts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChainTable {
    pub(crate) sessions: Vec<u32>,
    pub(crate) files: Vec<u32>,
    pub(crate) lengths: Vec<u64>,
    pub(crate) starts_ms: Vec<u64>,
    pub(crate) ends_ms: Vec<u64>,
    pub(crate) disks: Vec<u16>,
    /// Index into `shapes`.
    pub(crate) shape_of: Vec<u32>,
    pub(crate) shapes: Vec<ChainFeatures>,
    /// For each file the end of its reads: a lower bound of its size.
    reached: HashMap<u32, u64>,
}

impl ChainTable {
    /// The table of these chains. Empty chains are dropped: nothing is read for them.
    ///
    /// # Errors
    /// If there are none, or their sum overflows.
    pub fn new(rows: impl IntoIterator<Item = ChainRow>) -> Result<Self, TableError> {
        let mut rows: Vec<ChainRow> = rows
            .into_iter()
            .filter(|row| row.length > 0)
            .map(ChainRow::clamped)
            .collect();
        // By all that tells rows apart, so that the order of a log or a table has no effect.
        rows.sort_unstable_by_key(|row| {
            let bits = row.bit_rate.map(|rate| rate.0);
            let what = (row.session, row.file, row.start, row.length, row.end_ms);
            (row.start_ms, what, bits, row.disk, row.is_open)
        });
        let mut table = Self::default();
        let mut known = HashMap::new();
        for row in &rows {
            table.push(row, &mut known)?;
        }
        table.check()?;
        Ok(table)
    }

    fn push(
        &mut self,
        row: &ChainRow,
        known: &mut HashMap<ChainFeatures, u32>,
    ) -> Result<(), TableError> {
        let class = match (row.start, row.is_open) {
            (0, true) => ChainClass::OpenAtZero,
            (0, false) => ChainClass::ChunkAtZero,
            _ => ChainClass::Later,
        };
        let shape = ChainFeatures {
            class,
            bit_rate: row.bit_rate,
        };
        let next = u32::try_from(self.shapes.len()).map_err(|_| TableError::Count)?;
        let index = *known.entry(shape).or_insert(next);
        if index == next {
            self.shapes.push(shape);
        }
        self.sessions.push(row.session);
        self.files.push(row.file);
        self.lengths.push(row.length);
        // Clamped to zero.
        self.starts_ms.push(row.start_ms.unsigned_abs());
        self.ends_ms.push(row.end_ms.unsigned_abs());
        self.disks.push(row.disk);
        self.shape_of.push(index);
        let reached = self.reached.entry(row.file).or_default();
        *reached = (*reached).max(row.start.saturating_add(row.length));
        Ok(())
    }

    fn check(&self) -> Result<(), TableError> {
        let (Some(first), Some(last)) = (self.starts_ms.first(), self.ends_ms.iter().max()) else {
            return Err(TableError::Empty);
        };
        if last - first > SPAN_MS_MAX {
            let days = (last - first) / 86_400_000;
            return Err(TableError::Span { days });
        }
        if self.total_bytes() > 1 << 60 {
            return Err(TableError::Bytes);
        }
        let bins = self.minutes().len() as u64 * u64::from(self.disk_count());
        if self.lengths.len() > u32::MAX as usize || bins > DRIVE_MINUTES_MAX {
            return Err(TableError::Count);
        }
        Ok(())
    }

    /// Number of chains.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether it is empty, which [`Self::new`] refuses.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Total bytes of all chains, which viewers consumed.
    pub fn total_bytes(&self) -> u128 {
        self.lengths.iter().map(|length| u128::from(*length)).sum()
    }

    /// Highest drive number plus one.
    pub fn disk_count(&self) -> u32 {
        self.disks
            .iter()
            .max()
            .map_or(0, |disk| u32::from(*disk) + 1)
    }

    /// Minutes from zero with active chains, from the first start to the last end.
    pub fn minutes(&self) -> Range<usize> {
        let first = self.starts_ms.first().map_or(0, |ms| ms / 60_000);
        first as usize..(self.ended_ms() / 60_000) as usize + 1
    }

    /// Chains whose file has no bit rate.
    pub fn without_bit_rate(&self) -> usize {
        let unknown = |shape: &u32| self.shapes[*shape as usize].bit_rate.is_none();
        self.shape_of.iter().filter(|shape| unknown(shape)).count()
    }

    /// Lengths of the chains of a class, in time order.
    pub fn lengths_of(&self, class: ChainClass) -> impl Iterator<Item = u64> + '_ {
        let all = self.lengths.iter().zip(&self.shape_of);
        all.filter(move |(_, shape)| self.shapes[**shape as usize].class == class)
            .map(|(length, _)| *length)
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        let mut sessions = self.sessions.clone();
        sessions.sort_unstable();
        sessions.dedup();
        sessions.len()
    }

    /// Lengths of all chains, bytes.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Bytes consumed in each of [`Self::minutes`], with even consumption.
    pub fn consumed_by_minute(&self) -> Vec<u64> {
        let minutes = self.minutes();
        let mut bytes = vec![0; minutes.len()];
        for chain in 0..self.len() {
            let first = (self.starts_ms[chain] / 60_000) as usize;
            let last = (self.ends_ms[chain] / 60_000) as usize;
            let mut before = 0;
            for minute in first..=last {
                let until = self.consumed_until(chain, (minute as u64 + 1) * 60_000);
                bytes[minute - minutes.start] += until - before;
                before = until;
            }
        }
        bytes
    }

    /// Bytes of a chain consumed before a time, rounded down.
    pub(crate) fn consumed_until(&self, chain: usize, ms: u64) -> u64 {
        let (start, end) = (self.starts_ms[chain], self.ends_ms[chain]);
        let length = self.lengths[chain];
        if ms <= start {
            return 0;
        }
        if ms >= end {
            return length;
        }
        let consumed = u128::from(length) * u128::from(ms - start) / u128::from(end - start);
        // At most the length.
        consumed as u64
    }

    /// All files, with the bytes consumed of each and the end of its reads.
    pub fn files(&self) -> Vec<FileUse> {
        let mut taken: HashMap<u32, u64> = HashMap::new();
        for (file, length) in self.files.iter().zip(&self.lengths) {
            *taken.entry(*file).or_default() += length;
        }
        let mut files: Vec<FileUse> = taken
            .into_iter()
            .map(|(file, taken_bytes)| FileUse {
                file,
                taken_bytes,
                reached_bytes: self.reached.get(&file).copied().unwrap_or(0),
            })
            .collect();
        files.sort_by_key(|file| file.file);
        files
    }

    /// The same chains with files assigned to other drives.
    pub fn placed(&self, disk_of: impl Fn(u32) -> u16) -> Self {
        let disks = self.files.iter().map(|file| disk_of(*file)).collect();
        Self {
            disks,
            ..self.clone()
        }
    }

    /// End of the last chain, ms.
    pub(crate) fn ended_ms(&self) -> u64 {
        self.ends_ms.iter().copied().max().unwrap_or(0)
    }
}

/// Use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUse {
    /// Its number.
    pub file: u32,
    /// Bytes of all its chains.
    pub taken_bytes: u64,
    /// The end of its reads: a lower bound of its size.
    pub reached_bytes: u64,
}

impl ChainRow {
    fn clamped(mut self) -> Self {
        self.length = self.length.min(LENGTH_MAX);
        self.start_ms = self.start_ms.max(0);
        self.end_ms = self.end_ms.max(self.start_ms);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start_ms: i64, end_ms: i64, length: u64) -> ChainRow {
        ChainRow {
            session: 0,
            file: 7,
            start: 100,
            length,
            start_ms,
            end_ms,
            is_open: false,
            bit_rate: None,
            disk: 2,
        }
    }

    #[test]
    fn sorts_chains_by_time_and_drops_empty_ones() {
        let table = ChainTable::new([row(9_000, 10_000, 5), row(-3, 1_000, 4), row(5, 6, 0)]);
        let table = table.expect("chains");
        assert_eq!(table.starts_ms, [0, 9_000]);
        assert_eq!(table.lengths(), [4, 5]);
        assert_eq!((table.disk_count(), table.minutes()), (3, 0..1));
        assert_eq!(table.files()[0].reached_bytes, 105);
        assert_eq!(table.files()[0].taken_bytes, 9);
    }

    #[test]
    fn rejects_invalid_tables() {
        assert_eq!(ChainTable::new([]), Err(TableError::Empty));
        let years = row(0, i64::MAX, 1);
        assert!(matches!(
            ChainTable::new([years]),
            Err(TableError::Span { .. })
        ));
        let huge = vec![row(0, 1, u64::MAX); 5_000];
        assert_eq!(ChainTable::new(huge), Err(TableError::Bytes));
    }

    #[test]
    fn consumption_by_minute_adds_up_to_total() {
        let rows = [row(30_000, 150_000, 1_201), row(70_000, 70_000, 10)];
        let table = ChainTable::new(rows).expect("chains");
        assert_eq!(table.consumed_by_minute(), [300, 610, 301]);
    }
}
