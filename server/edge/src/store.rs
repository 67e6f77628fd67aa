//! Slices on disk: `FOLDER/.headlong-pull/PREFIX/VERSION/NUMBER`, beside a file that describes
//! their title and version.
//!
//! Invariants: a file gets its name after its bytes are on disk; when the store is opened, files of
//! the wrong length and temporary files of ended processes are removed; a version without slices has
//! no folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use headlong_pull::{OriginVersion, Slices, Validators, file_bytes};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use headlong_kernel::thread_pool::ThreadPool;

const FOLDER: &str = ".headlong-pull";
const ABOUT: &str = "about.json";
const THREADS_MAX: usize = 4;
const WAITING_MAX: usize = 4096;

/// Description of a version, stored in its folder. A later server may add a field without which the
/// slices are not the bytes of the title: a description with an unknown field is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionDescription {
    pub(super) path: String,
    pub(super) size_bytes: u64,
    pub(super) slice_bytes: u64,
    pub(super) entity_tag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// Time of the query, for a version that the origin identifies only by its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_unix_ns: Option<u64>,
}

impl VersionDescription {
    pub(super) fn origin_version(&self) -> OriginVersion {
        OriginVersion {
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
pub(super) struct LeftoverVersion {
    pub(super) about: VersionDescription,
    pub(super) folder: PathBuf,
    pub(super) confirmed: SystemTime,
    /// Slices, and their disk usage.
    pub(super) present: Vec<(u32, u32)>,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// Another server uses it.
    #[error("another server uses this folder for the same prefix; give each server its own folder")]
    InUse,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The slices of one path that is filled from an origin.
pub(super) struct Store {
    /// The folder of the configuration, which is never created.
    base: PathBuf,
    folder: PathBuf,
    threads: ThreadPool,
    free_bytes_min: u64,
    /// Lock file: two servers would remove each other's files.
    lock: OnceLock<Arc<File>>,
}

impl Store {
    /// A store for a prefix in a folder, not open yet.
    pub(super) fn new(base: &Path, prefix: &str, free_bytes_min: u64) -> io::Result<Self> {
        Ok(Self {
            base: base.to_path_buf(),
            folder: folder_of(base, prefix),
            threads: ThreadPool::new("pull", THREADS_MAX, WAITING_MAX)?,
            free_bytes_min,
            lock: OnceLock::new(),
        })
    }

    /// Locks the store, and returns the versions left by an earlier process with slices of
    /// `slice_bytes`; removes everything else. Blocks. `is_heir`: another process holds the lock and
    /// is about to end.
    pub(super) fn open(
        &self,
        slice_bytes: u64,
        is_heir: bool,
    ) -> Result<Vec<LeftoverVersion>, OpenError> {
        self.make_folder()?;
        let file = lock(&self.folder.with_extension("lock"), is_heir)?;
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let folder = entry?.path();
            match recover_version(&folder, slice_bytes) {
                Ok(Some(version)) => left.push(version),
                _ => remove_version(&folder),
            }
        }
        let _ = self.lock.set(file);
        Ok(left)
    }

    /// Whether [`Store::open`] has succeeded.
    pub(super) fn is_open(&self) -> bool {
        self.lock.get().is_some()
    }

    /// Creates the folder of the slices. The configured folder must exist: it may be the mount point
    /// of a disk that is missing.
    fn make_folder(&self) -> io::Result<()> {
        if !self.base.is_dir() {
            return Err(Errno::NOENT.into());
        }
        fs::create_dir_all(&self.folder)
    }

    /// Tests whether a slice of `bytes` bytes could be written. Blocks.
    pub(super) fn probe(&self, bytes: u64) -> io::Result<()> {
        self.make_folder()?;
        check_space(&self.folder, bytes, self.free_bytes_min)?;
        let path = temporary(&self.folder, "probe");
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&zeros)?;
            file.sync_data()
        });
        let removed = fs::remove_file(&path);
        written.and(removed)
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
}

/// The folder for the slices of a prefix.
pub fn folder_of(base: &Path, prefix: &str) -> PathBuf {
    let name = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(prefix.as_bytes()));
    base.join(FOLDER).join(name)
}

/// Locks a file as long as it is open. With `is_heir`, the lock may be acquired later.
fn lock(path: &Path, is_heir: bool) -> Result<Arc<File>, OpenError> {
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
        Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse),
        Err(error) => return Err(io::Error::from(error).into()),
    }
    Ok(file)
}

/// Path of a slice.
pub(super) fn slice_path(folder: &Path, index: u32) -> PathBuf {
    folder.join(format!("{index:07}"))
}

fn recover_version(folder: &Path, slice_bytes: u64) -> io::Result<Option<LeftoverVersion>> {
    let about = fs::read(folder.join(ABOUT))?;
    let confirmed = fs::metadata(folder.join(ABOUT))?.modified()?;
    let Ok(about) = serde_json::from_slice::<VersionDescription>(&about) else {
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
        // During an upgrade, the other process may have removed it.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let is_whole = |index: &u32| {
            metadata.len() > 0
                && metadata.len() == slices.range(*index).len()
                && slice_path(folder, *index) == entry.path()
        };
        match index.filter(is_whole) {
            Some(index) => present.push((index, disk_bytes(&metadata))),
            None if is_anothers(name.to_str()) => {}
            None => fs::remove_file(entry.path())?,
        }
    }
    present.sort_unstable();
    let folder = folder.to_path_buf();
    Ok((!present.is_empty()).then_some(LeftoverVersion {
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

/// Disk usage of a slice. Blocks may be allocated after its bytes were written, and a compressing
/// file system may need fewer; such a file counts with its length.
pub(super) fn disk_bytes(metadata: &fs::Metadata) -> u32 {
    let allocated = metadata.blocks().saturating_mul(512);
    let bytes = allocated.max(file_bytes(metadata.len()));
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Writes a slice, which gets its name after all bytes are on disk.
pub(super) fn write(
    folder: &Path,
    about: &VersionDescription,
    index: u32,
    bytes: &[u8],
    free_bytes_min: u64,
) -> io::Result<File> {
    let write = || {
        if !folder.join(ABOUT).exists() {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let text = serde_json::to_vec(about)?;
            place(folder, ABOUT, &text)?;
        }
        check_space(folder, bytes.len() as u64, free_bytes_min)?;
        let name = slice_path(Path::new(""), index);
        place(folder, &name.to_string_lossy(), bytes)
    };
    match write() {
        // During an upgrade, the other process may have removed the folder with its last slice.
        Err(error) if error.kind() == io::ErrorKind::NotFound => write(),
        written => written,
    }
}

/// Fails if `bytes` more would leave less than `free_bytes_min` free.
fn check_space(folder: &Path, bytes: u64, free_bytes_min: u64) -> io::Result<()> {
    let space = rustix::fs::statvfs(folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    match free < free_bytes_min.saturating_add(bytes) {
        true => {
            let text = "less than free_bytes_min would be left free";
            Err(io::Error::new(io::ErrorKind::StorageFull, text))
        }
        false => Ok(()),
    }
}

/// Number of files written, to make temporary names unique.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// A temporary name for `name`; concurrent writers of the same content have different ones.
fn temporary(folder: &Path, name: &str) -> PathBuf {
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("tmp-{}-{number}-{name}", std::process::id()))
}

fn place(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    let half = temporary(folder, name);
    let written = OpenOptions::new()
        .write(true)
        .read(true)
        .create(true)
        .truncate(true)
        .mode(0o640)
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

/// Removes a slice, and with the last one the folder. No slice of the version may be written
/// meanwhile.
pub(super) fn remove_slice(folder: &Path, index: u32) {
    if let Err(error) = fs::remove_file(slice_path(folder, index))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), index, %error, "cannot remove slice");
    }
    remove_if_empty(folder);
}

/// Removes the folder of a version that has no slices. None may be written meanwhile.
pub(super) fn remove_if_empty(folder: &Path) {
    let Ok(mut entries) = fs::read_dir(folder) else {
        return;
    };
    if entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == ABOUT)) {
        remove_version(folder);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn about(size_bytes: u64) -> VersionDescription {
        VersionDescription {
            path: "film.mp4".to_owned(),
            size_bytes,
            slice_bytes: 10,
            entity_tag: None,
            last_modified: None,
            asked_unix_ns: None,
        }
    }

    fn store(base: &Path) -> Store {
        Store::new(base, "/vod/", 0).expect("a thread")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn missing_base_folder_is_not_created() {
        let scratch = tempfile::tempdir().expect("a folder");
        let base = scratch.path().join("disk");
        let store = store(&base);
        let opened = store.open(10, false);
        assert!(
            matches!(opened, Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound)
        );
        assert!(store.probe(10).is_err() && !store.is_open());
        assert!(!base.exists());
        fs::create_dir(&base).expect("made");
        assert!(store.open(10, false).expect("opens").is_empty());
        assert!(store.is_open());
    }

    #[test]
    fn probe_leaves_no_file_and_needs_space() {
        let scratch = tempfile::tempdir().expect("a folder");
        let roomy = store(scratch.path());
        roomy.open(10, false).expect("opens");
        roomy.probe(1000).expect("space");
        assert!(names(&roomy.folder).is_empty());
        let full = Store::new(scratch.path(), "/vod/", u64::MAX).expect("a thread");
        let error = full.probe(1000).expect_err("no space");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn slices_are_not_readable_by_all_users() {
        let base = tempfile::tempdir().expect("a folder");
        let store = store(base.path());
        store.open(8, false).expect("a store");
        let folder = store.new_folder(1);
        write(&folder, &about(8), 0, &[7; 8], 0).expect("written");
        for path in [slice_path(&folder, 0), folder.join(ABOUT)] {
            let mode = fs::metadata(path).expect("there").mode();
            assert_eq!(mode & 0o7, 0, "{mode:o}");
        }
    }

    #[test]
    fn folder_of_version_is_removed_with_its_last_slice() {
        let scratch = tempfile::tempdir().expect("a folder");
        let store = store(scratch.path());
        store.open(10, false).expect("opens");
        let about = about(20);
        let folder = store.new_folder(about.key());
        for index in 0..2 {
            write(&folder, &about, index, &[7; 10], 0).expect("written");
        }
        remove_slice(&folder, 0);
        assert!(folder.join(ABOUT).exists());
        remove_slice(&folder, 1);
        assert!(!folder.exists());
        write(&folder, &about, 1, &[7; 10], 0).expect("written again");
        remove_if_empty(&folder);
        assert!(slice_path(&folder, 1).exists());
    }

    #[test]
    fn slice_uses_as_much_after_restart_as_when_written() {
        let scratch = tempfile::tempdir().expect("a folder");
        let first = store(scratch.path());
        first.open(10, false).expect("opens");
        let about = about(11);
        let folder = first.new_folder(about.key());
        let file = write(&folder, &about, 1, &[7], 0).expect("written");
        let usage = disk_bytes(&file.metadata().expect("there"));
        assert!(usage >= 4096, "{usage}");
        drop(first);
        let left = store(scratch.path()).open(10, false).expect("opens");
        let present: Vec<_> = left.iter().map(|of| of.present.clone()).collect();
        assert_eq!(present, [[(1, usage)]]);
    }
}
