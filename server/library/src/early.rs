//! What was read of a root ahead of the search, and what need not be.
//!
//! The one idea: folders are told apart by a hash, since there may be millions of them and a mistake
//! costs no more than the wait for the search.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::kind::is_manifest;
use crate::manifest::Manifest;

/// What was read of one root out of turn.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// Hashes of folders, and of manifests, that need not be read out of turn. Two of the same hash
    /// are taken for one, and the second waits for the search.
    known: HashSet<u64>,
    /// Manifests, and when each was looked at, until a search that began later is taken in.
    manifests: BTreeMap<Arc<str>, (Arc<Manifest>, u64)>,
}

/// What is read out of turn for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Its folder.
    Folder,
    /// The manifest alone that was asked for: its folder has been read, but may have too many.
    Manifest,
}

impl Around {
    /// What to read for a file, if anything.
    pub(crate) fn scope(&self, path: &str) -> Option<Scope> {
        if !self.known.contains(&hash(folder_of(path))) {
            return Some(Scope::Folder);
        }
        let is_new = is_manifest(path) && !self.known.contains(&hash(path));
        is_new.then_some(Scope::Manifest)
    }

    /// As [`Around::scope`]; whoever comes later need not read it again.
    pub(crate) fn claim(&mut self, path: &str) -> Option<Scope> {
        let scope = self.scope(path)?;
        if scope == Scope::Folder {
            self.known.insert(hash(folder_of(path)));
        }
        if is_manifest(path) {
            self.known.insert(hash(path));
        }
        Some(scope)
    }

    /// It could not be read.
    pub(crate) fn release(&mut self, path: &str) {
        self.known.remove(&hash(folder_of(path)));
        self.known.remove(&hash(path));
    }

    /// A search that began then knows these folders and manifests.
    pub(crate) fn searched<'a>(&mut self, known: impl Iterator<Item = &'a str>, began_ns: u64) {
        self.known = known.map(hash).collect();
        self.manifests
            .retain(|_, (_, checked_ns)| *checked_ns > began_ns);
    }

    /// A manifest that was read out of turn.
    pub(crate) fn early(&self, path: &str) -> Option<Arc<Manifest>> {
        let (manifest, _) = self.manifests.get(path)?;
        Some(Arc::clone(manifest))
    }

    /// Keeps a manifest that was read out of turn.
    pub(crate) fn keep(&mut self, path: &Arc<str>, manifest: &Arc<Manifest>, checked_ns: u64) {
        let early = (Arc::clone(manifest), checked_ns);
        self.manifests.insert(Arc::clone(path), early);
    }

    /// Manifests that were looked at after that.
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

/// The folder that a file lies in; that of the root is empty.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
