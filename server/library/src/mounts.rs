//! The kernel's table of mounts, which says where file systems lie without asking them.

use std::path::{Path, PathBuf};

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

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// As files on it have it in `st_dev`, but on btrfs.
    pub dev: u64,
    /// Where it is.
    pub point: PathBuf,
    /// Its own options, separated by commas: `rw,relatime`.
    pub options: String,
    /// What is mounted, a device node if it has one.
    pub source: PathBuf,
    /// Its type: `ext4`, `fuse.sshfs`.
    pub kind: String,
}

impl Mount {
    /// Whether it is below a root and a scan of the root comes to it.
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

/// The mounts of `/proc/self/mountinfo`, the last of each place on top.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let (point, options) = (fields.nth(1)?, fields.next()?);
    let mut right = right.split(' ');
    let (kind, source) = (right.next()?, right.next()?);
    Some(Mount {
        dev: makedev(major.parse().ok()?, minor.parse().ok()?),
        point: unescaped(point).into(),
        options: options.to_owned(),
        source: unescaped(source).into(),
        kind: kind.to_owned(),
    })
}

/// Spaces and the like are written in octal.
fn unescaped(text: &str) -> String {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    codes.iter().fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

/// The file system that a path lies on by its name, links not followed; 0 if none is told.
pub(crate) fn dev_of(mounts: &[Mount], path: &Path) -> u64 {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let innermost = around.max_by_key(|mount| mount.point.as_os_str().len());
    innermost.map_or(0, |mount| mount.dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:17 / /srv/my\\040films rw shared:2 master:3 - xfs /dev/sdb1 rw
25 24 0:44 / /srv/my\\040films/far rw - nfs4 host:/x rw
26 24 0:45 / /srv/my\\040films/.snap/x rw - nfs4 host:/y rw
";

    #[test]
    fn a_path_lies_on_the_innermost_mount_around_it() {
        let mounts = mounts(TABLE);
        let dev = |path: &str| dev_of(&mounts, Path::new(path));
        assert_eq!(dev("/home"), makedev(8, 1));
        assert_eq!(dev("/srv/my films"), makedev(8, 17));
        assert_eq!(dev("/srv/my films/far/a"), makedev(0, 44));
    }

    #[test]
    fn a_mount_has_options_and_a_source() {
        let mounts = mounts(TABLE);
        let mount = &mounts[2];
        let found = (mount.options.as_str(), mount.source.as_path());
        assert_eq!(found, ("rw", Path::new("/dev/sdb1")));
    }

    #[test]
    fn what_is_mounted_below_a_root_and_may_hold_films_is_known_beforehand() {
        let served = |root: &str| -> Vec<u64> {
            let mounts = mounts(TABLE).into_iter();
            let below = mounts.filter(|mount| mount.is_served_below(Path::new(root)));
            below.map(|mount| mount.dev).collect()
        };
        assert_eq!(served("/srv/my films"), [makedev(0, 44)]);
        assert_eq!(served("/"), [makedev(8, 17), makedev(0, 44)]);
    }
}
