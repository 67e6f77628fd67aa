//! Usage errors, and results with their own exit codes.

use std::path::PathBuf;

use headlong_report::outputs_are_no_inputs;

/// Mistakes in the command line, or in a file named there; one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Mistakes(pub(crate) Vec<String>);

impl Mistakes {
    /// The lines of a text.
    pub(crate) fn of(text: impl ToString) -> Self {
        Self(text.to_string().lines().map(str::to_owned).collect())
    }

    /// An error unless there are none.
    pub(crate) fn if_any(mistakes: Vec<String>) -> Result<(), Self> {
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(Self(mistakes)),
        }
    }
}

/// An error if a result would overwrite an input.
pub(crate) fn inputs_are_kept<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let inputs = inputs.into_iter().map(PathBuf::as_path);
    outputs_are_no_inputs(outputs.into_iter().map(PathBuf::as_path), inputs)
        .map_err(|error| Mistakes::of(error).into())
}

// Results with their own exit codes: invalid, missed goal, dropped log.

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

impl Verdict {
    /// With one reason.
    pub(crate) fn of(code: u8, reason: impl ToString) -> Self {
        let reasons = vec![reason.to_string()];
        Self { code, reasons }
    }
}
