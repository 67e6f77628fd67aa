//! The tree that is mounted, and every way into it.
//!
//! The one idea: the kernel is told on each call that nothing outside may be reached and no link
//! followed (`openat2(2)`), so no check here can be raced.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, StatVfs, fcntl_setfl, fstatvfs, openat2};
use rustix::io::{Errno, Result};

use crate::attributes::{Attributes, attributes};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// A folder, held open. Paths are relative to it; it is `.` itself.
#[derive(Debug)]
pub(crate) struct Tree {
    folder: File,
}

impl Tree {
    /// # Errors
    /// If the folder cannot be opened, or the kernel has no `openat2`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let tree = Self {
            folder: File::open(path)?,
        };
        tree.look(Path::new("."))?;
        Ok(tree)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &File {
        &self.folder
    }

    /// What lies at a path, not opened for reading. A link is that itself.
    pub(crate) fn look(&self, path: &Path) -> Result<File> {
        self.openat2(path, OFlags::PATH | OFlags::NOFOLLOW)
    }

    /// What has a name in a folder of the tree that is open, looked at in the same way. With
    /// [`ResolveFlags::NO_XDEV`] it is [`Errno::XDEV`] if something is mounted there.
    pub(crate) fn look_in(folder: &File, name: &OsStr, resolve: ResolveFlags) -> Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(folder, name, flags, Mode::empty(), BENEATH | resolve).map(File::from)
    }

    /// Attributes of what lies at a path.
    pub(crate) fn attributes(&self, path: &Path) -> Result<Attributes> {
        attributes(&self.look(path)?)
    }

    /// A regular file for reading.
    ///
    /// Opening does not wait for a writer should a FIFO have taken the file's place; the flag for
    /// that is cleared again, since io_uring would take it for a wish not to wait for the disk.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = self.openat2(path, flags)?;
        if !attributes(&file)?.is_file() {
            return Err(Errno::STALE);
        }
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(file)
    }

    /// A folder for listing.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<File> {
        self.openat2(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// What the file system says of its room.
    pub(crate) fn room(&self) -> Result<StatVfs> {
        fstatvfs(&self.folder)
    }

    fn openat2(&self, path: &Path, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        openat2(&self.folder, path, flags, Mode::empty(), BENEATH).map(File::from)
    }
}

/// A path by which the kernel finds what is open, wherever its name went.
pub(crate) fn path_of(open: impl AsFd) -> String {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_is_reached_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).expect("made");
        std::fs::write(folder.path().join("secret"), "x").expect("written");
        std::fs::write(inside.join("file"), "x").expect("written");
        symlink("../secret", inside.join("out")).expect("made");
        symlink("file", inside.join("link")).expect("made");
        symlink(".", inside.join("loop")).expect("made");
        let tree = Tree::open(&inside).expect("opened");
        let error = |path: &str| tree.open_file(Path::new(path)).expect_err("refused");
        assert!(tree.open_file(Path::new("file")).is_ok());
        assert_eq!(error("../secret"), Errno::XDEV);
        assert_eq!(error("out"), Errno::LOOP);
        assert_eq!(error("link"), Errno::LOOP);
        assert_eq!(error("loop/file"), Errno::LOOP);
        assert_eq!(error("none"), Errno::NOENT);
        let link = tree.attributes(Path::new("link")).expect("a link");
        assert!(!link.is_file());
    }

    #[test]
    fn what_is_no_file_is_not_opened_as_one() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("folder")).expect("made");
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR).expect("made");
        let tree = Tree::open(folder.path()).expect("opened");
        for name in ["folder", "fifo"] {
            let error = tree.open_file(Path::new(name)).expect_err("no file");
            assert_eq!(error, Errno::STALE);
        }
    }
}
