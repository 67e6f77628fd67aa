//! Intake: reads all logs once into partitions, in any format, on all cores, within a memory limit.
//!
//! Invariants: the result depends on the logs and options only, not on threads or memory; a bad
//! line is counted and sampled, never fatal; a log that cannot be opened or recognised is reported
//! before the long work starts.

mod error;
mod finish;
mod layout;
mod logs;
mod options;
mod result;
mod worker;

pub use error::{IntakeError, LogError};
pub use options::{Intake, IntakeProgress, MemoryBound, SilentProgress};
pub use result::{CatalogueBytes, IntakeResult, LogSummary, SessionIdentification};

pub(crate) use finish::finish;
pub(crate) use layout::{LogLayout, files_table};
pub(crate) use logs::{LogOrigin, LogOrigins};
pub(crate) use options::PART_BUFFER_BYTES;
pub(crate) use worker::{ReadResult, ThreadResults, address_of, is_clock_back, part_of};

use crate::drop_counts::DropCounts;

/// Reads logs.
///
/// # Errors
/// If a log or table cannot be opened or recognised (before anything is read), or if memory or the
/// disk for spilled data runs out.
pub fn take_in(
    intake: &Intake,
    progress: &dyn IntakeProgress,
) -> Result<IntakeResult, IntakeError> {
    take_in_within(intake, intake.memory_bound()?, progress)
}

/// The same within these limits of memory.
fn take_in_within(
    intake: &Intake,
    memory: MemoryBound,
    progress: &dyn IntakeProgress,
) -> Result<IntakeResult, IntakeError> {
    let (logs, read, dropped) = read_logs(intake, &memory, 0, progress)?;
    let ReadResult {
        names,
        table,
        store,
        mut told,
        troubles,
        ..
    } = read;
    told.dropped.merge(dropped);
    let layout = LogLayout::of(
        intake,
        memory.loaded,
        (names, &table, store.finish()),
        &told,
    )?;
    // Not in the report, which is the same for any memory.
    let spilled_bytes = layout.parts.spilled_bytes();
    if spilled_bytes > 0 {
        progress.note(&format!(
            "{} MiB of requests did not fit in memory and were spilled to a file",
            spilled_bytes.div_ceil(1 << 20)
        ));
    }
    let first_pass = layout.first_pass(intake.threads, layout.has_estimates(intake))?;
    let counts = (told, troubles);
    Ok(finish(intake, memory, logs, (layout, &first_pass), counts))
}

/// Reads logs into partitions, in provisional numbers; also returns the unreadable lines of the
/// files table. The first log has the number `first`.
pub(crate) fn read_logs(
    intake: &Intake,
    memory: &MemoryBound,
    first: u32,
    progress: &dyn IntakeProgress,
) -> Result<(LogOrigins, ReadResult, DropCounts), IntakeError> {
    if intake.logs.is_empty() {
        return Err(IntakeError::NoLogs);
    }
    layout::title_rule(intake)?;
    let mut logs = logs::open(intake)?;
    logs.logs.iter_mut().for_each(|log| log.number += first);
    let (names, table, dropped) = files_table(intake)?;
    let read = worker::read_all(intake, memory, &logs, (names, table), progress)?;
    Ok((logs.into_origins(), read, dropped))
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
