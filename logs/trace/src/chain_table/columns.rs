//! Chains as a Parquet table. Until they are written, rows are kept as records of fixed size.

use std::fs::File;
use std::io;
use std::path::Path;

use headlong_chains::Chain;

use super::collected_rows::CollectedRows;
use super::error::ChainTableError;
use super::order::NameOrder;
use crate::names::Name;
use crate::parquet::{ColumnSpec, ColumnType, RowCells, TableError, TableRow, TableWriter};

use ColumnType::{Flag, Int, Text};

/// Bytes of a buffered chain: file, start, length, start and end time, open, requests.
const RECORD_BYTES: usize = 4 + 4 * 8 + 1 + 4;

/// Appends the chains of one session.
pub(super) fn append(rows: &mut Vec<u8>, chains: &[Chain]) {
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

/// A row; the const parameters say whether sessions and files are numbers.
struct ChainTableRow<'a, const SESSIONS: bool, const FILES: bool> {
    session: Name<'a>,
    file: Name<'a>,
    start: u64,
    length: u64,
    start_ms: i64,
    end_ms: i64,
    is_open: bool,
    requests: u32,
}

impl<const SESSIONS: bool, const FILES: bool> TableRow for ChainTableRow<'_, SESSIONS, FILES> {
    const COLUMNS: &'static [ColumnSpec] = &[
        ColumnSpec::new("session", if SESSIONS { Int } else { Text }),
        ColumnSpec::new("file", if FILES { Int } else { Text }),
        ColumnSpec::new("start", Int),
        ColumnSpec::new("length", Int),
        ColumnSpec::new("t_start", Int),
        ColumnSpec::new("t_end", Int),
        ColumnSpec::new("open", Flag),
        ColumnSpec::new("nreq", Int),
    ];

    fn write(&self, cells: &mut RowCells<'_>) {
        put_name::<SESSIONS>(cells, self.session);
        put_name::<FILES>(cells, self.file);
        cells.int(self.start);
        cells.int(self.length);
        cells.int(self.start_ms);
        cells.int(self.end_ms);
        cells.flag(self.is_open);
        cells.int(self.requests);
    }
}

fn put_name<const NUMBER: bool>(cells: &mut RowCells<'_>, name: Name<'_>) {
    match name {
        Name::Number(number) if NUMBER => cells.int(number),
        _ if NUMBER => cells.empty(),
        name => cells.text(name),
    }
}

/// Why a buffered chain did not become a row.
enum BufferError {
    Wait(io::Error),
    Table(TableError),
}

impl From<io::Error> for BufferError {
    fn from(error: io::Error) -> Self {
        Self::Wait(error)
    }
}

impl From<TableError> for BufferError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

impl From<BufferError> for ChainTableError {
    fn from(trouble: BufferError) -> Self {
        match trouble {
            BufferError::Wait(error) => error.into(),
            BufferError::Table(error) => error.into(),
        }
    }
}

/// Writes a table joined as columns, given the orders of its sessions and files, and its rows.
pub(super) fn write(
    orders: (&NameOrder<'_>, &NameOrder<'_>),
    pieces: &CollectedRows,
    to: (File, &Path),
) -> Result<(), ChainTableError> {
    let written = match (orders.0.is_of_numbers(), orders.1.is_of_numbers()) {
        (true, true) => write_as::<true, true>(orders, pieces, to),
        (true, false) => write_as::<true, false>(orders, pieces, to),
        (false, true) => write_as::<false, true>(orders, pieces, to),
        (false, false) => write_as::<false, false>(orders, pieces, to),
    };
    Ok(written?)
}

fn write_as<const SESSIONS: bool, const FILES: bool>(
    (sessions, files): (&NameOrder<'_>, &NameOrder<'_>),
    pieces: &CollectedRows,
    (file, path): (File, &Path),
) -> Result<(), BufferError> {
    let mut writer = TableWriter::into_file(file, path)?;
    pieces.each(|piece, rows| {
        let session = sessions.name(piece.session);
        for _ in 0..piece.bytes / RECORD_BYTES as u64 {
            let mut record = [0; RECORD_BYTES];
            rows.read_exact(&mut record)?;
            let row: ChainTableRow<'_, SESSIONS, FILES> = decode(&record, session, files);
            writer.push(&row)?;
        }
        Ok::<_, BufferError>(())
    })?;
    Ok(writer.finish()?)
}

fn decode<'a, const SESSIONS: bool, const FILES: bool>(
    record: &[u8; RECORD_BYTES],
    session: Name<'a>,
    files: &NameOrder<'a>,
) -> ChainTableRow<'a, SESSIONS, FILES> {
    let mut from = 0;
    let mut word = |bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&record[from..from + bytes]);
        from += bytes;
        u64::from_le_bytes(word)
    };
    ChainTableRow {
        session,
        file: files.name(word(4) as u32),
        start: word(8),
        length: word(8),
        start_ms: word(8).cast_signed(),
        end_ms: word(8).cast_signed(),
        is_open: word(1) != 0,
        requests: word(4) as u32,
    }
}
