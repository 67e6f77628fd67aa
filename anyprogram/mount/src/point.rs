//! A mount point: what is mounted there, whether its daemon lives, and how it is taken off.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_library::{Mount, read_mounts};
use rustix::fs::{FlockOperation, flock, getxattr};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::status::ATTRIBUTE;

/// What the sources of our mounts begin with in the kernel's table; the tree follows. A type of our
/// own would be clearer, but only the program for ordinary users can give one.
pub(crate) const SOURCE: &str = "headlong:";

/// As many links as the kernel follows.
const LINKS_MAX: u32 = 40;

/// What became of a mount whose daemon is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// There was none.
    Nothing,
    /// It was taken off.
    Yes,
    /// It could not be, or is not ours.
    Not(String),
}

/// Takes a mount off if it is ours and its daemon is gone.
pub(crate) fn recover(path: &Path) -> Recovered {
    let point = real(path);
    // The keeper of the daemon that is gone, and one that is starting, may both be here: of two that
    // saw it dead, the second would take off what was mounted meanwhile.
    let _alone = point.parent().and_then(alone);
    if !is_dead(&point) {
        return Recovered::Nothing;
    }
    if !is_ours(&point) {
        let kind = kind_mounted(&point).unwrap_or_else(|| "unknown".to_owned());
        return Recovered::Not(format!(
            "the daemon of a mount of another kind ({kind}) is gone"
        ));
    }
    match detach(&point) {
        Ok(()) => Recovered::Yes,
        Err(error) => Recovered::Not(format!(
            "an earlier mount, whose daemon is gone, cannot be taken off: {error}"
        )),
    }
}

/// Whether a daemon was there and is gone. Attributes would not tell: the kernel believes those that it
/// has as long as it was told to.
fn is_dead(point: &Path) -> bool {
    let asked = getxattr(point, ATTRIBUTE, &mut [0_u8; 0]);
    matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Waits until nobody else recovers a mount in that folder; until it is dropped nobody does.
fn alone(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// What kind of file system is mounted on a folder; `None` if it is no mount point. Its path is free
/// of links.
pub(crate) fn kind_mounted(point: &Path) -> Option<String> {
    mounted(point).map(|mount| mount.kind)
}

/// Whether a mount of ours is there, dead or alive. The path is free of links.
pub(crate) fn is_ours(point: &Path) -> bool {
    let is_of_headlong = |mount: Mount| {
        let source = mount.source.as_os_str().as_encoded_bytes();
        mount.kind.starts_with("fuse") && source.starts_with(SOURCE.as_bytes())
    };
    mounted(point).is_some_and(is_of_headlong)
}

/// The number of what is mounted on a folder, as files on it have it in `st_dev`.
pub(crate) fn number_mounted(point: &Path) -> Option<u64> {
    mounted(point).map(|mount| mount.dev)
}

fn mounted(point: &Path) -> Option<Mount> {
    let found = read_mounts(Path::new("/proc/self/mountinfo"));
    // The last of a place is on top.
    found.into_iter().rfind(|mount| mount.point == point)
}

/// Takes a mount off; what is open on it stays until it is closed.
///
/// # Errors
/// If the system refuses.
pub(crate) fn detach(point: &Path) -> io::Result<()> {
    match unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // An ordinary user has a program for it.
        Err(Errno::PERM) => by_program(point),
        Err(error) => Err(error.into()),
    }
}

fn by_program(point: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.args(["-u", "-z", "-q", "--"]).arg(point);
    let status = command.stdin(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("fusermount3 {status}"))),
    }
}

/// A path without links. What its last name is, is not looked at: the daemon there may be gone.
fn real(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    let folder = path
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_lives_needs_no_recovery_and_a_mount_is_told_by_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(recover(folder.path()), Recovered::Nothing);
        assert_eq!(recover(Path::new("/none/such")), Recovered::Nothing);
        assert_eq!(kind_mounted(folder.path()), None);
        assert!(!is_ours(Path::new("/proc")));
        assert_eq!(kind_mounted(Path::new("/proc")).as_deref(), Some("proc"));
        let number = rustix::fs::stat("/proc").expect("there").st_dev;
        assert_eq!(number_mounted(Path::new("/proc")), Some(number));
        assert!(detach(folder.path()).is_err());
    }

    #[test]
    fn a_path_is_freed_of_links_without_looking_at_its_last_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let real_folder = fs::canonicalize(folder.path()).expect("there");
        std::os::unix::fs::symlink(&real_folder, real_folder.join("link")).expect("made");
        let real_of = |name: &str| real(&folder.path().join(name));
        assert_eq!(real_of("link/none"), real_folder.join("none"));
        std::os::unix::fs::symlink("link/none", real_folder.join("last")).expect("made");
        assert_eq!(real_of("last"), real_folder.join("none"));
        std::os::unix::fs::symlink("circle", real_folder.join("circle")).expect("made");
        assert_eq!(real_of("circle"), real_folder.join("circle"));
    }
}
