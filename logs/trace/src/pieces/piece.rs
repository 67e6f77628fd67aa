//! Reads a piece of a log: its requests by shard, and a head of names and counts.

use serde::{Deserialize, Serialize};

use crate::drop_counts::DropCounts;
use crate::files::{FileHint, FilesTable, Interners};
use crate::intake::{ReadResult, ThreadResults, address_of, read_logs};
use crate::names::{Interner, Names, QuickMap, Renumber};
use crate::partitions::PARTS;
use crate::partitions::record::{DISK_UNKNOWN, Decoder, Encoder, Record, VIEWER};
use crate::shards::StoredKind;
use crate::{Intake, IntakeError, LogError, PartitionsError, SilentProgress};

/// Most shards: each has some of the partitions into which requests are read.
pub const PIECE_SHARDS_MAX: u32 = PARTS as u32;

/// A piece, and the shards of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceSettings {
    /// Number of the piece, in the order of the log.
    pub number: u32,
    /// Lines or rows of the piece, including those that are no requests.
    pub lines: u64,
    /// Number of shards, 1 to [`PIECE_SHARDS_MAX`].
    pub shards: u32,
}

/// The content of a piece.
#[derive(Debug, Clone)]
pub struct LogPiece {
    /// For [`LogSurvey::of`](super::LogSurvey::of).
    pub head: Vec<u8>,
    /// Of each shard with sessions in the piece: its number, and bytes for
    /// [`ShardRequests::of`](super::ShardRequests::of).
    pub shards: Vec<(u32, Vec<u8>)>,
}

/// The facts of a piece that the whole log needs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PieceHead {
    pub(super) number: u32,
    pub(super) lines: u64,
    pub(super) shards: u32,
    pub(super) format: String,
    pub(super) unused: Vec<String>,
    /// Names of files, with what the lines tell of each.
    pub(super) files: Vec<(Vec<u8>, FileHint)>,
    pub(super) devices: Vec<Vec<u8>>,
    pub(super) disks: Vec<Vec<u8>>,
    pub(super) counts: PieceCounts,
    /// First arrival and last completion, ms.
    pub(super) span_ms: Option<(i64, i64)>,
    /// Completion in the first line and in the last, ms.
    pub(super) clock_ms: Option<(i64, i64)>,
    pub(super) dropped: DropCounts,
    /// The address with more than half of the requests.
    pub(super) crowded: Option<Vec<u8>>,
}

/// Counts of a piece or of several.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct PieceCounts {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) unnamed: u64,
    pub(super) untimed: u64,
    pub(super) unplaced: u64,
    pub(super) unended: u64,
    pub(super) clocks_back: u64,
}

impl PieceCounts {
    fn of(told: &ThreadResults) -> Self {
        Self {
            requests: told.requests,
            bytes: told.bytes,
            unnamed: told.unnamed,
            untimed: told.untimed,
            unplaced: told.unplaced,
            unended: told.unended,
            clocks_back: told.clocks_back,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.unnamed += other.unnamed;
        self.untimed += other.untimed;
        self.unplaced += other.unplaced;
        self.unended += other.unended;
        self.clocks_back += other.clocks_back;
    }
}

/// Requests of a shard in a piece; numbers in the records are places among these names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PieceRequests {
    pub(super) sessions: Vec<Vec<u8>>,
    pub(super) viewers: Vec<Vec<u8>>,
    pub(super) files: Vec<Vec<u8>>,
    pub(super) devices: Vec<Vec<u8>>,
    pub(super) disks: Vec<Vec<u8>>,
    pub(super) records: Vec<u8>,
    pub(super) count: u32,
}

/// Reads a piece: the only log of `intake`, which has the name and the head of the whole.
///
/// # Errors
/// Those of [`take_in`](crate::take_in), and if a line within the piece changes the columns.
pub fn read_piece(intake: &Intake, settings: PieceSettings) -> Result<LogPiece, IntakeError> {
    let memory = intake.memory_bound()?;
    let (logs, read, _) = read_logs(intake, &memory, settings.number, &SilentProgress)?;
    let wrong = |what: &str| {
        let name = intake
            .logs
            .first()
            .map_or(String::new(), |path| intake.name_of(path));
        let text = format!("{name}, piece {}: {what}", settings.number);
        IntakeError::Logs(vec![LogError(text)])
    };
    if let Some((_, trouble)) = read.troubles.first() {
        return Err(wrong(trouble));
    }
    if read.columns_changed {
        return Err(wrong(
            "a line changes the columns, which other pieces do not see; read such a log with \
             `headlong trace characterise`, or as a table",
        ));
    }
    let ReadResult {
        names,
        table,
        store,
        told,
        ..
    } = read;
    let names = PieceNames::of(names);
    let chunks = store.finish();
    let shards = settings.shards.clamp(1, PIECE_SHARDS_MAX);
    let mut writers: Vec<ShardWriter> = (0..shards).map(|_| ShardWriter::default()).collect();
    let mut viewers: QuickMap<u32, u64> = QuickMap::default();
    let mut buffer = Vec::new();
    for part in 0..PARTS {
        let writer = &mut writers[part * shards as usize / PARTS];
        chunks.read(part, &mut buffer, |bytes| {
            let mut decoder = Decoder::new(bytes);
            while let Some(record) = decoder.next().map_err(|_| PartitionsError::Damaged)? {
                if let Some(viewer) = names.viewer(record.request.session) {
                    *viewers.entry(viewer).or_default() += 1;
                }
                let pushed = writer.push(&names, record);
                pushed.ok_or(PartitionsError::Damaged)?;
            }
            Ok::<_, PartitionsError>(())
        })?;
    }
    let span = told.logs.get(&settings.number);
    let head = PieceHead {
        number: settings.number,
        lines: settings.lines,
        shards,
        format: logs
            .logs
            .first()
            .map_or(String::new(), |log| log.format.clone()),
        unused: logs.logs.into_iter().flat_map(|log| log.unused).collect(),
        files: names.files_told(&table, &told),
        devices: names.devices.all(),
        disks: names.disks.all(),
        counts: PieceCounts::of(&told),
        span_ms: span.map(|(_, first, last)| (*first, *last)),
        clock_ms: match (told.clocks.first(), told.clocks.last()) {
            (Some(first), Some(last)) => Some((first.first_ms, last.last_ms)),
            _ => None,
        },
        dropped: told.dropped,
        crowded: names.crowded(&viewers, told.requests),
    };
    let shards = (0..).zip(writers).filter_map(|(shard, writer)| {
        let requests = writer.finish(&names);
        (requests.count > 0).then(|| (shard, StoredKind::Piece.framed(&requests)))
    });
    Ok(LogPiece {
        head: StoredKind::Piece.framed(&head),
        shards: shards.collect(),
    })
}

/// Names of one kind, and their final numbers in the piece.
struct KindNames {
    names: Names,
    numbers: Renumber,
}

impl KindNames {
    fn of(interner: Interner) -> Self {
        let (names, numbers) = interner.finish();
        Self { names, numbers }
    }

    fn bytes(&self, number: u32) -> Vec<u8> {
        self.names.bytes(number).into_owned()
    }

    fn all(&self) -> Vec<Vec<u8>> {
        (0..self.names.len() as u32)
            .map(|number| self.bytes(number))
            .collect()
    }

    fn these(&self, list: &NumberList) -> Vec<Vec<u8>> {
        list.numbers
            .iter()
            .map(|number| self.bytes(*number))
            .collect()
    }
}

/// All names of a piece.
struct PieceNames {
    sessions: KindNames,
    viewers: KindNames,
    files: KindNames,
    devices: KindNames,
    disks: KindNames,
}

impl PieceNames {
    fn of(names: Interners) -> Self {
        Self {
            sessions: KindNames::of(names.sessions),
            viewers: KindNames::of(names.viewers),
            files: KindNames::of(names.files),
            devices: KindNames::of(names.devices),
            disks: KindNames::of(names.disks),
        }
    }

    /// The viewer of a request, if it has no session id.
    fn viewer(&self, session: u32) -> Option<u32> {
        let viewer = (session & VIEWER != 0).then_some(session & !VIEWER)?;
        self.viewers.numbers.of(viewer)
    }

    /// All files except those of which only the files table tells, which every reader has.
    fn files_told(&self, table: &FilesTable, told: &ThreadResults) -> Vec<(Vec<u8>, FileHint)> {
        let mut hints = vec![FileHint::default(); self.files.names.len()];
        let place = |file: u32| self.files.numbers.of(file).map(|number| number as usize);
        for (file, hint) in &told.hints {
            if let Some(place) = place(*file) {
                hints[place] = *hint;
            }
        }
        let mut in_table = vec![false; hints.len()];
        let rows = table.rows.iter();
        rows.filter_map(|row| place(row.file))
            .for_each(|place| in_table[place] = true);
        (0..)
            .zip(hints)
            .zip(in_table)
            .filter(|((_, hint), in_table)| !in_table || *hint != FileHint::default())
            .map(|((file, hint), _)| (self.files.bytes(file), hint))
            .collect()
    }

    /// The address with more than half of these requests, by viewer. An address that has more than
    /// half of the requests of a log has more than half of those of some piece.
    fn crowded(&self, viewers: &QuickMap<u32, u64>, requests: u64) -> Option<Vec<u8>> {
        let (mut address, mut count) = (Vec::new(), 0);
        // Viewers with the same address are neighbours in the order of their names.
        for viewer in 0..self.viewers.names.len() as u32 {
            let name = self.viewers.names.bytes(viewer);
            if address_of(&name) != address {
                address = address_of(&name).to_vec();
                count = 0;
            }
            count += viewers.get(&viewer).copied().unwrap_or(0);
            if count * 2 > requests {
                return Some(address);
            }
        }
        None
    }
}

/// Numbers in the order of their first use.
#[derive(Default)]
struct NumberList {
    places: QuickMap<u32, u32>,
    numbers: Vec<u32>,
}

impl NumberList {
    /// The place of a number, which is added if it is new.
    fn place(&mut self, number: u32) -> u32 {
        let next = self.numbers.len() as u32;
        let place = *self.places.entry(number).or_insert(next);
        if place == next {
            self.numbers.push(number);
        }
        place
    }
}

/// Requests of a shard, being collected.
#[derive(Default)]
struct ShardWriter {
    sessions: NumberList,
    viewers: NumberList,
    files: NumberList,
    devices: NumberList,
    disks: NumberList,
    records: Encoder,
}

impl ShardWriter {
    /// Adds a request; `None` if one of its numbers was never assigned.
    fn push(&mut self, names: &PieceNames, mut record: Record) -> Option<()> {
        let request = &mut record.request;
        request.session = match names.viewer(request.session) {
            Some(viewer) => VIEWER | self.viewers.place(viewer),
            None => {
                let session = names.sessions.numbers.of(request.session)?;
                self.sessions.place(session)
            }
        };
        request.file = self.files.place(names.files.numbers.of(request.file)?);
        record.device = self.devices.place(names.devices.numbers.of(record.device)?);
        if record.disk != DISK_UNKNOWN {
            record.disk = self.disks.place(names.disks.numbers.of(record.disk)?);
        }
        self.records.push(&record);
        Some(())
    }

    fn finish(mut self, names: &PieceNames) -> PieceRequests {
        let (records, count) = self.records.take();
        PieceRequests {
            sessions: names.sessions.these(&self.sessions),
            viewers: names.viewers.these(&self.viewers),
            files: names.files.these(&self.files),
            devices: names.devices.these(&self.devices),
            disks: names.disks.these(&self.disks),
            records,
            count,
        }
    }
}
