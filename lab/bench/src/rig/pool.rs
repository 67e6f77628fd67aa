//! A ZFS pool on a drive while it is filled with titles.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::guard::{Guard, Start};
use super::process::{Output, Process};
use super::{Group, RigError, is_mounted, make_folder};
use crate::servers::{Listens, Pool, pool_launch};

const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a pool on a device, and exports it after `work`, which receives its folder.
pub(super) fn with_new(
    guard: &Guard,
    device: &Path,
    work: impl FnOnce(&Path) -> Result<(), RigError>,
) -> Result<(), RigError> {
    let folder = guard.folder().join("new-pool");
    let pool = Pool {
        device: device.to_path_buf(),
        ssd: None,
    };
    let launch = pool_launch(&pool, &folder, None, true);
    let Listens::Mount(point) = &launch.listens else {
        return Ok(());
    };
    make_folder(point)?;
    for (path, text) in &launch.files {
        fs::write(path, text).map_err(|error| RigError::io(path.display(), error))?;
    }
    // The script's children end with the group, even if the script is killed.
    let group = Group::make(
        guard,
        &format!("headlong-pool-{}", std::process::id()),
        None,
    )?;
    let start = Start {
        group: Some(group.folder()),
        ..Start::PLAIN
    };
    let mut process = Process::start(guard, start, &launch.command, Output::Kept)?;
    process.drain();
    process.wait_until(&launch.line(), PATIENCE, || is_mounted(point))?;
    let done = work(point);
    process.stop();
    done
}
