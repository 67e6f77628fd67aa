//! Shared state of a library, and updates of single files.
//!
//! No disk access happens under a lock that a look-up needs. The catalogue is read under a shared
//! lock held for one look-up; a thread that changes it has accessed the disk before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use crate::catalogue::{Catalogue, ScannedFile, StreamFactory, StreamInputs};
use crate::entry::{FileEntry, Files};
use crate::identity::FileIdentity;
use crate::manifest::Manifests;
use crate::options::LibraryOptions;
use crate::out_of_order_state::OutOfOrderScans;
use crate::root::Root;
use crate::stream::{LibraryContext, PartFile, RemovedStream, StreamFiles};
use crate::title::TitleRecord;
use crate::walk::{Listings, ScanCounts};
use crate::warning::Warning;

/// Files looked up per lock acquisition: well below a millisecond.
pub(crate) const FILES_PER_LOCK: usize = 1024;

/// Titles processed per lock acquisition: well below a millisecond.
const TITLES_PER_LOCK: usize = 128;

/// State shared by all handles of a library.
#[derive(Debug)]
pub(crate) struct LibraryState {
    pub(crate) options: LibraryOptions,
    began: Instant,
    pub(crate) maker: StreamFactory,
    catalogue: RwLock<Catalogue>,
    /// Held by the thread that is about to change the catalogue; contains the dropped streams.
    pub(crate) writer: Mutex<Vec<RemovedStream>>,
    /// Held while a root is walked; one per root.
    pub(crate) walks: Vec<Mutex<LastWalk>>,
    /// Directories of the last walks, by root, for listings; held briefly.
    folders: Vec<Mutex<Arc<Listings>>>,
    /// Held while the results of a walk are committed; by root.
    pub(crate) found: Mutex<Vec<LastResults>>,
    /// Out-of-order scans, by root; held briefly.
    pub(crate) around: Vec<Mutex<OutOfOrderScans>>,
    /// Titles that name files that no root has; held briefly.
    pub(crate) missing: Mutex<Vec<Warning>>,
    /// Incremented when a root lost files: another root may have had hidden copies.
    pub(crate) losses: AtomicU64,
}

/// State of the last walk of a root for the next one.
#[derive(Debug, Default)]
pub(crate) struct LastWalk {
    pub(crate) manifests: Arc<Manifests>,
    pub(crate) listings: Arc<Listings>,
    /// Its warnings about directories.
    pub(crate) warnings: Vec<Warning>,
    /// When everything was last checked.
    pub(crate) whole_at: Option<Instant>,
    /// See [`LibraryState::losses`].
    pub(crate) losses: u64,
}

/// Results of the last walk of a root.
#[derive(Debug, Default)]
pub(crate) struct LastResults {
    pub(crate) manifests: Arc<Manifests>,
    pub(crate) warnings: Vec<(Warning, Option<FileIdentity>)>,
    pub(crate) counts: ScanCounts,
    /// Whether a walk has been committed.
    pub(crate) is_taken_in: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock leaves no partial state that a later call would not correct.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LibraryState {
    pub(crate) fn new(ground: LibraryContext, options: LibraryOptions) -> Self {
        let roots = ground.roots.len();
        Self {
            options,
            began: Instant::now(),
            maker: StreamFactory::new(ground),
            catalogue: RwLock::default(),
            writer: Mutex::default(),
            folders: (0..roots).map(|_| Mutex::default()).collect(),
            walks: (0..roots).map(|_| Mutex::default()).collect(),
            found: Mutex::new((0..roots).map(|_| LastResults::default()).collect()),
            around: (0..roots).map(|_| Mutex::default()).collect(),
            missing: Mutex::default(),
            losses: AtomicU64::new(0),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn roots(&self) -> &[Arc<Root>] {
        &self.maker.ground.roots
    }

    /// Whether files in a root are served.
    pub(crate) fn is_served(&self, root: usize) -> bool {
        root + self.options.unserved_roots < self.roots().len()
    }

    /// The directories that the last walk of a root found.
    pub(crate) fn listings(&self, root: usize) -> Arc<Listings> {
        Arc::clone(&lock(&self.folders[root]))
    }

    pub(crate) fn set_listings(&self, root: usize, listings: Arc<Listings>) {
        // The former ones are dropped after the lock is released.
        let before = std::mem::replace(&mut *lock(&self.folders[root]), listings);
        drop(before);
    }

    pub(crate) fn read<T>(&self, f: impl FnOnce(&Catalogue) -> T) -> T {
        f(&self
            .catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn write<T>(&self, f: impl FnOnce(&mut Catalogue) -> T) -> T {
        f(&mut self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies `f` to each title of the last scan. The lock is released from time to time: a change
    /// of the catalogue must not wait for all of them, since every look-up would wait behind it.
    pub(crate) fn of_titles<T>(
        &self,
        f: impl Fn(&TitleRecord, &Files) -> Option<T>,
    ) -> impl Iterator<Item = T> {
        let titles = self.read(|catalogue| Arc::clone(&catalogue.titles));
        let starts = (0..titles.len()).step_by(TITLES_PER_LOCK);
        starts.flat_map(move |start| {
            let end = titles.len().min(start + TITLES_PER_LOCK);
            let some = &titles[start..end];
            let view = |catalogue: &Catalogue| -> Vec<T> {
                let made = some.iter().filter_map(|title| f(title, &catalogue.files));
                made.collect()
            };
            self.read(view)
        })
    }

    pub(crate) fn cached(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.read(|catalogue| catalogue.files.get(path).cloned())
    }

    /// The file at a path, if the disk was checked recently enough.
    pub(crate) fn recall(&self, path: &str) -> Option<Arc<FileEntry>> {
        let age_ns = self.options.revalidate.as_nanos();
        let entry = self.cached(path)?;
        entry.is_fresh(self.now_ns(), age_ns).then_some(entry)
    }

    /// Adds a file that is on disk: confirms the known version, or adds a new one.
    pub(crate) fn admit(&self, path: &str, file: ScannedFile) -> Option<Arc<FileEntry>> {
        let current = |entry: &Arc<FileEntry>| {
            let same = entry.identity == file.identity && entry.root == file.root;
            // A later check has newer information.
            same || entry.checked_ns() > file.checked_ns
        };
        if let Some(entry) = self.cached(path).filter(current) {
            entry.check(file.checked_ns);
            return Some(entry);
        }
        let mut gone = lock(&self.writer);
        let known = self.cached(path);
        if let Some(entry) = known.as_ref().filter(|entry| current(entry)) {
            entry.check(file.checked_ns);
            return known;
        }
        match known {
            Some(old) => self.replace(&old.stream, path, Some(file), &mut gone),
            None => {
                let part = PartFile {
                    path: Arc::from(path),
                    root: file.root,
                    identity: file.identity,
                };
                let title = Arc::clone(&part.path);
                self.put(&title, None, vec![part], file.checked_ns);
            }
        }
        self.cached(path)
    }

    /// Removes a file that is no longer on disk.
    pub(crate) fn forget(&self, path: &str) {
        if self.cached(path).is_none() {
            return;
        }
        let mut gone = lock(&self.writer);
        if let Some(old) = self.cached(path) {
            self.replace(&old.stream, path, None, &mut gone);
        }
    }

    /// Replaces a stream in which `path` has a new version or was removed: the other files, as last
    /// checked, become a new stream.
    fn replace(
        &self,
        old: &Arc<StreamFiles>,
        path: &str,
        file: Option<ScannedFile>,
        gone: &mut Vec<RemovedStream>,
    ) {
        let mut parts = old.parts.clone();
        match file {
            Some(file) => {
                for part in parts.iter_mut().filter(|part| *part.path == *path) {
                    (part.root, part.identity) = (file.root, file.identity);
                }
            }
            None => {
                parts.retain(|part| *part.path != *path);
                let removed = self.write(|catalogue| catalogue.files.remove(path));
                if let Some(removed) = removed {
                    removed.note_past();
                }
            }
        }
        let checked_ns = file.map_or(0, |file| file.checked_ns);
        self.put(&old.title, old.manifest_bit_rate, parts, checked_ns);
        gone.push(RemovedStream {
            id: old.id,
            is_regrouped: old.parts.len() > 1,
        });
    }

    /// Adds files as streams, one for each device.
    fn put(
        &self,
        title: &Arc<str>,
        bit_rate: Option<headlong_units::BitRate>,
        mut parts: Vec<PartFile>,
        checked_ns: u64,
    ) {
        let ground = &self.maker.ground;
        let device_of = |part: &PartFile| {
            ground
                .place(part.root, &part.path, part.identity.dev)
                .device
        };
        while let Some(first) = parts.first() {
            let device = device_of(first);
            let (here, elsewhere) = parts.into_iter().partition(|p| device_of(p) == device);
            let stream = self.maker.make(StreamInputs {
                title: Arc::clone(title),
                parts: here,
                device,
                bit_rate,
            });
            self.write(|catalogue| catalogue.put(&stream, checked_ns));
            parts = elsewhere;
        }
    }

    /// Records that files were removed, of which other roots may have copies.
    pub(crate) fn note_losses(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }
}
