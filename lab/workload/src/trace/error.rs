//! Errors of traces.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Largest number of errors reported; a file of another kind would have one in each line.
const ERRORS_MAX: usize = 20;

/// One mistake in a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {reason}")]
pub struct TraceError {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in bytes.
    pub column: usize,
    /// The error and the remedy.
    pub reason: String,
}

/// The first mistakes of a trace, in line order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceErrors {
    errors: Vec<TraceError>,
    untold: usize,
}

impl TraceErrors {
    /// The reported mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &TraceError> {
        self.errors.iter()
    }

    /// Number of further mistakes.
    pub fn untold(&self) -> usize {
        self.untold
    }

    pub(super) fn push(&mut self, line: usize, column: usize, reason: String) {
        if self.errors.len() == ERRORS_MAX {
            self.untold += 1;
            return;
        }
        self.errors.push(TraceError {
            line,
            column,
            reason,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }
}

impl fmt::Display for TraceErrors {
    /// One line per mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.untold > 0 {
            write!(f, "\nand {} more", self.untold)?;
        }
        Ok(())
    }
}

impl core::error::Error for TraceErrors {}
