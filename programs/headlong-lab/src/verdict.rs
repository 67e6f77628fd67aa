//! Runs that ended, and whose result is not what was wanted: they have exit codes of their own.

use std::fmt;

/// The generator, or the machine, spoiled the result: it counts for nothing.
pub(crate) const EXIT_INVALID: u8 = 3;
/// The result is valid, and misses a threshold.
pub(crate) const EXIT_MISSED: u8 = 4;

/// Why a result is not what was wanted; each reason is one line.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The program's exit code.
    pub(crate) code: u8,
    /// Why.
    pub(crate) reasons: Vec<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reasons.join("\n"))
    }
}

impl std::error::Error for Verdict {}
