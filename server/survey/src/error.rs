//! Errors of inspecting a disk.

use std::io;

use crate::probe::ProbeError;
use crate::tune::TuneError;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// Invalid arguments; one line each.
    #[error("{}", .0.join("\n"))]
    Mistakes(Vec<String>),
    /// A disk cannot be measured.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The kernel's settings cannot be read: no such device.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The result cannot be printed.
    #[error(transparent)]
    Print(#[from] io::Error),
}

impl SurveyError {
    /// One invalid argument.
    pub(crate) fn mistake(text: impl ToString) -> Self {
        Self::Mistakes(vec![text.to_string()])
    }

    /// The mistakes, one per line, if the arguments are wrong and not the machine.
    ///
    /// # Errors
    /// The error itself, if they are right.
    pub fn into_mistakes(self) -> Result<Vec<String>, Self> {
        match self {
            Self::Mistakes(mistakes) => Ok(mistakes),
            Self::Probe(error) if error.is_mistake() => Ok(vec![error.to_string()]),
            Self::Tune(error) => Ok(vec![error.to_string()]),
            other => Err(other),
        }
    }
}
