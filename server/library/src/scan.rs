//! A scan of all roots, and what it changes.
//!
//! The one idea: the walk takes its time and holds no lock that a reader needs; the new catalogue
//! is built beside the old one and takes its place at once. If the walk finds what the last one found,
//! the old one stays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::catalogue::{Catalogue, Located, build};
use crate::identity::{Identity, is_regular};
use crate::library::{Inner, lock};
use crate::manifest::{Manifests, titles};
use crate::walk::{Before, Counts, Listing, Listings, RootScan, walk};
use crate::warning::Warning;

/// Most warnings kept of one scan.
const WARNINGS_MAX: usize = 10_000;

/// How often everything is looked at, whatever the directories say: some file systems do not keep
/// their directories' times, and a file that nobody asks for may have been written in its place.
const WHOLE_INTERVAL: Duration = Duration::from_secs(3600);

/// Files looked up under one hold of the lock: well below a millisecond.
const FILES_PER_LOCK: usize = 1024;

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
    /// By root.
    listings: Vec<Listings>,
    /// When everything was looked at.
    whole_at: Option<Instant>,
}

impl Inner {
    /// Walks all roots and puts what they hold in the place of what was known.
    pub(crate) fn rescan(&self, last: &mut LastScan) -> Changes {
        let now = Instant::now();
        last.listings.clear();
        let changes = self.look(last);
        last.whole_at = Some(now);
        changes
    }

    /// The same, but for files in directories that are as they were; everything now and then.
    pub(crate) fn refresh(&self, last: &mut LastScan) -> Changes {
        match last.whole_at {
            Some(at) if at.elapsed() < WHOLE_INTERVAL => self.look(last),
            _ => self.rescan(last),
        }
    }

    fn look(&self, last: &mut LastScan) -> Changes {
        let began_ns = self.now_ns();
        let mut scans = self.walk_all(last);
        last.listings = scans
            .iter_mut()
            .map(|scan| std::mem::take(&mut scan.listings))
            .collect();
        if !self.is_changed(&scans) {
            let gone_streams = std::mem::take(&mut *lock(&self.writer));
            return Changes {
                gone_streams,
                ..Changes::default()
            };
        }
        let mut found = Found::default();
        for (root, scan) in scans.into_iter().enumerate() {
            for listing in &scan.unchanged {
                found.locate(self.unchanged(root, listing, began_ns));
            }
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
    fn walk_all(&self, last: &LastScan) -> Vec<RootScan> {
        let before = |root: usize| Before {
            manifests: &last.manifests,
            listings: last.listings.get(root),
            settle: self.options.settle,
        };
        if let [only] = self.roots() {
            return vec![walk(only, before(0))];
        }
        std::thread::scope(|scope| {
            let start = |(index, root)| {
                let before = before(index);
                scope.spawn(move || walk(root, before))
            };
            let threads: Vec<_> = self.roots().iter().enumerate().map(start).collect();
            let finish = |thread: std::thread::ScopedJoinHandle<'_, RootScan>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(finish).collect()
        })
    }

    /// Whether the roots hold anything that the catalogue does not have just so.
    fn is_changed(&self, scans: &[RootScan]) -> bool {
        let is_new =
            |catalogue: &Catalogue, root: usize, (path, identity): &(Arc<str>, Identity)| {
                let entry = catalogue.files.get(path);
                entry.is_none_or(|entry| entry.root == root && entry.identity != *identity)
            };
        let has_new = |(root, scan): (usize, &RootScan)| {
            let mut some = scan.files.chunks(FILES_PER_LOCK);
            some.any(|files| {
                self.read(|catalogue| files.iter().any(|file| is_new(catalogue, root, file)))
            })
        };
        scans.iter().any(|scan| scan.is_changed) || scans.iter().enumerate().any(has_new)
    }

    /// The files of a directory that is as it was: as they are known, or as they are if they are not.
    fn unchanged(&self, root: usize, listing: &Listing, now_ns: u64) -> Vec<(Arc<str>, Located)> {
        let known = |catalogue: &Catalogue, path: &Arc<str>| {
            let entry = catalogue
                .files
                .get(path)
                .filter(|entry| entry.root == root)?;
            Some((entry.identity, entry.checked_ns.load(Ordering::Relaxed)))
        };
        let mut files = Vec::with_capacity(listing.files.len());
        for some in listing.files.chunks(FILES_PER_LOCK) {
            files.extend(self.read(|catalogue| {
                let with_known = some.iter().map(|path| (path, known(catalogue, path)));
                with_known.collect::<Vec<_>>()
            }));
        }
        // Another root's file of the same name may have hidden it, and be gone.
        let look = |path: &str| {
            let stat = self.roots()[root].stat(path).ok();
            let stat = stat.filter(is_regular)?;
            Some((Identity::of(&stat), now_ns))
        };
        let located = files.into_iter().filter_map(|(path, known)| {
            let (identity, checked_ns) = known.or_else(|| look(path))?;
            let located = Located {
                root,
                identity,
                checked_ns,
            };
            Some((Arc::clone(path), located))
        });
        located.collect()
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
        last.manifests = found.manifests;
        last.warnings = warnings;
        last.counts = found.counts;
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
    /// Adds files of a root; what a root before it has under the same path stays.
    fn locate(&mut self, files: impl IntoIterator<Item = (Arc<str>, Located)>) {
        for (path, file) in files {
            self.located.entry(path).or_insert(file);
        }
    }

    /// Adds what was looked at of one root.
    fn add(&mut self, root: usize, scan: RootScan, checked_ns: u64) {
        self.locate(scan.files.into_iter().map(|(path, identity)| {
            let located = Located {
                root,
                identity,
                checked_ns,
            };
            (path, located)
        }));
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
