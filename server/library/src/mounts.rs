//! The kernel's mount table, which tells where file systems lie without accessing them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::makedev;

/// File systems that hold no films, and of which a machine has dozens.
const WITHOUT_FILMS: [&str; 18] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// File systems whose files have other numbers in `st_dev` than the mount.
const WITH_MANY_NUMBERS: [&str; 2] = ["btrfs", "overlay"];

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `st_dev` of its files, unless they have numbers of their own, as in the subvolumes of a
    /// btrfs.
    pub dev: u64,
    /// Its mount point.
    pub point: PathBuf,
    /// Its own options, separated by commas: `rw,relatime`.
    pub options: String,
    /// The mounted source, a device node if there is one.
    pub source: PathBuf,
    /// Its type: `ext4`, `fuse.sshfs`.
    pub kind: String,
}

impl Mount {
    /// Whether a file on it may have this number in `st_dev`.
    pub(crate) fn may_have_files_of(&self, st_dev: u64) -> bool {
        self.dev == st_dev || WITH_MANY_NUMBERS.contains(&self.kind.as_str())
    }

    /// Whether it is below a root and a scan of the root reaches it.
    pub(crate) fn is_served_below(&self, root: &Path) -> bool {
        let Ok(below) = self.point.strip_prefix(root) else {
            return false;
        };
        let is_hidden = |part: &std::ffi::OsStr| part.as_encoded_bytes().starts_with(b".");
        !below.as_os_str().is_empty()
            && !below.iter().any(is_hidden)
            && !WITHOUT_FILMS.contains(&self.kind.as_str())
    }
}

/// The mounts of a table such as `/proc/self/mountinfo`, in order; the last at a mount point is on
/// top. Empty if the table cannot be read, which is logged once.
pub fn read_mounts(table: &Path) -> Vec<Mount> {
    static SAID: Once = Once::new();
    let text = fs::read(table).unwrap_or_else(|error| {
        let path = table.display();
        SAID.call_once(|| {
            tracing::warn!(
                "{path}: {error}; the disks of file systems without a device of their own are \
                 unknown; let this process read the file"
            );
        });
        Vec::new()
    });
    mounts(&text)
}

/// The mounts of the text of a table. Names are arbitrary bytes, in the encoding of their disk.
pub(crate) fn mounts(table: &[u8]) -> Vec<Mount> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(mount)
        .collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
    let (point, options) = (fields.nth(1)?, fields.next()?);
    // The number of fields before the dash varies.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (fields.next()?, fields.next()?);
    let text = |field| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        dev: makedev(major.parse().ok()?, minor.parse().ok()?),
        point: unescaped(point),
        options: text(options),
        source: unescaped(source),
        kind: text(kind),
    })
}

/// Spaces and the like are escaped in octal, `\040`.
fn unescaped(mut field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    while let Some((first, rest)) = field.split_first() {
        let code = rest.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                field = &rest[3..];
            }
            None => {
                bytes.push(*first);
                field = rest;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The mount that a path lies on by its name, without following links.
pub(crate) fn innermost<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:17 / /srv/my\\040films rw shared:2 master:3 - xfs /dev/sdb1 rw
25 24 0:44 / /srv/my\\040films/far rw - nfs4 host:/x rw
26 24 0:45 / /srv/my\\040films/.snap/x rw - nfs4 host:/y rw
";

    #[test]
    fn path_lies_on_innermost_mount() {
        let mounts = mounts(TABLE);
        let dev = |path: &str| Some(innermost(&mounts, Path::new(path))?.dev);
        assert_eq!(dev("/home"), Some(makedev(8, 1)));
        assert_eq!(dev("/srv/my films"), Some(makedev(8, 17)));
        assert_eq!(dev("/srv/my films/far/a"), Some(makedev(0, 44)));
    }

    #[test]
    fn mount_has_options_and_source() {
        let mounts = mounts(TABLE);
        let mount = &mounts[2];
        let found = (mount.options.as_str(), mount.source.as_path());
        assert_eq!(found, ("rw", Path::new("/dev/sdb1")));
    }

    #[test]
    fn name_that_is_not_utf8_hides_no_other_mount() {
        let table = b"22 1 8:1 / /old\\134\\040\xff\xfe rw - ext4 /dev/sda1 rw\n\
                      23 1 8:17 / /srv rw - xfs /dev/sdb1 rw\n";
        let points = mounts(table)
            .into_iter()
            .map(|mount| mount.point.into_os_string().into_vec());
        assert_eq!(
            points.collect::<Vec<_>>(),
            [&b"/old\\ \xff\xfe"[..], b"/srv"]
        );
    }

    #[test]
    fn mounts_below_root_that_may_hold_films_are_found() {
        let served = |root: &str| -> Vec<u64> {
            let mounts = mounts(TABLE).into_iter();
            let below = mounts.filter(|mount| mount.is_served_below(Path::new(root)));
            below.map(|mount| mount.dev).collect()
        };
        assert_eq!(served("/srv/my films"), [makedev(0, 44)]);
        assert_eq!(served("/"), [makedev(8, 17), makedev(0, 44)]);
    }
}
