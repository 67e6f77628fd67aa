//! Roots that have not been scanned since the start, for example because their disk does not
//! respond.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Unscanned roots by index.
#[derive(Debug, Default)]
pub struct PendingScans(Mutex<BTreeMap<usize, PathBuf>>);

impl PendingScans {
    /// Creates the set of all roots.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self(Mutex::new(roots.into_iter().enumerate().collect()))
    }

    /// Marks a root as scanned; returns its path the first time.
    pub(crate) fn scanned(&self, root: usize) -> Option<PathBuf> {
        self.roots().remove(&root)
    }

    /// Whether all roots have been scanned.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots().is_empty()
    }

    /// Paths of the unscanned roots.
    pub(crate) fn names(&self) -> Vec<String> {
        let roots = self.roots();
        let names = roots.values().map(|path| path.display().to_string());
        names.collect()
    }

    fn roots(&self) -> MutexGuard<'_, BTreeMap<usize, PathBuf>> {
        // Each change under the lock is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_listed_until_its_first_scan() {
        let unscanned = PendingScans::new(vec!["/a".into(), "/b".into()]);
        assert_eq!(unscanned.scanned(0), Some("/a".into()));
        assert_eq!(unscanned.scanned(0), None, "reported only once");
        assert_eq!(unscanned.names(), ["/b"]);
        assert!(!unscanned.is_empty());
        unscanned.scanned(1);
        assert!(unscanned.is_empty());
    }
}
