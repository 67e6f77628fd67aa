//! Lists the files that come next in a traversal: the later files of this folder, the contents of
//! its subfolders, then what follows the folder in its parent, up to the root of the walk.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat2, readlink,
    statat,
};
use rustix::io::{Errno, Result};

/// Larger files are read ahead by the engine, not by this crate.
pub const SMALL_BYTES: u64 = 256 << 10;

/// Most files open for one sweep.
pub const FILES_MAX: usize = 2048;
/// Number of files after those of a sweep whose inodes are remembered.
const AFTER_MAX: usize = 16;
/// Most folders read for one sweep.
const FOLDERS_MAX: usize = 512;
/// A folder with more names is ignored: the next file is unknown without reading all of them.
const NAMES_MAX: usize = 32_768;
const DEPTH_MAX: usize = 64;
const LIST_BYTES: usize = 32 << 10;

/// Order in which a program visits the names of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VisitOrder {
    /// Sorted by bytes (diff, rsync, shell globs).
    Name,
    /// The order of the directory listing (cp, grep, find).
    Listing,
}

impl VisitOrder {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Name => Self::Listing,
            Self::Listing => Self::Name,
        }
    }
}

/// The file that a program waited for, and its folder.
#[derive(Debug)]
pub(crate) struct WaitedFile {
    path: PathBuf,
    pub(crate) file: Stat,
    folder: Stat,
    pub(crate) opened: File,
}

impl WaitedFile {
    /// Finds the path of an open file, if the file is still there and lies beneath `beneath`.
    pub(crate) fn of(file: &File, beneath: &Path) -> Option<Self> {
        let stat = fstat(file).ok()?;
        let path = path_of(file)?;
        let folder = path.parent().filter(|_| path.starts_with(beneath))?;
        let opened = open_folder(folder).ok()?;
        let there = statat(&opened, path.file_name()?, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if !is_same(&there, &stat) {
            return None;
        }
        Some(Self {
            file: stat,
            folder: fstat(&opened).ok()?,
            opened,
            path,
        })
    }

    /// Whether this crate, not the engine, reads the file ahead.
    pub(crate) fn is_small(&self) -> bool {
        is_small(&self.file)
    }

    /// Its name in its folder.
    pub(crate) fn name(&self) -> &[u8] {
        let name = self.path.file_name();
        name.map_or(&[], OsStr::as_encoded_bytes)
    }

    /// The path of its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// The current path of an open file, as the kernel reports it.
pub(crate) fn path_of(file: &File) -> Option<PathBuf> {
    let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// The files that a program reads next, if it walks.
#[derive(Debug, Default)]
pub(crate) struct NextFiles {
    /// Small files to read next, open, with their sizes.
    pub(crate) files: Vec<(File, u64)>,
    /// Inodes of the files that come after them.
    pub(crate) after: Vec<u64>,
}

/// The file itself and the following ones, about `bytes` in total, and the inodes of the files
/// after these.
pub(crate) fn next(origin: &WaitedFile, root: &Path, order: VisitOrder, bytes: u64) -> NextFiles {
    let mut ahead = Collector {
        origin,
        order,
        bytes_left: bytes,
        folders_left: FOLDERS_MAX,
        next: NextFiles::default(),
    };
    let (mut path, mut child) = (origin.folder(), origin.path.file_name());
    let Ok(mut folder) = origin.opened.try_clone() else {
        return ahead.next;
    };
    let mut below = origin.file;
    while let Some(name) = child {
        // Folders may be moved concurrently: stop ascending if a folder is no longer where it was.
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if !there.is_ok_and(|there| is_same(&there, &below)) {
            break;
        }
        let from = Some(name.as_encoded_bytes());
        if ahead.folder(&folder, from, 0).is_err() || ahead.is_done() || path == root {
            break;
        }
        let Some(parent) = path.parent() else { break };
        let (Ok(stat), Ok(above)) = (fstat(&folder), open_folder(parent)) else {
            break;
        };
        (below, folder, child, path) = (stat, above, path.file_name(), parent);
    }
    ahead.next
}

struct Collector<'o> {
    origin: &'o WaitedFile,
    order: VisitOrder,
    bytes_left: u64,
    folders_left: usize,
    next: NextFiles,
}

impl Collector<'_> {
    fn is_full(&self) -> bool {
        self.bytes_left == 0 || self.next.files.len() >= FILES_MAX
    }

    fn is_done(&self) -> bool {
        self.folders_left == 0 || self.next.after.len() >= AFTER_MAX
    }

    /// Collects the contents of a folder, starting at a name if one is given.
    fn folder(&mut self, folder: &File, from: Option<&[u8]>, depth: usize) -> Result<()> {
        self.folders_left = self.folders_left.saturating_sub(1);
        let mut names = list(folder)?;
        if self.order == VisitOrder::Name {
            names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        let is_start = |entry: &FolderEntry| from.is_none_or(|from| entry.name == from);
        for entry in names.into_iter().skip_while(|entry| !is_start(entry)) {
            if self.is_done() {
                break;
            }
            let is_first = from == Some(entry.name.as_slice());
            match entry.kind {
                FileType::RegularFile if !self.is_full() => self.file(folder, &entry.name),
                FileType::RegularFile if !is_first => self.next.after.push(entry.inode),
                FileType::Directory if !is_first && depth < DEPTH_MAX => {
                    self.below(folder, &entry.name, depth);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, folder: &File, name: &[u8]) {
        let like = self.origin.file;
        let is_wanted = |stat: &Stat| is_small(stat) && has_rights_of(stat, &like, 0o444);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        if !is_wanted(&stat) {
            return;
        }
        let opened = open_at(folder, name, flags);
        if let Ok(file) = opened
            && let Ok(stat) = fstat(&file)
            && is_wanted(&stat)
        {
            let size = stat.st_size as u64;
            self.bytes_left = self.bytes_left.saturating_sub(size);
            self.next.files.push((file, size));
        }
    }

    fn below(&mut self, folder: &File, name: &[u8], depth: usize) {
        let like = self.origin.folder;
        if let Ok(below) = open_at(folder, name, OFlags::RDONLY | OFlags::DIRECTORY)
            && fstat(&below).is_ok_and(|stat| has_rights_of(&stat, &like, 0o555))
        {
            let _ = self.folder(&below, None, depth + 1);
        }
    }
}

fn is_small(stat: &Stat) -> bool {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular && stat.st_size > 0 && (stat.st_size as u64) < SMALL_BYTES
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Whether a file has the owner, group, file system and read permissions of another.
pub(crate) fn has_rights_of(stat: &Stat, like: &Stat, bits: u32) -> bool {
    let rights = |stat: &Stat| (stat.st_dev, stat.st_uid, stat.st_gid, stat.st_mode & bits);
    rights(stat) == rights(like)
}

fn open_folder(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve).map(File::from)
}

/// Opens an entry without changing its access time where permitted. Mount points are not entered: a
/// mounted file system may not respond.
pub(crate) fn open_at(folder: impl AsFd, name: &[u8], flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV;
    let open = |flags| openat2(folder.as_fd(), name, flags, Mode::empty(), resolve);
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags).map(File::from),
        opened => opened.map(File::from),
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

pub(crate) fn list(folder: &File) -> Result<Vec<FolderEntry>> {
    // A separate open file description, positioned at the start.
    let own = open_at(folder, b".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
    let mut raw = RawDir::new(&own, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(FolderEntry {
                name: name.to_vec(),
                kind: entry.file_type(),
                inode: entry.ino(),
            });
        }
        if names.len() > NAMES_MAX {
            return Err(Errno::FBIG);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: impl IntoIterator<Item = String>) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for name in names {
            std::fs::write(root.path().join(name), "x").expect("written");
        }
        root
    }

    fn ahead(root: &Path, name: &str, order: VisitOrder) -> usize {
        let file = File::open(root.join(name)).expect("there");
        let origin = WaitedFile::of(&file, Path::new("/")).expect("small");
        next(&origin, root, order, 1 << 20).files.len()
    }

    #[test]
    fn folder_with_too_many_names_is_ignored() {
        let root = tree(["0".to_owned(), "1".to_owned()]);
        assert_eq!(ahead(root.path(), "0", VisitOrder::Name), 2);
        let first = root.path().join("0");
        for name in 2..=NAMES_MAX {
            std::fs::hard_link(&first, root.path().join(name.to_string())).expect("linked");
        }
        for order in [VisitOrder::Name, VisitOrder::Listing] {
            assert_eq!(ahead(root.path(), "0", order), 0, "{order:?}");
        }
    }

    #[test]
    fn mount_points_are_not_opened() {
        let root = File::open("/").expect("there");
        let opened = open_at(&root, b"proc", OFlags::RDONLY | OFlags::DIRECTORY);
        assert_eq!(opened.err(), Some(Errno::XDEV));
    }
}
