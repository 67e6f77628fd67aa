//! Files in the state folder: their mode, and atomic replacement.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Mode of a new file: not readable by all users, because these files hold hashes of viewers'
/// addresses and the titles they watch.
pub(crate) const MODE: u32 = 0o640;

/// Replaces a file by renaming a new one after it was synced, then syncs the folder.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    remove_leftovers(path);
    let new = new_path(path, std::process::id());
    let written = || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(MODE)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    if let Err(error) = written() {
        // It may not exist, or may remain: the next write truncates it.
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Path of a process's temporary file. The old process may write its own at the same time.
pub(crate) fn new_path(path: &Path, process: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new.{process}"));
    name.into()
}

/// Removes temporary files of ended processes. A failure is harmless.
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
