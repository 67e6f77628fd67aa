//! What can go wrong on the machine.

use std::fmt;
use std::io;

/// Why a rig could not be set up, or stopped being one.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// Something of the system said no.
    #[error("{what}: {error}")]
    Io {
        /// What it was about.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// The bench was told to end.
    #[error("the bench is being ended")]
    Stopping,
    /// A program ended that should not have, or could not do its part.
    #[error("{what} failed: {words}")]
    Failed {
        /// The program, and what it was to do.
        what: String,
        /// The end of what it said.
        words: String,
    },
    /// A program did not come to an end.
    #[error("{what} did not end within {seconds} s; it was killed; it said: {words}")]
    Stuck {
        /// The program.
        what: String,
        /// How long was waited.
        seconds: u64,
        /// The end of what it said.
        words: String,
    },
    /// The machine lacks something, or does not do what it was told, with what to do about it.
    #[error("{0}")]
    Machine(String),
    /// Another bench has the store.
    #[error("{0} is in use by another bench; wait for it, or name another folder with --store")]
    StoreInUse(String),
    /// What a program printed makes no sense.
    #[error("{what} answered {answer}")]
    Answer {
        /// The program.
        what: String,
        /// What it printed.
        answer: String,
    },
}

impl RigError {
    /// An error of the system about `what`.
    pub(crate) fn io(what: impl fmt::Display, error: io::Error) -> Self {
        let what = what.to_string();
        Self::Io { what, error }
    }
}
