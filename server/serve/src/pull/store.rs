//! Slices on disk: `FOLDER/.headlong-pull/PREFIX/VERSION/NUMBER`, beside a file that describes
//! their title and version.
//!
//! Invariants: a file gets its name after its bytes are on disk; at start-up, files of the wrong
//! length and temporary files of ended processes are removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use headlong_pull::{Slices, Validators, Version as Told};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::thread_pool::ThreadPool;

const FOLDER: &str = ".headlong-pull";
const ABOUT: &str = "about.json";
const THREADS_MAX: usize = 4;
const WAITING_MAX: usize = 4096;

/// Description of a version, stored in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) path: String,
    pub(super) size_bytes: u64,
    pub(super) slice_bytes: u64,
    pub(super) entity_tag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// Time of the query, for a version that the origin identifies only by its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_unix_ns: Option<u64>,
}

impl About {
    pub(super) fn told(&self) -> Told {
        Told {
            size_bytes: self.size_bytes,
            validators: Validators {
                entity_tag: self.entity_tag.clone(),
                last_modified: self.last_modified.clone(),
            },
        }
    }

    /// Key of the version: a hash of the whole description.
    pub(super) fn key(&self) -> u128 {
        xxhash_rust::xxh3::xxh3_128(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// A version left by an earlier process.
pub(super) struct Left {
    pub(super) about: About,
    pub(super) folder: PathBuf,
    pub(super) confirmed: SystemTime,
    pub(super) present: Vec<u32>,
}

/// The slices of one path that is filled from an origin.
pub(super) struct Store {
    folder: PathBuf,
    threads: ThreadPool,
    free_bytes_min: u64,
    /// Lock file: two servers would remove each other's files.
    _lock: Arc<File>,
}

impl Store {
    /// Opens the store for a prefix in a folder. `is_heir`: another process holds the lock and is
    /// about to end.
    pub(super) fn new(
        folder: &Path,
        prefix: &str,
        free_bytes_min: u64,
        is_heir: bool,
    ) -> io::Result<Self> {
        let name = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(prefix.as_bytes()));
        let folder = folder.join(FOLDER).join(name);
        Ok(Self {
            _lock: lock(&folder.with_extension("lock"), is_heir)?,
            folder,
            threads: ThreadPool::new("pull", THREADS_MAX, WAITING_MAX)?,
            free_bytes_min,
        })
    }

    /// Runs a blocking disk job; `None` if too many are waiting.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (say, done) = oneshot::channel();
        let is_taken = self.threads.offer(move || drop(say.send(job())));
        if !is_taken {
            return None;
        }
        done.await.ok()
    }

    /// Starts a disk job without waiting for it.
    pub(super) fn begin(&self, job: impl FnOnce() + Send + 'static) {
        self.threads.run(job);
    }

    /// A new folder name, unique even among folders of the same version, because an older one may
    /// be in removal.
    pub(super) fn new_folder(&self, key: u128) -> PathBuf {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let number = since_1970.map_or(0, |time| time.as_nanos());
        self.folder.join(format!("{key:032x}-{number:x}"))
    }

    /// Bytes to leave free, for [`write`].
    pub(super) fn free_bytes_min(&self) -> u64 {
        self.free_bytes_min
    }

    /// Returns the versions left by an earlier process with slices of `slice_bytes`; removes
    /// everything else.
    pub(super) fn recover(&self, slice_bytes: u64) -> io::Result<Vec<Left>> {
        fs::create_dir_all(&self.folder)?;
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let folder = entry?.path();
            match recover_version(&folder, slice_bytes) {
                Ok(Some(version)) => left.push(version),
                _ => remove_version(&folder),
            }
        }
        Ok(left)
    }
}

/// Locks a file as long as it is open. With `is_heir`, the lock may be acquired later.
fn lock(path: &Path, is_heir: bool) -> io::Result<Arc<File>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let file = Arc::new(file);
    match rustix::fs::flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) if is_heir => {
            let later = Arc::clone(&file);
            // The thread ends when it acquires the lock, or with the process.
            std::thread::Builder::new()
                .name("pull-lock".to_owned())
                .spawn(move || rustix::fs::flock(&*later, FlockOperation::LockExclusive))?;
        }
        Err(Errno::WOULDBLOCK) => {
            let text = "another server uses this folder for the same prefix; give each server its own folder";
            return Err(io::Error::other(text));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(file)
}

/// Path of a slice.
pub(super) fn slice_path(folder: &Path, index: u32) -> PathBuf {
    folder.join(format!("{index:07}"))
}

fn recover_version(folder: &Path, slice_bytes: u64) -> io::Result<Option<Left>> {
    let about = fs::read(folder.join(ABOUT))?;
    let confirmed = fs::metadata(folder.join(ABOUT))?.modified()?;
    let Ok(about) = serde_json::from_slice::<About>(&about) else {
        return Ok(None);
    };
    let slices = Slices::new(about.size_bytes, slice_bytes);
    let Some(slices) = slices.filter(|_| about.slice_bytes == slice_bytes) else {
        return Ok(None);
    };
    let mut present = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ABOUT {
            continue;
        }
        let index = name.to_str().and_then(|name| name.parse::<u32>().ok());
        let is_whole = |index: &u32| {
            let length = entry.metadata().map_or(0, |of| of.len());
            length > 0
                && length == slices.range(*index).len()
                && slice_path(folder, *index) == entry.path()
        };
        match index.filter(is_whole) {
            Some(index) => present.push(index),
            None if is_anothers(name.to_str()) => {}
            None => fs::remove_file(entry.path())?,
        }
    }
    present.sort_unstable();
    let folder = folder.to_path_buf();
    Ok((!present.is_empty()).then_some(Left {
        about,
        folder,
        confirmed,
        present,
    }))
}

/// Whether a temporary file belongs to another running process, the one that this process replaces.
fn is_anothers(name: Option<&str>) -> bool {
    let pid = name.and_then(|name| {
        name.strip_prefix("tmp-")?
            .split('-')
            .next()?
            .parse::<u32>()
            .ok()
    });
    pid.is_some_and(|pid| {
        pid != std::process::id() && Path::new("/proc").join(pid.to_string()).exists()
    })
}

/// Writes a slice, which gets its name after all bytes are on disk.
pub(super) fn write(
    folder: &Path,
    about: &About,
    index: u32,
    bytes: &[u8],
    free_bytes_min: u64,
) -> io::Result<File> {
    if !folder.join(ABOUT).exists() {
        fs::create_dir_all(folder)?;
        let text = serde_json::to_vec(about)?;
        place(folder, ABOUT, &text)?;
    }
    let space = rustix::fs::statvfs(folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < free_bytes_min.saturating_add(bytes.len() as u64) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = slice_path(Path::new(""), index);
    place(folder, &name.to_string_lossy(), bytes)
}

/// Number of files written, to make temporary names unique.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

fn place(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    // Concurrent writers of the same content use different temporary files.
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let half = folder.join(format!("tmp-{}-{number}-{name}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .read(true)
        .create(true)
        .truncate(true)
        .open(&half)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_data()?;
            // It is read with direct I/O.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            fs::rename(&half, folder.join(name))?;
            Ok(file)
        });
    if written.is_err() {
        let _ = fs::remove_file(&half);
    }
    written
}

/// Records that the origin confirmed the title now.
pub(super) fn note_confirmed(folder: &Path) {
    let opened = File::open(folder.join(ABOUT));
    // A failure only makes the next process validate earlier than necessary.
    let _ = opened.and_then(|file| file.set_modified(SystemTime::now()));
}

/// Opens a slice for reading.
pub(super) fn open(folder: &Path, index: u32, is_direct: bool) -> io::Result<File> {
    let direct = if is_direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    };
    let flags = (OFlags::NOFOLLOW | direct).bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(slice_path(folder, index))
}

/// Removes a slice.
pub(super) fn remove_slice(folder: &Path, index: u32) {
    if let Err(error) = fs::remove_file(slice_path(folder, index))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), index, %error, "cannot remove slice");
    }
}

/// Removes a version with all its slices.
pub(super) fn remove_version(folder: &Path) {
    let removed = match folder.is_dir() {
        true => fs::remove_dir_all(folder),
        false => fs::remove_file(folder),
    };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "cannot remove slices of an origin");
    }
}
