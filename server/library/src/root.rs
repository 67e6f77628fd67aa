//! A root directory, and all accesses below it.
//!
//! Each call asks the kernel to reach no path outside the root (`openat2(2)`), so there is no check
//! here that could race.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use headlong_units::{path_bytes, path_text};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags, accessat, statx,
};
use rustix::io::Errno;
use thiserror::Error;

use crate::identity::FileIdentity;
use crate::links::follow_links;
use crate::mounted_root::{MountedRoot, RootPlace};
use crate::os_path::os_path;

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum RootError {
    /// The list of roots is empty.
    #[error("there is no directory to serve; name at least one")]
    None,
    /// It does not exist.
    #[error("folder {}: no such directory; create it or correct the path", path.display())]
    Missing {
        /// As configured.
        path: PathBuf,
    },
    /// It is not a directory.
    #[error("folder {}: not a directory; name the directory that holds the titles", path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("folder {}: cannot be read ({source}); let this user read and enter it", path.display())]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another root is the same directory.
    #[error("folder {}: the same directory as {}; name it once", path.display(), other.display())]
    Duplicate {
        /// As given.
        path: PathBuf,
        /// The root named before.
        other: PathBuf,
    },
    /// It lies inside another root.
    #[error("folder {}: lies inside {}; name only one of them", path.display(), other.display())]
    Nested {
        /// As given.
        path: PathBuf,
        /// The enclosing root.
        other: PathBuf,
    },
    /// The kernel has no `openat2`.
    #[error("folder {}: this kernel cannot open files safely beneath a directory \
             (openat2: {source}); Linux 5.6 or newer is needed, and a sandbox must allow the call",
            path.display())]
    NoOpenat2 {
        /// As given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl RootError {
    /// Whether the list of roots itself is wrong, on any machine: only another list corrects that.
    pub fn is_of_the_list(&self) -> bool {
        matches!(
            self,
            Self::None | Self::Duplicate { .. } | Self::Nested { .. }
        )
    }

    /// The folder in question, as configured.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Missing { path }
            | Self::NotADirectory { path }
            | Self::Unreadable { path, .. }
            | Self::Duplicate { path, .. }
            | Self::Nested { path, .. }
            | Self::NoOpenat2 { path, .. } => Some(path),
        }
    }
}

/// One root.
#[derive(Debug)]
pub(crate) struct Root {
    /// As configured, for messages.
    pub(crate) path: PathBuf,
    /// Its place in the tree. Paths of files are paths of the tree, here and everywhere else.
    pub(crate) place_in_tree: RootPlace,
    /// `None` until its disk has responded.
    opened: RwLock<Option<Arc<OpenRoot>>>,
    /// The path as resolved so far.
    reached: Mutex<PathBuf>,
    /// Whether the operator took it out of service: it has no files, and is not open.
    is_detached: AtomicBool,
    /// Whether it was not open yet when the devices were determined.
    is_late: AtomicBool,
    /// Whether it was missing then, so that the mount table does not tell where it lies.
    pub(crate) was_missing: AtomicBool,
    /// Whether it is only reached by links of other roots.
    pub(crate) is_link_target: bool,
    /// The folders into which its links may lead.
    link_targets: Vec<Arc<Root>>,
}

/// An open root.
#[derive(Debug)]
struct OpenRoot {
    canonical: PathBuf,
    fd: OwnedFd,
    identity: (u64, u64),
    /// Whether it is a mount point, if the kernel reports that (Linux 5.8).
    is_mount: bool,
}

/// Results of a look-up by path other than a file.
#[derive(Debug)]
pub(crate) enum LookupMiss {
    /// There is no such name here.
    Absent,
    /// A symbolic link is part of the path.
    Link,
    /// Any other error of the kernel.
    Error(io::Error),
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens all roots in parallel, or returns an error for each wrong one. A missing root is opened at
/// a later access, as long as another one can be opened; one whose disk fails or does not respond
/// in time may be the only one. The last `link_targets` are targets of links.
pub(crate) fn open_roots(
    folders: &[MountedRoot],
    link_targets: usize,
    timeout: Duration,
) -> Result<Vec<Arc<Root>>, Vec<RootError>> {
    let deadline = Instant::now() + timeout;
    let (served, targets) = folders.split_at(folders.len().saturating_sub(link_targets));
    let targets = targets.iter().map(|target| Root {
        is_link_target: true,
        ..Root::new(&target.folder)
    });
    let targets: Vec<Arc<Root>> = targets.map(Arc::new).collect();
    let places = RootPlace::of_all(served).into_iter();
    let roots = served.iter().zip(places).map(|(root, place_in_tree)| {
        Arc::new(Root {
            place_in_tree,
            link_targets: targets.clone(),
            ..Root::new(&root.folder)
        })
    });
    let opening: Vec<_> = roots
        .chain(targets.iter().cloned())
        .map(open_aside)
        .collect();
    let (mut roots, mut errors): (Vec<Arc<Root>>, Vec<RootError>) = (Vec::new(), Vec::new());
    let mut missing = Vec::new();
    let opened_count = opening.len();
    for (root, opened) in opening {
        let left = deadline.saturating_duration_since(Instant::now());
        let ill = |reason: &str| {
            root.is_late.store(true, Ordering::Relaxed);
            let root = root.path.display();
            tracing::error!(%root, reason, "root is not available yet; served as soon as it is");
        };
        match opened.recv_timeout(left) {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.is_of_the_disk() => ill(&error.to_string()),
            Ok(Err(error)) => {
                root.is_late.store(true, Ordering::Relaxed);
                root.was_missing.store(true, Ordering::Relaxed);
                missing.push(error);
            }
            Err(_) => ill("its disk did not answer in time"),
        }
        match roots.iter().find_map(|other| root.overlap(other)) {
            Some(error) => errors.push(error),
            None => roots.push(root),
        }
    }
    if folders.len() <= link_targets {
        errors.push(RootError::None);
    }
    if missing.len() == opened_count || !errors.is_empty() {
        missing.append(&mut errors);
        errors = missing;
    }
    if errors.is_empty() {
        Ok(roots)
    } else {
        Err(errors)
    }
}

/// Opens a root on a separate thread, which may hang indefinitely.
fn open_aside(root: Arc<Root>) -> (Arc<Root>, Receiver<Result<(), RootError>>) {
    let (say, opened) = sync_channel(1);
    let on_thread = Arc::clone(&root);
    let open = move || {
        on_thread.follow_links();
        // The receiver may be closed already.
        let _ = say.send(on_thread.open().map(drop));
    };
    let thread = std::thread::Builder::new().name("open-root".to_owned());
    if thread.spawn(open.clone()).is_err() {
        open();
    }
    (root, opened)
}

impl RootError {
    /// Whether the disk failed, which is no error of the configuration.
    fn is_of_the_disk(&self) -> bool {
        let Self::Unreadable { source, .. } = self else {
            return false;
        };
        let ill = [
            Errno::IO,
            Errno::STALE,
            Errno::NODEV,
            Errno::NXIO,
            Errno::NOTCONN,
            Errno::TIMEDOUT,
            Errno::HOSTDOWN,
            Errno::REMOTEIO,
            Errno::SHUTDOWN,
            Errno::UCLEAN,
        ];
        ill.iter()
            .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }
}

impl Root {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            place_in_tree: RootPlace::default(),
            opened: RwLock::default(),
            reached: Mutex::new(path.to_path_buf()),
            is_detached: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            was_missing: AtomicBool::new(false),
            is_link_target: false,
            link_targets: Vec::new(),
        }
    }

    /// Why it cannot be opened, if it is not open and still cannot be; nothing for a detached one.
    /// May block.
    pub(crate) fn trouble(&self) -> Option<RootError> {
        self.open().err().filter(|_| !self.is_detached())
    }

    /// Takes it out of service, and closes it, or back into service. Accesses no disk.
    pub(crate) fn set_attached(&self, is_attached: bool) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        self.is_detached.store(!is_attached, Ordering::Relaxed);
        if !is_attached {
            *opened = None;
        }
    }

    /// Whether the operator took it out of service.
    pub(crate) fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Relaxed)
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.held().is_some()
    }

    /// Whether it was not open when the devices were determined, and has not been checked since.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// A root whose disk has not responded.
    #[cfg(test)]
    pub(crate) fn late(path: &Path) -> Self {
        let root = Self::new(path);
        root.follow_links();
        root.is_late.store(true, Ordering::Relaxed);
        root
    }

    fn follow_links(&self) {
        follow_links(&self.path, &mut |reached| *self.lock_reached() = reached);
    }

    fn lock_reached(&self) -> std::sync::MutexGuard<'_, PathBuf> {
        // Every change under the lock is one assignment.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its real path or, while it is not open, the part resolved so far.
    pub(crate) fn real_path_so_far(&self) -> PathBuf {
        match self.place() {
            Some((real, _)) => real,
            None => self.lock_reached().clone(),
        }
    }

    /// Whether it is open now and was not when the devices were determined. Returns true once.
    pub(crate) fn is_late_and_open(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
            && self.open().is_ok()
            && self.is_late.swap(false, Ordering::Relaxed)
    }

    /// Opens it, unless it is open.
    fn open(&self) -> Result<Arc<OpenRoot>, RootError> {
        if let Some(opened) = self.held() {
            return Ok(opened);
        }
        let detached = || RootError::Missing {
            path: self.path.clone(),
        };
        if self.is_detached() {
            return Err(detached());
        }
        let opened = Arc::new(OpenRoot::new(&self.path)?);
        // Two threads may get here; either result is valid.
        let mut held = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // It may have been detached meanwhile, under the lock.
        if self.is_detached() {
            return Err(detached());
        }
        Ok(Arc::clone(held.get_or_insert(opened)))
    }

    /// Opens it if necessary.
    fn opened(&self) -> rustix::io::Result<Arc<OpenRoot>> {
        self.open().map_err(|_| Errno::IO)
    }

    fn held(&self) -> Option<Arc<OpenRoot>> {
        let held = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Opens the folder that is at its path now, if that is another one than the open one: its disk
    /// was remounted, or the folder was replaced. `first` is called with the real path and the
    /// `st_dev` before a file there can be found. Returns whether it was replaced. May block.
    pub(crate) fn reopen(&self, first: impl FnOnce(&Path, u64)) -> bool {
        let Some(held) = self.held() else {
            return false;
        };
        let is_other = |now: Stat| (now.st_dev, now.st_ino) != held.identity;
        if !rustix::fs::stat(&self.path).is_ok_and(is_other) {
            return false;
        }
        let Ok(new) = OpenRoot::new(&self.path) else {
            return false;
        };
        // The folder below a mount that was removed, and may return.
        if held.is_mount && !new.is_mount && held.canonical == new.canonical {
            return false;
        }
        first(&new.canonical, new.identity.0);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_detached() {
            return false;
        }
        *opened = Some(Arc::new(new));
        true
    }

    /// The conflict of two roots of one site, as far as both are open. A target of links may contain
    /// roots, or lie in one.
    pub(crate) fn overlap(&self, other: &Self) -> Option<RootError> {
        let is_of_one_site = self.place_in_tree.site() == other.place_in_tree.site();
        if self.is_link_target || other.is_link_target || !is_of_one_site {
            return None;
        }
        let (ours, theirs) = (self.held()?, other.held()?);
        let (path, earlier) = (self.path.clone(), other.path.clone());
        if ours.identity == theirs.identity {
            return Some(RootError::Duplicate {
                path,
                other: earlier,
            });
        }
        if ours.canonical.starts_with(&theirs.canonical) {
            return Some(RootError::Nested {
                path,
                other: earlier,
            });
        }
        let around = theirs.canonical.starts_with(&ours.canonical);
        around.then_some(RootError::Nested {
            path: earlier,
            other: path,
        })
    }

    /// Its real path and its `st_dev`, if it is open.
    pub(crate) fn place(&self) -> Option<(PathBuf, u64)> {
        let opened = self.held()?;
        Some((opened.canonical.clone(), opened.identity.0))
    }

    /// Opens a path of the tree.
    fn openat2(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let below = self.place_in_tree.below(path).ok_or(Errno::NOENT)?;
        let below = if below.is_empty() { "." } else { below };
        if self.is_detached() {
            return Err(Errno::NOENT);
        }
        let opened = self.opened()?;
        match opened.openat2(below, flags) {
            Err(Errno::LOOP) if !self.link_targets.is_empty() => {
                self.open_behind_link(&opened, below, flags)
            }
            answer => answer,
        }
    }

    /// Opens what a path below the folder, with links, leads to, if that lies below a target of links. `LOOP` if it
    /// does not. The kernel checks again that the target is not left.
    fn open_behind_link(
        &self,
        opened: &OpenRoot,
        below: &str,
        flags: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        let real = opened.canonical.join(os_path(below)).canonicalize();
        let real = real.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // A file of this root is found under its own path.
        if real.starts_with(&opened.canonical) {
            return Err(Errno::LOOP);
        }
        for target in &self.link_targets {
            let Ok(target) = target.opened() else {
                continue;
            };
            if let Ok(below) = real.strip_prefix(&target.canonical) {
                let below = path_text(below.as_os_str().as_bytes());
                let below = if below.is_empty() { "." } else { &*below };
                return target.openat2(below, flags);
            }
        }
        Err(Errno::LOOP)
    }

    /// Whether links that lead out of it may be followed.
    pub(crate) fn follows_links(&self) -> bool {
        !self.link_targets.is_empty()
    }

    /// Whether a link in a directory leads out of this root and of the targets of links, by its
    /// text. The target is not accessed: its disk may not respond.
    pub(crate) fn leads_out(&self, directory: &str, target: &Path) -> bool {
        let (Some(opened), Some(below)) = (self.held(), self.place_in_tree.below(directory)) else {
            return false;
        };
        let mut end = PathBuf::new();
        for part in opened
            .canonical
            .join(os_path(below))
            .join(target)
            .components()
        {
            match part {
                Component::ParentDir => _ = end.pop(),
                Component::CurDir => {}
                part => end.push(part),
            }
        }
        let configured = std::path::absolute(&self.path);
        let mut targets = self.link_targets.iter();
        !end.starts_with(&opened.canonical)
            && !configured.is_ok_and(|configured| end.starts_with(configured))
            && !targets.any(|target| end.starts_with(&target.path))
    }

    /// Whether this user may read the file at `path`. Assumed if the query fails.
    pub(crate) fn is_readable(&self, path: &str) -> bool {
        let (Ok(opened), Some(below)) = (self.opened(), self.place_in_tree.below(path)) else {
            return true;
        };
        let below = path_bytes(below);
        let asked = accessat(&opened.fd, &*below, Access::READ_OK, AtFlags::EACCESS);
        !matches!(asked, Err(Errno::ACCESS | Errno::PERM))
    }

    /// The `stat` of `path`, without opening it for reading.
    pub(crate) fn stat(&self, path: &str) -> Result<Stat, LookupMiss> {
        let fd = self
            .openat2(path, OFlags::PATH)
            .map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => LookupMiss::Absent,
                Errno::LOOP => LookupMiss::Link,
                other => LookupMiss::Error(other.into()),
            })?;
        rustix::fs::fstat(&fd).map_err(|errno| LookupMiss::Error(errno.into()))
    }

    /// Opens a directory for listing.
    pub(crate) fn open_directory(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        self.openat2(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file for reading, and returns its version.
    ///
    /// The open does not wait for a writer if a FIFO has replaced the file; the flag for that is
    /// cleared again, since io_uring would interpret it as a non-blocking read.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<(File, FileIdentity)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.openat2(path, flags)?;
        let identity = FileIdentity::of_open(&fd)?;
        rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
        Ok((File::from(fd), identity))
    }

    /// The target of a path with links, if it is inside this root.
    pub(crate) fn real_path(&self, path: &str) -> Option<String> {
        let opened = self.opened().ok()?;
        let canonical = &opened.canonical;
        let below = self.place_in_tree.below(path)?;
        let real = canonical.join(os_path(below)).canonicalize().ok()?;
        let inside = real.strip_prefix(canonical).ok()?.as_os_str();
        let inside = path_text(inside.as_bytes());
        let inside = Some(inside).filter(|path| !path.is_empty())?;
        self.place_in_tree.above(&inside)
    }
}

impl OpenRoot {
    fn new(path: &Path) -> Result<Self, RootError> {
        let wrong = |source: io::Error| {
            let path = path.to_path_buf();
            match source.kind() {
                io::ErrorKind::NotFound => RootError::Missing { path },
                io::ErrorKind::NotADirectory => RootError::NotADirectory { path },
                _ => RootError::Unreadable { path, source },
            }
        };
        let canonical = path.canonicalize().map_err(wrong)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(&canonical, flags, Mode::empty());
        let fd = open.map_err(|errno| wrong(errno.into()))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| wrong(errno.into()))?;
        let told = statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
        let opened = Self {
            identity: (stat.st_dev, stat.st_ino),
            canonical,
            fd,
            is_mount: told
                .is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        };
        match opened.openat2(".", OFlags::PATH) {
            Ok(_) => Ok(opened),
            Err(errno @ (Errno::NOSYS | Errno::PERM)) => Err(RootError::NoOpenat2 {
                path: path.to_path_buf(),
                source: errno.into(),
            }),
            // Readable, but not searchable.
            Err(errno) => Err(wrong(errno.into())),
        }
    }

    fn openat2(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.fd, &*path_bytes(path), flags, Mode::empty(), BENEATH)
    }
}
