//! The file by which a unix socket is found: made, replaced if nobody answers at it, removed at the end.
//!
//! The one idea: what lies at the path may be anybody's. Only a socket at which nobody answers is taken
//! away, and at the end only the very file that was made; whatever else is there stays. Two who look
//! at one path at the same time do so one after the other: the folder is locked meanwhile. Whoever may
//! read it can lock it, too, so nobody waits long for that, and goes on without.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// How long the lock on a folder is tried for: nobody needs it for longer than a moment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Why no socket can be made at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// Another process answers there.
    #[error(
        "another process answers there (`ss -lxp src {path}` names it): stop it or choose another path"
    )]
    Taken {
        /// The path.
        path: String,
    },
    /// Something else has that name.
    #[error("it is there and is no socket, so it stays: choose another path, or move it away")]
    NoSocket,
    /// It cannot be told whether somebody answers.
    #[error(
        "a socket is there, and it cannot be told whether somebody answers ({0}), so it stays: remove \
         it, or choose another path"
    )]
    Unknown(io::Error),
    /// It cannot be made.
    #[error("{0}; {remedy}", remedy = remedy(.0))]
    Other(#[from] io::Error),
}

impl From<Errno> for SocketFileError {
    fn from(error: Errno) -> Self {
        Self::Other(error.into())
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "make its folder (with systemd by RuntimeDirectory=), or choose another path"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "let the server's user write to its folder (with systemd by RuntimeDirectory=)"
        }
        _ => "choose another path",
    }
}

/// Removes the file when it is dropped, if it still is the one that was made or taken over.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Held, so that no other file gets its inode number.
    file: OwnedFd,
}

impl SocketFile {
    /// The socket that is there now is this process's own from now on.
    ///
    /// # Errors
    /// If nothing is there, or something else.
    pub fn of(path: &Path) -> io::Result<Self> {
        let (path, file) = (path.to_owned(), hold(path)?);
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::Socket => Ok(Self { path, file }),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// A socket that another process made is this one's own from now on; `None` if it is not there any
    /// more.
    pub fn given(path: &Path, file: OwnedFd) -> Option<Self> {
        let is_there = hold(path).is_ok_and(|found| is_same(&found, &file));
        let path = path.to_owned();
        is_there.then_some(Self { path, file })
    }

    /// By this it is known also to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Those may connect from now on whom `mode` lets.
    pub fn set_mode(&self, mode: u32) {
        if let Err(error) = fs::set_permissions(&self.path, Permissions::from_mode(mode)) {
            tracing::warn!(path = %self.path.display(), %error, "cannot set a socket's mode");
        }
    }

    /// It is another process's from now on.
    pub fn leave(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Some(folder) = self.path.parent() else {
            return;
        };
        let _alone = Alone::at(folder);
        if hold(&self.path).is_ok_and(|found| is_same(&found, &self.file))
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// What is at a path, of whatever kind; it is not opened to be read.
fn hold(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let which = |file| fstat(file).map(|found| (found.st_dev, found.st_ino));
    which(one).is_ok_and(|one| which(other) == Ok(one))
}

/// Held while a path of a folder is looked at and changed.
struct Alone {
    _folder: Option<File>,
}

impl Alone {
    /// Waits for its turn, for a while. A folder that cannot be read has no lock, and is nobody else's.
    fn at(folder: &Path) -> Self {
        let Ok(opened) = File::open(folder) else {
            return Self { _folder: None };
        };
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if Instant::now() < until => sleep(LOCK_INTERVAL),
                Err(Errno::WOULDBLOCK) => {
                    tracing::warn!(
                        folder = %folder.display(),
                        "another process keeps the folder of a socket locked (`lslocks` names it)"
                    );
                    return Self { _folder: None };
                }
                // A file system may have no locks.
                locked => {
                    let _folder = locked.is_ok().then_some(opened);
                    return Self { _folder };
                }
            }
        }
    }
}

/// A socket that listens at `path` and that those may write to whom `mode` lets, and its file.
///
/// # Errors
/// What is in the way, and what to do about it.
pub(super) fn listen_at(
    path: &Path,
    mode: u32,
    backlog: u32,
) -> Result<(OwnedFd, SocketFile), SocketFileError> {
    let address = SocketAddrUnix::new(path)?;
    let _alone = path.parent().map(Alone::at);
    make_room(path, &address)?;
    let socket = new_socket()?;
    bind(&socket, &address)?;
    let file = SocketFile::of(path)?;
    // Nobody can connect before it listens.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok((socket, file))
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Takes away what a process that is gone has left.
fn make_room(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketFileError> {
    if !is_socket(path)? {
        return Ok(());
    }
    match connect(new_socket()?, address) {
        // Also one that does not get to it, or that is of another kind.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketFileError::Taken {
            path: path.display().to_string(),
        }),
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(SocketFileError::Unknown(error.into())),
    }
}

/// Whether a socket is there, which somebody may answer at.
///
/// # Errors
/// If something else is.
pub(crate) fn is_socket(path: &Path) -> Result<bool, SocketFileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(SocketFileError::NoSocket),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn listen_at(path: &Path) -> Result<(OwnedFd, SocketFile), SocketFileError> {
        super::listen_at(path, 0o640, 8)
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (_socket, file) = listen_at(&path).expect("made");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_at_which_nobody_answers_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (socket, file) = listen_at(&path).expect("made");
        let error = listen_at(&path).expect_err("taken").to_string();
        assert!(
            error.contains("ss -lxp") && error.contains("web.sock"),
            "{error}"
        );
        // As a process that was killed leaves it.
        drop(socket);
        std::mem::forget(file);
        let (_socket, _file) = listen_at(&path).expect("replaced");

        let other = folder.path().join("datagrams");
        let _other = UnixDatagram::bind(&other).expect("bound");
        assert!(matches!(
            listen_at(&other),
            Err(SocketFileError::Taken { .. })
        ));
        let (precious, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&precious, "precious").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        for path in [&precious, &link] {
            assert!(matches!(listen_at(path), Err(SocketFileError::NoSocket)));
        }
        assert_eq!(fs::read_to_string(&link).expect("there"), "precious");
        let nowhere = listen_at(&folder.path().join("no/web.sock"));
        let error = nowhere.expect_err("no folder").to_string();
        assert!(error.contains("RuntimeDirectory"), "{error}");
    }

    #[test]
    fn a_folder_that_another_keeps_locked_holds_up_neither_the_start_nor_the_stop() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (_socket, file) = listen_at(&path).expect("made");
        let other = File::open(folder.path()).expect("readable");
        flock(&other, FlockOperation::LockExclusive).expect("locked");
        listen_at(&folder.path().join("other.sock")).expect("made all the same");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn what_another_has_put_in_its_place_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (socket, file) = listen_at(&path).expect("made");
        drop(socket);
        let (_socket, second) = listen_at(&path).expect("replaced");
        drop(file);
        assert!(path.exists(), "it is the second's");
        second.leave();
        assert!(path.exists(), "it is a third's");
        drop(SocketFile::of(&path).expect("taken over"));
        assert!(!path.exists());
        let (_socket, third) = listen_at(&path).expect("made");
        let given = third.file().try_clone_to_owned().expect("a copy");
        third.leave();
        fs::remove_file(&path).expect("removed");
        let (_socket, fourth) = listen_at(&path).expect("made");
        assert!(
            SocketFile::given(&path, given).is_none(),
            "it is a fourth's"
        );
        let given = fourth.file().try_clone_to_owned().expect("a copy");
        fourth.leave();
        drop(SocketFile::given(&path, given).expect("there"));
        assert!(!path.exists());
        fs::write(&path, "precious").expect("written");
        assert!(SocketFile::of(&path).is_err(), "it is no socket");
        assert!(path.exists(), "it is somebody's");
    }
}
