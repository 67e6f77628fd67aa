//! File attributes: read from the kernel by `statx`, shown through the mount.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use headlong_library::FileIdentity;
use rustix::fs::{
    AtFlags, FileType as Kind, Statx, StatxAttributes, StatxFlags, StatxTimestamp, makedev, statx,
};
use rustix::io::Result;

/// Identity of a file. An inode number may be reused after a deletion, but with another creation
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeKey {
    /// File system, as in `st_dev`.
    pub(crate) dev: u64,
    /// Inode.
    pub(crate) ino: u64,
    /// Creation time, if the file system records it, seconds and nanoseconds since 1970.
    pub(crate) born: Option<(i64, u32)>,
}

/// A creation time that no file has.
const NEVER: (i64, u32) = (i64::MIN, u32::MAX);

impl NodeKey {
    /// Whether this is the key of a file, and not of a bare name ([`Attributes::unknown`]).
    pub(crate) fn is_known(&self) -> bool {
        self.born != Some(NEVER)
    }
}

/// Attributes of a file at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) key: NodeKey,
    /// Its version, assumed to have a stable mtime.
    pub(crate) identity: FileIdentity,
    /// As the mount shows them, except the inode number, which the node table assigns.
    shown: FileAttr,
}

impl Attributes {
    fn of(statx: &Statx) -> Self {
        let dev = makedev(statx.stx_dev_major, statx.stx_dev_minor);
        let has_born = statx.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = statx.stx_btime;
        let mtime = statx.stx_mtime;
        Self {
            key: NodeKey {
                dev,
                ino: statx.stx_ino,
                born: has_born.then_some((born.tv_sec, born.tv_nsec)),
            },
            identity: FileIdentity::of_statx(statx),
            shown: FileAttr {
                ino: INodeNo(statx.stx_ino),
                size: statx.stx_size,
                blocks: statx.stx_blocks,
                atime: time(statx.stx_atime),
                mtime: time(mtime),
                ctime: time(statx.stx_ctime),
                crtime: UNIX_EPOCH,
                kind: kind_shown(Kind::from_raw_mode(statx.stx_mode.into())),
                perm: statx.stx_mode & 0o7777,
                nlink: statx.stx_nlink,
                uid: statx.stx_uid,
                gid: statx.stx_gid,
                rdev: device_number(statx.stx_rdev_major, statx.stx_rdev_minor),
                blksize: statx.stx_blksize,
                flags: 0,
            },
        }
    }

    /// Attributes of a name whose file could not be inspected: no file has them, so the kernel must
    /// look the name up before it uses them.
    pub(crate) fn unknown(dev: u64, ino: u64, kind: FileType) -> Self {
        Self {
            key: NodeKey {
                dev,
                ino,
                born: Some(NEVER),
            },
            identity: FileIdentity {
                dev,
                ino,
                size: 0,
                mtime_ns: 0,
                ctime_ns: 0,
                attributes: 0,
                is_settled: false,
            },
            shown: FileAttr {
                ino: INodeNo(ino),
                size: 0,
                blocks: 0,
                atime: UNIX_EPOCH,
                mtime: UNIX_EPOCH,
                ctime: UNIX_EPOCH,
                crtime: UNIX_EPOCH,
                kind,
                perm: 0,
                nlink: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                blksize: 0,
                flags: 0,
            },
        }
    }

    /// The number of hard links.
    pub(crate) fn names(&self) -> u32 {
        self.shown.nlink
    }

    /// The attributes as shown for a node of that number.
    pub(crate) fn shown(&self, node: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(node),
            ..self.shown
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        self.shown.kind
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind() == FileType::RegularFile
    }
}

/// Attributes of an open file or folder.
pub(crate) fn attributes(open: impl AsFd) -> Result<Attributes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    statx(open, "", flags, wanted()).map(|statx| Attributes::of(&statx))
}

/// The file system of an open file. It is not queried, so a hung one does not block.
pub(crate) fn file_system(open: impl AsFd) -> Result<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(open, "", flags, StatxFlags::empty())?;
    Ok(makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// Attributes of a name in an open folder of the file system `dev`; a symbolic link is not
/// followed. Also returns whether they are current: a file system mounted there is not queried,
/// since it may hang, and the kernel's cached attributes are returned.
pub(crate) fn attributes_at(
    folder: impl AsFd,
    name: &Path,
    dev: u64,
) -> Result<(Attributes, bool)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let known = statx(&folder, name, flags | AtFlags::STATX_DONT_SYNC, wanted())?;
    let found = Attributes::of(&known);
    if found.key.dev != dev {
        // Subvolumes and some overlay file systems have other device numbers, too.
        let is_mounted = known.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        return Ok((found, !is_mounted));
    }
    let now = statx(folder, name, flags, wanted())?;
    Ok((Attributes::of(&now), true))
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn time(stamp: StatxTimestamp) -> SystemTime {
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let whole = match stamp.tv_sec < 0 {
        true => UNIX_EPOCH.checked_sub(seconds),
        false => UNIX_EPOCH.checked_add(seconds),
    };
    let part = Duration::from_nanos(stamp.tv_nsec.into());
    let time = whole.and_then(|whole| whole.checked_add(part));
    time.unwrap_or(UNIX_EPOCH)
}

/// The file type shown by the mount; an unknown type is shown as a regular file.
pub(crate) fn kind_shown(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}

/// A device number as encoded in the FUSE protocol: 32 bits, the kernel's `new_encode_dev`.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn attributes_are_those_of_the_kernel() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, vec![7; 10_000]).expect("written");
        let file = File::open(&path).expect("there");
        let metadata = file.metadata().expect("asked");
        let known = attributes(&file).expect("asked");
        let shown = known.shown(77);
        assert_eq!(shown.ino, INodeNo(77));
        assert_eq!(u32::from(shown.perm), metadata.mode() & 0o7777);
        assert_eq!((shown.size, shown.blocks), (10_000, metadata.blocks()));
        assert_eq!(shown.mtime, metadata.modified().expect("a time"));
        assert_eq!((shown.nlink, shown.uid), (1, metadata.uid()));
        assert_eq!(known.identity.modified(), shown.mtime);
        assert_eq!(known.key.ino, metadata.ino());
        assert_eq!(known.key.dev, metadata.dev());
        let open = File::open(folder.path()).expect("there");
        let named = attributes_at(&open, Path::new("a"), metadata.dev());
        assert_eq!(named.expect("asked").0.key, known.key);
        assert_eq!(file_system(&open).expect("asked"), metadata.dev());
    }

    #[test]
    fn mount_point_shows_cached_attributes() {
        let root = File::open("/").expect("there");
        let dev = file_system(&root).expect("asked");
        let at = |name: &str| attributes_at(&root, Path::new(name), dev).expect("asked");
        let (found, is_of_now) = at("proc");
        assert!(found.key.dev != dev && !is_of_now);
        assert_eq!(found.kind(), FileType::Directory);
        let (found, is_of_now) = at(".");
        assert!(found.key.dev == dev && is_of_now);
    }

    #[test]
    fn early_times_and_device_numbers_are_kept() {
        let stamp = |seconds| {
            let file = tempfile::tempfile().expect("a file");
            let time = rustix::fs::Timespec {
                tv_sec: seconds,
                tv_nsec: 250,
            };
            let times = rustix::fs::Timestamps {
                last_access: time,
                last_modification: time,
            };
            rustix::fs::futimens(&file, &times).expect("set");
            attributes(&file).expect("asked").shown(2).mtime
        };
        let before = UNIX_EPOCH - Duration::from_secs(10) + Duration::from_nanos(250);
        assert_eq!(stamp(-10), before);
        assert_eq!(stamp(10), UNIX_EPOCH + Duration::new(10, 250));
        assert_eq!(device_number(8, 17), 0x811);
        assert_eq!(device_number(259, 0x12345), 0x1231_0345);
    }
}
