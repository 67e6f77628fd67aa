//! What is odd about a file, without keeping it from being served.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most warnings of one scan that are written to the log.
const LOGGED_MAX: usize = 50;
/// Most warnings kept of files that turned out odd when they were first asked for.
const LATE_MAX: usize = 1000;

/// Where the rest is, for those who read the log.
const WHERE: &str = "/library.json of the admin address lists it";

/// Something about a file that its owner may want to mend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Warning {
    /// The file or directory, from the root of its tree; empty for the whole library.
    pub path: String,
    /// What is wrong, and what is done about it.
    pub reason: String,
}

impl Warning {
    pub(crate) fn new(path: &str, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            reason: reason.into(),
        }
    }

    /// Says them in the log: the first of many, and how many there are.
    pub(crate) fn log_all(warnings: &[Self]) {
        for warning in warnings.iter().take(LOGGED_MAX) {
            warning.log();
        }
        if warnings.len() > LOGGED_MAX {
            let more = warnings.len() - LOGGED_MAX;
            tracing::warn!(more, "more in the library is odd in such ways; {WHERE}");
        }
    }

    fn log(&self) {
        // Names may hold anything; quoted, they stay on their line.
        tracing::warn!(path = ?self.path, "in the library: {}", self.reason);
    }
}

/// What turned out odd about files between scans, when they were first asked for.
#[derive(Debug, Default)]
pub(crate) struct LateWarnings(Mutex<Late>);

#[derive(Debug, Default)]
struct Late {
    kept: Vec<Warning>,
    count: u64,
}

impl LateWarnings {
    pub(crate) fn push(&self, warning: Warning) {
        let mut late = self.lock();
        late.count += 1;
        if is_logged(late.count) {
            warning.log();
            if late.count >= LOGGED_MAX as u64 {
                let count = late.count;
                tracing::warn!(count, "so many files were found odd so far; {WHERE}");
            }
        }
        // Of a version that is gone there is nothing to be said any more.
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

    fn lock(&self) -> MutexGuard<'_, Late> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the file that is found odd as the `count`th is named in the log: some tens, then ever
/// fewer, so that a library of such files does not flood it.
fn is_logged(count: u64) -> bool {
    count <= LOGGED_MAX as u64 || count.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dozen_odd_files_are_all_in_the_log_and_a_million_do_not_flood_it() {
        assert!((1..=12).all(is_logged));
        let logged = (1..=1_000_000).filter(|count| is_logged(*count));
        assert!(logged.count() < 100);
    }

    #[test]
    fn of_a_file_the_last_that_was_found_odd_counts() {
        let late = LateWarnings::default();
        for reason in ["cut", "empty"] {
            late.push(Warning::new("a.mp4", reason));
        }
        assert_eq!(late.all(), [Warning::new("a.mp4", "empty")]);
    }
}
