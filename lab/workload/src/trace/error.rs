//! What is wrong with a trace, and what a dialect cannot say.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most errors that are told; a file that is no trace at all need not be told so line by line.
const ERRORS_MAX: usize = 20;

/// One mistake in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in bytes.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.reason)
    }
}

/// The first mistakes of a trace, in its order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceErrors {
    errors: Vec<TraceError>,
    untold: usize,
}

impl TraceErrors {
    /// Each that is told.
    pub fn iter(&self) -> impl Iterator<Item = &TraceError> {
        self.errors.iter()
    }

    /// How many there were besides.
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
    /// One line for each.
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

/// What a dialect has no words for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotSay {
    /// A session that adapts its bit rate has no calls until it is played.
    #[error(
        "a session adapts its bit rate, and this dialect holds calls that are known before; write the \
         trace in the dialect headlong"
    )]
    Adaptive,
    /// httperf 0.9.1 asks for whole files only.
    #[error("this dialect cannot ask for ranges; generate with --set catalogue.chunk=512KiB")]
    Ranges,
    /// httperf keeps the sessions of a file in a table.
    #[error(
        "this dialect's reader takes no more than {max} sessions of {count}; generate with --sessions \
         {max}"
    )]
    Sessions {
        /// How many there are.
        count: usize,
        /// How many it takes.
        max: usize,
    },
}
