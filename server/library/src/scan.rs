//! A scan of a root, and what it changes.
//!
//! The one idea: the walk takes its time and holds no lock that a reader or another root needs; the
//! new catalogue is built beside the old one, from what this root holds and what the old one has
//! of the others, and takes its place at once. If the walk finds what the last one found, the old
//! one stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::catalogue::{Catalogue, Located, build};
use crate::identity::Identity;
use crate::manifest::{Manifest, Manifests, missing, titles};
use crate::state::{FILES_PER_LOCK, LastFound, LastWalk, State, lock};
use crate::stream::Gone;
use crate::walk::{Along, Before, Counts, RootScan, look_at, walk};
use crate::warning::Warning;

/// Most warnings kept of one scan.
const WARNINGS_MAX: usize = 10_000;

/// How often everything is looked at, whatever the directories say: some file systems do not keep
/// their directories' times, and a file that nobody asks for may have been written in its place.
const WHOLE_INTERVAL: Duration = Duration::from_secs(3600);

/// What a further scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Streams that no path leads to any more, since the last scan or
    /// [`Library::take_gone_streams`].
    pub gone_streams: Vec<Gone>,
    /// Files that are new.
    pub added: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Files that are another version.
    pub changed: u64,
    /// What is odd that was not odd before in the same way.
    pub warnings: Vec<Warning>,
}

impl State {
    /// Walks a root and puts what it holds in the place of what was known of it; does not look at
    /// files in directories that are as they were, but for everything now and then. Whenever the
    /// disk was asked something, `rest` is told how long that took.
    pub(crate) fn scan_root(&self, root: usize, rest: &mut dyn FnMut(Duration)) -> Changes {
        let mut last = lock(&self.walks[root]);
        let walked = self.walk(root, false, &mut last, rest);
        self.merge(root, walked, &mut last)
    }

    /// Walks all roots side by side, then takes in what they hold, in their order.
    pub(crate) fn scan_all(&self, whole: bool) -> Changes {
        let mut lasts: Vec<_> = self.walks.iter().map(lock).collect();
        let walked: Vec<Walked> = std::thread::scope(|scope| {
            let start = |(root, last): (usize, _)| {
                let last: &mut LastWalk = last;
                scope.spawn(move || self.walk(root, whole, last, &mut |_| ()))
            };
            let lasts = lasts.iter_mut().map(|last| &mut **last);
            let threads: Vec<_> = lasts.enumerate().map(start).collect();
            let finish = |thread: std::thread::ScopedJoinHandle<'_, Walked>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(finish).collect()
        });
        let mut changes = Changes::default();
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
    ) -> Walked {
        self.revisit(root);
        let (began, began_ns) = (Instant::now(), self.now_ns());
        let is_due = last
            .whole_at
            .is_none_or(|at| at.elapsed() >= WHOLE_INTERVAL);
        let whole = whole || is_due;
        let before = Before {
            manifests: &last.manifests,
            listings: &last.listings,
            whole,
            settle: self.options.settle,
            settle_file: self.options.settle_file,
        };
        let mut showing = Showing::new(self.options.show_after);
        let mut so_far = |scan: &RootScan| showing.show(|| self.show(root, scan, began_ns));
        let mut along = Along {
            look_at: &look_at,
            rest,
            so_far: match lock(&self.found)[root].is_taken_in {
                true => &mut |_| (),
                false => &mut so_far,
            },
        };
        let scan = match self.is_served(root) {
            true => walk(&self.roots()[root], before, &mut along),
            false => RootScan::default(),
        };
        if whole {
            last.whole_at = Some(began);
        }
        Walked { scan, began_ns }
    }

    /// Takes in what the first walk of a root has found so far, so that it is listed meanwhile.
    fn show(&self, root: usize, scan: &RootScan, began_ns: u64) {
        let mut found = Found::default();
        found.so_far(root, scan, began_ns);
        self.meet_devices(root, &found.located);
        let mut all_found = lock(&self.found);
        let of = Moment {
            root,
            began_ns,
            is_whole: false,
        };
        let (mut changes, _) = self.exchange(of, &mut found, &all_found);
        lock(&self.writer).append(&mut changes.gone_streams);
        all_found[root].manifests = Arc::new(found.manifests);
        all_found[root].counts = found.counts;
    }

    /// Whoever asks for a file on a file system that was met does not wait for its disk.
    pub(crate) fn meet_devices(&self, root: usize, located: &HashMap<Arc<str>, Located>) {
        let files = located.iter();
        let devs: HashMap<u64, &str> = files
            .map(|(path, file)| (file.identity.dev, &**path))
            .collect();
        for (dev, path) in devs {
            self.maker.ground.place(root, path, dev);
        }
    }

    /// Takes in what a walk found. Whatever of it needs the disk is asked before any lock is taken.
    fn merge(&self, root: usize, walked: Walked, last: &mut LastWalk) -> Changes {
        let Walked { mut scan, began_ns } = walked;
        last.listings = std::mem::take(&mut scan.listings);
        let losses = self.losses.load(Ordering::Relaxed);
        let is_asked_for = std::mem::replace(&mut last.losses, losses) != losses;
        scan.warnings.truncate(WARNINGS_MAX);
        // What a disk that is ill does not tell leaves all as it was, but for that.
        let is_as_odd = last.warnings == scan.warnings;
        last.warnings.clone_from(&scan.warnings);
        let is_known = lock(&self.found)[root].is_taken_in;
        if is_known && is_as_odd && !is_asked_for && !self.is_changed(root, &scan, &last.manifests)
        {
            let gone_streams = std::mem::take(&mut *lock(&self.writer));
            return Changes {
                gone_streams,
                ..Changes::default()
            };
        }
        let mut found = Found::default();
        for listing in &scan.unchanged {
            found.locate(self.unchanged(root, &listing.files, began_ns));
        }
        found.locate(self.unseen(root, &scan.unseen));
        found.add(root, scan, began_ns);
        found.locate(self.unlisted(root, &last.listings, began_ns));
        self.meet_devices(root, &found.located);
        let mut all_found = lock(&self.found);
        all_found[root].is_taken_in = true;
        let of = Moment {
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

    /// Puts a new catalogue in the place of the old one.
    fn exchange(
        &self,
        of: Moment,
        found: &mut Found,
        all_found: &[LastFound],
    ) -> (Changes, Vec<Warning>) {
        let Moment { root, began_ns, .. } = of;
        let mut changes = Changes::default();
        let mut gone = lock(&self.writer);
        let (new, odd) = self.read(|old| {
            for (path, entry) in &old.files {
                let is_hidden = |file: &Located| file.root < entry.root;
                let is_kept = match entry.root == root {
                    // What was looked at since the walk began is known better than the walk knows it.
                    true => {
                        let is_behind = !of.is_whole && !found.located.contains_key(path);
                        entry.checked_ns() > began_ns || is_behind
                    }
                    false => !found.located.get(path).is_some_and(is_hidden),
                };
                if is_kept {
                    let located = Located {
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
            let new = build(&found.located, &titles, old, &self.maker);
            changes.compare(old, &new);
            let mut served = (0..all_found.len()).filter(|index| self.is_served(*index));
            // A root that was not looked at yet may have what no other has.
            if served.all(|index| all_found[index].is_taken_in) {
                changes.warnings = self.keep_missing(missing(&titles));
            }
            (new, odd)
        });
        changes.gone_streams.append(&mut gone);
        // The old one is taken apart outside the lock.
        let old = self.write(|catalogue| std::mem::replace(catalogue, new));
        drop(gone);
        drop(old);
        // Odd things about another root's titles were said when that was scanned.
        let odd = odd.into_iter().filter(|warning| {
            let file = found.located.get(warning.path.as_str());
            file.is_none_or(|file| file.root == root)
        });
        (changes, odd.collect())
    }

    /// Remembers which titles name files that are nowhere, and tells what is new of it.
    fn keep_missing(&self, mut warnings: Vec<Warning>) -> Vec<Warning> {
        warnings.truncate(WARNINGS_MAX);
        let mut kept = lock(&self.missing);
        let before: HashSet<_> = kept.iter().collect();
        let new = warnings.iter().filter(|warning| !before.contains(warning));
        let new: Vec<Warning> = new.cloned().collect();
        *kept = warnings;
        new
    }

    /// Whether a root holds anything that the catalogue does not have just so, or manifests were read
    /// anew: the catalogue may have such a file from who asked for it, and nothing of what it says.
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
        let is_new = |catalogue: &Catalogue, (path, identity): &(Arc<str>, Identity)| {
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

    /// Says what is odd that was not odd before, and remembers it all.
    fn keep_warnings(
        &self,
        mut found: Found,
        last: &mut LastFound,
        mut changes: Changes,
    ) -> Changes {
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

/// What is put in the place of what was known of a root.
#[derive(Debug, Clone, Copy)]
struct Moment {
    root: usize,
    /// When the walk began that found it.
    began_ns: u64,
    /// Whether it is all that the root holds, so that what is not there is gone.
    is_whole: bool,
}

/// How often what a walk found so far is taken in: each time costs as much as all of it.
struct Showing {
    /// When it began, or the last time ended.
    since: Instant,
    pause: Duration,
}

impl Showing {
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
        // A tenth of the time of the walk, at most.
        self.pause = self.pause.max(9 * (self.since - now));
    }
}

/// A walk, and when it began.
struct Walked {
    scan: RootScan,
    began_ns: u64,
}

/// What a root holds; then what all roots hold together.
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

    /// Adds what a walk of one root has found so far.
    fn so_far(&mut self, root: usize, scan: &RootScan, checked_ns: u64) {
        let copy = RootScan {
            files: scan.files.clone(),
            manifests: scan.manifests.clone(),
            counts: scan.counts,
            ..RootScan::default()
        };
        self.add(root, copy, checked_ns);
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
            .map(|(id, is_regrouped)| Gone { id, is_regrouped })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;

    use super::*;
    use crate::library::Library;
    use crate::options::LibraryOptions;

    #[test]
    fn a_first_search_lists_what_it_has_found_and_drops_nothing_that_it_has_not() {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["a", "b", "c"] {
            std::fs::create_dir(root.path().join(folder)).expect("made");
            let path = root.path().join(folder).join("film.mp4");
            std::fs::write(path, "film").expect("written");
        }
        let library = Library::open(&[root.path().to_path_buf()], LibraryOptions::default());
        let library = library.expect("it is fine");
        // Looked up before the search began.
        library.resolve("a/film.mp4").expect("it is there");
        let state = &library.state;
        let began_ns = state.now_ns();
        let mut counts = Vec::new();
        let (manifests, listings) = Default::default();
        let before = Before {
            manifests: &manifests,
            listings: &listings,
            whole: true,
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
        };
        let mut along = Along {
            look_at: &look_at,
            rest: &mut |_| (),
            so_far: &mut |scan| {
                state.show(0, scan, began_ns);
                counts.push((library.titles().len(), library.counts().files));
                library.remember("a/film.mp4").expect("still known");
            },
        };
        walk(&state.roots()[0], before, &mut along);
        let titles: Vec<usize> = counts.iter().map(|(titles, _)| *titles).collect();
        let files: Vec<u64> = counts.iter().map(|(_, files)| *files).collect();
        assert_eq!(files, [0, 1, 2, 3]);
        assert_eq!(titles, [1, 2, 3, 3]);
        assert_eq!(library.rescan().added, 0, "all are known");
    }

    const PLAYLIST: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n2.ts\n\
                            #EXT-X-ENDLIST\n";

    /// Searches while one name cannot be looked at. Directories are believed at once.
    fn search_with_ill(library: &Library, ill: &str, whole: bool) -> Changes {
        let state = &library.state;
        let mut last = lock(&state.walks[0]);
        let began_ns = state.now_ns();
        let before = Before {
            manifests: &last.manifests,
            listings: &last.listings,
            whole,
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
        };
        let mut along = Along {
            look_at: &|directory: BorrowedFd<'_>, name: &str| match name == ill {
                true => Err(Errno::IO),
                false => look_at(directory, name),
            },
            rest: &mut |_| (),
            so_far: &mut |_| (),
        };
        let scan = walk(&state.roots()[0], before, &mut along);
        state.merge(0, Walked { scan, began_ns }, &mut last)
    }

    #[test]
    fn what_cannot_be_looked_at_stays_known_with_its_title_and_is_looked_at_again() {
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
        let library = library.expect("it is fine");
        let titles = library.titles();
        let ids = || {
            ["t/v.m3u8", "t/1.ts", "t/2.ts"].map(|path| {
                let known = library.remember(path).expect("still known");
                (known.stream.id, known.part)
            })
        };
        let before = ids();
        // In a directory that is believed, manifests are looked at all the same.
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
        assert_eq!(library.titles(), titles, "with nothing odd");
        search_with_ill(&library, "2.ts", true);
        // That shows in no time of the directory.
        write("t/2.ts", "another");
        assert_eq!(library.refresh().changed, 1);
    }

    #[test]
    fn what_is_found_is_taken_in_after_its_time_and_seldom_if_that_takes_long() {
        let hour = Duration::from_secs(3600);
        let mut later = Showing::new(hour);
        later.show(|| unreachable!("not yet"));
        let mut now = Showing::new(Duration::ZERO);
        let mut shown = 0;
        now.show(|| shown += 1);
        assert_eq!(shown, 1);
        now.pause = hour;
        now.show(|| unreachable!("not yet"));
    }
}
