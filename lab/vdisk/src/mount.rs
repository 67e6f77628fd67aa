//! Mounting, unmounting, and what system programs they need.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Wall};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// How long a guard waits for the kernel to let go before it says so and goes on.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long somebody who uses what is to end may go on.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it may be in use before a word is said.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(300);

/// Unmounts, giving those who still hold it until `end`.
///
/// # Errors
/// If it is still in use then, or the system refuses for another reason.
pub fn unmount_if_free(point: &Path, end: Wall) -> io::Result<()> {
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Err(Errno::BUSY) if Wall::now() < end => std::thread::sleep(Duration::from_millis(20)),
            // Already gone.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            result => return Ok(result?),
        }
    }
}

/// Unmounts, giving those who still hold it until `end`; then detaches it from the tree anyway.
///
/// # Errors
/// If the system refuses for another reason than that it is in use.
pub fn unmount_when_free(point: &Path, end: Wall) -> io::Result<()> {
    match unmount_if_free(point, end) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Ok(unmount(point, UnmountFlags::DETACH)?)
        }
        other => other,
    }
}

/// Where a system program is; root's path on Debian may lack the directories for those. If it is
/// nowhere, what to install.
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
