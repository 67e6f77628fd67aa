//! Errors of the machine.

use std::fmt;
use std::io;

/// Why a rig could not be set up or failed later.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// An error of the operating system.
    #[error("{what}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// The bench received a signal to end.
    #[error("the bench is being ended")]
    Stopping,
    /// A program ended unexpectedly or failed.
    #[error("{what} failed: {words}")]
    Failed {
        /// The program and its task.
        what: String,
        /// End of its standard error.
        words: String,
    },
    /// A program did not end in time.
    #[error("{what} did not end within {seconds} s; it was killed; standard error: {words}")]
    Stuck {
        /// The program.
        what: String,
        /// The timeout.
        seconds: u64,
        /// End of its standard error.
        words: String,
    },
    /// The machine lacks a requirement or did not apply a setting; includes the remedy.
    #[error("{0}")]
    Machine(String),
    /// Another bench has locked the store.
    #[error("{0} is in use by another bench; wait for its end, or use another --store")]
    StoreInUse(String),
    /// A program printed an unexpected answer.
    #[error("{what} answered {answer}")]
    Answer {
        /// The program.
        what: String,
        /// Its output.
        answer: String,
    },
}

impl RigError {
    /// An operating system error of the operation `what`.
    pub(crate) fn io(what: impl fmt::Display, error: io::Error) -> Self {
        let what = what.to_string();
        Self::Io { what, error }
    }
}
