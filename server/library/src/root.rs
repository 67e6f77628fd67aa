//! A root directory, and every way into it.
//!
//! The one idea: the kernel is told on each call that nothing outside may be reached
//! (`openat2(2)`), so no check here can be raced.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

use crate::identity::Identity;

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum RootError {
    /// No root was named at all.
    #[error("there is no directory to serve; name at least one")]
    None,
    /// Nothing is there.
    #[error("root {}: no such directory; create it or correct the path", path.display())]
    Missing {
        /// As given.
        path: PathBuf,
    },
    /// A file or something else is there.
    #[error("root {}: not a directory; name the directory that holds the titles", path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("root {}: cannot be read ({source}); let this user read and enter it", path.display())]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another root is the same directory.
    #[error("root {}: the same directory as {}; name it once", path.display(), other.display())]
    Duplicate {
        /// As given.
        path: PathBuf,
        /// The root named before.
        other: PathBuf,
    },
    /// It lies inside another root.
    #[error("root {}: lies inside root {}; name only one of them", path.display(), other.display())]
    Nested {
        /// As given.
        path: PathBuf,
        /// The root around it.
        other: PathBuf,
    },
    /// The kernel has no `openat2`.
    #[error("root {}: this kernel cannot open files safely beneath a directory \
             (openat2: {source}); Linux 5.6 or newer is needed, and a sandbox must allow the call",
            path.display())]
    NoOpenat2 {
        /// As given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// One root, held open.
#[derive(Debug)]
pub(crate) struct Root {
    /// As given, for people.
    pub(crate) path: PathBuf,
    canonical: PathBuf,
    fd: OwnedFd,
    identity: (u64, u64),
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

/// Opens all roots, or says what is wrong with each.
pub(crate) fn open_roots(paths: &[PathBuf]) -> Result<Vec<Root>, Vec<RootError>> {
    let (mut roots, mut errors): (Vec<Root>, Vec<RootError>) = (Vec::new(), Vec::new());
    for path in paths {
        match Root::open(path) {
            Ok(root) => match roots.iter().find_map(|other| root.overlap(other)) {
                Some(error) => errors.push(error),
                None => roots.push(root),
            },
            Err(error) => errors.push(error),
        }
    }
    if paths.is_empty() {
        errors.push(RootError::None);
    }
    if errors.is_empty() {
        Ok(roots)
    } else {
        Err(errors)
    }
}

impl Root {
    fn open(path: &Path) -> Result<Self, RootError> {
        let path = path.to_path_buf();
        let wrong = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RootError::Missing { path: path.clone() },
            io::ErrorKind::NotADirectory => RootError::NotADirectory { path: path.clone() },
            _ => RootError::Unreadable {
                path: path.clone(),
                source,
            },
        };
        let canonical = path.canonicalize().map_err(wrong)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(&canonical, flags, Mode::empty());
        let fd = open.map_err(|errno| wrong(errno.into()))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| wrong(errno.into()))?;
        let root = Self {
            identity: (stat.st_dev, stat.st_ino),
            path: path.clone(),
            canonical,
            fd,
        };
        match root.openat2(".", OFlags::PATH) {
            Ok(_) => Ok(root),
            Err(errno @ (Errno::NOSYS | Errno::PERM)) => Err(RootError::NoOpenat2 {
                path,
                source: errno.into(),
            }),
            // Readable, but not to be entered.
            Err(errno) => Err(wrong(errno.into())),
        }
    }

    fn overlap(&self, other: &Self) -> Option<RootError> {
        let (path, earlier) = (self.path.clone(), other.path.clone());
        if self.identity == other.identity {
            return Some(RootError::Duplicate {
                path,
                other: earlier,
            });
        }
        if self.canonical.starts_with(&other.canonical) {
            return Some(RootError::Nested {
                path,
                other: earlier,
            });
        }
        let around = other.canonical.starts_with(&self.canonical);
        around.then_some(RootError::Nested {
            path: earlier,
            other: path,
        })
    }

    /// `st_dev` of the root itself.
    pub(crate) fn dev(&self) -> u64 {
        self.identity.0
    }

    fn openat2(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), BENEATH)
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
        let real = self.canonical.join(path).canonicalize().ok()?;
        let inside = real.strip_prefix(&self.canonical).ok()?;
        inside
            .to_str()
            .filter(|path| !path.is_empty())
            .map(String::from)
    }
}
