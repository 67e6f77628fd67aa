//! Intake: reads all logs once into partitions, in any format, on all cores, within a memory limit.
//!
//! Invariants: the result depends on the logs and options only, not on threads or memory; a bad
//! line is counted and sampled, never fatal; a log that cannot be opened or recognised is reported
//! before the long work starts.

mod error;
mod finish;
mod logs;
mod options;
mod result;
mod worker;

pub use error::{IntakeError, LogError};
pub use options::{Intake, IntakeProgress, MemoryBound, SilentProgress};
pub use result::{CatalogueBytes, IntakeResult, LogSummary, SessionIdentification};

/// Reads logs.
///
/// # Errors
/// If a log or table cannot be opened or recognised (before anything is read), or if memory or the
/// disk for spilled data runs out.
pub fn take_in(
    intake: &Intake,
    progress: &dyn IntakeProgress,
) -> Result<IntakeResult, IntakeError> {
    let memory = intake.memory_bound()?;
    if intake.logs.is_empty() {
        return Err(IntakeError::NoLogs);
    }
    finish::title_rule(intake)?;
    let logs = logs::open(intake)?;
    let read = worker::read_all(intake, &memory, &logs, progress)?;
    finish::finish(intake, memory, logs, read)
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
