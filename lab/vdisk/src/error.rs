//! What can be wrong, each with its place and its remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no emulated disk, or why it does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something this machine or user lacks; nothing was started.
    #[error(
        "an emulated disk cannot be had here: {}; what works without: `headlong disk probe PRESET` \
         and simulations, which measure the same drive models",
        .0.join("; ")
    )]
    Missing(Vec<String>),
    /// Arguments that cannot be followed; nothing was started.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// A store that cannot be used.
    #[error("store {}: {problem}", directory.display())]
    Store {
        /// Where it is.
        directory: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done, and to what.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// The disk does not do what it was told to by a control command.
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

    /// For `map_err`: what was being done.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }

    /// Whether the arguments are at fault, and not the machine.
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }
}
