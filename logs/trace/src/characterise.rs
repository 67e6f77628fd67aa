//! Characterises a log: sums all partitions on all cores, and writes tables for other programs.
//!
//! Invariant: the same tables and figures, byte for byte, for any number of threads.

use std::path::{Path, PathBuf};

use headlong_chains::{ChainRules, Request};
use headlong_characterise::{Characterisation, LogContext, SessionSplitter, SessionView};

use crate::ordered_turns::OrderedTurns;
use crate::shards::{LogConstants, PartialSums, ShardError, sum_sessions};
use crate::{
    ChainRow, IntakeResult, PartitionsError, PhaseRow, RequestRow, SessionRow, TableError,
    TableWriter,
};

/// Settings.
#[derive(Debug, Clone)]
pub struct CharacteriseSettings {
    /// Rules for joining requests to chains.
    pub rules: ChainRules,
    /// Threads.
    pub threads: usize,
    /// An existing folder for `requests.parquet`, `chains.parquet`, `phases.parquet` and
    /// `sessions.parquet`.
    pub tables: Option<PathBuf>,
    /// Title of the report; if empty, the names of the logs.
    pub title: String,
    /// The command line, for the report.
    pub command: String,
}

/// Why characterisation failed.
#[derive(Debug, thiserror::Error)]
pub enum CharacteriseError {
    /// Requests could not be read back.
    #[error(transparent)]
    Parts(#[from] PartitionsError),
    /// A table could not be written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The sums could not be reported.
    #[error(transparent)]
    Shards(#[from] ShardError),
}

/// Characterises a log. `done` is called with the number of requests processed so far.
///
/// # Errors
/// If requests cannot be read back, or tables cannot be written.
pub fn characterise(
    taken: &IntakeResult,
    settings: &CharacteriseSettings,
    done: impl Fn(u64) + Sync,
) -> Result<Characterisation, CharacteriseError> {
    let sums = characterise_sums(taken, settings, done)?;
    Ok(sums.report(&settings.title, &settings.command)?)
}

/// The sums of a log, as its only shard. `done` is called with the number of requests processed so
/// far.
///
/// # Errors
/// If requests cannot be read back, or tables cannot be written.
pub fn characterise_sums(
    taken: &IntakeResult,
    settings: &CharacteriseSettings,
    done: impl Fn(u64) + Sync,
) -> Result<PartialSums, CharacteriseError> {
    let constants = LogConstants::of(taken, settings.threads)?;
    let log = constants.context();
    let tables = match &settings.tables {
        Some(folder) => Some(OrderedTurns::new(TableWriters::create(folder)?)),
        None => None,
    };
    let put_rows = |number, splitter: &mut SessionSplitter, requests: &mut [Request]| {
        let Some(tables) = &tables else {
            return Ok(());
        };
        tables.take(number, |tables| {
            let mut outcome = Ok(());
            splitter.split(&log, requests, |view| {
                if outcome.is_ok() {
                    outcome = tables.push(taken, &log, view);
                }
            });
            Ok(outcome?)
        })
    };
    let how = (settings.rules, settings.threads);
    let in_turn = (put_rows, || tables.iter().for_each(OrderedTurns::give_up));
    let sums = sum_sessions::<CharacteriseError>(&taken.parts, &log, how, in_turn, done)?;
    if let Some(tables) = tables {
        tables.into_inner().finish()?;
    }
    Ok(PartialSums::whole(constants, settings.rules, sums))
}

/// File names of the tables.
pub const TABLES: [&str; 4] = [
    "requests.parquet",
    "chains.parquet",
    "phases.parquet",
    "sessions.parquet",
];

struct TableWriters<'a> {
    requests: TableWriter<RequestRow<'a>>,
    chains: TableWriter<ChainRow<'a>>,
    phases: TableWriter<PhaseRow<'a>>,
    sessions: TableWriter<SessionRow<'a>>,
}

impl<'a> TableWriters<'a> {
    fn create(folder: &Path) -> Result<Self, TableError> {
        let [requests, chains, phases, sessions] = TABLES;
        Ok(Self {
            requests: TableWriter::create(&folder.join(requests))?,
            chains: TableWriter::create(&folder.join(chains))?,
            phases: TableWriter::create(&folder.join(phases))?,
            sessions: TableWriter::create(&folder.join(sessions))?,
        })
    }

    fn push(
        &mut self,
        names: &'a IntakeResult,
        log: &LogContext,
        view: &SessionView<'_>,
    ) -> Result<(), TableError> {
        for request in view.requests {
            self.requests.push(&RequestRow {
                names,
                request: *request,
            })?;
        }
        for chain in view.chains {
            self.chains.push(&ChainRow {
                names,
                chain: *chain,
            })?;
        }
        self.push_phases(names, view)?;
        let bytes: u64 = view.requests.iter().map(|request| request.sent_bytes).sum();
        let weighted: f64 = view
            .requests
            .iter()
            .map(|r| r.sent_bytes as f64 * f64::from(log.file(r.file).kbps))
            .sum();
        let first = &view.requests[0];
        self.sessions.push(&SessionRow {
            names,
            session: view.session,
            device: first.device,
            title: log.file(first.file).title,
            start_ms: view.span.start_ms,
            end_ms: view.span.end_ms,
            requests: view.requests.len() as u64,
            chains: view.chains.len() as u64,
            files: view.files().count() as u64,
            bytes,
            kbps_mean: if bytes > 0 {
                weighted / bytes as f64
            } else {
                0.0
            },
            is_left_out: log.is_left_out(view.span),
        })
    }

    /// From chains of all files except audio; inactive phases are the same in both readings.
    fn push_phases(
        &mut self,
        names: &'a IntakeResult,
        view: &SessionView<'_>,
    ) -> Result<(), TableError> {
        let phases = view.phases[0];
        let mut rows: Vec<(i64, i64, &str, Vec<u32>)> = Vec::new();
        for cluster in &phases.transient {
            let span = cluster.span;
            rows.push((
                span.start_ms,
                span.end_ms,
                "transient",
                cluster.chains.clone(),
            ));
        }
        for place in &phases.stable {
            let chain = &view.chains[*place as usize];
            rows.push((chain.start_ms, chain.end_ms, "stable", vec![*place]));
        }
        for span in &phases.inactive {
            rows.push((span.start_ms, span.end_ms, "inactive", Vec::new()));
        }
        rows.sort();
        for (start_ms, end_ms, kind, chains) in rows {
            let all = || chains.iter().map(|place| &view.chains[*place as usize]);
            self.phases.push(&PhaseRow {
                names,
                session: view.session,
                kind,
                start_ms,
                end_ms,
                chains: chains.len() as u64,
                requests: all().map(|chain| u64::from(chain.requests)).sum(),
                bytes: all().map(|chain| chain.length).sum(),
            })?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), TableError> {
        self.requests.finish()?;
        self.chains.finish()?;
        self.phases.finish()?;
        self.sessions.finish()
    }
}
