//! Roots that have not been searched since the start: their disks may not answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Roots by their numbers, until each has been scanned once.
#[derive(Debug, Default)]
pub struct Unscanned(Mutex<BTreeMap<usize, PathBuf>>);

impl Unscanned {
    /// None has been scanned.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self(Mutex::new(roots.into_iter().enumerate().collect()))
    }

    /// This one has been. Its path, if that is the first time.
    pub(crate) fn scanned(&self, root: usize) -> Option<PathBuf> {
        self.roots().remove(&root)
    }

    /// Whether all have been.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots().is_empty()
    }

    /// Those that have not been.
    pub(crate) fn names(&self) -> Vec<String> {
        let roots = self.roots();
        let names = roots.values().map(|path| path.display().to_string());
        names.collect()
    }

    fn roots(&self) -> MutexGuard<'_, BTreeMap<usize, PathBuf>> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_named_until_it_was_scanned_once() {
        let unscanned = Unscanned::new(vec!["/a".into(), "/b".into()]);
        assert_eq!(unscanned.scanned(0), Some("/a".into()));
        assert_eq!(unscanned.scanned(0), None, "once more says nothing");
        assert_eq!(unscanned.names(), ["/b"]);
        assert!(!unscanned.is_empty());
        unscanned.scanned(1);
        assert!(unscanned.is_empty());
    }
}
