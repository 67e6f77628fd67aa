//! Which files come next: those of the folder behind this one, then what lies in folders there, then
//! what is behind the folder in the one above it, up to the folder that the program walks in.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat, openat2,
    readlink, statat,
};
use rustix::io::{Errno, Result};

/// Larger files are none of this crate's: the engine reads them.
pub const SMALL_BYTES: u64 = 256 << 10;

/// Most that is looked at for one sweep.
const FILES_MAX: usize = 2048;
const FOLDERS_MAX: usize = 512;
const NAMES_MAX: usize = 16_384;
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
        let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).ok()?;
        let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
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

/// The file itself and those that come next, open for reading, of about so many bytes.
pub(crate) fn files(origin: &Origin, root: &Path, order: Order, bytes: u64) -> Vec<(File, u64)> {
    let mut ahead = Ahead {
        origin,
        order,
        bytes_left: bytes,
        folders_left: FOLDERS_MAX,
        files: Vec::new(),
    };
    let (mut path, mut child) = (origin.folder(), origin.path.file_name());
    let Ok(mut folder) = origin.opened.try_clone() else {
        return Vec::new();
    };
    let mut below = origin.file;
    while let Some(name) = child {
        // Somebody may move folders about: what is not where it was is not gone up from.
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if !there.is_ok_and(|there| is_same(&there, &below)) {
            break;
        }
        if ahead
            .folder(&folder, Some(name.as_encoded_bytes()), 0)
            .is_err()
            || ahead.is_full()
        {
            break;
        }
        if path == root {
            break;
        }
        let Some(parent) = path.parent() else { break };
        let (Ok(stat), Ok(above)) = (fstat(&folder), open_folder(parent)) else {
            break;
        };
        (below, folder, child, path) = (stat, above, path.file_name(), parent);
    }
    ahead.files
}

struct Ahead<'o> {
    origin: &'o Origin,
    order: Order,
    bytes_left: u64,
    folders_left: usize,
    files: Vec<(File, u64)>,
}

impl Ahead<'_> {
    fn is_full(&self) -> bool {
        self.bytes_left == 0 || self.files.len() >= FILES_MAX || self.folders_left == 0
    }

    /// Takes what is in a folder, from a name on if one is given.
    fn folder(&mut self, folder: &File, from: Option<&[u8]>, depth: usize) -> Result<()> {
        self.folders_left = self.folders_left.saturating_sub(1);
        let mut names = list(folder)?;
        if self.order == Order::Name {
            names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        }
        let start =
            from.and_then(|from| names.iter().position(|(name, _)| name.as_slice() == from));
        for (name, kind) in names.drain(start.unwrap_or(0)..) {
            if self.is_full() {
                break;
            }
            let is_first = from == Some(name.as_slice());
            match kind {
                FileType::RegularFile => self.file(folder, &name),
                FileType::Directory if !is_first && depth < DEPTH_MAX => {
                    self.below(folder, &name, depth);
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
            self.files.push((file, size));
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

/// Time of access is the program's to change.
pub(crate) fn open_at(folder: impl AsFd, name: &[u8], flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = folder.as_fd();
    match openat(folder, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(folder, name, flags, Mode::empty()).map(File::from),
        opened => opened.map(File::from),
    }
}

pub(crate) fn list(folder: &File) -> Result<Vec<(Vec<u8>, FileType)>> {
    // Its own position, from the start.
    let own = open_at(folder, b".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
    let mut raw = RawDir::new(&own, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.to_vec(), entry.file_type()));
        }
        if names.len() >= NAMES_MAX {
            break;
        }
    }
    Ok(names)
}
