//! What is odd about a file, without keeping it from being served.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most warnings of one scan that are written to the log.
const LOGGED_MAX: usize = 50;
/// Most warnings kept of files that turned out odd when they were first asked for.
const LATE_MAX: usize = 1000;

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
            tracing::warn!(more, "more in the library is odd in such ways");
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
        // The first, the second, the fourth: a library of such files does not flood the log.
        if late.count.is_power_of_two() {
            warning.log();
            if late.count > 1 {
                let count = late.count;
                tracing::warn!(count, "so many files were found odd so far");
            }
        }
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
