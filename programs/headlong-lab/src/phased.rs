//! Workloads of phases on the command line: logs, traces, files and figures of specifications like
//! `netflix-2014-catalog`.

use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use headlong_characterise::comparison;
use headlong_report::Output;
use headlong_trace::{Columns, TableForm, TableRow, TableWriter};
use headlong_workload::phased::{
    FILES_HEADER, LOG_HEADER, LogEntry, MODEL, PhasedCatalogue, PhasedSpecification, RequestLog,
    characterise,
};
use headlong_workload::preset;
use serde_json::json;

/// Default number of sessions generated and measured to describe a specification.
const DESCRIBED_SESSIONS: u64 = 10_000;
/// Output files of a log and its files table.
#[derive(Debug, clap::Args)]
pub(crate) struct LogFiles {
    /// Write a request log instead of a trace, as a server would, as CSV, or as Parquet if the name
    /// ends with .parquet. - is standard output. For specifications of phases only
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) log: Option<PathBuf>,
    /// Write the files table of the log, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) files: Option<PathBuf>,
}

impl LogFiles {
    /// Whether any of them was given.
    pub(crate) fn is_asked(&self) -> bool {
        self.log.is_some() || self.files.is_some()
    }

    /// Writes the given files.
    pub(crate) fn write(
        &self,
        specification: &PhasedSpecification,
        seed: u64,
    ) -> anyhow::Result<()> {
        let catalogue = PhasedCatalogue::of(&specification.catalogue);
        if let Some(path) = &self.files {
            written(path, |out| {
                writeln!(out, "{FILES_HEADER}")?;
                let mut line = Vec::new();
                for number in 0..catalogue.files.len() as u32 {
                    line.clear();
                    catalogue.write_file_csv(number, &mut line);
                    out.write_all(&line)?;
                }
                Ok(())
            })?;
        }
        let Some(path) = &self.log else {
            return Ok(());
        };
        let log = RequestLog::new(specification, &catalogue, seed);
        match TableForm::of(path) {
            TableForm::Text => written(path, |out| {
                writeln!(out, "{LOG_HEADER}")?;
                write_log(log, &catalogue, out)
            }),
            TableForm::Columns => {
                let mut table = TableWriter::create(path)?;
                for entry in log {
                    table.push(&LogRow::of(entry, &catalogue))?;
                }
                Ok(table.finish()?)
            }
        }
    }
}

/// A request as a row of a Parquet table, equivalent to a line of CSV.
struct LogRow {
    entry: LogEntry,
    disk: u16,
}

impl LogRow {
    fn of(entry: LogEntry, catalogue: &PhasedCatalogue) -> Self {
        let file = catalogue.files.get(entry.request.file as usize);
        let disk = file.map_or(0, |file| file.disk);
        Self { entry, disk }
    }
}

impl TableRow for LogRow {
    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .int("ts", |row| Some(row.entry.ts().max(0)))
            .int("service_ms", |row| Some(row.entry.service_ms().max(0)))
            .int("session", |row| Some(row.entry.session + 1))
            .int("device", |row| Some(row.entry.device + 1))
            .int("file", |row| Some(row.entry.request.file))
            .int("offset", |row| Some(row.entry.request.offset))
            .int("size", |row| row.entry.request.asked_bytes)
            .int("bytes", |row| Some(row.entry.request.sent_bytes))
            .int("disk", |row| Some(row.disk))
    }
}

fn write_log(
    log: impl Iterator<Item = LogEntry>,
    catalogue: &PhasedCatalogue,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut line = Vec::with_capacity(128);
    for entry in log {
        line.clear();
        entry.write_csv(catalogue, &mut line);
        out.write_all(&line)?;
    }
    Ok(())
}

/// Opens `path` (`-` is standard output) and passes it to `write`; a closed pipe is not an error. A
/// file appears when it is complete.
pub(crate) fn written(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let failed = |error| anyhow::anyhow!("{}: cannot be written: {error}", path.display());
    let result = if path == Path::new("-") {
        let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
        write(&mut out).and_then(|()| out.flush())
    } else {
        let output = Output::begin(path).map_err(failed)?;
        let mut out = BufWriter::with_capacity(1 << 20, output.file());
        let written = write(&mut out).and_then(|()| out.flush());
        drop(out);
        written.and_then(|()| output.finish())
    };
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe && path == Path::new("-") => Ok(()),
        other => other.map_err(failed),
    }
}

/// `workload describe` for a specification of phases: the statistics of a log of it compared with
/// the thesis.
pub(crate) fn describe(
    specification: PhasedSpecification,
    sessions: Option<u64>,
    seed: u64,
    as_json: bool,
) -> String {
    let count = sessions.unwrap_or(DESCRIBED_SESSIONS.min(specification.sessions.count));
    let full = specification.sessions.count;
    let specification = specification.scaled(count);
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let result = characterise(&specification, &catalogue, seed);
    let figures = comparison(&result);
    let is_published = preset::text(&specification.name).is_some();
    if as_json {
        let rows: Vec<_> = figures
            .iter()
            .map(|figure| {
                let published = figure.published.filter(|_| is_published);
                json!({
                    "figure": figure.name,
                    "ours": figure.ours,
                    "published": published,
                    "source": figure.source,
                })
            })
            .collect();
        let value = json!({
            "version": 1,
            "name": specification.name,
            "model": MODEL,
            "sessions": result.sessions,
            "seed": seed,
            "figures": rows,
        });
        return format!("{value:#}\n");
    }
    let mut page = String::new();
    let bytes: u64 = catalogue.files.iter().map(|file| file.size).sum();
    let _ = writeln!(
        page,
        "{}: {count} sessions of {full}, seed {seed}\n",
        specification.name
    );
    let _ = writeln!(
        page,
        "  {} titles in {} files, {:.1} TB on {} drives",
        catalogue.titles.len(),
        catalogue.files.len(),
        bytes as f64 / 1e12,
        specification.catalogue.drives
    );
    let head = if is_published { "published" } else { "" };
    let _ = writeln!(
        page,
        "\n  {:<38} {:>12} {head:>10}",
        "counts and bytes as of 126,064 sessions", "ours"
    );
    for figure in figures {
        let published = figure.published.filter(|_| is_published);
        let source = if published.is_some() {
            figure.source.as_str()
        } else {
            ""
        };
        let published = published.map_or(String::new(), |value| value.to_string());
        let line = format!(
            "  {:<38} {:>12.3} {published:>10}  {source}",
            figure.name, figure.ours
        );
        let _ = writeln!(page, "{}", line.trim_end());
    }
    page
}
