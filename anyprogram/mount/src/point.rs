//! Mount points: what is mounted there, whether its daemon is alive, and unmounting.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_library::{Mount, read_mounts};
use rustix::fs::{FlockOperation, flock, getxattr};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::status::ATTRIBUTE;

/// Prefix of our mounts' source in the kernel's mount table; the tree follows. A file system
/// subtype would be clearer, but only `fusermount3` can set one.
pub(crate) const SOURCE: &str = "headlong:";

/// The kernel's limit of symbolic links in a path.
const LINKS_MAX: u32 = 40;

/// Result of the recovery of a mount whose daemon is dead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecoveryResult {
    /// There is no dead mount.
    Nothing,
    /// It was unmounted.
    Yes,
    /// It could not be unmounted, or is not ours.
    Not(String),
}

/// Unmounts a mount if it is ours and its daemon is dead.
pub(crate) fn recover(path: &Path) -> RecoveryResult {
    let point = real(path);
    // The cleanup process of a dead daemon and a starting daemon may both be here. Without the
    // lock, the second of two that saw the dead mount would unmount its successor.
    let _alone = point.parent().and_then(alone);
    if !is_dead(&point) {
        return RecoveryResult::Nothing;
    }
    if !is_ours(&point) {
        let kind = kind_mounted(&point).unwrap_or_else(|| "unknown".to_owned());
        return RecoveryResult::Not(format!(
            "the daemon of a mount of another type ({kind}) is dead"
        ));
    }
    match detach(&point) {
        Ok(()) => RecoveryResult::Yes,
        Err(error) => RecoveryResult::Not(format!(
            "cannot unmount an earlier mount whose daemon is dead: {error}"
        )),
    }
}

/// Whether a mount is there and its daemon is dead. Attributes would not show that: the kernel
/// returns them from its cache.
fn is_dead(point: &Path) -> bool {
    let asked = getxattr(point, ATTRIBUTE, &mut [0_u8; 0]);
    matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Holds an exclusive lock against other recoveries in that folder.
fn alone(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// The type of the file system mounted on a folder; `None` if it is not a mount point. The path
/// must be free of symbolic links.
pub(crate) fn kind_mounted(point: &Path) -> Option<String> {
    mounted(point).map(|mount| mount.kind)
}

/// Whether a mount of ours is there, dead or alive. The path must be free of symbolic links.
pub(crate) fn is_ours(point: &Path) -> bool {
    let is_of_headlong = |mount: Mount| {
        let source = mount.source.as_os_str().as_encoded_bytes();
        mount.kind.starts_with("fuse") && source.starts_with(SOURCE.as_bytes())
    };
    mounted(point).is_some_and(is_of_headlong)
}

/// The device number of the file system mounted on a folder, as in `st_dev` of its files.
pub(crate) fn number_mounted(point: &Path) -> Option<u64> {
    mounted(point).map(|mount| mount.dev)
}

fn mounted(point: &Path) -> Option<Mount> {
    let found = read_mounts(Path::new("/proc/self/mountinfo"));
    // The last entry of a mount point is on top.
    found.into_iter().rfind(|mount| mount.point == point)
}

/// Unmounts lazily; open files stay usable until they are closed.
///
/// # Errors
/// If the system refuses.
pub(crate) fn detach(point: &Path) -> io::Result<()> {
    match unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // An ordinary user needs `fusermount3`.
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

/// A path without symbolic links. Its last component is not accessed: the daemon there may be dead.
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
    fn live_folder_needs_no_recovery_and_mount_has_a_type() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(recover(folder.path()), RecoveryResult::Nothing);
        assert_eq!(recover(Path::new("/none/such")), RecoveryResult::Nothing);
        assert_eq!(kind_mounted(folder.path()), None);
        assert!(!is_ours(Path::new("/proc")));
        assert_eq!(kind_mounted(Path::new("/proc")).as_deref(), Some("proc"));
        let number = rustix::fs::stat("/proc").expect("there").st_dev;
        assert_eq!(number_mounted(Path::new("/proc")), Some(number));
        assert!(detach(folder.path()).is_err());
    }

    #[test]
    fn links_are_resolved_without_the_last_component() {
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
