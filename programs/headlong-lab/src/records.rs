//! Writes individual calls to a file: comma-separated values, or Parquet if its name ends with
//! `.parquet`. All call figures of a result can be recomputed from it.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use headlong_player::ExportedCall;
use headlong_trace::{Columns, TableForm, TableRow, TableWriter};

use crate::mistake::Mistakes;
use headlong_report::say;

/// A call as a row.
struct CallRow(ExportedCall);

impl TableRow for CallRow {
    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .int("session", |row| Some(row.0.session))
            .int("request", |row| Some(row.0.record.call.0))
            .int("class", |row| Some(row.0.class))
            .flag("counts", |row| Some(row.0.counts))
            .real("intended_s", |row| Some(seconds(row.0.record.intended)))
            .real("sent_s", |row| Some(seconds(row.0.record.sent)))
            .real("first_byte_s", |row| row.0.record.first_byte.map(seconds))
            .real("ended_s", |row| Some(seconds(row.0.record.ended)))
            .int("bytes", |row| Some(row.0.record.bytes))
            .text("outcome", |row| Some(row.0.record.end.name()))
    }
}

fn seconds(at: headlong_units::Instant) -> f64 {
    at.0 as f64 / 1e9
}

/// An open output file.
pub(crate) struct RecordsFile {
    path: PathBuf,
    file: RecordsFormat,
}

enum RecordsFormat {
    Text(BufWriter<File>),
    Columns(Box<TableWriter<CallRow>>),
}

impl RecordsFile {
    /// Creates the file; an error here is a usage error.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let wrong = |error: String| Mistakes::of(format!("{}: {error}", path.display()));
        let file = match TableForm::of(path) {
            TableForm::Columns => {
                let table = TableWriter::create(path).map_err(|error| wrong(error.to_string()))?;
                RecordsFormat::Columns(Box::new(table))
            }
            TableForm::Text => {
                let file = File::create(path).map_err(|error| wrong(error.to_string()))?;
                let mut out = BufWriter::new(file);
                let columns = CallRow::columns();
                let names: Vec<_> = columns.names().collect();
                writeln!(out, "{}", names.join(","))?;
                RecordsFormat::Text(out)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Appends calls.
    pub(crate) fn add(&mut self, calls: &[ExportedCall]) -> anyhow::Result<()> {
        for call in calls {
            match &mut self.file {
                RecordsFormat::Columns(table) => table.push(&CallRow(*call))?,
                RecordsFormat::Text(out) => {
                    let ExportedCall { record, .. } = call;
                    let first_byte = record
                        .first_byte
                        .map_or(String::new(), |at| format!("{:.9}", seconds(at)));
                    writeln!(
                        out,
                        "{},{},{},{},{:.9},{:.9},{first_byte},{:.9},{},{}",
                        call.session,
                        record.call.0,
                        call.class,
                        u8::from(call.counts),
                        seconds(record.intended),
                        seconds(record.sent),
                        seconds(record.ended),
                        record.bytes,
                        record.end.name()
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Finishes the file.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self.file {
            RecordsFormat::Columns(table) => table.finish()?,
            RecordsFormat::Text(mut out) => out.flush()?,
        }
        say!("headlong: the records are {}", self.path.display());
        Ok(())
    }
}

/// Writes records on a separate thread, so that viewers never wait for the disk.
pub(crate) struct RecordsThread {
    calls: Sender<Vec<ExportedCall>>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl RecordsThread {
    pub(crate) fn start(mut records: RecordsFile) -> Self {
        let (calls, seen) = std::sync::mpsc::channel::<Vec<ExportedCall>>();
        let thread = std::thread::spawn(move || {
            seen.iter().try_for_each(|calls| records.add(&calls))?;
            records.finish()
        });
        Self { calls, thread }
    }

    pub(crate) fn add(&self, calls: Vec<ExportedCall>) {
        // Errors of the thread are reported when it is joined.
        let _ = self.calls.send(calls);
    }

    pub(crate) fn finish(self) -> anyhow::Result<()> {
        drop(self.calls);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
