//! A ZFS pool on a drive while it is filled with titles.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::cleanup_guard::{CleanupGuard, ProcessContext};
use super::process::{ChildProcess, StderrHandling};
use super::{ControlGroup, RigError, is_mounted, make_folder};
use crate::servers::{ListenAddress, PoolDevices, pool_launch};

const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a pool on a device, and exports it after `work`, which receives its folder.
pub(super) fn with_new(
    guard: &CleanupGuard,
    device: &Path,
    work: impl FnOnce(&Path) -> Result<(), RigError>,
) -> Result<(), RigError> {
    let folder = guard.folder().join("new-pool");
    let pool = PoolDevices {
        device: device.to_path_buf(),
        ssd: None,
    };
    let launch = pool_launch(&pool, &folder, None, true);
    let ListenAddress::Mount(point) = &launch.listens else {
        return Ok(());
    };
    make_folder(point)?;
    for (path, text) in &launch.files {
        fs::write(path, text).map_err(|error| RigError::io(path.display(), error))?;
    }
    // The script's children end with the group, even if the script is killed.
    let group = ControlGroup::make(
        guard,
        &format!("headlong-pool-{}", std::process::id()),
        None,
    )?;
    let start = ProcessContext {
        group: Some(group.folder()),
        ..ProcessContext::PLAIN
    };
    let mut process = ChildProcess::start(guard, start, &launch.command, StderrHandling::Kept)?;
    process.drain();
    process.wait_until(&launch.line(), PATIENCE, || is_mounted(point))?;
    let done = work(point);
    process.stop();
    done
}
