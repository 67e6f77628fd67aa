//! The mounted tree, and every way to open its files.
//!
//! Each call tells the kernel that nothing outside the tree may be reached and no symbolic link
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

/// A folder, held open. Paths are relative to it; `.` is the folder itself.
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
        tree.open_path(Path::new("."))?;
        Ok(tree)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &File {
        &self.folder
    }

    /// Opens a path without opening it for reading. A symbolic link is opened itself.
    pub(crate) fn open_path(&self, path: &Path) -> Result<File> {
        self.openat2(path, OFlags::PATH | OFlags::NOFOLLOW)
    }

    /// Opens an entry of an open folder of the tree in the same way. With [`ResolveFlags::NO_XDEV`]
    /// a mount point fails with [`Errno::XDEV`].
    pub(crate) fn look_in(folder: &File, name: &OsStr, resolve: ResolveFlags) -> Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(folder, name, flags, Mode::empty(), BENEATH | resolve).map(File::from)
    }

    /// Attributes of the file at a path.
    pub(crate) fn attributes(&self, path: &Path) -> Result<Attributes> {
        attributes(&self.open_path(path)?)
    }

    /// Opens a regular file for reading.
    ///
    /// `O_NONBLOCK` prevents waiting for a writer if a FIFO has taken the file's place. It is
    /// cleared again, since io_uring would then not wait for the disk.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = self.openat2(path, flags)?;
        if !attributes(&file)?.is_file() {
            return Err(Errno::STALE);
        }
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(file)
    }

    /// Opens a folder for listing.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<File> {
        self.openat2(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// Statistics of the file system.
    pub(crate) fn room(&self) -> Result<StatVfs> {
        fstatvfs(&self.folder)
    }

    fn openat2(&self, path: &Path, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        openat2(&self.folder, path, flags, Mode::empty(), BENEATH).map(File::from)
    }
}

/// A path through which the kernel finds an open file, whatever its name.
pub(crate) fn path_of(open: impl AsFd) -> String {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_outside_and_links_are_rejected() {
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
    fn folders_and_fifos_are_not_opened_as_files() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("folder")).expect("made");
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR).expect("made");
        let tree = Tree::open(folder.path()).expect("opened");
        for name in ["folder", "fifo"] {
            let error = tree
                .open_file(Path::new(name))
                .expect_err("not a regular file");
            assert_eq!(error, Errno::STALE);
        }
    }
}
