//! Opens and recognises logs, and detects copies, before they are read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::error::{IntakeError, LogError};
use super::options::Intake;
use super::result::LogSummary;
use crate::names::hash;
use crate::parquet::read::LogTable;
use crate::read::LineReader;
use crate::read::recognise::{RecognitionError, outcomes, recognise};
use crate::read::source::{BlockReader, Compression, HEAD_BYTES, LogHead, is_beginning, look};
use crate::read::wrapper::Wrapper;

/// A log to be read.
pub(super) struct LogFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Its index among the given logs.
    pub(super) number: u32,
    pub(super) packing: Compression,
    pub(super) bytes: Option<u64>,
    pub(super) format: String,
    /// Fields in it that are not used.
    pub(super) unused: Vec<String>,
    pub(super) contents: LogContents,
    pub(super) is_done: AtomicBool,
}

/// Contents of a log.
pub(super) enum LogContents {
    Lines {
        reader: LineReader,
        /// The envelope of each line.
        wrapper: Option<Wrapper>,
        state: Mutex<LogState>,
    },
    Table {
        table: LogTable,
        group_next: AtomicUsize,
    },
}

/// Read state of a log.
pub(super) enum LogState {
    /// Not opened yet (or to be reopened).
    Waiting(Option<Box<dyn Read + Send>>),
    Open {
        blocks: Box<BlockReader>,
        /// The columns after the last block, where lines may change them.
        reader: LineReader,
    },
    Done,
}

/// All logs.
pub(super) struct LogFiles {
    pub(super) logs: Vec<LogFile>,
    /// Logs that are not read.
    pub(super) left_out: Vec<(u32, LogSummary)>,
    pub(super) read_bytes: Arc<AtomicU64>,
}

/// Where a log came from, once it is read.
pub(crate) struct LogOrigin {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) format: String,
    pub(crate) unused: Vec<String>,
}

/// The logs once they are read.
pub(crate) struct LogOrigins {
    pub(crate) logs: Vec<LogOrigin>,
    /// Logs that were not read.
    pub(crate) left_out: Vec<(u32, LogSummary)>,
}

impl LogFiles {
    /// The remains of logs that were read.
    pub(super) fn into_origins(self) -> LogOrigins {
        let logs = self.logs.into_iter().map(|log| LogOrigin {
            name: log.name,
            number: log.number,
            format: log.format,
            unused: log.unused,
        });
        LogOrigins {
            logs: logs.collect(),
            left_out: self.left_out,
        }
    }

    /// Total size of all logs on disk, if known.
    pub(super) fn bytes_total(&self) -> Option<u64> {
        self.logs.iter().map(|log| log.bytes).sum()
    }
}

/// Opens and recognises all logs; reports all errors together.
pub(super) fn open(intake: &Intake) -> Result<LogFiles, IntakeError> {
    let read_bytes = Arc::new(AtomicU64::new(0));
    let (mut logs, mut left_out) = (Vec::new(), Vec::new());
    let (mut unreadable, mut wrong) = (Vec::new(), Vec::new());
    // A head is dropped once its log is recognised: thousands of them would not fit in memory.
    for (number, path) in (0..).zip(&intake.logs) {
        let name = intake.name_of(path);
        let head = match look(path, &read_bytes) {
            Ok(head) => head,
            Err(error) => {
                unreadable.push(LogError(format!("{name} cannot be read: {error}")));
                continue;
            }
        };
        let seen = LogIdentity::of(&head);
        let (packing, bytes) = (head.packing, head.packed_bytes);
        match contents(intake, path, head) {
            Ok(Some((format, unused, contents))) => {
                let log = LogFile {
                    name,
                    path: path.clone(),
                    number,
                    packing,
                    bytes,
                    format,
                    unused,
                    contents,
                    is_done: AtomicBool::new(false),
                };
                logs.push((log, seen));
            }
            Ok(None) => left_out.push((number, left(&name, "it is empty".to_owned()))),
            Err(LogFailure::Format(error)) => return Err(error.into()),
            Err(LogFailure::Log(error)) => wrong.push(*error),
        }
    }
    unreadable.append(&mut wrong);
    if !unreadable.is_empty() {
        return Err(IntakeError::Logs(unreadable));
    }
    left_out.append(&mut leave_out_copies(&mut logs));
    Ok(LogFiles {
        logs: logs.into_iter().map(|(log, _)| log).collect(),
        left_out,
        read_bytes,
    })
}

enum LogFailure {
    Format(crate::read::FormatError),
    Log(Box<LogError>),
}

impl From<LogError> for LogFailure {
    fn from(error: LogError) -> Self {
        Self::Log(Box::new(error))
    }
}

/// A recognised log: its format, its unused fields, and its contents.
type RecognisedLog = (String, Vec<String>, LogContents);

/// The contents of a log; `None` if it is empty.
fn contents(
    intake: &Intake,
    path: &Path,
    mut head: LogHead,
) -> Result<Option<RecognisedLog>, LogFailure> {
    let log = intake.name_of(path);
    let wrong = |text: String| Err(LogError(text).into());
    let proxies = Arc::new(intake.trusted.clone());
    match head.packing {
        Compression::Other(by) => {
            let how = match by {
                "zip" => "unzip -p".to_owned(),
                by => format!("{by} -dc"),
            };
            return wrong(format!(
                "{log} is compressed with {by}, which is not supported; decompress it: {how} {log}"
            ));
        }
        Compression::Parquet if head.input.is_some() => {
            return wrong(format!(
                "{log}: Parquet cannot be read from a stream; name a file"
            ));
        }
        Compression::Parquet => {
            let table = LogTable::open(
                path,
                intake.format.as_ref(),
                intake.session_field.as_deref(),
                intake.looks_at_devices_and_drives(),
            );
            let table = table.map_err(|what| LogError(format!("{log}: {what}")))?;
            let table = table.trusting(&proxies);
            let contents = LogContents::Table {
                table,
                group_next: AtomicUsize::new(0),
            };
            return Ok(Some(("parquet".to_owned(), Vec::new(), contents)));
        }
        Compression::Plain | Compression::Gzip | Compression::Zstd => {}
    }
    let given = intake.format.as_ref();
    let first = intake.head.as_deref().unwrap_or(&head.bytes);
    match recognise(first, given, intake.session_field.as_deref()) {
        Ok(found) => {
            let contents = LogContents::Lines {
                reader: found.reader.trusting(&proxies),
                wrapper: found.wrapper,
                state: Mutex::new(LogState::Waiting(head.input.take())),
            };
            Ok(Some((found.name, found.unused, contents)))
        }
        Err(RecognitionError::Empty) => Ok(None),
        Err(RecognitionError::Format(error)) => Err(LogFailure::Format(error)),
        Err(RecognitionError::Binary) => wrong(format!(
            "{log} is not a text log; gzip and zstd are supported, decompress other formats \
             first"
        )),
        Err(RecognitionError::Tried(tried)) => wrong(format!(
            "{log} is in no known format. Tried:\n{}\nSay what it is: --log-format '...' with the \
             log_format (nginx) or LogFormat (Apache) of the server's configuration, or --format NAME, \
             for keys or columns of other names --format 'json:time=THEIRS,target=THEIRS,bytes=THEIRS'; \
             or leave this log out",
            outcomes(&tried)
        )),
        Err(RecognitionError::NoSession(there_is)) => {
            let wanted = intake.session_field.as_deref().unwrap_or_default();
            let there_is = there_is.join(", ");
            wrong(format!(
                "{log}: no field `{wanted}` in its first lines identifies a session; fields found: \
                 {there_is}"
            ))
        }
    }
}

fn left(name: &str, note: String) -> LogSummary {
    LogSummary {
        name: name.to_owned(),
        format: String::new(),
        requests: 0,
        span_ms: None,
        note: Some(note),
    }
}

/// Properties by which copies of a log are found.
struct LogIdentity {
    /// Hash and length of its head, equal for copies; `None` for input that can be read only once.
    head: Option<(u64, usize)>,
    /// Uncompressed size, if known.
    bytes: Option<u64>,
}

impl LogIdentity {
    fn of(head: &LogHead) -> Self {
        let is_known = head.input.is_none() && !head.bytes.is_empty() && head.bytes_total.is_some();
        Self {
            head: is_known.then(|| {
                let first = &head.bytes[..head.bytes.len().min(HEAD_BYTES)];
                (hash(first), first.len())
            }),
            bytes: head.bytes_total,
        }
    }
}

/// Removes logs whose contents are in another one: a copy (possibly compressed), or an earlier
/// state of a log that has grown.
fn leave_out_copies(logs: &mut Vec<(LogFile, LogIdentity)>) -> Vec<(u32, LogSummary)> {
    let mut is_copy: Vec<Option<usize>> = vec![None; logs.len()];
    for (place, (small, seen)) in logs.iter().enumerate() {
        if seen.head.is_none() {
            continue;
        }
        for (other, (large, others)) in logs.iter().enumerate() {
            if place == other || seen.head != others.head || is_copy[other].is_some() {
                continue;
            }
            let is_within = match (seen.bytes, others.bytes) {
                (Some(own), Some(others)) if own == others => other < place,
                (Some(own), Some(others)) => own < others,
                _ => false,
            };
            if is_within && is_all_in(small, seen.bytes.unwrap_or_default(), large) {
                is_copy[place] = Some(other);
                break;
            }
        }
    }
    let mut left_out = Vec::new();
    for ((log, _), other) in logs.iter().zip(&is_copy) {
        if let Some(other) = other {
            let of = &logs[*other].0.name;
            let note = format!("all of it is also in {of}, so it was read only once");
            left_out.push((log.number, left(&log.name, note)));
        }
    }
    let mut is_copy = is_copy.into_iter();
    logs.retain(|_| is_copy.next().flatten().is_none());
    left_out
}

/// Whether the larger log starts with all `bytes` of the smaller. Their heads are equal; for plain
/// files the end is compared as well, and compressed logs, whose size is uncertain, are compared in
/// full, which takes less time than reading them.
fn is_all_in(small: &LogFile, bytes: u64, large: &LogFile) -> bool {
    let is_plain = |log: &LogFile| log.packing == Compression::Plain;
    if !is_plain(small) || !is_plain(large) {
        let is_in = is_beginning((&small.path, small.packing), (&large.path, large.packing));
        return is_in.unwrap_or(false);
    }
    if bytes <= HEAD_BYTES as u64 {
        return true;
    }
    let tail = |log: &LogFile| -> std::io::Result<Vec<u8>> {
        let mut end = vec![0; HEAD_BYTES];
        File::open(&log.path)?.read_exact_at(&mut end, bytes - HEAD_BYTES as u64)?;
        Ok(end)
    };
    matches!((tail(small), tail(large)), (Ok(a), Ok(b)) if a == b)
}
