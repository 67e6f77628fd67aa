//! Mounting, unmounting, and finding the system programs for them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as WallInstant};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// Timeout of guards for the kernel to release a resource.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Grace period of processes that use a resource about to be removed.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Time of use after which a message is printed.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(300);

/// Unmounts, waiting for users until `end`.
///
/// # Errors
/// If it is still in use then, or the system refuses for another reason.
pub fn unmount_if_free(point: &Path, end: WallInstant) -> io::Result<()> {
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Err(Errno::BUSY) if WallInstant::now() < end => {
                std::thread::sleep(Duration::from_millis(20))
            }
            // Already unmounted.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            result => return Ok(result?),
        }
    }
}

/// Unmounts, waiting for users until `end`; then detaches it lazily.
///
/// # Errors
/// If the system refuses for another reason than use.
pub fn unmount_when_free(point: &Path, end: WallInstant) -> io::Result<()> {
    match unmount_if_free(point, end) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Ok(unmount(point, UnmountFlags::DETACH)?)
        }
        other => other,
    }
}

/// Finds a system program; root's path on Debian may lack the directories for those. If it does not
/// exist, returns what to install.
///
/// # Errors
/// A sentence that names the program and its package.
pub fn find_program(name: &str, package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("{name} is not installed (Debian: {package})"))
}
