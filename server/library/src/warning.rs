//! Warnings about files, which are served nevertheless.

use std::sync::{Mutex, MutexGuard, PoisonError};

use headlong_units::shown_path;
use serde::Serializer;

use crate::os_path::os_path;

/// Most warnings of one scan that are logged.
const LOGGED_MAX: usize = 50;
/// Most warnings kept about files whose problem was found when they were first used.
const LATE_MAX: usize = 1000;

/// Reference to the full list, for readers of the log.
const WHERE: &str = "/library.json of the admin address lists it";

/// A problem of a file that its owner may want to correct.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Warning {
    /// The file or directory, from the root of its tree; empty for the whole library.
    #[serde(serialize_with = "shown")]
    pub path: String,
    /// The problem, and its consequence.
    #[serde(serialize_with = "shown")]
    pub reason: String,
}

fn shown<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&shown_path(text))
}

impl Warning {
    pub(crate) fn new(path: &str, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            reason: reason.into(),
        }
    }

    /// Logs the first of the warnings, and their number.
    pub(crate) fn log_all(warnings: &[Self]) {
        for warning in warnings.iter().take(LOGGED_MAX) {
            warning.log();
        }
        if warnings.len() > LOGGED_MAX {
            let more = warnings.len() - LOGGED_MAX;
            tracing::warn!(
                more,
                "further warnings about the library are not logged; {WHERE}"
            );
        }
    }

    fn log(&self) {
        // Names may contain any characters; quoted, they stay on one line.
        let (path, reason) = (os_path(&self.path), shown_path(&self.reason));
        tracing::warn!(?path, "in the library: {reason}");
    }
}

/// Warnings about files found between scans, when the files were first used.
#[derive(Debug, Default)]
pub(crate) struct RuntimeWarnings(Mutex<LoggedWarnings>);

#[derive(Debug, Default)]
struct LoggedWarnings {
    kept: Vec<Warning>,
    count: u64,
}

impl RuntimeWarnings {
    pub(crate) fn push(&self, warning: Warning) {
        let mut late = self.lock();
        late.count += 1;
        if is_logged(late.count) {
            warning.log();
            if late.count >= LOGGED_MAX as u64 {
                let count = late.count;
                tracing::warn!(count, "files with problems found so far; {WHERE}");
            }
        }
        // A warning about a previous version is obsolete.
        late.kept.retain(|kept| kept.path != warning.path);
        if late.kept.len() < LATE_MAX {
            late.kept.push(warning);
        }
    }

    pub(crate) fn all(&self) -> Vec<Warning> {
        self.lock().kept.clone()
    }

    pub(crate) fn retain(&self, is_kept: impl FnMut(&Warning) -> bool) {
        self.lock().kept.retain(is_kept);
    }

    fn lock(&self) -> MutexGuard<'_, LoggedWarnings> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the `count`th file with a problem is logged: the first tens, then ever fewer, so that a
/// library of such files does not flood the log.
fn is_logged(count: u64) -> bool {
    count <= LOGGED_MAX as u64 || count.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dozen_warnings_are_logged_and_million_do_not_flood_log() {
        assert!((1..=12).all(is_logged));
        let logged = (1..=1_000_000).filter(|count| is_logged(*count));
        assert!(logged.count() < 100);
    }

    #[test]
    fn last_warning_about_a_file_replaces_earlier_ones() {
        let late = RuntimeWarnings::default();
        for reason in ["cut", "empty"] {
            late.push(Warning::new("a.mp4", reason));
        }
        assert_eq!(late.all(), [Warning::new("a.mp4", "empty")]);
    }
}
