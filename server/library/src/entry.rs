//! One version of a file, as returned by look-ups.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::identity::FileIdentity;
use crate::stream::StreamFiles;

/// Instead of the time of a check: the file was never checked.
const NEVER_CHECKED_NS: u64 = 0;

/// Files by path.
pub(crate) type Files = HashMap<Arc<str>, Arc<FileEntry>>;

/// One file in one version.
#[derive(Debug)]
pub struct FileEntry {
    /// Path from the root of its tree.
    pub path: Arc<str>,
    /// Index of the root, in the order given to the scan.
    pub root: usize,
    /// Index of the device in [`crate::Library::devices`].
    pub device: usize,
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: SystemTime,
    /// Its version.
    pub identity: FileIdentity,
    /// Set if an earlier version at this path had the same size and modification time: a number
    /// that distinguishes this one from it.
    pub distinction: Option<u64>,
    /// The stream it belongs to.
    pub stream: Arc<StreamFiles>,
    /// Its index in [`StreamFiles::parts`].
    pub part: u32,
    checked_ns: AtomicU64,
}

impl FileEntry {
    pub(crate) fn new(stream: &Arc<StreamFiles>, part: u32, checked_ns: u64) -> Self {
        let file = &stream.parts[part as usize];
        Self {
            path: Arc::clone(&file.path),
            root: file.root,
            device: stream.device,
            size: file.identity.size,
            mtime: file.identity.modified(),
            identity: file.identity,
            distinction: stream.ground.past.distinction(&file.path, &file.identity),
            stream: Arc::clone(stream),
            part,
            checked_ns: AtomicU64::new(checked_ns),
        }
    }

    /// It is about to be replaced or removed.
    pub(crate) fn note_past(&self) {
        let past = &self.stream.ground.past;
        past.note(&self.path, self.identity, self.distinction);
    }

    /// When the disk was last seen to have this version, nanoseconds since the library began.
    pub(crate) fn checked_ns(&self) -> u64 {
        self.checked_ns.load(Ordering::Relaxed)
    }

    /// Records that the disk still had this version at that time.
    pub(crate) fn check(&self, now_ns: u64) {
        self.checked_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Forces the next look-up to check the disk.
    pub(crate) fn distrust(&self) {
        self.checked_ns.store(NEVER_CHECKED_NS, Ordering::Relaxed);
    }

    /// Whether the disk was asked less than `age_ns` before `now_ns`.
    pub(crate) fn is_fresh(&self, now_ns: u64, age_ns: u128) -> bool {
        let checked_ns = self.checked_ns();
        checked_ns != NEVER_CHECKED_NS && u128::from(now_ns.saturating_sub(checked_ns)) < age_ns
    }
}
