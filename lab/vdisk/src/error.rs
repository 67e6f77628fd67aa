//! Errors, each with its object and its remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why an emulated disk cannot be created, or does not carry out a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing prerequisites; nothing was started.
    #[error(
        "emulated disks are not available here: {}; available without them: \
         `headlong disk probe PRESET` and simulations, which measure the same drive models",
        .0.join("; ")
    )]
    Missing(Vec<String>),
    /// Invalid arguments; nothing was started.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// A store that cannot be used.
    #[error("store {}: {problem}", directory.display())]
    Store {
        /// Directory of the store.
        directory: PathBuf,
        /// The problem and its remedy.
        problem: String,
    },
    /// The system refused an operation.
    #[error("{doing}: {source}")]
    System {
        /// The operation and its object.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The disk refused a control command.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn store(directory: &Path, problem: impl Into<String>) -> Self {
        Self::Store {
            directory: directory.to_owned(),
            problem: problem.into(),
        }
    }

    /// For `map_err`: the operation that failed.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}
