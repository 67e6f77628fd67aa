//! Collects failed checks; only the first one counts.

use headlong_units::Instant;

use crate::check::{Check, Violation};

/// The first violation.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn fail(&mut self, check: Check, at: Instant, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let text = text();
            self.violation = Some(Violation { check, at, text });
        }
    }

    pub(crate) fn expect(
        &mut self,
        holds: bool,
        check: Check,
        at: Instant,
        text: impl FnOnce() -> String,
    ) {
        if !holds {
            self.fail(check, at, text);
        }
    }
}
