//! Chain tables: the chains of a log as a file that other programs read.
//!
//! The one idea: a session lies in one part, so parts become rows on all cores, each session's rows
//! in one piece, and the table is these pieces in order of sessions. What memory does not hold of
//! them waits in a file without a name.
//!
//! Invariants: same logs, same table, whatever the number of threads and the memory; a table is
//! there whole or not at all, as it has no name until its last byte is written.

mod columns;
mod error;
mod order;
mod pieces;
mod rows;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headlong_chains::{Chain, Joiner, Rules};
use headlong_report::Output;

use crate::intake::TakenIn;
pub use error::ChainTableError;
use order::Order;
use pieces::{Piece, Pieces, Waiting};

/// Columns of a chain table. Times are ms; `open` is 1 if the request at the lowest offset is
/// open-ended.
pub const CHAIN_COLUMNS: [&str; 8] = [
    "session", "file", "start", "length", "t_start", "t_end", "open", "nreq",
];

/// How a chain table is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainSettings {
    /// Which requests are one chain.
    pub rules: Rules,
    /// Threads that join and write rows.
    pub threads: usize,
    /// Bytes of rows that may wait in memory; the others wait in a file beside the table.
    pub keep_bytes_max: u64,
}

/// How a chain table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableForm {
    /// Comma-separated values under a line of [`CHAIN_COLUMNS`].
    Text,
    /// Parquet, with the same columns: `open` is a flag; sessions and files are whole numbers if
    /// all of them are, else texts.
    Columns,
}

impl TableForm {
    /// What the name of a file asks for.
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("parquet") => Self::Columns,
            _ => Self::Text,
        }
    }
}

/// What went into a chain table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainSums {
    /// Requests of the log.
    pub requests: u64,
    /// Requests in chains: all but those to which no byte was sent (A7).
    pub joined: u64,
    /// Sessions with a chain.
    pub sessions: u64,
    /// Chains.
    pub chains: u64,
    /// Sum of their lengths, bytes.
    pub bytes: u64,
    /// Chains of which the first request is open-ended.
    pub open: u64,
    /// Bytes of rows that waited in a file.
    pub spilled_bytes: u64,
}

/// A table that will be there when it is complete.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    output: Output,
}

impl TableFile {
    /// Begins one, so that a folder one may not write to is found before the work and not after it.
    pub fn begin(path: &Path) -> Result<Self, ChainTableError> {
        Ok(Self {
            path: path.to_owned(),
            output: Output::begin(path).map_err(|source| failed(path, source))?,
        })
    }

    /// Joins all requests of a log, writes the table and gives it its name.
    pub fn finish(
        self,
        log: &TakenIn,
        settings: &ChainSettings,
    ) -> Result<ChainSums, ChainTableError> {
        let Self { path, output } = self;
        let form = TableForm::of(&path);
        // Where the table has room, its rows have; beside a device or a pipe is nothing.
        let folder = output.folder().map(Path::to_owned);
        let folder = folder.unwrap_or_else(std::env::temp_dir);
        let table = ChainTable::join(log, settings, form, &folder)?;
        let written = match form {
            TableForm::Text => table.write(output.file()),
            TableForm::Columns => {
                let file = output.file().try_clone();
                let file = file.map_err(|source| failed(&path, source))?;
                columns::write(
                    (&table.sessions, &table.files),
                    &table.pieces,
                    (file, &path),
                )?;
                Ok(())
            }
        };
        written
            .and_then(|()| output.finish())
            .map_err(|source| failed(&path, source))?;
        Ok(table.sums)
    }
}

/// The rows of a chain table, waiting to be written.
#[derive(Debug)]
pub struct ChainTable<'a> {
    sessions: Order<'a>,
    files: Order<'a>,
    pieces: Pieces,
    /// What it tells.
    pub sums: ChainSums,
}

impl<'a> ChainTable<'a> {
    /// Joins all requests of a log. Rows that do not fit in memory wait in `folder`.
    pub fn join(
        log: &'a TakenIn,
        settings: &ChainSettings,
        form: TableForm,
        folder: &Path,
    ) -> Result<Self, ChainTableError> {
        let sessions = Order::of(&log.session_names);
        let files = Order::of(&log.file_names);
        let waiting = Waiting::new(folder, settings.keep_bytes_max);
        let done = log.parts.each_unsorted(settings.threads, |_, requests| {
            if !sessions.is_as_numbered() || !files.is_as_numbered() {
                for request in requests.iter_mut() {
                    request.session = sessions.place(request.session);
                    request.file = files.place(request.file);
                }
            }
            let mut chains = Vec::new();
            Joiner::new(settings.rules).join(requests, &mut chains);
            let mut rows = Vec::with_capacity(chains.len() * 48);
            let mut pieces = Vec::new();
            for of_session in chains.chunk_by(|one, other| one.session == other.session) {
                let before = rows.len();
                match form {
                    TableForm::Text => rows::append(&mut rows, of_session, &sessions, &files),
                    TableForm::Columns => columns::append(&mut rows, of_session),
                }
                pieces.push(Piece {
                    session: of_session[0].session,
                    bytes: (rows.len() - before) as u64,
                });
            }
            let sums = ChainSums::of(requests.len(), &chains, pieces.len());
            waiting.put(pieces, rows).map(|rows| (sums, rows))
        })?;
        let mut sums = ChainSums::default();
        let mut parts = Vec::with_capacity(done.len());
        for part in done {
            let (of_part, rows) = part?;
            sums.add(&of_part);
            parts.push(rows);
        }
        let pieces = waiting.finish(parts);
        sums.spilled_bytes = pieces.spilled_bytes();
        Ok(Self {
            sessions,
            files,
            pieces,
            sums,
        })
    }

    /// Writes a table that was joined as [`TableForm::Text`].
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 18, out);
        writeln!(out, "{}", CHAIN_COLUMNS.join(","))?;
        self.pieces
            .each(|_, rows| io::copy(rows, &mut out).map(drop))?;
        out.flush()
    }
}

impl ChainSums {
    fn of(requests: usize, chains: &[Chain], sessions: usize) -> Self {
        let mut sums = Self {
            requests: requests as u64,
            sessions: sessions as u64,
            chains: chains.len() as u64,
            ..Self::default()
        };
        for chain in chains {
            sums.joined += u64::from(chain.requests);
            sums.bytes = sums.bytes.saturating_add(chain.length);
            sums.open += u64::from(chain.is_open);
        }
        sums
    }

    fn add(&mut self, part: &Self) {
        self.requests += part.requests;
        self.joined += part.joined;
        self.sessions += part.sessions;
        self.chains += part.chains;
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.open += part.open;
    }
}

fn failed(path: &Path, source: io::Error) -> ChainTableError {
    ChainTableError::Write {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
