//! The tables written by a characterisation: `requests`, `chains`, `phases`, `sessions`.
//!
//! Sessions, files and titles have their names from the log, so that the tables can be joined with
//! it.

use headlong_chains::{Chain, Request};

use super::write::{ColumnSpec, ColumnType, RowCells, TableRow};
use crate::intake::IntakeResult;

use ColumnType::{Flag, Int, Real, Text};

/// A request with names instead of numbers. Such a table is itself a request log and can be read
/// again.
#[derive(Debug, Clone, Copy)]
pub struct RequestRow<'a> {
    /// Source of the names.
    pub names: &'a IntakeResult,
    /// The request.
    pub request: Request,
}

impl TableRow for RequestRow<'_> {
    const COLUMNS: &'static [ColumnSpec] = &[
        ColumnSpec::new("ts_ms", Int),
        ColumnSpec::new("service_ms", Int),
        ColumnSpec::new("session", Text),
        ColumnSpec::new("device", Text),
        ColumnSpec::new("file", Text),
        ColumnSpec::new("offset", Int),
        ColumnSpec::new("size", Int),
        ColumnSpec::new("bytes", Int),
        ColumnSpec::new("disk", Int),
    ];

    fn write(&self, cells: &mut RowCells<'_>) {
        let Self { names, request } = self;
        cells.int(request.completed_ms);
        cells.int(request.completed_ms - request.received_ms);
        cells.text(names.session_names.get(request.session));
        cells.text(names.devices.get(u32::from(request.device)));
        cells.text(names.file_names.get(request.file));
        cells.maybe_int(request.is_placed().then_some(request.offset));
        cells.maybe_int(request.asked_bytes);
        cells.int(request.sent_bytes);
        cells.int(request.disk);
    }
}

/// A chain with names instead of numbers, and the properties of its file.
#[derive(Debug, Clone, Copy)]
pub struct ChainRow<'a> {
    /// Source of the names.
    pub names: &'a IntakeResult,
    /// The chain.
    pub chain: Chain,
}

impl TableRow for ChainRow<'_> {
    const COLUMNS: &'static [ColumnSpec] = &[
        ColumnSpec::new("session", Text),
        ColumnSpec::new("file", Text),
        ColumnSpec::new("title", Text),
        ColumnSpec::new("kind", Int),
        ColumnSpec::new("kbps", Int),
        ColumnSpec::new("start", Int),
        ColumnSpec::new("length", Int),
        ColumnSpec::new("t_start", Int),
        ColumnSpec::new("t_end", Int),
        ColumnSpec::new("open", Flag),
        ColumnSpec::new("mixed", Flag),
        ColumnSpec::new("nreq", Int),
        ColumnSpec::new("disk", Int),
    ];

    fn write(&self, cells: &mut RowCells<'_>) {
        let Self { names, chain } = self;
        let file = names.files.get(chain.file as usize);
        let told = names.files_told.get(chain.file as usize);
        cells.text(names.session_names.get(chain.session));
        cells.text(names.file_names.get(chain.file));
        match file {
            Some(file) => cells.text(names.title_names.get(file.title)),
            None => cells.empty(),
        }
        cells.maybe_int(file.map(|file| file.kind.number()));
        // Readers of the table take it for a value from a files table.
        let is_told = told.is_some_and(|told| told.kbps);
        cells.maybe_int(file.filter(|_| is_told).map(|file| file.kbps));
        cells.int(chain.start);
        cells.int(chain.length);
        cells.int(chain.start_ms);
        cells.int(chain.end_ms);
        cells.flag(chain.is_open);
        cells.flag(chain.is_mixed);
        cells.int(chain.requests);
        cells.int(chain.disk);
    }
}

/// A phase of a session (thesis 5.4).
#[derive(Debug, Clone, Copy)]
pub struct PhaseRow<'a> {
    /// Source of the names.
    pub names: &'a IntakeResult,
    /// Session number.
    pub session: u32,
    /// `transient`, `stable` or `inactive`.
    pub kind: &'a str,
    /// Start, ms.
    pub start_ms: i64,
    /// End, ms.
    pub end_ms: i64,
    /// Chains in it.
    pub chains: u64,
    /// Requests in it.
    pub requests: u64,
    /// Bytes sent in it.
    pub bytes: u64,
}

impl TableRow for PhaseRow<'_> {
    const COLUMNS: &'static [ColumnSpec] = &[
        ColumnSpec::new("session", Text),
        ColumnSpec::new("kind", Text),
        ColumnSpec::new("t_start", Int),
        ColumnSpec::new("t_end", Int),
        ColumnSpec::new("chains", Int),
        ColumnSpec::new("nreq", Int),
        ColumnSpec::new("bytes", Int),
    ];

    fn write(&self, cells: &mut RowCells<'_>) {
        cells.text(self.names.session_names.get(self.session));
        cells.text(self.kind);
        cells.int(self.start_ms);
        cells.int(self.end_ms);
        cells.int(self.chains);
        cells.int(self.requests);
        cells.int(self.bytes);
    }
}

/// A session.
#[derive(Debug, Clone, Copy)]
pub struct SessionRow<'a> {
    /// Source of the names.
    pub names: &'a IntakeResult,
    /// Session number.
    pub session: u32,
    /// Device number.
    pub device: u16,
    /// Title number of the first file requested.
    pub title: u32,
    /// First arrival, ms.
    pub start_ms: i64,
    /// Last completion, ms.
    pub end_ms: i64,
    /// Number of requests.
    pub requests: u64,
    /// Number of chains.
    pub chains: u64,
    /// Number of files requested.
    pub files: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Mean bit rate, weighted by bytes, kbit/s.
    pub kbps_mean: f64,
    /// Whether statistics exclude it (it started in the last hour, A16).
    pub is_left_out: bool,
}

impl TableRow for SessionRow<'_> {
    const COLUMNS: &'static [ColumnSpec] = &[
        ColumnSpec::new("session", Text),
        ColumnSpec::new("device", Text),
        ColumnSpec::new("title", Text),
        ColumnSpec::new("t_start", Int),
        ColumnSpec::new("t_end", Int),
        ColumnSpec::new("nreq", Int),
        ColumnSpec::new("chains", Int),
        ColumnSpec::new("files", Int),
        ColumnSpec::new("bytes", Int),
        ColumnSpec::new("kbps_mean", Real),
        ColumnSpec::new("left_out", Flag),
    ];

    fn write(&self, cells: &mut RowCells<'_>) {
        cells.text(self.names.session_names.get(self.session));
        cells.text(self.names.devices.get(u32::from(self.device)));
        cells.text(self.names.title_names.get(self.title));
        cells.int(self.start_ms);
        cells.int(self.end_ms);
        cells.int(self.requests);
        cells.int(self.chains);
        cells.int(self.files);
        cells.int(self.bytes);
        cells.real(self.kbps_mean);
        cells.flag(self.is_left_out);
    }
}
