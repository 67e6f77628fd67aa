//! Logs before they are read: opened, recognised, and copies of one another found.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::error::{IntakeError, LogError};
use super::options::Intake;
use super::taken::LogTold;
use crate::names::hash;
use crate::parquet::read::Table;
use crate::read::Reader;
use crate::read::recognise::{NotFound, outcomes, recognise};
use crate::read::source::{Blocks, HEAD_BYTES, Head, Packing, look};

/// A log that will be read.
pub(super) struct Log {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Its place among those that were given.
    pub(super) number: u32,
    pub(super) packing: Packing,
    pub(super) bytes: Option<u64>,
    pub(super) format: String,
    /// Names in it that nobody needs.
    pub(super) unused: Vec<String>,
    pub(super) contents: Contents,
    pub(super) is_done: AtomicBool,
}

/// What is in it.
pub(super) enum Contents {
    Lines {
        reader: Reader,
        state: Mutex<State>,
    },
    Table {
        table: Table,
        group_next: AtomicUsize,
    },
}

/// How far it has been read.
pub(super) enum State {
    /// Not yet opened (again).
    Waiting(Option<Box<dyn Read + Send>>),
    Open {
        blocks: Box<Blocks>,
        /// The columns at the end of the last block, where lines may change them.
        reader: Reader,
    },
    Done,
}

/// All logs.
pub(super) struct Logs {
    pub(super) logs: Vec<Log>,
    /// Those that were left out.
    pub(super) left_out: Vec<(u32, LogTold)>,
    pub(super) read_bytes: Arc<AtomicU64>,
}

impl Logs {
    /// Bytes of all logs as they lie there, if that is known.
    pub(super) fn bytes_total(&self) -> Option<u64> {
        self.logs.iter().map(|log| log.bytes).sum()
    }
}

/// Opens and recognises all logs; tells of all that is wrong at once.
pub(super) fn open(intake: &Intake) -> Result<Logs, IntakeError> {
    let read_bytes = Arc::new(AtomicU64::new(0));
    let (mut heads, mut wrong) = (Vec::new(), Vec::new());
    for (number, path) in intake.logs.iter().enumerate() {
        match look(path, &read_bytes) {
            Ok(head) => heads.push((number as u32, path.clone(), head)),
            Err(error) => {
                let log = told(path);
                wrong.push(LogError(format!("{log} cannot be read: {error}")));
            }
        }
    }
    let left_out = leave_out_copies(&mut heads);
    let mut logs = Logs {
        logs: Vec::new(),
        left_out,
        read_bytes,
    };
    for (number, path, head) in heads {
        let name = told(&path);
        match contents(intake, &path, head) {
            Ok(Some((head, format, unused, contents))) => logs.logs.push(Log {
                name,
                path,
                number,
                packing: head.packing,
                bytes: head.packed_bytes,
                format,
                unused,
                contents,
                is_done: AtomicBool::new(false),
            }),
            Ok(None) => logs
                .left_out
                .push((number, left(&name, "it is empty".to_owned()))),
            Err(NotRead::Format(error)) => return Err(error.into()),
            Err(NotRead::Log(error)) => wrong.push(*error),
        }
    }
    if wrong.is_empty() {
        Ok(logs)
    } else {
        Err(IntakeError::Logs(wrong))
    }
}

enum NotRead {
    Format(crate::read::FormatError),
    Log(Box<LogError>),
}

impl From<LogError> for NotRead {
    fn from(error: LogError) -> Self {
        Self::Log(Box::new(error))
    }
}

/// A log that was recognised: its head, its format, names in it that nobody needs, and what is in it.
type Recognised = (Head, String, Vec<String>, Contents);

/// What is in a log; `None` if nothing.
fn contents(
    intake: &Intake,
    path: &PathBuf,
    mut head: Head,
) -> Result<Option<Recognised>, NotRead> {
    let log = told(path);
    let wrong = |text: String| Err(LogError(text).into());
    match head.packing {
        Packing::Other(by) => {
            return wrong(format!(
                "{log} is packed by {by}, which is not unpacked here; unpack it: {by} -dc {log}"
            ));
        }
        Packing::Parquet if head.input.is_some() => {
            return wrong(format!(
                "{log}: Parquet cannot be read from a stream; name a file"
            ));
        }
        Packing::Parquet => {
            let table = Table::open(
                path,
                intake.format.as_ref(),
                intake.session_field.as_deref(),
                intake.looks_at_devices_and_drives(),
            );
            let table = table.map_err(|what| LogError(format!("{log}: {what}")))?;
            let contents = Contents::Table {
                table,
                group_next: AtomicUsize::new(0),
            };
            return Ok(Some((head, "parquet".to_owned(), Vec::new(), contents)));
        }
        Packing::Plain | Packing::Gzip | Packing::Zstd => {}
    }
    let given = intake.format.as_ref();
    match recognise(&head.bytes, given, intake.session_field.as_deref()) {
        Ok(found) => {
            let contents = Contents::Lines {
                reader: found.reader,
                state: Mutex::new(State::Waiting(head.input.take())),
            };
            Ok(Some((head, found.name, found.unused, contents)))
        }
        Err(NotFound::Empty) => Ok(None),
        Err(NotFound::Format(error)) => Err(NotRead::Format(error)),
        Err(NotFound::Binary) => wrong(format!(
            "{log} is no text, so no log; gzip and zstd are unpacked here, other packings are to be \
             unpacked before"
        )),
        Err(NotFound::Tried(tried)) => wrong(format!(
            "{log} is in no known format. Tried:\n{}\nSay what it is: --log-format '...' with the \
             log_format (nginx) or LogFormat (Apache) of the server's configuration, or --format NAME, \
             for keys or columns of other names --format 'json:time=THEIRS,target=THEIRS,bytes=THEIRS'; \
             or leave this log out",
            outcomes(&tried)
        )),
        Err(NotFound::NoSession(there_is)) => {
            let wanted = intake.session_field.as_deref().unwrap_or_default();
            let there_is = there_is.join(", ");
            wrong(format!(
                "{log}: nothing in its first lines is called `{wanted}` and names a session; there are \
                 {there_is}"
            ))
        }
    }
}

fn told(path: &PathBuf) -> String {
    if path == &PathBuf::from("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

fn left(name: &str, note: String) -> LogTold {
    LogTold {
        name: name.to_owned(),
        format: String::new(),
        requests: 0,
        span_ms: None,
        note: Some(note),
    }
}

type Looked = (u32, PathBuf, Head);

/// Takes out logs whose contents are in another one: the same once more (also packed), or the
/// beginning of one that has grown since.
fn leave_out_copies(heads: &mut Vec<Looked>) -> Vec<(u32, LogTold)> {
    let keys: Vec<Option<(u64, usize)>> = heads.iter().map(|(_, _, head)| key(head)).collect();
    let mut is_copy: Vec<Option<usize>> = vec![None; heads.len()];
    for (place, own_key) in keys.iter().enumerate() {
        if own_key.is_none() {
            continue;
        }
        for (other, other_key) in keys.iter().enumerate() {
            if place == other || own_key != other_key || is_copy[other].is_some() {
                continue;
            }
            let (small, large) = (&heads[place], &heads[other]);
            let sizes = small.2.bytes_total.zip(large.2.bytes_total);
            let is_within = match sizes {
                Some((own, others)) if own == others => other < place,
                Some((own, others)) if own < others => true,
                _ => false,
            };
            if is_within && has_end_of(small, large) {
                is_copy[place] = Some(other);
                break;
            }
        }
    }
    let mut left_out = Vec::new();
    for (place, (number, path, _)) in heads.iter().enumerate() {
        if let Some(other) = is_copy[place] {
            let of = told(&heads[other].1);
            let note = format!("all of it is in {of} too, so it was read once only");
            left_out.push((*number, left(&told(path), note)));
        }
    }
    let mut place = 0;
    heads.retain(|_| {
        place += 1;
        is_copy[place - 1].is_none()
    });
    left_out
}

/// What two logs have in common if one is within the other; short logs are compared whole.
fn key(head: &Head) -> Option<(u64, usize)> {
    let is_known = head.input.is_none() && !head.bytes.is_empty() && head.bytes_total.is_some();
    is_known.then(|| (hash(&head.bytes), head.bytes.len()))
}

/// Whether the end of the smaller is at the same place of the larger. What is packed, or not larger
/// than its head, has been compared as far as it can be.
fn has_end_of(small: &Looked, large: &Looked) -> bool {
    let is_plain = |looked: &Looked| looked.2.packing == Packing::Plain;
    let size = small.2.bytes_total.unwrap_or_default();
    if !is_plain(small) || !is_plain(large) || size <= HEAD_BYTES as u64 {
        return true;
    }
    let tail = |path: &PathBuf| -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEAD_BYTES];
        File::open(path)?.read_exact_at(&mut bytes, size - HEAD_BYTES as u64)?;
        Ok(bytes)
    };
    matches!((tail(&small.1), tail(&large.1)), (Ok(a), Ok(b)) if a == b)
}
