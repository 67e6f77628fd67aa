//! Titles on a ZFS pool (`zfs-fuse`), which has the experiment's SSD as its cache: what FlashStream
//! was compared with (MM 2013, 5.2).
//!
//! Its clocks run as the machine's: once a second it writes to the SSD what is about to leave memory,
//! so experiments with it are as fast as life.

use std::path::{Path, PathBuf};

use headlong_units::MIB;

use super::launch::{Launch, Listens, Pool, Status, text};

const SCRIPT: &str = include_str!("pool.sh");
/// Of the limit on memory, one part in so many is zfs-fuse's own cache: what it needs besides, the
/// server and the page cache have the rest.
const OWN_MEMORY_PART: u64 = 2;
/// Its own cache if there is no limit.
const OWN_MEMORY: u64 = 256 * MIB;

/// Where the titles are.
pub(super) fn point(folder: &Path) -> PathBuf {
    folder.join("mounted")
}

/// The pool in a folder of its own; made anew if `is_new`.
pub(crate) fn launch(pool: &Pool, folder: &Path, memory: Option<u64>, is_new: bool) -> Launch {
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
    Launch {
        under: Vec::new(),
        command,
        files: vec![(script, SCRIPT.to_owned())],
        status: Status::Nowhere,
        listens: Listens::Mount(point(folder)),
    }
}
