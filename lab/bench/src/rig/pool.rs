//! A ZFS pool on a drive while titles are written to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::guard::{Guard, Start};
use super::process::{Output, Process};
use super::{Group, RigError};
use crate::servers::{Listens, Pool, pool_launch};

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Makes a pool on a device, and gives it up after `work` with its folder.
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
    fs::create_dir_all(point).map_err(|error| RigError::io(point.display(), error))?;
    for (path, text) in &launch.files {
        fs::write(path, text).map_err(|error| RigError::io(path.display(), error))?;
    }
    // What the script starts is ended with the group, should the script be killed.
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
    let deadline = Instant::now() + PATIENCE;
    while !is_mounted(point) {
        if process.ended().is_some() || Instant::now() > deadline {
            process.stop();
            return Err(RigError::Failed {
                what: launch.line(),
                words: process.last_words(),
            });
        }
        std::thread::sleep(POLL);
    }
    let done = work(point);
    process.stop();
    done
}

/// Whether a folder is on another file system than the one around it.
pub(crate) fn is_mounted(point: &Path) -> bool {
    let look = |path: Option<&Path>| path.and_then(|path| path.metadata().ok());
    let (own, around) = (look(Some(point)), look(point.parent()));
    own.zip(around)
        .is_some_and(|(own, around)| own.dev() != around.dev())
}
