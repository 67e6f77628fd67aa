//! Warnings of `headlong check`: printed at once, counted for `--strict`.

use std::fmt::Display;

/// Warnings, which are printed at once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(usize);

impl Warnings {
    /// Prints one on standard error.
    pub(crate) fn say(&mut self, text: impl Display) {
        let prefix = headlong_report::error_prefix();
        headlong_report::say!("{prefix}headlong: {text}");
        self.0 += 1;
    }

    /// For `--strict`.
    ///
    /// # Errors
    /// If there were any.
    pub(crate) fn refuse(&self) -> Result<(), StrictWarnings> {
        match self.0 {
            0 => Ok(()),
            count => Err(StrictWarnings(count)),
        }
    }
}

/// There were warnings, and `--strict` does not accept any.
#[derive(Debug, thiserror::Error)]
#[error("warnings: {0}; with --strict none is accepted")]
pub(crate) struct StrictWarnings(usize);
