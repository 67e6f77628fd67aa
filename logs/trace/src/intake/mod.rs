//! From logs to parts: everything is read once, whatever its format, on all cores, within a bound
//! of memory that is known beforehand.
//!
//! Invariants: what comes out depends on the logs and options alone, not on threads or memory; a
//! bad line is counted and sampled, never fatal; what cannot be opened or recognised is told before
//! the long work begins.

mod error;
mod finish;
mod logs;
mod options;
mod progress;
mod taken;
mod worker;

pub use error::{IntakeError, LogError};
pub use options::{Intake, MemoryBound};
pub use progress::{Progress, Silent};
pub use taken::{LogTold, SessionsBy, TakenIn};

/// Takes logs in.
///
/// # Errors
/// If a log or table cannot be opened or recognised (before anything is read), and if memory or the
/// disk for what does not fit in it runs out.
pub fn take_in(intake: &Intake, progress: &dyn Progress) -> Result<TakenIn, IntakeError> {
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
