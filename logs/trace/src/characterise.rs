//! Characterises a log: sums all partitions on all cores, and writes tables for other programs.
//!
//! Invariant: the same tables and figures, byte for byte, for any number of threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};

use headlong_chains::ChainRules;
use headlong_characterise::{
    Accumulators, Characterisation, DEVICES_MAX, DroppedLines, LogContext, Merge as _, Provenance,
    SessionSplitter, SessionView,
};

use crate::names::QuickMap;
use crate::read::DropReason;
use crate::summary::summary;
use crate::{
    ChainRow, IntakeResult, Partitions, PartitionsError, PhaseRow, RequestRow, SessionRow,
    TableError, TableWriter,
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
}

/// Most memory used in addition to the limit of intake, bytes.
pub fn characterise_bytes_max(taken: &IntakeResult, threads: usize) -> u64 {
    let log = log_of(taken);
    threads.max(1) as u64 * Accumulators::bytes_max(&log)
}

fn log_of(taken: &IntakeResult) -> LogContext {
    let mut log = LogContext::new(taken.files.clone(), taken.span_ms);
    let devices = 0..taken.devices.len() as u32;
    log.mark_streams(&taken.streams);
    log.has_offsets = taken.has_offsets();
    log.devices = devices
        .map(|number| taken.devices.get(number).to_string())
        .collect();
    log
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
    let mut log = log_of(taken);
    if taken.devices.len() > DEVICES_MAX {
        log.count_devices(&sessions_by_device(taken, settings.threads)?);
    }
    let tables = match &settings.tables {
        Some(folder) => Some(OrderedTurns::new(TableWriters::create(folder)?)),
        None => None,
    };
    let all = sum_parts(taken, &log, settings, tables.as_ref(), &done)?;
    if let Some(tables) = tables {
        tables.into_inner().finish()?;
    }
    let names = all.top_titles().into_iter();
    log.title_names = names
        .map(|title| (title, taken.title_names.get(title).to_string()))
        .collect();
    let mut told = all.finish(&log, about(taken, settings));
    told.observed.name = name_of(taken, settings);
    Ok(told)
}

/// The number of sessions on each type of device.
fn sessions_by_device(taken: &IntakeResult, threads: usize) -> Result<Vec<u64>, PartitionsError> {
    let counts = taken.parts.each_unsorted(threads, |_, requests| {
        requests.sort_unstable_by_key(|r| (r.session, r.received_ms, r.line));
        let mut counts: QuickMap<u16, u64> = QuickMap::default();
        for session in requests.chunk_by(|one, other| one.session == other.session) {
            *counts.entry(session[0].device).or_default() += 1;
        }
        counts
    })?;
    let mut all = vec![0; taken.devices.len()];
    for (device, count) in counts.into_iter().flatten() {
        if let Some(sum) = all.get_mut(usize::from(device)) {
            *sum += count;
        }
    }
    Ok(all)
}

/// State of a thread, reused between partitions.
struct PartitionWorker {
    splitter: SessionSplitter,
    sums: Accumulators,
}

fn sum_parts<'a>(
    taken: &'a IntakeResult,
    log: &LogContext,
    settings: &CharacteriseSettings,
    tables: Option<&OrderedTurns<TableWriters<'a>>>,
    done: &(impl Fn(u64) + Sync),
) -> Result<Accumulators, CharacteriseError> {
    let workers: Mutex<Vec<PartitionWorker>> = Mutex::new(Vec::new());
    let so_far = AtomicU64::new(0);
    let parts: &Partitions = &taken.parts;
    let outcomes = parts.each_unsorted(settings.threads, |number, requests| {
        let free = workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = free.unwrap_or_else(|| PartitionWorker {
            splitter: SessionSplitter::new(settings.rules),
            sums: Accumulators::new(log),
        });
        let PartitionWorker { splitter, sums } = &mut worker;
        splitter.split(log, requests, |view| sums.add(log, view));
        let written = match tables {
            Some(tables) => tables.take(number, |tables| {
                let mut outcome = Ok(());
                splitter.split(log, requests, |view| {
                    if outcome.is_ok() {
                        outcome = tables.push(taken, log, view);
                    }
                });
                outcome
            }),
            None => Ok(()),
        };
        workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker);
        let count = requests.len() as u64;
        done(so_far.fetch_add(count, Relaxed) + count);
        written
    })?;
    outcomes.into_iter().collect::<Result<(), TableError>>()?;
    let workers = workers.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first takes in the others: a further accumulator would be as large as any of them.
    let mut workers = workers.into_iter().map(|worker| worker.sums);
    let mut all = workers.next().unwrap_or_else(|| Accumulators::new(log));
    workers.for_each(|sums| all.merge(sums));
    Ok(all)
}

/// The name of a specification fitted to the log.
fn name_of(taken: &IntakeResult, settings: &CharacteriseSettings) -> String {
    if !settings.title.is_empty() {
        return settings.title.clone();
    }
    let first = taken.logs.first().map(|log| Path::new(&log.name));
    let stem = first.and_then(Path::file_stem);
    stem.map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

fn about(taken: &IntakeResult, settings: &CharacteriseSettings) -> Provenance {
    let logs: Vec<String> = taken.logs.iter().map(|log| log.name.clone()).collect();
    // Lines that are left out as intended are in the notes.
    let lines_of = |is_meant: fn(DropReason) -> bool| {
        let lines = taken.dropped.by_reason().iter();
        let lines = lines.filter(|lines| is_meant(lines.reason));
        lines
            .map(|lines| DroppedLines {
                reason: lines.reason.to_string(),
                count: lines.count,
                sample: lines.samples.first().map_or(String::new(), |sample| {
                    let place = format!("{}:{}", sample.file, sample.line);
                    match sample.text.is_empty() {
                        true => place,
                        false => format!("{place}: {}", sample.text),
                    }
                }),
            })
            .collect()
    };
    let mut notes = summary(taken);
    if taken.requests == 0 {
        notes.push("no request can be used; every table is empty".into());
    }
    Provenance {
        title: settings.title.clone(),
        logs,
        format: taken.told_format.clone(),
        sessions_by: taken.sessions_by.to_string(),
        bytes: taken.bytes,
        requests: taken.requests,
        dropped: lines_of(|reason| !reason.is_other()),
        failures: lines_of(DropReason::is_failure),
        files_estimated: u64::from(taken.files_estimated),
        files: taken.files.len() as u64,
        notes,
        command: settings.command.clone(),
    }
}

/// A value that partitions use in order, although they are processed concurrently.
struct OrderedTurns<T> {
    held: Mutex<(usize, T)>,
    next: Condvar,
}

impl<T> OrderedTurns<T> {
    fn new(held: T) -> Self {
        Self {
            held: Mutex::new((0, held)),
            next: Condvar::new(),
        }
    }

    /// Waits until all earlier partitions have used the value. Partitions start in order, so the
    /// awaited one is always in progress.
    fn take<R>(&self, part: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self
            .next
            .wait_while(held, |held| held.0 < part)
            .unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut held.1);
        held.0 = held.0.max(part + 1);
        self.next.notify_all();
        result
    }

    fn into_inner(self) -> T {
        self.held
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .1
    }
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
