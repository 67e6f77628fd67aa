//! Reader threads: parse blocks of logs into records of partitions.

mod record_requests;

pub(crate) use record_requests::{address_of, part_of};

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::error::IntakeError;
use super::logs::{LogContents, LogFile, LogFiles, LogState};
use super::options::{Intake, IntakeProgress, MemoryBound};
use crate::drop_counts::DropCounts;
use crate::files::{FileHint, FilesTable, Interners};
use crate::names::QuickMap;
use crate::number_cache::{BatchNumbers, NumberCache};
use crate::parquet::read::TableEntry;
use crate::partitions::PARTS;
use crate::partitions::record::{Encoder, SOURCE_SHIFT};
use crate::partitions::store::ChunkStore;
use crate::read::entry::LogEntry;
use crate::read::row::LineFields;
use crate::read::source::{BlockReader, LineBlock};
use crate::read::{DropReason, Format, LineReader, device, trimmed};

/// Result of reading.
pub(crate) struct ReadResult {
    pub(crate) names: Interners,
    pub(crate) table: FilesTable,
    pub(crate) store: ChunkStore,
    pub(crate) told: ThreadResults,
    /// Errors that ended a log early, by log.
    pub(crate) troubles: Vec<(u32, String)>,
    /// Whether a line within a log changed its columns.
    pub(crate) columns_changed: bool,
}

/// The clock of a log in a block of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockClock {
    /// Log position of its first line.
    pub(crate) place: u64,
    /// First completion in it, ms.
    pub(crate) first_ms: i64,
    /// Last completion in it, ms.
    pub(crate) last_ms: i64,
}

/// Results of one thread, or of all.
#[derive(Debug, Default)]
pub(crate) struct ThreadResults {
    pub(crate) dropped: DropCounts,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) unnamed: u64,
    pub(crate) untimed: u64,
    /// Partial requests without an offset.
    pub(crate) unplaced: u64,
    /// Readable last lines without a line end.
    pub(crate) unended: u64,
    /// Steps of more than a minute backwards from one line to the next.
    pub(crate) clocks_back: u64,
    /// First and last completion of each block of lines, by the log position of the block.
    pub(crate) clocks: Vec<BlockClock>,
    /// Requests, first arrival and last completion of each log.
    pub(crate) logs: QuickMap<u32, (u64, i64, i64)>,
    /// By provisional file number.
    pub(crate) hints: QuickMap<u32, FileHint>,
}

impl ThreadResults {
    /// Moves the counts of a log into these results, and resets them.
    fn add_span(&mut self, log: u32, span: &mut (u64, i64, i64)) {
        let (count, first, last) = std::mem::replace(span, NO_SPAN);
        if count > 0 {
            let ours = self.logs.entry(log).or_insert(NO_SPAN);
            *ours = (ours.0 + count, ours.1.min(first), ours.2.max(last));
        }
    }

    fn merge(&mut self, other: Self) {
        self.dropped.merge(other.dropped);
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.unnamed += other.unnamed;
        self.untimed += other.untimed;
        self.unplaced += other.unplaced;
        self.unended += other.unended;
        self.clocks_back += other.clocks_back;
        self.clocks.extend(other.clocks);
        for (log, mut span) in other.logs {
            self.add_span(log, &mut span);
        }
        for (file, hint) in other.hints {
            self.hints.entry(file).or_default().add(hint);
        }
    }

    /// Counts the steps backwards between blocks.
    fn count_steps_between_blocks(&mut self) {
        self.clocks.sort_unstable();
        let is_step = |pair: &&[BlockClock]| {
            let [before, after] = [pair[0], pair[1]];
            before.place >> SOURCE_SHIFT == after.place >> SOURCE_SHIFT
                && is_clock_back(before.last_ms, after.first_ms)
        };
        self.clocks_back += self.clocks.windows(2).filter(is_step).count() as u64;
    }
}

/// Larger backward steps of the clock are reported, ms; requests that end at almost the same time
/// may be logged in any order.
const CLOCK_BACK_MS: i64 = 60_000;

/// Whether the clock went back from one line to the next.
pub(crate) fn is_clock_back(before_ms: i64, ms: i64) -> bool {
    ms < before_ms.saturating_sub(CLOCK_BACK_MS)
}

/// State shared by all threads.
struct SharedState<'a> {
    logs: &'a LogFiles,
    names: &'a Interners,
    names_bytes_max: u64,
    store: &'a ChunkStore,
    /// File sizes by provisional number, where a table has them.
    sizes: QuickMap<u32, u64>,
    /// Whether devices and drives are recorded.
    devices_and_drives: bool,
    keep_unplaced: bool,
    lines_max: u64,
    /// Self-describing formats, tried on lines that do not match the format of their log.
    others: Vec<LineReader>,
    troubles: Mutex<Vec<(u32, String)>>,
    columns_changed: AtomicBool,
    is_over: AtomicBool,
}

/// Why a thread stopped.
enum WorkerFailure {
    Names,
    Spill(io::Error),
}

/// Reads all logs, whose files table was read with these names.
pub(super) fn read_all(
    intake: &Intake,
    memory: &MemoryBound,
    logs: &LogFiles,
    (names, table): (Interners, FilesTable),
    progress: &dyn IntakeProgress,
) -> Result<ReadResult, IntakeError> {
    let mut told = ThreadResults::default();
    let folder = intake.spill.clone().unwrap_or_else(std::env::temp_dir);
    let store = ChunkStore::new(PARTS, memory.kept, folder.clone());
    let shared = SharedState {
        logs,
        names: &names,
        names_bytes_max: memory.names / 2,
        store: &store,
        sizes: table
            .rows
            .iter()
            .map(|row| (row.file, row.size_bytes))
            .collect(),
        devices_and_drives: intake.looks_at_devices_and_drives(),
        keep_unplaced: intake.keep_unplaced,
        lines_max: intake.lines_max.unwrap_or(u64::MAX),
        others: other_readers(logs, intake),
        troubles: Mutex::default(),
        columns_changed: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let work = || IntakeWorker::new(&shared).run(progress);
    let outcomes: Vec<Result<ThreadResults, WorkerFailure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..intake.threads).map(|_| scope.spawn(work)).collect();
        let mut outcomes = vec![work()];
        for thread in threads {
            match thread.join() {
                Ok(outcome) => outcomes.push(outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcomes
    });
    for outcome in outcomes {
        told.merge(outcome.map_err(|failure| match failure {
            WorkerFailure::Names => IntakeError::Names {
                allowed: memory.names,
            },
            WorkerFailure::Spill(source) => IntakeError::Spill {
                folder: folder.clone(),
                source,
            },
        })?);
    }
    told.count_steps_between_blocks();
    let columns_changed = shared.columns_changed.load(Relaxed);
    let troubles = shared.troubles.into_inner();
    Ok(ReadResult {
        columns_changed,
        troubles: troubles.unwrap_or_else(PoisonError::into_inner),
        names,
        table,
        store,
        told,
    })
}

/// Formats that may occur in any log: those of all logs, and those without a header.
fn other_readers(logs: &LogFiles, intake: &Intake) -> Vec<LineReader> {
    let proxies = std::sync::Arc::new(intake.trusted.clone());
    let mut readers: Vec<LineReader> = Vec::new();
    let known = Format::all();
    let known = known
        .iter()
        .filter_map(|format| format.reader(intake.session_field.as_deref()).ok()?)
        .map(|reader| reader.trusting(&proxies));
    let ours = logs.logs.iter().filter_map(|log| match &log.contents {
        LogContents::Lines { reader, .. } => Some(reader.clone()),
        LogContents::Table { .. } => None,
    });
    for reader in ours.chain(known) {
        if !readers.contains(&reader) {
            readers.push(reader);
        }
    }
    readers
}

/// A unit of work.
enum WorkUnit {
    Block { log: usize, reader: LineReader },
    Group { log: usize, group: usize },
}

struct IntakeWorker<'s> {
    shared: &'s SharedState<'s>,
    parts: Vec<Encoder>,
    sessions: NumberCache,
    viewers: NumberCache,
    files: NumberCache,
    devices: NumberCache,
    disks: NumberCache,
    agents: device::DeviceCache,
    batch: BatchNumbers,
    viewer: Vec<u8>,
    /// Current block: requests, first arrival, last completion.
    span: (u64, i64, i64),
    told: ThreadResults,
}

const NO_SPAN: (u64, i64, i64) = (0, i64::MAX, i64::MIN);

impl<'s> IntakeWorker<'s> {
    fn new(shared: &'s SharedState<'s>) -> Self {
        Self {
            shared,
            parts: (0..PARTS).map(|_| Encoder::default()).collect(),
            sessions: NumberCache::default(),
            viewers: NumberCache::default(),
            files: NumberCache::default(),
            devices: NumberCache::default(),
            disks: NumberCache::default(),
            agents: device::DeviceCache::default(),
            batch: BatchNumbers::default(),
            viewer: Vec::new(),
            span: NO_SPAN,
            told: ThreadResults::default(),
        }
    }

    fn run(mut self, progress: &dyn IntakeProgress) -> Result<ThreadResults, WorkerFailure> {
        let mut block = LineBlock::default();
        let total = self.shared.logs.bytes_total();
        while let Some(job) = self.shared.next(&mut block) {
            let outcome = match job {
                WorkUnit::Block { log, reader } => self
                    .block(log, reader, &block)
                    .map(|()| self.end_of_block(log)),
                WorkUnit::Group { log, group } => {
                    self.group(log, group).map(|()| self.end_of_block(log))
                }
            };
            if outcome.is_err() || self.shared.is_over.load(Relaxed) {
                self.shared.is_over.store(true, Relaxed);
                outcome?;
                return Ok(self.told);
            }
            progress.read(self.shared.logs.read_bytes.load(Relaxed), total);
        }
        for part in 0..PARTS {
            self.put_away(part)?;
        }
        Ok(self.told)
    }

    fn end_of_block(&mut self, log: usize) {
        let number = self.shared.logs.logs[log].number;
        self.told.add_span(number, &mut self.span);
    }

    /// Parses the lines of a block.
    fn block(
        &mut self,
        log: usize,
        reader: LineReader,
        block: &LineBlock,
    ) -> Result<(), WorkerFailure> {
        let log = &self.shared.logs.logs[log];
        let (mut reader, mut row) = (reader, LineFields::new());
        let has_nul = memchr::memchr(0, &block.bytes).is_some();
        let last = block.bytes.len();
        let (mut start, mut line_number, mut before_ms) = (0, block.line_first, i64::MIN);
        let mut first_ms = None;
        for line in &block.too_long {
            self.drop_line(log, DropReason::TooLong, *line, b"");
        }
        for end in memchr::memchr_iter(b'\n', &block.bytes).chain(block.is_cut.then_some(last)) {
            let is_unended = end == last;
            let line = trimmed(&block.bytes[start..end]);
            let number = line_number;
            start = end + 1;
            line_number += 1;
            let line = if has_nul { without_nul(line) } else { Ok(line) };
            let line = match line {
                Ok([]) => continue,
                Ok(line) => line,
                Err(line) => {
                    self.drop_line(log, DropReason::Nul, number, line);
                    continue;
                }
            };
            if number > self.shared.lines_max {
                break;
            }
            if line[0] == b'#'
                && let Some(again) = reader.again(line)
            {
                reader = again;
            }
            match self.read(&reader, line, &mut row) {
                Ok(entry) => {
                    self.told.unended += u64::from(is_unended);
                    if is_clock_back(before_ms, entry.completed_ms) {
                        self.told.clocks_back += 1;
                    }
                    before_ms = entry.completed_ms;
                    first_ms.get_or_insert(before_ms);
                    self.push(log, number, &entry, line)?;
                }
                Err(reason) => {
                    // A truncated line may end within its method or status.
                    let is_cut = is_unended && reason != DropReason::NotARequest;
                    let reason = if is_cut {
                        DropReason::Truncated
                    } else {
                        reason
                    };
                    self.drop_line(log, reason, number, line);
                }
            }
        }
        self.told.clocks.extend(first_ms.map(|first_ms| BlockClock {
            place: (u64::from(log.number) << SOURCE_SHIFT) | block.line_first,
            first_ms,
            last_ms: before_ms,
        }));
        Ok(())
    }

    /// Parses a line in its log's format, otherwise in any other that matches it.
    fn read<'a>(
        &self,
        reader: &LineReader,
        line: &'a [u8],
        row: &mut LineFields<'a>,
    ) -> Result<LogEntry<'a>, DropReason> {
        let reason = match reader.read(line, row) {
            Ok(entry) => return Ok(entry),
            Err(reason) => reason,
        };
        // A line with columns may match another format by chance, but then its time is invalid.
        if matches!(reason, DropReason::Shape | DropReason::BadTime) {
            for other in self.shared.others.iter().filter(|other| *other != reader) {
                match other.read(line, row) {
                    Ok(entry) => return Ok(entry),
                    Err(other) if other.is_understood() => return Err(other),
                    Err(_) => {}
                }
            }
        }
        Err(reason)
    }

    /// Reads a row group of a table.
    fn group(&mut self, log: usize, group: usize) -> Result<(), WorkerFailure> {
        let log = &self.shared.logs.logs[log];
        let LogContents::Table { table, .. } = &log.contents else {
            return Ok(());
        };
        let mut failure = None;
        let outcome = table.read_group(group, self.shared.lines_max, |number, entry| {
            let outcome = match entry {
                TableEntry::Batch(batch) => self.push_batch(log, number, &batch),
                TableEntry::Told(Ok(entry)) => self.push(log, number, &entry, b""),
                TableEntry::Told(Err(reason)) => {
                    self.drop_line(log, reason, number, b"");
                    Ok(())
                }
            };
            failure = outcome.err();
            failure.is_none()
        });
        if let Err(trouble) = outcome {
            self.shared
                .trouble(log, format!("row group {group} cannot be read: {trouble}"));
        }
        self.shared
            .logs
            .read_bytes
            .fetch_add(table.group_bytes(group), Relaxed);
        failure.map_or(Ok(()), Err)
    }

    fn put_away(&mut self, part: usize) -> Result<(), WorkerFailure> {
        let (bytes, count) = self.parts[part].take();
        if count > 0 {
            let outcome = self.shared.store.add(part, bytes, count);
            outcome.map_err(WorkerFailure::Spill)?;
        }
        if self.shared.names.bytes() > self.shared.names_bytes_max {
            return Err(WorkerFailure::Names);
        }
        Ok(())
    }

    fn drop_line(&mut self, log: &LogFile, reason: DropReason, number: u64, line: &[u8]) {
        let order = (u64::from(log.number) << SOURCE_SHIFT) | number;
        self.told
            .dropped
            .add(reason, &log.name, number, order, line);
    }
}

impl SharedState<'_> {
    /// The next unit of work; lines are put into `block`.
    fn next(&self, block: &mut LineBlock) -> Option<WorkUnit> {
        // First the logs that are free, then any log.
        for is_patient in [false, true] {
            for (place, log) in self.logs.logs.iter().enumerate() {
                if log.is_done.load(Relaxed) {
                    continue;
                }
                let (reader, state) = match &log.contents {
                    LogContents::Lines { reader, state, .. } => (reader, state),
                    LogContents::Table { table, group_next } => {
                        let group = group_next.fetch_add(1, Relaxed);
                        if group < table.groups() && table.rows_before(group) < self.lines_max {
                            return Some(WorkUnit::Group { log: place, group });
                        }
                        log.is_done.store(true, Relaxed);
                        continue;
                    }
                };
                let mut state = if is_patient {
                    state.lock().unwrap_or_else(PoisonError::into_inner)
                } else {
                    match state.try_lock() {
                        Ok(state) => state,
                        Err(_) => continue,
                    }
                };
                if let Some(reader) = self.next_block(log, reader, &mut state, block) {
                    return Some(WorkUnit::Block { log: place, reader });
                }
                log.is_done.store(true, Relaxed);
            }
        }
        None
    }

    /// The next block of a log, and the reader for its first line.
    fn next_block(
        &self,
        log: &LogFile,
        reader: &LineReader,
        state: &mut LogState,
        block: &mut LineBlock,
    ) -> Option<LineReader> {
        if let LogState::Waiting(input) = state {
            let input = input.take();
            match BlockReader::open(&log.path, log.packing, input, &self.logs.read_bytes) {
                Ok(blocks) => {
                    *state = LogState::Open {
                        blocks: Box::new(blocks),
                        reader: reader.clone(),
                    }
                }
                Err(error) => {
                    self.trouble(log, format!("it cannot be reopened: {error}"));
                    *state = LogState::Done;
                }
            }
        }
        let LogState::Open { blocks, reader } = state else {
            return None;
        };
        if !blocks.next(block) || block.line_first > self.lines_max {
            if let Some(trouble) = blocks.trouble.take() {
                self.trouble(log, format!("it ends early: {trouble}"));
            }
            *state = LogState::Done;
            return None;
        }
        if let LogContents::Lines {
            wrapper: Some(wrapper),
            ..
        } = &log.contents
        {
            block.bytes = wrapper.unwrapped(&block.bytes).0;
        }
        let before = reader.clone();
        if let Some(after) = reader.behind(&block.bytes) {
            self.columns_changed.fetch_or(after != before, Relaxed);
            *reader = after;
        }
        Some(before)
    }

    fn trouble(&self, log: &LogFile, trouble: String) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.push((log.number, trouble));
    }
}

/// A line without leading zero bytes, which a file truncated during writing contains; `Err` if
/// there are others.
fn without_nul(line: &[u8]) -> Result<&[u8], &[u8]> {
    let start = line.iter().position(|byte| *byte != 0);
    let line = &line[start.unwrap_or(line.len())..];
    match memchr::memchr(0, line) {
        None => Ok(line),
        Some(_) => Err(line),
    }
}
