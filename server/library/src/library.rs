//! The library as the other shells hold it: resolve a path, list the titles, scan again.
//!
//! The one idea: readers never wait for the disk of anybody else. What is in memory and fresh is
//! answered under a shared lock held for one look-up; whoever has to look at the disk does so
//! without a lock, and takes the exclusive one only to put down what it found.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use headlong_media::PATH_BYTES_MAX;
use headlong_units::BitRate;
use rustix::fs::FileType;
use thiserror::Error;

use crate::catalogue::{Catalogue, Files, Located, Maker, Recipe};
use crate::device::{DeviceInfo, Devices};
use crate::identity::{Identity, is_regular};
use crate::root::{Miss, Root, RootError, open_roots};
use crate::scan::{Changes, LastScan};
use crate::stream::{Ground, PartFile, StreamFiles};
use crate::title::{TitleRecord, TitleView};
use crate::walk::Counts;
use crate::warning::Warning;

/// In place of the time of a check: there was none that counts.
const NEVER_CHECKED_NS: u64 = 0;

/// Titles looked at under one hold of the lock: well below a millisecond.
const TITLES_PER_LOCK: usize = 128;

/// What may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryOptions {
    /// How long what was found on disk is believed; zero asks the disk each time.
    pub revalidate: Duration,
    /// How long after its last change a directory is believed to show the next one: longer than a
    /// tick of its file system's clock.
    pub settle: Duration,
}

impl Default for LibraryOptions {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_secs(1),
            // FAT's clock ticks every two seconds, the slowest of all.
            settle: Duration::from_secs(3),
        }
    }
}

/// One file in one version.
#[derive(Debug)]
pub struct FileEntry {
    /// Path from the root of its tree.
    pub path: Arc<str>,
    /// Index of the root, in the order given to the scan.
    pub root: usize,
    /// Index of the device in [`Library::devices`].
    pub device: usize,
    /// Bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: SystemTime,
    /// Which version this is.
    pub identity: Identity,
    /// The stream it belongs to.
    pub stream: Arc<StreamFiles>,
    /// Its place in [`StreamFiles::parts`].
    pub part: u32,
    pub(crate) checked_ns: AtomicU64,
}

impl FileEntry {
    pub(crate) fn new(stream: &Arc<StreamFiles>, part: u32, checked_ns: u64) -> Self {
        let file = &stream.parts[part as usize];
        Self {
            path: Arc::clone(&file.path),
            root: file.root,
            device: stream.device,
            size: file.identity.size,
            mtime: file.identity.modified(),
            identity: file.identity,
            stream: Arc::clone(stream),
            part,
            checked_ns: AtomicU64::new(checked_ns),
        }
    }

    /// Notes that the disk still had this version at that moment.
    pub(crate) fn checked(&self, now_ns: u64) {
        self.checked_ns.fetch_max(now_ns, Ordering::Relaxed);
    }
}

/// Why a path has no file.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// Nothing of that name, or a hidden name, or a link out of its root.
    #[error("`{0}`: no such file")]
    NotFound(String),
    /// Not a path that could name a file: empty, with dot segments or NUL, or too long.
    #[error("`{0}` is not a path of a file beneath a root")]
    BadPath(String),
    /// It is a directory.
    #[error("`{0}` is a directory")]
    Directory(String),
    /// A FIFO, a socket or a device; never opened.
    #[error("`{0}` is not a regular file")]
    NotRegular(String),
    /// The file system refused or failed.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// All titles of all roots. Cheap to clone; may be used from any thread; every call may block.
#[derive(Debug, Clone)]
pub struct Library {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: LibraryOptions,
    began: Instant,
    pub(crate) maker: Maker,
    catalogue: RwLock<Catalogue>,
    /// Held by whoever is about to change the catalogue; it holds the ids of streams dropped.
    pub(crate) writer: Mutex<Vec<u64>>,
    /// Held by a scan; what the last one found.
    last_scan: Mutex<LastScan>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held left nothing half-done that a later call would not mend.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// Opens and scans the roots with the default options.
    ///
    /// # Errors
    /// Everything that is wrong with any of the roots.
    pub fn scan(roots: &[PathBuf]) -> Result<Self, Vec<RootError>> {
        Self::scan_with(roots, LibraryOptions::default())
    }

    /// Opens and scans the roots. Several roots are one tree; where two have the same path, the
    /// root named first wins.
    ///
    /// # Errors
    /// Everything that is wrong with any of the roots.
    pub fn scan_with(roots: &[PathBuf], options: LibraryOptions) -> Result<Self, Vec<RootError>> {
        Self::scan_in(Path::new("/sys"), roots, options)
    }

    /// As [`Library::scan_with`], with the devices that `sys` describes.
    pub(crate) fn scan_in(
        sys: &Path,
        roots: &[PathBuf],
        options: LibraryOptions,
    ) -> Result<Self, Vec<RootError>> {
        let roots = open_roots(roots)?;
        let ground = Ground {
            devices: Devices::of_roots(sys, &roots),
            roots,
            late_warnings: Mutex::default(),
        };
        let inner = Inner {
            options,
            began: Instant::now(),
            maker: Maker::new(ground),
            catalogue: RwLock::default(),
            writer: Mutex::default(),
            last_scan: Mutex::default(),
        };
        let library = Self {
            inner: Arc::new(inner),
        };
        library.rescan();
        Ok(library)
    }

    /// The devices that files lie on, those of the roots first. A device keeps its index; one that
    /// is mounted below a root later is added at the end when a file on it is first met.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.inner.maker.ground.devices.all()
    }

    /// What the last scan came across.
    pub fn counts(&self) -> Counts {
        lock(&self.inner.last_scan).counts
    }

    /// What the last scan found odd, and what turned out odd since.
    pub fn warnings(&self) -> Vec<Warning> {
        let last = lock(&self.inner.last_scan);
        let mut warnings: Vec<Warning> = last.warnings.iter().map(|(w, _)| w.clone()).collect();
        warnings.extend(lock(&self.inner.maker.ground.late_warnings).iter().cloned());
        warnings
    }

    /// How many titles the last scan found.
    pub fn title_count(&self) -> usize {
        self.inner.read(|catalogue| catalogue.titles.len())
    }

    /// The titles, in path order. Touches no disk.
    pub fn titles(&self) -> Vec<TitleView> {
        let view = |title: &TitleRecord, files: &Files| title.view(files);
        self.inner.of_titles(view).collect()
    }

    /// The streams of plain MP4 titles of which nobody has read the headers yet
    /// ([`StreamFiles::header`] does), at most so many, in path order. Touches no disk.
    pub fn unread_headers(&self, count_max: usize) -> Vec<Arc<StreamFiles>> {
        let unread = |title: &TitleRecord, files: &Files| title.unread_header(files);
        self.inner.of_titles(unread).take(count_max).collect()
    }

    /// The ids of the streams that no path leads to any more, each once.
    pub fn take_gone_streams(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.inner.writer))
    }

    /// The file at a path: decoded, relative to the roots, without a leading slash.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn resolve(&self, path: &str) -> Result<Arc<FileEntry>, ResolveError> {
        let bad = |name: &str| ["", ".", ".."].contains(&name);
        if path.len() > PATH_BYTES_MAX || path.contains('\0') || path.split('/').any(bad) {
            return Err(ResolveError::BadPath(path.to_string()));
        }
        if path.split('/').any(|name| name.starts_with('.')) {
            return Err(ResolveError::NotFound(path.to_string()));
        }
        self.inner.resolve(path, true)
    }

    /// The file at a path, if it is known and was looked at recently enough. Touches no disk.
    pub fn recall(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.inner.recall(path, self.inner.now_ns())
    }

    /// The file at a path as it was when somebody last looked, however long ago. Touches no disk:
    /// for when the disk does not answer.
    pub fn remember(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.inner.known(path)
    }

    /// Somebody found another version of a file than the one that is known: the next look-up asks
    /// the disk, however fresh the knowledge is.
    pub fn distrust(&self, path: &str) {
        if let Some(entry) = self.inner.known(path) {
            entry.checked_ns.store(NEVER_CHECKED_NS, Ordering::Relaxed);
        }
    }

    /// Walks the roots again, reads what manifests are new, and takes over all that is the same.
    pub fn rescan(&self) -> Changes {
        let mut last = lock(&self.inner.last_scan);
        self.inner.rescan(&mut last)
    }

    /// As [`Library::rescan`], but does not look at the files in directories in which no name came or went,
    /// but for manifests: a file that was written anew in its place is noticed when it is asked for. At
    /// least once an hour everything is looked at.
    pub fn refresh(&self) -> Changes {
        let mut last = lock(&self.inner.last_scan);
        self.inner.refresh(&mut last)
    }
}

impl Inner {
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.maker.ground.roots
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

    /// What `f` makes of each title of the last scan. The lock is let go of now and then: a change
    /// of the catalogue must not wait for all of them, since every look-up would wait behind it.
    fn of_titles<T>(
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

    fn known(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.read(|catalogue| catalogue.files.get(path).cloned())
    }

    /// The file at a path, if the disk was asked about it recently enough.
    fn recall(&self, path: &str, now_ns: u64) -> Option<Arc<FileEntry>> {
        let entry = self.known(path)?;
        let checked_ns = entry.checked_ns.load(Ordering::Relaxed);
        let age_ns = now_ns.saturating_sub(checked_ns);
        let is_fresh = u128::from(age_ns) < self.options.revalidate.as_nanos();
        (is_fresh && checked_ns != NEVER_CHECKED_NS).then_some(entry)
    }

    fn resolve(&self, path: &str, links: bool) -> Result<Arc<FileEntry>, ResolveError> {
        let now_ns = self.now_ns();
        if let Some(entry) = self.recall(path, now_ns) {
            return Ok(entry);
        }
        let owned = || path.to_string();
        for (index, root) in self.roots().iter().enumerate() {
            match root.stat(path) {
                Ok(stat) if is_regular(&stat) => {
                    let file = Located {
                        root: index,
                        identity: Identity::of(&stat),
                        checked_ns: now_ns,
                    };
                    return self
                        .admit(path, file)
                        .ok_or_else(|| ResolveError::NotFound(owned()));
                }
                Ok(stat) => {
                    self.forget(path);
                    return Err(match FileType::from_raw_mode(stat.st_mode) {
                        FileType::Directory => ResolveError::Directory(owned()),
                        _ => ResolveError::NotRegular(owned()),
                    });
                }
                Err(Miss::Absent) => {}
                Err(Miss::Link) => {
                    self.forget(path);
                    let real = root.real_path(path).filter(|_| links);
                    let entry = real.map(|real| self.resolve(&real, false)).transpose()?;
                    let inside = entry.filter(|entry| entry.root == index);
                    return inside.ok_or_else(|| ResolveError::NotFound(owned()));
                }
                Err(Miss::Error(source)) => {
                    return Err(ResolveError::Io {
                        path: owned(),
                        source,
                    });
                }
            }
        }
        self.forget(path);
        Err(ResolveError::NotFound(owned()))
    }

    /// Takes in a file that is on disk: confirms it, or makes it a new version.
    fn admit(&self, path: &str, file: Located) -> Option<Arc<FileEntry>> {
        let current = |entry: &Arc<FileEntry>| {
            let same = entry.identity == file.identity && entry.root == file.root;
            // Somebody who looked later than we did knows better.
            same || entry.checked_ns.load(Ordering::Relaxed) > file.checked_ns
        };
        if let Some(entry) = self.known(path).filter(current) {
            entry.checked(file.checked_ns);
            return Some(entry);
        }
        let mut gone = lock(&self.writer);
        if let Some(entry) = self.known(path).filter(current) {
            entry.checked(file.checked_ns);
            return Some(entry);
        }
        match self.known(path) {
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
        self.known(path)
    }

    /// Drops a file that is no longer on disk.
    fn forget(&self, path: &str) {
        if self.known(path).is_none() {
            return;
        }
        let mut gone = lock(&self.writer);
        if let Some(old) = self.known(path) {
            self.replace(&old.stream, path, None, &mut gone);
        }
    }

    /// Replaces a stream of which `path` is another version now, or gone: what is left of it, as
    /// it is on disk at this moment, becomes a new stream.
    fn replace(
        &self,
        old: &Arc<StreamFiles>,
        path: &str,
        file: Option<Located>,
        gone: &mut Vec<u64>,
    ) {
        let now_ns = self.now_ns();
        let mut parts = Vec::with_capacity(old.parts.len());
        for part in &old.parts {
            let found = if *part.path == *path {
                file.map(|file| (file.root, file.identity))
            } else {
                let stat = self.roots()[part.root]
                    .stat(&part.path)
                    .ok()
                    .filter(is_regular);
                stat.map(|stat| (part.root, Identity::of(&stat)))
            };
            if let Some((root, identity)) = found {
                parts.push(PartFile {
                    path: Arc::clone(&part.path),
                    root,
                    identity,
                });
            }
        }
        self.write(|catalogue| {
            for part in &old.parts {
                catalogue.files.remove(&part.path);
            }
        });
        let checked_ns = file.map_or(now_ns, |file| file.checked_ns);
        self.put(&old.title, old.manifest_bit_rate, parts, checked_ns);
        gone.push(old.id);
    }

    /// Puts down files as streams, one for each device.
    fn put(
        &self,
        title: &Arc<str>,
        bit_rate: Option<BitRate>,
        mut parts: Vec<PartFile>,
        checked_ns: u64,
    ) {
        while let Some(first) = parts.first() {
            let device_of = |part: &PartFile| {
                let beneath = &self.roots()[part.root].path;
                let place = self.maker.ground.devices.place(part.identity.dev, beneath);
                place.device
            };
            let device = device_of(first);
            let (here, elsewhere) = parts.into_iter().partition(|p| device_of(p) == device);
            let stream = self.maker.make(Recipe {
                title: Arc::clone(title),
                parts: here,
                device,
                bit_rate,
            });
            self.write(|catalogue| catalogue.put(&stream, checked_ns));
            parts = elsewhere;
        }
    }
}
