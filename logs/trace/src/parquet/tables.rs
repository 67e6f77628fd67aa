//! The tables written by a characterisation: `requests`, `chains`, `phases`, `sessions`.
//!
//! Sessions, files and titles have their names from the log, so that the tables can be joined with
//! it.

use headlong_chains::{Chain, FileInfo, Request};

use super::schemas::{self, TableSchema};
use super::write::{Columns, TableRow};
use crate::intake::IntakeResult;

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
    const SCHEMA: Option<TableSchema> = Some(schemas::REQUESTS);

    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .int("ts_ms", |row| Some(row.request.completed_ms))
            .int("service_ms", |row| {
                Some(row.request.completed_ms - row.request.received_ms)
            })
            .text("session", |row| {
                Some(row.names.session_names.get(row.request.session))
            })
            .text("device", |row| {
                Some(row.names.devices.get(row.request.device.into()))
            })
            .text("file", |row| {
                Some(row.names.file_names.get(row.request.file))
            })
            .int("offset", |row| {
                row.request.is_placed().then_some(row.request.offset)
            })
            .int("size", |row| row.request.asked_bytes)
            .int("bytes", |row| Some(row.request.sent_bytes))
            .int("disk", |row| Some(row.request.disk))
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

impl ChainRow<'_> {
    fn file(&self) -> Option<&FileInfo> {
        self.names.files.get(self.chain.file as usize)
    }

    /// The bit rate of its file, if a files table has it: readers would take an estimate for one.
    fn kbps(&self) -> Option<u32> {
        let told = self.names.files_told.get(self.chain.file as usize)?;
        self.file().filter(|_| told.kbps).map(|file| file.kbps)
    }
}

impl TableRow for ChainRow<'_> {
    const SCHEMA: Option<TableSchema> = Some(schemas::CHAINS);

    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .text("session", |row| {
                Some(row.names.session_names.get(row.chain.session))
            })
            .text("file", |row| Some(row.names.file_names.get(row.chain.file)))
            .text("title", |row| {
                Some(row.names.title_names.get(row.file()?.title))
            })
            .int("kind", |row| Some(row.file()?.kind.number()))
            .int("kbps", Self::kbps)
            .int("start", |row| Some(row.chain.start))
            .int("length", |row| Some(row.chain.length))
            .int("t_start", |row| Some(row.chain.start_ms))
            .int("t_end", |row| Some(row.chain.end_ms))
            .flag("open", |row| Some(row.chain.is_open))
            .flag("mixed", |row| Some(row.chain.is_mixed))
            .int("nreq", |row| Some(row.chain.requests))
            .int("disk", |row| Some(row.chain.disk))
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
    const SCHEMA: Option<TableSchema> = Some(schemas::PHASES);

    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .text("session", |row| {
                Some(row.names.session_names.get(row.session))
            })
            .text("kind", |row| Some(row.kind))
            .int("t_start", |row| Some(row.start_ms))
            .int("t_end", |row| Some(row.end_ms))
            .int("chains", |row| Some(row.chains))
            .int("nreq", |row| Some(row.requests))
            .int("bytes", |row| Some(row.bytes))
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
    /// Whether statistics exclude it (it still runs at the end of the log, A16).
    pub is_left_out: bool,
}

impl TableRow for SessionRow<'_> {
    const SCHEMA: Option<TableSchema> = Some(schemas::SESSIONS);

    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .text("session", |row| {
                Some(row.names.session_names.get(row.session))
            })
            .text("device", |row| {
                Some(row.names.devices.get(row.device.into()))
            })
            .text("title", |row| Some(row.names.title_names.get(row.title)))
            .int("t_start", |row| Some(row.start_ms))
            .int("t_end", |row| Some(row.end_ms))
            .int("nreq", |row| Some(row.requests))
            .int("chains", |row| Some(row.chains))
            .int("files", |row| Some(row.files))
            .int("bytes", |row| Some(row.bytes))
            .real("kbps_mean", |row| Some(row.kbps_mean))
            .flag("left_out", |row| Some(row.is_left_out))
    }
}
