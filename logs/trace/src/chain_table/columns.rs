//! Chains as a Parquet table. Until they are written, rows are kept as records of fixed size.

use std::fs::File;
use std::io;
use std::path::Path;

use headlong_chains::Chain;

use super::error::ChainTableError;
use super::order::Order;
use super::pieces::Pieces;
use crate::names::Name;
use crate::parquet::{Cells, Column, ColumnType, TableError, TableRow, TableWriter};

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
struct Row<'a, const SESSIONS: bool, const FILES: bool> {
    session: Name<'a>,
    file: Name<'a>,
    start: u64,
    length: u64,
    start_ms: i64,
    end_ms: i64,
    is_open: bool,
    requests: u32,
}

impl<const SESSIONS: bool, const FILES: bool> TableRow for Row<'_, SESSIONS, FILES> {
    const COLUMNS: &'static [Column] = &[
        Column::new("session", if SESSIONS { Int } else { Text }),
        Column::new("file", if FILES { Int } else { Text }),
        Column::new("start", Int),
        Column::new("length", Int),
        Column::new("t_start", Int),
        Column::new("t_end", Int),
        Column::new("open", Flag),
        Column::new("nreq", Int),
    ];

    fn write(&self, cells: &mut Cells<'_>) {
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

fn put_name<const NUMBER: bool>(cells: &mut Cells<'_>, name: Name<'_>) {
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
    orders: (&Order<'_>, &Order<'_>),
    pieces: &Pieces,
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
    (sessions, files): (&Order<'_>, &Order<'_>),
    pieces: &Pieces,
    (file, path): (File, &Path),
) -> Result<(), BufferError> {
    let mut writer = TableWriter::into_file(file, path)?;
    pieces.each(|piece, rows| {
        let session = sessions.name(piece.session);
        for _ in 0..piece.bytes / RECORD_BYTES as u64 {
            let mut record = [0; RECORD_BYTES];
            rows.read_exact(&mut record)?;
            let row: Row<'_, SESSIONS, FILES> = decode(&record, session, files);
            writer.push(&row)?;
        }
        Ok::<_, BufferError>(())
    })?;
    Ok(writer.finish()?)
}

fn decode<'a, const SESSIONS: bool, const FILES: bool>(
    record: &[u8; RECORD_BYTES],
    session: Name<'a>,
    files: &Order<'a>,
) -> Row<'a, SESSIONS, FILES> {
    let mut from = 0;
    let mut word = |bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&record[from..from + bytes]);
        from += bytes;
        u64::from_le_bytes(word)
    };
    Row {
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
