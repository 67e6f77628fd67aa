//! Rows of a chain table: the order of their names, their two forms, and where they wait.
//!
//! There is one run of rows per session; the runs of each partition are in order of sessions. Rows
//! of text wait as they are written, those of a Parquet table as records of fixed size.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::Path;

use headlong_chains::Chain;

use crate::cell_text::{decimal, put_number, quote};
use crate::names::{Name, Names};
use crate::parquet::{Columns, TableError, TableWriter};
use crate::partitions::PartitionsError;
use crate::spill::{Spill, SpilledBytes, StoredBytes};

/// Why a chain table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ChainTableError {
    /// The requests could not be read back.
    #[error(transparent)]
    Parts(#[from] PartitionsError),
    /// The temporary file of rows failed.
    #[error("the temporary file of chain rows failed: {0}; check the folder of the table")]
    Wait(#[from] io::Error),
    /// The table could not be written.
    #[error("cannot write the chain table {path}: {source}; check its folder")]
    Write {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The same for Parquet.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Sort order of names in a table: by value if all are numbers, otherwise by bytes. Maps
/// between name numbers and positions in a table.
#[derive(Debug)]
pub(super) struct NameOrder<'a> {
    names: &'a Names,
    /// Position by number, and number by position; `None` if they are equal.
    moved: Option<(Vec<u32>, Vec<u32>)>,
}

impl<'a> NameOrder<'a> {
    pub(super) fn of(names: &'a Names) -> Self {
        let is_number = |name| matches!(name, Name::Number(_));
        let count = names.len() as u32;
        // Numeric names come first, by value, and all others follow by bytes; only a mixture needs
        // another order.
        let is_mixed = count > 0 && is_number(names.get(0)) && !is_number(names.get(count - 1));
        let moved = is_mixed.then(|| {
            let mut order: Vec<u32> = (0..count).collect();
            order.sort_by(|&one, &other| compare(names.get(one), names.get(other)));
            let mut places = vec![0; order.len()];
            for (&number, place) in order.iter().zip(0..) {
                places[number as usize] = place;
            }
            (places, order)
        });
        Self { names, moved }
    }

    /// Whether positions equal numbers.
    pub(super) fn is_as_numbered(&self) -> bool {
        self.moved.is_none()
    }

    /// Whether every name is an integer that fits in a signed 64-bit value.
    pub(super) fn is_of_numbers(&self) -> bool {
        let greatest = self.names.as_numbers().and_then(<[u64]>::last);
        greatest.is_some_and(|number| i64::try_from(*number).is_ok())
    }

    /// The position of a name.
    pub(super) fn place(&self, number: u32) -> u32 {
        match &self.moved {
            Some((places, _)) => places.get(number as usize).copied().unwrap_or(number),
            None => number,
        }
    }

    /// The name at a position.
    pub(super) fn name(&self, place: u32) -> Name<'a> {
        let number = match &self.moved {
            Some((_, order)) => order.get(place as usize).copied().unwrap_or(place),
            None => place,
        };
        self.names.get(number)
    }
}

/// By bytes; parts of one name in the order of the parts.
fn compare(one: Name<'_>, other: Name<'_>) -> Ordering {
    fn key(name: Name<'_>) -> (Cow<'_, [u8]>, u32) {
        match name {
            Name::Text(text) => (text.into(), 0),
            Name::Part(text, part) => (text.into(), part),
            Name::Number(_) | Name::Unknown(_) => (name.to_string().into_bytes().into(), 0),
        }
    }
    key(one).cmp(&key(other))
}

/// Appends the rows of one session.
pub(super) fn append_text(
    rows: &mut Vec<u8>,
    chains: &[Chain],
    sessions: &NameOrder<'_>,
    files: &NameOrder<'_>,
) {
    let Some(first) = chains.first() else {
        return;
    };
    let mut session = Vec::new();
    put_name(&mut session, sessions.name(first.session));
    for chain in chains {
        rows.extend_from_slice(&session);
        rows.push(b',');
        put_name(rows, files.name(chain.file));
        rows.push(b',');
        put_digits(rows, chain.start);
        rows.push(b',');
        put_digits(rows, chain.length);
        for moment_ms in [chain.start_ms, chain.end_ms] {
            rows.push(b',');
            put_number(rows, moment_ms, 0);
        }
        rows.extend_from_slice(if chain.is_open { b",1," } else { b",0," });
        put_digits(rows, chain.requests.into());
        rows.push(b'\n');
    }
}

/// Writes a name as it was in the log; quoted if it would be read as several cells.
pub(super) fn put_name(rows: &mut Vec<u8>, name: Name<'_>) {
    if let Name::Number(number) = name {
        return put_digits(rows, number);
    }
    let from = rows.len();
    write!(rows, "{name}").expect("write to memory");
    quote(rows, from);
}

fn put_digits(rows: &mut Vec<u8>, number: u64) {
    rows.extend_from_slice(decimal(number, &mut [0; 20]));
}

/// Bytes of a buffered chain: file, start, length, start and end time, open, requests.
const RECORD_BYTES: usize = 4 + 4 * 8 + 1 + 4;

/// Appends the chains of one session.
pub(super) fn append_records(rows: &mut Vec<u8>, chains: &[Chain]) {
    for chain in chains {
        rows.extend_from_slice(&chain.file.to_le_bytes());
        rows.extend_from_slice(&chain.start.to_le_bytes());
        rows.extend_from_slice(&chain.length.to_le_bytes());
        rows.extend_from_slice(&chain.start_ms.to_le_bytes());
        rows.extend_from_slice(&chain.end_ms.to_le_bytes());
        rows.push(u8::from(chain.is_open));
        rows.extend_from_slice(&chain.requests.to_le_bytes());
    }
}

/// A row of a Parquet table.
struct ChainTableRow<'a> {
    /// Of the session and the file.
    names: [Name<'a>; 2],
    start: u64,
    length: u64,
    start_ms: i64,
    end_ms: i64,
    is_open: bool,
    requests: u32,
}

/// The columns of a Parquet table: names are integers if all of them are.
fn columns<'a>(orders: [&NameOrder<'_>; 2]) -> Columns<ChainTableRow<'a>> {
    let titles = ["session", "file"].into_iter().zip(orders).enumerate();
    let names = titles.fold(
        Columns::empty(),
        |columns, (place, (title, order))| match order.is_of_numbers() {
            true => columns.int(title, move |row: &ChainTableRow<'_>| {
                match row.names[place] {
                    Name::Number(number) => Some(number),
                    _ => None,
                }
            }),
            false => columns.text(title, move |row: &ChainTableRow<'_>| Some(row.names[place])),
        },
    );
    names
        .int("start", |row| Some(row.start))
        .int("length", |row| Some(row.length))
        .int("t_start", |row| Some(row.start_ms))
        .int("t_end", |row| Some(row.end_ms))
        .flag("open", |row| Some(row.is_open))
        .int("nreq", |row| Some(row.requests))
}

/// Writes a table joined as columns, given the orders of its sessions and files, and its rows.
pub(super) fn write_columns(
    (sessions, files): (&NameOrder<'_>, &NameOrder<'_>),
    pieces: &CollectedRows,
    (file, path): (File, &Path),
) -> Result<(), ChainTableError> {
    let mut writer = TableWriter::into_file(file, path, columns([sessions, files]))?;
    pieces.each(|piece, rows| {
        let session = sessions.name(piece.session);
        for _ in 0..piece.bytes / RECORD_BYTES as u64 {
            let mut record = [0; RECORD_BYTES];
            rows.read_exact(&mut record)?;
            writer.push(&decode(&record, session, files))?;
        }
        Ok::<_, ChainTableError>(())
    })?;
    Ok(writer.finish()?)
}

fn decode<'a>(
    record: &[u8; RECORD_BYTES],
    session: Name<'a>,
    files: &NameOrder<'a>,
) -> ChainTableRow<'a> {
    let mut from = 0;
    let mut word = |bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&record[from..from + bytes]);
        from += bytes;
        u64::from_le_bytes(word)
    };
    ChainTableRow {
        names: [session, files.name(word(4) as u32)],
        start: word(8),
        length: word(8),
        start_ms: word(8).cast_signed(),
        end_ms: word(8).cast_signed(),
        is_open: word(1) != 0,
        requests: word(4) as u32,
    }
}

/// Rows of one session of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionRows {
    /// Position of its name in the table's order.
    pub(super) session: u32,
    pub(super) bytes: u64,
}

/// Rows of a partition, and where they are stored.
#[derive(Debug)]
pub(super) struct PartitionRows {
    pieces: Vec<SessionRows>,
    place: StoredBytes,
}

/// Collects rows of partitions, from any thread.
#[derive(Debug)]
pub(super) struct RowCollector(Spill);

impl RowCollector {
    /// Keeps that many bytes in memory; further ones go to a file in this folder.
    pub(super) fn new(folder: &Path, keep_bytes_max: u64) -> Self {
        Self(Spill::new(folder.to_owned(), keep_bytes_max))
    }

    /// Stores the rows of a partition.
    pub(super) fn put(&self, pieces: Vec<SessionRows>, rows: Vec<u8>) -> io::Result<PartitionRows> {
        let place = self.0.put(rows)?;
        Ok(PartitionRows { pieces, place })
    }

    /// All partitions, in any order.
    pub(super) fn finish(self, parts: Vec<PartitionRows>) -> CollectedRows {
        CollectedRows {
            parts,
            spilled: self.0.finish(),
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct CollectedRows {
    parts: Vec<PartitionRows>,
    spilled: SpilledBytes,
}

impl CollectedRows {
    /// Bytes spilled to a file.
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes
    }

    /// Passes all runs in order of sessions to `take`, each as a reader that must be read to its
    /// end. Spilled partitions are read through buffers, so that the file is not read run by run.
    pub(super) fn each<E: From<io::Error>>(
        &self,
        mut take: impl FnMut(SessionRows, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut order: Vec<(SessionRows, usize)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            order.extend(part.pieces.iter().map(|piece| (*piece, number)));
        }
        order.sort_by_key(|(piece, part)| (piece.session, *part));
        let mut readers: Vec<Box<dyn Read + '_>> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            readers.push(match &part.place {
                StoredBytes::Memory(rows) => Box::new(rows.as_slice()),
                StoredBytes::Spilled { offset, .. } => {
                    let (spilled, offset) = (&self.spilled, *offset);
                    Box::new(BufReader::with_capacity(
                        1 << 16,
                        SpilledReader { spilled, offset },
                    ))
                }
            });
        }
        for (piece, part) in order {
            let mut rows = (&mut readers[part]).take(piece.bytes);
            take(piece, &mut rows)?;
            if rows.limit() > 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        Ok(())
    }
}

/// Reader of the spilled bytes from an offset.
struct SpilledReader<'a> {
    spilled: &'a SpilledBytes,
    offset: u64,
}

impl Read for SpilledReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.spilled.read_at(buffer, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
