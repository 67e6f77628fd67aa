//! A scan of all roots, and what it changes.
//!
//! The one idea: the walk takes its time and holds no lock that a reader needs; the new catalogue
//! is built beside the old one and takes its place at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::catalogue::{Catalogue, Located, build};
use crate::identity::Identity;
use crate::library::{Inner, lock};
use crate::manifest::{Manifests, titles};
use crate::walk::{Counts, RootScan, walk};
use crate::warning::Warning;

/// Most warnings kept of one scan.
const WARNINGS_MAX: usize = 10_000;

/// What a further scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Streams that no path leads to any more, since the last scan or
    /// [`Library::take_gone_streams`].
    pub gone_streams: Vec<u64>,
    /// Files that are new.
    pub added: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Files that are another version.
    pub changed: u64,
    /// What is odd that was not odd before in the same way.
    pub warnings: Vec<Warning>,
}

/// What is kept of a scan for the next one.
#[derive(Debug, Default)]
pub(crate) struct LastScan {
    pub(crate) manifests: Manifests,
    pub(crate) warnings: Vec<(Warning, Option<Identity>)>,
    pub(crate) counts: Counts,
}

impl Inner {
    /// Walks all roots and puts what they hold in the place of what was known.
    pub(crate) fn rescan(&self, last: &mut LastScan) -> Changes {
        let began_ns = self.now_ns();
        let mut found = Found::default();
        for (root, scan) in self.walk_all(&last.manifests).into_iter().enumerate() {
            found.add(root, scan, began_ns);
        }
        let (titles, odd) = titles(&found.manifests);
        found.warnings.extend(odd);
        let mut changes = Changes::default();
        let mut gone = lock(&self.writer);
        let new = self.read(|old| {
            // What was looked at since the walk began is known better than the walk knows it.
            for (path, entry) in &old.files {
                let checked_ns = entry.checked_ns.load(Ordering::Relaxed);
                if checked_ns > began_ns {
                    let (root, identity) = (entry.root, entry.identity);
                    let located = Located {
                        root,
                        identity,
                        checked_ns,
                    };
                    found.located.insert(Arc::clone(path), located);
                }
            }
            let new = build(&found.located, &titles, old, &self.maker);
            changes.compare(old, &new);
            new
        });
        changes.gone_streams.append(&mut gone);
        // The old one is taken apart outside the lock.
        let old = self.write(|catalogue| std::mem::replace(catalogue, new));
        drop(gone);
        drop(old);
        self.keep_warnings(found, last, &mut changes);
        changes
    }

    /// Walks the roots side by side: they may lie on different disks.
    fn walk_all(&self, known: &Manifests) -> Vec<RootScan> {
        if let [only] = self.roots() {
            return vec![walk(only, known)];
        }
        std::thread::scope(|scope| {
            let start = |root| scope.spawn(move || walk(root, known));
            let threads: Vec<_> = self.roots().iter().map(start).collect();
            let finish = |thread: std::thread::ScopedJoinHandle<'_, RootScan>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(finish).collect()
        })
    }

    /// Says what is odd that was not odd before, and remembers it all.
    fn keep_warnings(&self, mut found: Found, last: &mut LastScan, changes: &mut Changes) {
        if found.counts.not_utf8 > 0 {
            let count = found.counts.not_utf8;
            let reason = format!(
                "{count} names are not UTF-8; no URL can name them, so they are not served"
            );
            found.warnings.push(Warning::new("", reason));
        }
        found.warnings.truncate(WARNINGS_MAX);
        let version = |path: &str| found.located.get(path).map(|file| file.identity);
        let with_version = |warning: Warning| {
            let version = version(warning.path.as_str());
            (warning, version)
        };
        let warnings: Vec<_> = found.warnings.into_iter().map(with_version).collect();
        let before: HashSet<_> = last.warnings.iter().collect();
        let new = warnings.iter().filter(|warning| !before.contains(warning));
        changes.warnings = new.map(|(warning, _)| warning.clone()).collect();
        changes.warnings.iter().for_each(Warning::log);
        self.read(|catalogue| {
            let broken = |warning: &Warning| {
                let entry = catalogue.files.get(warning.path.as_str());
                entry.is_some_and(|entry| entry.stream.is_header_broken())
            };
            lock(&self.maker.ground.late_warnings).retain(broken);
        });
        *last = LastScan {
            manifests: found.manifests,
            warnings,
            counts: found.counts,
        };
    }
}

/// What all roots hold together.
#[derive(Default)]
struct Found {
    located: HashMap<Arc<str>, Located>,
    manifests: Manifests,
    counts: Counts,
    warnings: Vec<Warning>,
}

impl Found {
    /// Adds one root; what a root before it has under the same path stays.
    fn add(&mut self, root: usize, scan: RootScan, checked_ns: u64) {
        for (path, identity) in scan.files {
            self.located.entry(path).or_insert(Located {
                root,
                identity,
                checked_ns,
            });
        }
        for (path, manifest) in scan.manifests {
            if self
                .located
                .get(&path)
                .is_some_and(|file| file.root == root)
            {
                self.manifests.insert(path, manifest);
            }
        }
        self.counts.add(&scan.counts);
        self.warnings.extend(scan.warnings);
    }
}

impl Changes {
    fn compare(&mut self, old: &Catalogue, new: &Catalogue) {
        for (path, entry) in &new.files {
            match old.files.get(path) {
                None => self.added += 1,
                Some(before) if before.identity != entry.identity => self.changed += 1,
                Some(_) => {}
            }
        }
        let removed = old
            .files
            .keys()
            .filter(|path| !new.files.contains_key(*path));
        self.removed = removed.count() as u64;
        let ids = |catalogue: &Catalogue| -> HashSet<u64> {
            catalogue
                .files
                .values()
                .map(|entry| entry.stream.id)
                .collect()
        };
        self.gone_streams = ids(old).difference(&ids(new)).copied().collect();
        self.gone_streams.sort_unstable();
    }
}
