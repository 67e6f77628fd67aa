//! Runs that ended, and whose result is not what was wanted: they have exit codes of their own.

/// The generator, or the machine, spoiled the result: it counts for nothing.
pub(crate) const EXIT_INVALID: u8 = 3;
/// The result is valid, and misses a threshold.
pub(crate) const EXIT_MISSED: u8 = 4;
/// More than a tenth of a log could not be read, or there is no request in it.
pub(crate) const EXIT_DROPPED: u8 = 5;

/// Why a result is not what was wanted; each reason is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .reasons.join("\n"))]
pub(crate) struct Verdict {
    /// The program's exit code.
    pub(crate) code: u8,
    /// Why.
    pub(crate) reasons: Vec<String>,
}
