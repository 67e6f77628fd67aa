//! Records the out-of-order scans of a root.
//!
//! Folders are identified by a hash, as there may be millions of them; a collision only costs the
//! wait for the scan.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::kind::is_manifest;
use crate::manifest::Manifest;

/// State of the out-of-order scans of one root.
#[derive(Debug, Default)]
pub(crate) struct OutOfOrderScans {
    /// Hashes of folders and manifests that need no out-of-order scan. Two with the same hash are
    /// treated as one; the second waits for the scan.
    known: HashSet<u64>,
    /// Manifests with the time of their check, until a scan that began later is committed.
    manifests: BTreeMap<Arc<str>, (Arc<Manifest>, u64)>,
}

/// Scope of an out-of-order scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanScope {
    /// Its folder.
    Folder,
    /// Only the requested manifest: its folder has been scanned, but may have too many manifests.
    Manifest,
}

impl OutOfOrderScans {
    /// The scope to scan for a file; `None` if it was scanned.
    pub(crate) fn scope(&self, path: &str) -> Option<ScanScope> {
        if !self.known.contains(&hash(folder_of(path))) {
            return Some(ScanScope::Folder);
        }
        let is_new = is_manifest(path) && !self.known.contains(&hash(path));
        is_new.then_some(ScanScope::Manifest)
    }

    /// As [`OutOfOrderScans::scope`]; later callers do not scan it again.
    pub(crate) fn claim(&mut self, path: &str) -> Option<ScanScope> {
        let scope = self.scope(path)?;
        if scope == ScanScope::Folder {
            self.known.insert(hash(folder_of(path)));
        }
        if is_manifest(path) {
            self.known.insert(hash(path));
        }
        Some(scope)
    }

    /// The scan failed.
    pub(crate) fn release(&mut self, path: &str) {
        self.known.remove(&hash(folder_of(path)));
        self.known.remove(&hash(path));
    }

    /// A scan that began at `began_ns` covered these folders and manifests.
    pub(crate) fn searched<'a>(&mut self, known: impl Iterator<Item = &'a str>, began_ns: u64) {
        self.known = known.map(hash).collect();
        self.manifests
            .retain(|_, (_, checked_ns)| *checked_ns > began_ns);
    }

    /// A manifest that was read out of order.
    pub(crate) fn early(&self, path: &str) -> Option<Arc<Manifest>> {
        let (manifest, _) = self.manifests.get(path)?;
        Some(Arc::clone(manifest))
    }

    /// Stores a manifest that was read out of order.
    pub(crate) fn insert(&mut self, path: &Arc<str>, manifest: &Arc<Manifest>, checked_ns: u64) {
        let early = (Arc::clone(manifest), checked_ns);
        self.manifests.insert(Arc::clone(path), early);
    }

    /// Manifests that were checked after `since_ns`.
    pub(crate) fn manifests_since(&self, since_ns: u64) -> Vec<(Arc<str>, Arc<Manifest>)> {
        let manifests = self.manifests.iter();
        let since = manifests.filter(|(_, (_, checked_ns))| *checked_ns > since_ns);
        since
            .map(|(path, (manifest, _))| (Arc::clone(path), Arc::clone(manifest)))
            .collect()
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// The folder of a file; empty for files in the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
