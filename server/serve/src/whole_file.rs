//! Files of the state folder that are written whole or not at all.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A new file takes the old one's name once all of it is on the disk, and the name is, too.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    remove_leftovers(path);
    let new = new_path(path, std::process::id());
    let written = || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            // It names viewers by their addresses' hashes, and says what they watched.
            .mode(0o640)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    if let Err(error) = written() {
        // It may not be there, or stay: then the next write begins it anew.
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Where a process writes what is to become the file. Another may do so at the same time: the one whose
/// place it takes.
pub(crate) fn new_path(path: &Path, process: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new.{process}"));
    name.into()
}

/// Removes what processes that are gone have left half written. What cannot be removed does no harm.
fn remove_leftovers(path: &Path) {
    let Some(folder) = path.parent() else {
        return;
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.rsplit_once('.')?.1.parse().ok());
        let is_left = |process: u32| {
            let is_running = Path::new("/proc").join(process.to_string()).exists();
            entry.path() == new_path(path, process) && !is_running
        };
        if process.is_some_and(is_left) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
