//! Chain tables: the chains of a log as a file for other programs.
//!
//! A session lies in one partition, so partitions are converted to rows on all cores, with the rows
//! of each session together; the table is these runs in order of sessions. Rows beyond the memory
//! limit are spilled to an unnamed file.
//!
//! Invariants: the same logs give the same table, for any number of threads and any memory; a table
//! is complete or absent, because it gets its name after its last byte is written.

mod rows;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headlong_chains::{Chain, ChainRules, Joiner};
use headlong_report::Output;

use crate::intake::IntakeResult;
pub use rows::ChainTableError;
use rows::{CollectedRows, NameOrder, RowCollector, SessionRows};

/// Columns of a chain table. Times are ms; `open` is 1 if the request at the lowest offset is
/// open-ended.
pub const CHAIN_COLUMNS: [&str; 8] = [
    "session", "file", "start", "length", "t_start", "t_end", "open", "nreq",
];

/// Settings of a chain table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainSettings {
    /// Rules for joining requests to chains.
    pub rules: ChainRules,
    /// Threads that join and format rows.
    pub threads: usize,
    /// Bytes of rows kept in memory; further ones are spilled to a file beside the table.
    pub keep_bytes_max: u64,
}

/// File format of a chain table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableForm {
    /// Comma-separated values with a header of [`CHAIN_COLUMNS`].
    Text,
    /// Parquet with the same columns: `open` is a flag; sessions and files are integers if all of
    /// them are, otherwise texts.
    Columns,
}

impl TableForm {
    /// The format implied by a file name.
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("parquet") => Self::Columns,
            _ => Self::Text,
        }
    }
}

/// Totals of a chain table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainSums {
    /// Requests of the log.
    pub requests: u64,
    /// Requests in chains: all except those without a byte sent (A7).
    pub joined: u64,
    /// Sessions with a chain.
    pub sessions: u64,
    /// Chains.
    pub chains: u64,
    /// Sum of their lengths, bytes.
    pub bytes: u64,
    /// Chains whose first request is open-ended.
    pub open: u64,
    /// Bytes of rows spilled to a file.
    pub spilled_bytes: u64,
}

/// A table that appears when it is complete.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    output: Output,
}

impl TableFile {
    /// Creates the temporary file, so that an unwritable folder is reported before the work.
    pub fn begin(path: &Path) -> Result<Self, ChainTableError> {
        Ok(Self {
            path: path.to_owned(),
            output: Output::begin(path).map_err(|source| failed(path, source))?,
        })
    }

    /// Joins all requests of a log, writes the table and gives it its name.
    pub fn finish(
        self,
        log: &IntakeResult,
        settings: &ChainSettings,
    ) -> Result<ChainSums, ChainTableError> {
        let Self { path, output } = self;
        let form = TableForm::of(&path);
        // Spill beside the table, which has room; a device or a pipe has no folder.
        let folder = output.folder().map(Path::to_owned);
        let folder = folder.unwrap_or_else(std::env::temp_dir);
        let table = ChainTable::join(log, settings, form, &folder)?;
        let written = match form {
            TableForm::Text => table.write(output.file()),
            TableForm::Columns => {
                let file = output.file().try_clone();
                let file = file.map_err(|source| failed(&path, source))?;
                rows::write_columns(
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

/// The rows of a chain table, ready to be written.
#[derive(Debug)]
pub struct ChainTable<'a> {
    sessions: NameOrder<'a>,
    files: NameOrder<'a>,
    pieces: CollectedRows,
    /// Totals.
    pub sums: ChainSums,
}

impl<'a> ChainTable<'a> {
    /// Joins all requests of a log. Rows that do not fit in memory are spilled to `folder`.
    pub fn join(
        log: &'a IntakeResult,
        settings: &ChainSettings,
        form: TableForm,
        folder: &Path,
    ) -> Result<Self, ChainTableError> {
        let sessions = NameOrder::of(&log.session_names);
        let files = NameOrder::of(&log.file_names);
        let waiting = RowCollector::new(folder, settings.keep_bytes_max);
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
                    TableForm::Text => rows::append_text(&mut rows, of_session, &sessions, &files),
                    TableForm::Columns => rows::append_records(&mut rows, of_session),
                }
                pieces.push(SessionRows {
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

    /// Writes a table joined as [`TableForm::Text`].
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
