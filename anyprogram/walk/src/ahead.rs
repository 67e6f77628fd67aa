//! Which files come next: those of the folder behind this one, then what lies in folders there, then
//! what is behind the folder in the one above it, up to the folder that the program walks in.

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

/// Larger files are none of this crate's: the engine reads them.
pub const SMALL_BYTES: u64 = 256 << 10;

/// Most files that are open for one sweep.
pub const FILES_MAX: usize = 2048;
/// Files after those of a sweep that are remembered by their numbers.
const AFTER_MAX: usize = 16;
/// Most folders that are looked at for it.
const FOLDERS_MAX: usize = 512;
/// A folder of more names is left alone: what comes next is not known without all of them.
const NAMES_MAX: usize = 32_768;
const DEPTH_MAX: usize = 64;
const LIST_BYTES: usize = 32 << 10;

/// In which order a program takes the names of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Sorted by bytes (diff, rsync, a shell's pattern).
    Name,
    /// As the folder lists them (cp, grep, find).
    Listing,
}

impl Order {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Name => Self::Listing,
            Self::Listing => Self::Name,
        }
    }
}

/// The file that a program waited for, and the folder that it lies in.
#[derive(Debug)]
pub(crate) struct Origin {
    path: PathBuf,
    pub(crate) file: Stat,
    folder: Stat,
    pub(crate) opened: File,
}

impl Origin {
    /// Where an open file lies, as the kernel says, if that still is so; `None` too if it is not
    /// beneath that folder.
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

    /// Whether this crate reads it ahead, and nobody else does.
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

/// The path of an open file, as the kernel says it now.
pub(crate) fn path_of(file: &File) -> Option<PathBuf> {
    let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// What a program reads next, if it walks.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// Small files that it reads next, open, with their sizes.
    pub(crate) files: Vec<(File, u64)>,
    /// Inodes of the files that follow them.
    pub(crate) after: Vec<u64>,
}

/// The file itself and those that come next, of about so many bytes, and which follow these.
pub(crate) fn next(origin: &Origin, root: &Path, order: Order, bytes: u64) -> Next {
    let mut ahead = Ahead {
        origin,
        order,
        bytes_left: bytes,
        folders_left: FOLDERS_MAX,
        next: Next::default(),
    };
    let (mut path, mut child) = (origin.folder(), origin.path.file_name());
    let Ok(mut folder) = origin.opened.try_clone() else {
        return ahead.next;
    };
    let mut below = origin.file;
    while let Some(name) = child {
        // Somebody may move folders about: what is not where it was is not gone up from.
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

struct Ahead<'o> {
    origin: &'o Origin,
    order: Order,
    bytes_left: u64,
    folders_left: usize,
    next: Next,
}

impl Ahead<'_> {
    fn is_full(&self) -> bool {
        self.bytes_left == 0 || self.next.files.len() >= FILES_MAX
    }

    fn is_done(&self) -> bool {
        self.folders_left == 0 || self.next.after.len() >= AFTER_MAX
    }

    /// Takes what is in a folder, from a name on if one is given.
    fn folder(&mut self, folder: &File, from: Option<&[u8]>, depth: usize) -> Result<()> {
        self.folders_left = self.folders_left.saturating_sub(1);
        let mut names = list(folder)?;
        if self.order == Order::Name {
            names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        let is_start = |entry: &Named| from.is_none_or(|from| entry.name == from);
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

/// Whether whoever may read the one may read the other, and it lies on the same file system.
pub(crate) fn has_rights_of(stat: &Stat, like: &Stat, bits: u32) -> bool {
    let rights = |stat: &Stat| (stat.st_dev, stat.st_uid, stat.st_gid, stat.st_mode & bits);
    rights(stat) == rights(like)
}

fn open_folder(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve).map(File::from)
}

/// Time of access is the program's to change. What is mounted there is not asked: it may be a file
/// system that does not answer.
pub(crate) fn open_at(folder: impl AsFd, name: &[u8], flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV;
    let open = |flags| openat2(folder.as_fd(), name, flags, Mode::empty(), resolve);
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags).map(File::from),
        opened => opened.map(File::from),
    }
}

/// A name in a folder, as the folder tells it.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

pub(crate) fn list(folder: &File) -> Result<Vec<Named>> {
    // Its own position, from the start.
    let own = open_at(folder, b".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
    let mut raw = RawDir::new(&own, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(Named {
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

    fn ahead(root: &Path, name: &str, order: Order) -> usize {
        let file = File::open(root.join(name)).expect("there");
        let origin = Origin::of(&file, Path::new("/")).expect("small");
        next(&origin, root, order, 1 << 20).files.len()
    }

    #[test]
    fn a_folder_of_so_many_names_that_nobody_knows_what_comes_next_is_left_alone() {
        let root = tree(["0".to_owned(), "1".to_owned()]);
        assert_eq!(ahead(root.path(), "0", Order::Name), 2);
        let first = root.path().join("0");
        for name in 2..=NAMES_MAX {
            std::fs::hard_link(&first, root.path().join(name.to_string())).expect("linked");
        }
        for order in [Order::Name, Order::Listing] {
            assert_eq!(ahead(root.path(), "0", order), 0, "{order:?}");
        }
    }

    #[test]
    fn what_is_mounted_in_a_folder_is_not_opened() {
        let root = File::open("/").expect("there");
        let opened = open_at(&root, b"proc", OFlags::RDONLY | OFlags::DIRECTORY);
        assert_eq!(opened.err(), Some(Errno::XDEV));
    }
}
