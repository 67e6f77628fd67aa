//! Titles on a ZFS pool (`zfs-fuse`) with the experiment's SSD as its cache: the baseline that
//! FlashStream was compared with (MM 2013, 5.2).
//!
//! Its clocks cannot be scaled: once a second it writes to the SSD the data that is about to leave
//! memory, so experiments with it run in real time.

use std::path::{Path, PathBuf};

use headlong_units::MIB;

use super::launch::{LaunchSpec, ListenAddress, PoolDevices, StatusSource, text};

const SCRIPT: &str = include_str!("pool.sh");
/// Fraction of the memory limit for zfs-fuse's own cache (ARC); the rest is for its other needs,
/// the server and the page cache.
const OWN_MEMORY_PART: u64 = 2;
/// Its own cache without a limit.
const OWN_MEMORY: u64 = 256 * MIB;

/// Mount point of the pool.
pub(super) fn point(folder: &Path) -> PathBuf {
    folder.join("mounted")
}

/// Starts the pool in its own folder; creates it if `is_new`.
pub(crate) fn launch(
    pool: &PoolDevices,
    folder: &Path,
    memory: Option<u64>,
    is_new: bool,
) -> LaunchSpec {
    let script = folder.join("pool.sh");
    let own = memory.map_or(OWN_MEMORY, |limit| limit / OWN_MEMORY_PART);
    let command = vec![
        "sh".to_owned(),
        text(&script),
        if is_new { "create" } else { "import" }.to_owned(),
        text(&pool.device),
        pool.ssd.as_deref().map_or_else(String::new, text),
        text(folder),
        (own / MIB).max(16).to_string(),
    ];
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(script, SCRIPT.to_owned())],
        status: StatusSource::Nowhere,
        listens: ListenAddress::Mount(point(folder)),
    }
}
