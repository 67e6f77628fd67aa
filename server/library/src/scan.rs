//! Scans of a root, and the changes they cause.
//!
//! The walk holds no lock that a reader or another root needs. The new catalogue is built beside
//! the old one, from the results of this root and the old entries of the others, and replaces it at
//! once. If the walk finds no changes, the old one stays.
//! one stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::catalogue::{Catalogue, ScannedFile, build};
use crate::identity::FileIdentity;
use crate::manifest::{Manifest, Manifests, missing, titles};
use crate::state::{FILES_PER_LOCK, LastResults, LastWalk, LibraryState, lock};
use crate::stream::RemovedStream;
use crate::walk::{PreviousScan, RootScan, ScanCounts, WalkCallbacks, look_at, walk};
use crate::warning::Warning;

/// Most warnings kept of one scan.
const WARNINGS_MAX: usize = 10_000;

/// How often everything is checked, whatever the directories' times are: some file systems do not
/// maintain these, and an unused file may have been rewritten in place.
const WHOLE_INTERVAL: Duration = Duration::from_secs(3600);

/// Result of a repeated scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanChanges {
    /// Streams that no path leads to any more, since the last scan or
    /// [`crate::Library::take_removed_streams`].
    pub gone_streams: Vec<RemovedStream>,
    /// New files.
    pub added: u64,
    /// Removed files.
    pub removed: u64,
    /// Files with a new version.
    pub changed: u64,
    /// New warnings.
    pub warnings: Vec<Warning>,
}

impl LibraryState {
    /// Scans a root and replaces its entries; files in unchanged directories are only checked
    /// periodically. After each disk access `rest` is called with its duration.
    pub(crate) fn scan_root(&self, root: usize, rest: &mut dyn FnMut(Duration)) -> ScanChanges {
        let mut last = lock(&self.walks[root]);
        let walked = self.walk(root, false, &mut last, rest);
        self.merge(root, walked, &mut last)
    }

    /// Scans all roots in parallel, then commits their results in order.
    pub(crate) fn scan_all(&self, whole: bool) -> ScanChanges {
        let mut lasts: Vec<_> = self.walks.iter().map(lock).collect();
        let walked: Vec<WalkResult> = std::thread::scope(|scope| {
            let start = |(root, last): (usize, _)| {
                let last: &mut LastWalk = last;
                scope.spawn(move || self.walk(root, whole, last, &mut |_| ()))
            };
            let lasts = lasts.iter_mut().map(|last| &mut **last);
            let threads: Vec<_> = lasts.enumerate().map(start).collect();
            let finish = |thread: std::thread::ScopedJoinHandle<'_, WalkResult>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(finish).collect()
        });
        let mut changes = ScanChanges::default();
        for (root, (walked, last)) in walked.into_iter().zip(&mut lasts).enumerate() {
            changes.add(self.merge(root, walked, last));
        }
        changes
    }

    fn walk(
        &self,
        root: usize,
        whole: bool,
        last: &mut LastWalk,
        rest: &mut dyn FnMut(Duration),
    ) -> WalkResult {
        self.revisit(root);
        let (began, began_ns) = (Instant::now(), self.now_ns());
        let is_due = last
            .whole_at
            .is_none_or(|at| at.elapsed() >= WHOLE_INTERVAL);
        let whole = whole || is_due;
        let before = PreviousScan {
            root: &self.roots()[root],
            manifests: &last.manifests,
            listings: &last.listings,
            whole,
            settle: self.options.settle,
            settle_file: self.options.settle_file,
            own_hosts: &self.options.server_names,
        };
        let mut showing = CommitThrottle::new(self.options.show_after);
        let mut so_far = |scan: &RootScan| showing.show(|| self.show(root, scan, began_ns));
        let mut along = WalkCallbacks {
            look_at: &look_at,
            rest,
            so_far: match lock(&self.found)[root].is_taken_in {
                true => &mut |_| (),
                false => &mut so_far,
            },
        };
        let is_detached = before.root.is_detached();
        let scan = match self.is_served(root) && !is_detached {
            true => walk(before, &mut along),
            false => RootScan {
                is_changed: is_detached,
                ..RootScan::default()
            },
        };
        if whole {
            last.whole_at = Some(began);
        }
        WalkResult { scan, began_ns }
    }

    /// Commits the intermediate results of the first walk of a root, so that they are listed
    /// meanwhile.
    fn show(&self, root: usize, scan: &RootScan, began_ns: u64) {
        let mut found = ScanResults::default();
        found.so_far(root, scan, began_ns);
        self.meet_devices(root, &found.located);
        let mut all_found = lock(&self.found);
        let of = CommitScope {
            root,
            began_ns,
            is_whole: false,
        };
        let (mut changes, _) = self.exchange(of, &mut found, &all_found);
        lock(&self.writer).append(&mut changes.gone_streams);
        all_found[root].manifests = Arc::new(found.manifests);
        all_found[root].counts = found.counts;
    }

    /// Adds the devices of files, so that later requests for files on them do not block.
    pub(crate) fn meet_devices(&self, root: usize, located: &HashMap<Arc<str>, ScannedFile>) {
        let files = located.iter();
        let devs: HashMap<u64, &str> = files
            .map(|(path, file)| (file.identity.dev, &**path))
            .collect();
        for (dev, path) in devs {
            self.maker.ground.place(root, path, dev);
        }
    }

    /// Commits the results of a walk. All disk accesses are done before a lock is taken.
    fn merge(&self, root: usize, walked: WalkResult, last: &mut LastWalk) -> ScanChanges {
        let WalkResult { mut scan, began_ns } = walked;
        last.listings = Arc::new(std::mem::take(&mut scan.listings));
        self.set_listings(root, Arc::clone(&last.listings));
        let losses = self.losses.load(Ordering::Relaxed);
        let is_asked_for = std::mem::replace(&mut last.losses, losses) != losses;
        scan.warnings.truncate(WARNINGS_MAX);
        // A failing disk leaves all entries unchanged, but adds warnings.
        let is_as_odd = last.warnings == scan.warnings;
        last.warnings.clone_from(&scan.warnings);
        let is_known = lock(&self.found)[root].is_taken_in;
        if is_known && is_as_odd && !is_asked_for && !self.is_changed(root, &scan, &last.manifests)
        {
            let gone_streams = std::mem::take(&mut *lock(&self.writer));
            return ScanChanges {
                gone_streams,
                ..ScanChanges::default()
            };
        }
        let mut found = ScanResults::default();
        for listing in &scan.unchanged {
            found.locate(self.unchanged(root, &listing.files, began_ns));
        }
        found.locate(self.unseen(root, &scan.unseen));
        found.add(root, scan, began_ns);
        found.locate(self.unlisted(root, &last.listings, began_ns));
        self.meet_devices(root, &found.located);
        let mut all_found = lock(&self.found);
        all_found[root].is_taken_in = true;
        let of = CommitScope {
            root,
            began_ns,
            is_whole: true,
        };
        let (mut changes, odd) = self.exchange(of, &mut found, &all_found);
        let folders = last.listings.keys().map(String::as_str);
        let manifests = found.manifests.keys().map(|path| &**path);
        lock(&self.around[root]).searched(folders.chain(manifests), began_ns);
        if self.roots().len() > 1 && changes.removed + changes.changed > 0 {
            self.note_losses();
            last.losses += 1;
        }
        found.warnings.extend(odd);
        let manifests = Arc::new(std::mem::take(&mut found.manifests));
        last.manifests = Arc::clone(&manifests);
        all_found[root].manifests = manifests;
        let of_other_files = std::mem::take(&mut changes.warnings);
        let mut changes = self.keep_warnings(found, &mut all_found[root], changes);
        Warning::log_all(&of_other_files);
        changes.warnings.extend(of_other_files);
        changes
    }

    /// Replaces the catalogue by a new one.
    fn exchange(
        &self,
        of: CommitScope,
        found: &mut ScanResults,
        all_found: &[LastResults],
    ) -> (ScanChanges, Vec<Warning>) {
        let CommitScope { root, began_ns, .. } = of;
        let mut changes = ScanChanges::default();
        let mut gone = lock(&self.writer);
        let (new, odd) = self.read(|old| {
            for (path, entry) in &old.files {
                let is_hidden = |file: &ScannedFile| file.root < entry.root;
                let is_kept = match entry.root == root {
                    // An entry checked after the walk began is newer than the walk's result.
                    true => {
                        let is_behind = !of.is_whole && !found.located.contains_key(path);
                        entry.checked_ns() > began_ns || is_behind
                    }
                    false => !found.located.get(path).is_some_and(is_hidden),
                };
                if is_kept {
                    let located = ScannedFile {
                        root: entry.root,
                        identity: entry.identity,
                        checked_ns: entry.checked_ns(),
                    };
                    found.located.insert(Arc::clone(path), located);
                }
            }
            let of_root = |index: usize| match index == root {
                true => &found.manifests,
                false => &*all_found[index].manifests,
            };
            let is_of = |index: usize, path: &Arc<str>| {
                let file = found.located.get(path);
                file.is_some_and(|file| file.root == index)
            };
            let mut manifests: Manifests = BTreeMap::new();
            for index in 0..all_found.len() {
                let since = if index == root { began_ns } else { 0 };
                let early = lock(&self.around[index]).manifests_since(since);
                let here = of_root(index).iter();
                let here = here.map(|(path, manifest)| (Arc::clone(path), Arc::clone(manifest)));
                let here = here.chain(early);
                manifests.extend(here.filter(|(path, _)| is_of(index, path)));
            }
            let (titles, odd) = titles(&manifests, &found.located);
            let removed = old.files.iter();
            let removed = removed.filter(|(path, _)| !found.located.contains_key(*path));
            removed.for_each(|(_, entry)| entry.note_past());
            let new = build(&found.located, &titles, old, &self.maker);
            changes.compare(old, &new);
            let mut served = (0..all_found.len()).filter(|index| self.is_served(*index));
            // A root that was not scanned yet may have the missing files.
            if served.all(|index| all_found[index].is_taken_in) {
                changes.warnings = self.keep_missing(missing(&titles));
            }
            (new, odd)
        });
        changes.gone_streams.append(&mut gone);
        // The old one is dropped outside the lock.
        let old = self.write(|catalogue| std::mem::replace(catalogue, new));
        drop(gone);
        drop(old);
        // Warnings about another root's titles were reported when that was scanned.
        let odd = odd.into_iter().filter(|warning| {
            let file = found.located.get(warning.path.as_str());
            file.is_none_or(|file| file.root == root)
        });
        (changes, odd.collect())
    }

    /// Stores the warnings about titles with missing files, and returns the new ones.
    fn keep_missing(&self, mut warnings: Vec<Warning>) -> Vec<Warning> {
        warnings.truncate(WARNINGS_MAX);
        let mut kept = lock(&self.missing);
        let before: HashSet<_> = kept.iter().collect();
        let new = warnings.iter().filter(|warning| !before.contains(warning));
        let new: Vec<Warning> = new.cloned().collect();
        *kept = warnings;
        new
    }

    /// Whether a root differs from the catalogue, or manifests were read again: a file added by a
    /// look-up may be in the catalogue before its manifest is used.
    fn is_changed(&self, root: usize, scan: &RootScan, last: &Manifests) -> bool {
        let is_read = |(path, manifest): (&Arc<str>, &Arc<Manifest>)| {
            let before = last.get(path);
            let is_same = before.is_some_and(|before| {
                Arc::ptr_eq(before, manifest) || (before.is_unread() && manifest.is_unread())
            });
            let is_of_root = |catalogue: &Catalogue| {
                let entry = catalogue.files.get(path);
                entry.is_some_and(|entry| entry.root == root)
            };
            !is_same && self.read(is_of_root)
        };
        let is_new = |catalogue: &Catalogue, (path, identity): &(Arc<str>, FileIdentity)| {
            let entry = catalogue.files.get(path);
            entry.is_none_or(|entry| {
                entry.root > root || (entry.root == root && entry.identity != *identity)
            })
        };
        let mut some = scan.files.chunks(FILES_PER_LOCK);
        scan.is_changed
            || scan.manifests.iter().any(is_read)
            || some.any(|files| {
                self.read(|catalogue| files.iter().any(|file| is_new(catalogue, file)))
            })
    }

    /// Logs the new warnings, and stores all.
    fn keep_warnings(
        &self,
        mut found: ScanResults,
        last: &mut LastResults,
        mut changes: ScanChanges,
    ) -> ScanChanges {
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
        Warning::log_all(&changes.warnings);
        self.read(|catalogue| {
            self.maker.ground.late_warnings.retain(|warning| {
                let entry = catalogue.files.get(warning.path.as_str());
                entry.is_some_and(|entry| entry.stream.is_header_odd())
            });
        });
        last.warnings = warnings;
        last.counts = found.counts;
        changes
    }
}

/// The results of a walk to commit.
#[derive(Debug, Clone, Copy)]
struct CommitScope {
    root: usize,
    /// When the walk began.
    began_ns: u64,
    /// Whether the results are complete, so that other entries of the root are removed.
    is_whole: bool,
}

/// How often intermediate results are committed: each commit costs as much as one of the whole
/// root.
struct CommitThrottle {
    /// When the scan began, or the last commit ended.
    since: Instant,
    pause: Duration,
}

impl CommitThrottle {
    fn new(pause: Duration) -> Self {
        Self {
            since: Instant::now(),
            pause,
        }
    }

    fn show(&mut self, show: impl FnOnce()) {
        let now = Instant::now();
        if now - self.since < self.pause {
            return;
        }
        show();
        self.since = Instant::now();
        // At most a tenth of the duration of the walk.
        self.pause = self.pause.max(9 * (self.since - now));
    }
}

/// The results of a walk, and when it began.
struct WalkResult {
    scan: RootScan,
    began_ns: u64,
}

/// The files of a root, then of all roots together.
#[derive(Default)]
struct ScanResults {
    located: HashMap<Arc<str>, ScannedFile>,
    manifests: Manifests,
    counts: ScanCounts,
    warnings: Vec<Warning>,
}

impl ScanResults {
    /// Adds files of a root; entries of earlier roots under the same path are kept.
    fn locate(&mut self, files: impl IntoIterator<Item = (Arc<str>, ScannedFile)>) {
        for (path, file) in files {
            self.located.entry(path).or_insert(file);
        }
    }

    /// Adds the intermediate results of a walk of one root.
    fn so_far(&mut self, root: usize, scan: &RootScan, checked_ns: u64) {
        let copy = RootScan {
            files: scan.files.clone(),
            manifests: scan.manifests.clone(),
            counts: scan.counts,
            ..RootScan::default()
        };
        self.add(root, copy, checked_ns);
    }

    /// Adds the checked files of one root.
    fn add(&mut self, root: usize, scan: RootScan, checked_ns: u64) {
        self.locate(scan.files.into_iter().map(|(path, identity)| {
            let located = ScannedFile {
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

impl ScanChanges {
    fn add(&mut self, other: Self) {
        self.gone_streams.extend(other.gone_streams);
        self.added += other.added;
        self.removed += other.removed;
        self.changed += other.changed;
        self.warnings.extend(other.warnings);
    }

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
        let kept: HashSet<u64> = new.files.values().map(|entry| entry.stream.id).collect();
        let mut gone: BTreeMap<u64, bool> = BTreeMap::new();
        for (path, entry) in &old.files {
            if kept.contains(&entry.stream.id) {
                continue;
            }
            let stays = new.files.get(path).is_some_and(|of| {
                of.root == entry.root && of.identity.has_bytes_of(&entry.identity)
            });
            *gone.entry(entry.stream.id).or_default() |= stays;
        }
        let gone = gone.into_iter();
        self.gone_streams = gone
            .map(|(id, is_regrouped)| RemovedStream { id, is_regrouped })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;

    use super::*;
    use crate::library::Library;
    use crate::options::LibraryOptions;

    #[test]
    fn first_scan_lists_intermediate_results_and_drops_none() {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["a", "b", "c"] {
            std::fs::create_dir(root.path().join(folder)).expect("made");
            let path = root.path().join(folder).join("film.mp4");
            std::fs::write(path, "film").expect("written");
        }
        let library = Library::open(&[root.path().to_path_buf()], LibraryOptions::default());
        let library = library.expect("a valid root");
        // Looked up before the scan began.
        library.resolve("a/film.mp4").expect("the file exists");
        let state = &library.state;
        let began_ns = state.now_ns();
        let mut counts = Vec::new();
        let (manifests, listings) = Default::default();
        let before = PreviousScan {
            root: &state.roots()[0],
            manifests: &manifests,
            listings: &listings,
            whole: true,
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
            own_hosts: &[],
        };
        let mut along = WalkCallbacks {
            look_at: &look_at,
            rest: &mut |_| (),
            so_far: &mut |scan| {
                state.show(0, scan, began_ns);
                counts.push((library.titles().len(), library.counts().files));
                library.remember("a/film.mp4").expect("still known");
            },
        };
        walk(before, &mut along);
        let files: Vec<u64> = counts.iter().map(|(_, files)| *files).collect();
        assert_eq!(files, [0, 1, 2, 3]);
        // The file system orders the folders: until that of the known title comes, it is one more.
        let more = counts.iter().map(|(titles, files)| *titles as u64 - files);
        let more: Vec<u64> = more.collect();
        assert!(more.is_sorted_by(|a, b| a >= b), "{counts:?}");
        assert_eq!((more[0], more[3]), (1, 0), "{counts:?}");
        assert_eq!(library.rescan().added, 0, "not all are known");
    }

    const PLAYLIST: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n2.ts\n\
                            #EXT-X-ENDLIST\n";

    /// Scans while one name cannot be checked. Directories are trusted at once.
    fn search_with_ill(library: &Library, ill: &str, whole: bool) -> ScanChanges {
        let state = &library.state;
        let mut last = lock(&state.walks[0]);
        let began_ns = state.now_ns();
        let before = PreviousScan {
            root: &state.roots()[0],
            manifests: &last.manifests,
            listings: &last.listings,
            whole,
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
            own_hosts: &[],
        };
        let mut along = WalkCallbacks {
            look_at: &|directory: BorrowedFd<'_>, name: &CStr| match name.to_bytes()
                == ill.as_bytes()
            {
                true => Err(Errno::IO),
                false => look_at(directory, name),
            },
            rest: &mut |_| (),
            so_far: &mut |_| (),
        };
        let scan = walk(before, &mut along);
        state.merge(0, WalkResult { scan, began_ns }, &mut last)
    }

    #[test]
    fn unreadable_entry_is_kept_with_its_title_and_retried() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join(name), text).expect("written");
        };
        std::fs::create_dir(root.path().join("t")).expect("made");
        write("t/v.m3u8", PLAYLIST);
        write("t/1.ts", "one");
        write("t/2.ts", "two");
        let options = LibraryOptions {
            settle_file: Duration::ZERO,
            ..LibraryOptions::default()
        };
        let library = Library::scan_with(&[root.path().to_path_buf()], options);
        let library = library.expect("a valid root");
        let titles = library.titles();
        let ids = || {
            ["t/v.m3u8", "t/1.ts", "t/2.ts"].map(|path| {
                let known = library.remember(path).expect("still known");
                (known.stream.id, known.part)
            })
        };
        let before = ids();
        // In a trusted directory, manifests are still checked.
        for (ill, whole) in [
            ("v.m3u8", true),
            ("2.ts", true),
            ("", true),
            ("v.m3u8", false),
        ] {
            let changes = search_with_ill(&library, ill, whole);
            let counts = (changes.added, changes.removed, changes.changed);
            assert_eq!(
                (counts, &*changes.gone_streams),
                ((0, 0, 0), &[][..]),
                "{ill}"
            );
            assert_eq!((ids(), library.titles().len()), (before, 1), "{ill}");
            let is_told = |odd: &Warning| odd.path == "t" && odd.reason.contains(ill);
            assert_eq!(
                library.warnings().iter().any(is_told),
                !ill.is_empty(),
                "{ill}"
            );
        }
        library.rescan();
        assert_eq!(library.titles(), titles, "warnings in the list");
        search_with_ill(&library, "2.ts", true);
        // This does not show in any time of the directory.
        write("t/2.ts", "another");
        assert_eq!(library.refresh().changed, 1);
    }

    #[test]
    fn results_are_committed_periodically_less_often_if_slow() {
        let hour = Duration::from_secs(3600);
        let mut later = CommitThrottle::new(hour);
        later.show(|| unreachable!("too early"));
        let mut now = CommitThrottle::new(Duration::ZERO);
        let mut shown = 0;
        now.show(|| shown += 1);
        assert_eq!(shown, 1);
        now.pause = hour;
        now.show(|| unreachable!("too early"));
    }
}
