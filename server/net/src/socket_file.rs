//! The file of a unix socket: created, replaced if no process listens on it, removed at shutdown.
//!
//! The path may belong to another program. Only a socket without a listening process is replaced,
//! and at shutdown only the very file that this process created is removed; any other file stays.
//! Processes that change one path at the same time are serialised by a lock on the directory.
//! Anyone who may read the directory can hold that lock, so waiting is bounded and then continues
//! without it.

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

/// How long to try for the directory lock; no server needs it for longer than a moment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Why a socket cannot be created at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// Another process listens there.
    #[error(
        "another process listens there (`ss -lxp src {path}` shows it): stop it or use another path"
    )]
    Taken {
        /// The path.
        path: String,
    },
    /// The path exists and is not a socket.
    #[error("the file there is not a socket, so it is kept: choose another path, or move it away")]
    NoSocket,
    /// Unknown whether a process listens there.
    #[error(
        "a socket is there, but connecting to it failed ({0}), so it is kept: remove it, or choose \
         another path"
    )]
    Unknown(io::Error),
    /// The socket cannot be created.
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
            "create its directory (with systemd: RuntimeDirectory=), or choose another path"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "let the server's user write to its directory (with systemd: RuntimeDirectory=)"
        }
        _ => "choose another path",
    }
}

/// Removes the socket file on drop, if it is still the file that was created or taken over.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Held open, so that its inode number is not reused.
    file: OwnedFd,
}

impl SocketFile {
    /// Takes ownership of the socket that exists at `path`.
    ///
    /// # Errors
    /// If there is no file, or it is not a socket.
    pub fn of(path: &Path) -> io::Result<Self> {
        let (path, file) = (path.to_owned(), hold(path)?);
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::Socket => Ok(Self { path, file }),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Takes ownership of a socket file that another process created; `None` if it was removed or
    /// replaced.
    pub fn take_over(path: &Path, file: OwnedFd) -> Option<Self> {
        let is_there = hold(path).is_ok_and(|found| is_same(&found, &file));
        let path = path.to_owned();
        is_there.then_some(Self { path, file })
    }

    /// Identifies the file to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Sets the file's mode, which decides who may connect.
    pub fn set_mode(&self, mode: u32) {
        if let Err(error) = fs::set_permissions(&self.path, Permissions::from_mode(mode)) {
            tracing::warn!(path = %self.path.display(), %error, "cannot set mode of socket file");
        }
    }

    /// Gives up ownership to another process.
    pub fn leave(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Some(folder) = self.path.parent() else {
            return;
        };
        let _alone = DirectoryLock::at(folder);
        if hold(&self.path).is_ok_and(|found| is_same(&found, &self.file))
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

/// A handle to the file at a path, of any type, without opening it for reading.
fn hold(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let which = |file| fstat(file).map(|found| (found.st_dev, found.st_ino));
    which(one).is_ok_and(|one| which(other) == Ok(one))
}

/// Holds the directory lock while a path is checked and changed.
struct DirectoryLock {
    _folder: Option<File>,
}

impl DirectoryLock {
    /// Waits for the lock, up to the timeout. A directory that this process may not read is not
    /// locked.
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
                        "socket directory is locked; continuing without the lock (see `lslocks`)"
                    );
                    return Self { _folder: None };
                }
                // Some file systems do not support locks.
                locked => {
                    let _folder = locked.is_ok().then_some(opened);
                    return Self { _folder };
                }
            }
        }
    }
}

/// Creates a socket that listens at `path` with mode `mode`; returns it and its file.
///
/// # Errors
/// The reason and a remedy.
pub(super) fn listen_at(
    path: &Path,
    mode: u32,
    backlog: u32,
) -> Result<(OwnedFd, SocketFile), SocketFileError> {
    let address = SocketAddrUnix::new(path)?;
    let _alone = path.parent().map(DirectoryLock::at);
    make_room(path, &address)?;
    let socket = new_socket()?;
    bind(&socket, &address)?;
    let file = SocketFile::of(path)?;
    // No client can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok((socket, file))
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes the socket of a process that has ended.
fn make_room(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketFileError> {
    if !is_socket(path)? {
        return Ok(());
    }
    match connect(new_socket()?, address) {
        // EAGAIN: its backlog is full. EPROTOTYPE: a socket of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketFileError::Taken {
            path: path.display().to_string(),
        }),
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(SocketFileError::Unknown(error.into())),
    }
}

/// Whether a socket exists at the path, on which a process may listen.
///
/// # Errors
/// If it is another kind of file.
pub fn is_socket(path: &Path) -> Result<bool, SocketFileError> {
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
    fn socket_file_has_mode_and_is_removed_on_drop() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (_socket, file) = listen_at(&path).expect("made");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn only_socket_without_listener_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (socket, file) = listen_at(&path).expect("made");
        let error = listen_at(&path).expect_err("taken").to_string();
        assert!(
            error.contains("ss -lxp") && error.contains("web.sock"),
            "{error}"
        );
        // State after a process was killed.
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
    fn locked_directory_does_not_block_start_or_stop() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (_socket, file) = listen_at(&path).expect("made");
        let other = File::open(folder.path()).expect("readable");
        flock(&other, FlockOperation::LockExclusive).expect("locked");
        listen_at(&folder.path().join("other.sock")).expect("made without the lock");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn file_of_another_process_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.sock");
        let (socket, file) = listen_at(&path).expect("made");
        drop(socket);
        let (_socket, second) = listen_at(&path).expect("replaced");
        drop(file);
        assert!(path.exists(), "the second owner's file stays");
        second.leave();
        assert!(path.exists(), "a file that was left stays");
        drop(SocketFile::of(&path).expect("taken over"));
        assert!(!path.exists());
        let (_socket, third) = listen_at(&path).expect("made");
        let given = third.file().try_clone_to_owned().expect("a copy");
        third.leave();
        fs::remove_file(&path).expect("removed");
        let (_socket, fourth) = listen_at(&path).expect("made");
        assert!(
            SocketFile::take_over(&path, given).is_none(),
            "the file was replaced"
        );
        let given = fourth.file().try_clone_to_owned().expect("a copy");
        fourth.leave();
        drop(SocketFile::take_over(&path, given).expect("there"));
        assert!(!path.exists());
        fs::write(&path, "precious").expect("written");
        assert!(SocketFile::of(&path).is_err(), "not a socket");
        assert!(path.exists(), "a regular file stays");
    }
}
