//! A root directory, and every way into it.
//!
//! The one idea: the kernel is told on each call that nothing outside may be reached
//! (`openat2(2)`), so no check here can be raced.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::fs::{
    Access, AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags, accessat, statx,
};
use rustix::io::Errno;
use thiserror::Error;

use crate::identity::Identity;
use crate::links::follow_links;

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum RootError {
    /// No root was named at all.
    #[error("there is no directory to serve; name at least one")]
    None,
    /// Nothing is there.
    #[error("folder {}: no such directory; create it or correct the path", path.display())]
    Missing {
        /// As given.
        path: PathBuf,
    },
    /// A file or something else is there.
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
        /// What the kernel said.
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
        /// The root around it.
        other: PathBuf,
    },
    /// The kernel has no `openat2`.
    #[error("folder {}: this kernel cannot open files safely beneath a directory \
             (openat2: {source}); Linux 5.6 or newer is needed, and a sandbox must allow the call",
            path.display())]
    NoOpenat2 {
        /// As given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl RootError {
    /// Whether the list of roots itself is wrong, whatever this machine has: only another list mends
    /// that.
    pub fn is_of_the_list(&self) -> bool {
        matches!(
            self,
            Self::None | Self::Duplicate { .. } | Self::Nested { .. }
        )
    }

    /// Which folder it is about, as given.
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
    /// As given, for people.
    pub(crate) path: PathBuf,
    /// Empty as long as its disk has not answered.
    opened: RwLock<Option<Arc<Opened>>>,
    /// The path without the links met so far.
    reached: Mutex<PathBuf>,
    /// Whether it was not open yet when it was looked for which disk it lies on.
    is_late: AtomicBool,
    /// Whether nothing was there then, so that the table of mounts does not say where it lies.
    pub(crate) was_missing: AtomicBool,
}

/// A root, held open.
#[derive(Debug)]
struct Opened {
    canonical: PathBuf,
    fd: OwnedFd,
    identity: (u64, u64),
    /// Whether something is mounted just there, if the kernel says that (Linux 5.8).
    is_mount: bool,
}

/// What a look-up by path can come to, beside a file.
#[derive(Debug)]
pub(crate) enum Miss {
    /// Nothing of that name here.
    Absent,
    /// A symbolic link is part of the path.
    Link,
    /// Anything else the kernel says.
    Error(io::Error),
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens all roots side by side, or says what is wrong with each. One that cannot be opened is opened
/// when it is asked next, as long as another can be; one whose disk fails or does not answer in time
/// may be the only one.
pub(crate) fn open_roots(
    paths: &[PathBuf],
    timeout: Duration,
) -> Result<Vec<Arc<Root>>, Vec<RootError>> {
    let deadline = Instant::now() + timeout;
    let opening: Vec<_> = paths.iter().map(|path| open_aside(path)).collect();
    let (mut roots, mut errors): (Vec<Arc<Root>>, Vec<RootError>) = (Vec::new(), Vec::new());
    let mut missing = Vec::new();
    for (root, opened) in opening {
        let left = deadline.saturating_duration_since(Instant::now());
        let ill = |reason: &str| {
            root.is_late.store(true, Ordering::Relaxed);
            let root = root.path.display();
            tracing::error!(%root, reason, "a root is not there yet; it is served when it is");
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
    if paths.is_empty() {
        errors.push(RootError::None);
    }
    if missing.len() == paths.len() || !errors.is_empty() {
        missing.append(&mut errors);
        errors = missing;
    }
    if errors.is_empty() {
        Ok(roots)
    } else {
        Err(errors)
    }
}

/// Opens a root on a thread of its own, which may hang for ever.
fn open_aside(path: &Path) -> (Arc<Root>, Receiver<Result<(), RootError>>) {
    let root = Arc::new(Root::new(path));
    let (say, opened) = sync_channel(1);
    let on_thread = Arc::clone(&root);
    let open = move || {
        on_thread.follow_links();
        // Nobody may listen any more.
        let _ = say.send(on_thread.open().map(drop));
    };
    let thread = std::thread::Builder::new().name("open-root".to_owned());
    if thread.spawn(open.clone()).is_err() {
        open();
    }
    (root, opened)
}

impl RootError {
    /// Whether the disk failed, which says nothing about the configuration.
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
            opened: RwLock::default(),
            reached: Mutex::new(path.to_path_buf()),
            is_late: AtomicBool::new(false),
            was_missing: AtomicBool::new(false),
        }
    }

    /// Why it cannot be opened, if it is not open and still cannot be. May block.
    pub(crate) fn trouble(&self) -> Option<RootError> {
        self.open().err()
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.held().is_some()
    }

    /// Whether it was not open when the devices were looked for, and what that means is not settled.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// One whose disk has not answered.
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

    /// Its real path or, while it is not open, as much of that as is known.
    pub(crate) fn real_path_so_far(&self) -> PathBuf {
        match self.place() {
            Some((real, _)) => real,
            None => self.lock_reached().clone(),
        }
    }

    /// Whether it is open now and was not when the devices were looked for. Says so once.
    pub(crate) fn is_late_and_open(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
            && self.open().is_ok()
            && self.is_late.swap(false, Ordering::Relaxed)
    }

    /// Opens it, unless it is open.
    fn open(&self) -> Result<Arc<Opened>, RootError> {
        if let Some(opened) = self.held() {
            return Ok(opened);
        }
        let opened = Arc::new(Opened::new(&self.path)?);
        // Two threads may get here; either's is good.
        let mut held = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(held.get_or_insert(opened)))
    }

    /// Opens it if need be.
    fn opened(&self) -> rustix::io::Result<Arc<Opened>> {
        self.open().map_err(|_| Errno::IO)
    }

    fn held(&self) -> Option<Arc<Opened>> {
        let held = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Opens what is at its path now, if that is another folder than the one that is open: its disk
    /// was mounted again, or another folder took the place. `first` hears of the real path and the
    /// `st_dev` before a file there can be found. Whether it was so. May block.
    pub(crate) fn reopen(&self, first: impl FnOnce(&Path, u64)) -> bool {
        let Some(held) = self.held() else {
            return false;
        };
        let is_other = |now: Stat| (now.st_dev, now.st_ino) != held.identity;
        if !rustix::fs::stat(&self.path).is_ok_and(is_other) {
            return false;
        }
        let Ok(new) = Opened::new(&self.path) else {
            return false;
        };
        // The folder below a mount that is gone, and may come back.
        if held.is_mount && !new.is_mount && held.canonical == new.canonical {
            return false;
        }
        first(&new.canonical, new.identity.0);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        *opened = Some(Arc::new(new));
        true
    }

    /// What is wrong with having both, as far as both are open.
    pub(crate) fn overlap(&self, other: &Self) -> Option<RootError> {
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

    /// Its real path and its `st_dev`, if it was opened.
    pub(crate) fn place(&self) -> Option<(PathBuf, u64)> {
        let opened = self.held()?;
        Some((opened.canonical.clone(), opened.identity.0))
    }

    fn openat2(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        self.opened()?.openat2(path, flags)
    }

    /// Whether this user may read the file at `path`. What cannot be asked may be.
    pub(crate) fn is_readable(&self, path: &str) -> bool {
        let Ok(opened) = self.opened() else {
            return true;
        };
        let asked = accessat(&opened.fd, path, Access::READ_OK, AtFlags::EACCESS);
        !matches!(asked, Err(Errno::ACCESS | Errno::PERM))
    }

    /// What lies at `path`, without opening it for reading.
    pub(crate) fn stat(&self, path: &str) -> Result<Stat, Miss> {
        let fd = self
            .openat2(path, OFlags::PATH)
            .map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Miss::Absent,
                Errno::LOOP => Miss::Link,
                other => Miss::Error(other.into()),
            })?;
        rustix::fs::fstat(&fd).map_err(|errno| Miss::Error(errno.into()))
    }

    /// Opens a directory for listing; the empty path is the root.
    pub(crate) fn open_directory(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        self.openat2(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file for reading, and says which version it got.
    ///
    /// Opening does not wait for a writer should a FIFO have taken the file's place; the flag for
    /// that is cleared again, since io_uring would take it for a wish not to wait for the disk.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<(File, Identity)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.openat2(path, flags)?;
        let identity = Identity::of_open(&fd)?;
        rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
        Ok((File::from(fd), identity))
    }

    /// Where a path that goes through links ends, if that is inside this root.
    pub(crate) fn real_path(&self, path: &str) -> Option<String> {
        let opened = self.opened().ok()?;
        let canonical = &opened.canonical;
        let real = canonical.join(path).canonicalize().ok()?;
        let inside = real.strip_prefix(canonical).ok()?;
        inside
            .to_str()
            .filter(|path| !path.is_empty())
            .map(String::from)
    }
}

impl Opened {
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
            // Readable, but not to be entered.
            Err(errno) => Err(wrong(errno.into())),
        }
    }

    fn openat2(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), BENEATH)
    }
}
