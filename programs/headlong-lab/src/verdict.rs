//! Results with their own exit codes: invalid, missed goal, dropped log.

/// The result is invalid because of the generator or the machine.
pub(crate) const EXIT_INVALID: u8 = 3;
/// The result is valid, but misses a goal.
pub(crate) const EXIT_MISSED: u8 = 4;
/// More than a tenth of a log could not be read, or it has no request.
pub(crate) const EXIT_DROPPED: u8 = 5;

/// Why a result is not a success; one line per reason.
#[derive(Debug, thiserror::Error)]
#[error("{}", .reasons.join("\n"))]
pub(crate) struct Verdict {
    /// The program's exit code.
    pub(crate) code: u8,
    /// Why.
    pub(crate) reasons: Vec<String>,
}
