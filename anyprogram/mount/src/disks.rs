//! The file systems below the tree, each with its engine and its thread pools.
//!
//! Invariant: a slow disk delays only requests that need it, because each file system has its own
//! threads.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use headlong_kernel::thread_pool::ThreadPool;
use headlong_library::BlockMap;
use headlong_storage::Device;
use headlong_walk::{SweepResult, Walker};
use rustix::fs::readlink;

use crate::small_file_walks::SmallFileWalks;
use crate::tree::path_of;

/// Threads of a file system for names and attributes, and as many for reads without the engine.
const THREADS_MAX: usize = 32;
/// Longest queue of each pool; further requests are refused. The kernel queues no more than this.
const WAITING_MAX: usize = 16_384;
/// File systems with their own threads. Further ones share the pool of unknown file systems for
/// names, and the tree's pool for reads.
const DISKS_MAX: usize = 64;

/// A file system: the engine that reads its files, and the threads that may wait for it.
pub(crate) struct FileSystemEngine {
    /// `None` if no engine was started for its device: its files are read without readahead.
    pub(crate) device: Option<Device>,
    pub(crate) names: ThreadPool,
    pub(crate) reads: ThreadPool,
    pub(crate) walk: SmallFileWalks,
}

impl std::fmt::Debug for FileSystemEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = &self.device;
        f.debug_struct("Disk").field("device", device).finish()
    }
}

/// All file systems met so far.
#[derive(Debug)]
pub(crate) struct Disks {
    pub(crate) places: Arc<BlockMap>,
    /// The tree's path, as the kernel reports it.
    pub(crate) beneath: PathBuf,
    /// Whether the next small files are read ahead.
    small_files_ahead: bool,
    devices: Vec<Device>,
    /// The file system of the tree itself.
    first: Arc<FileSystemEngine>,
    /// File systems not met yet: each may hang, and must not block the tree's threads.
    strangers: Arc<FileSystemEngine>,
    met: RwLock<HashMap<u64, Arc<FileSystemEngine>>>,
    /// Held while the threads of a new file system are started.
    meeting: Mutex<()>,
}

impl Disks {
    /// Takes the engines, and the tree that lies on one of their devices.
    ///
    /// # Errors
    /// If threads cannot be created, or the tree's path cannot be read.
    pub(crate) fn new(
        devices: Vec<Device>,
        path: &Path,
        tree: &File,
        dev: u64,
        small_files_ahead: bool,
    ) -> io::Result<Self> {
        let places = Arc::new(BlockMap::beneath(path));
        let device = device_of(&places, &devices, tree);
        let beneath = readlink(path_of(tree), Vec::new())?;
        let beneath = PathBuf::from(OsString::from_vec(beneath.into_bytes()));
        let walker = small_files_ahead.then(|| Walker::new(Arc::clone(&places), &beneath));
        let first = Arc::new(disk(device, dev, SmallFileWalks::new(walker))?);
        let strangers = Arc::new(threads("new", None, SmallFileWalks::new(None))?);
        Ok(Self {
            places,
            beneath,
            small_files_ahead,
            devices,
            met: RwLock::new(HashMap::from([(dev, Arc::clone(&first))])),
            first,
            strangers,
            meeting: Mutex::default(),
        })
    }

    /// The engines.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Sweeps for programs that walk through small files, on all disks, and the files and bytes
    /// read.
    pub(crate) fn swept(&self) -> (u64, SweepResult) {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = (0, SweepResult::default());
        for disk in met.values() {
            let (sweeps, swept) = disk.walk.swept();
            all.0 += sweeps;
            all.1.files = all.1.files.saturating_add(swept.files);
            all.1.bytes += swept.bytes;
        }
        all
    }

    /// The file system of that device number. Those not met yet share one entry.
    pub(crate) fn engine_of(&self, dev: u64) -> Arc<FileSystemEngine> {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(met.get(&dev).unwrap_or(&self.strangers))
    }

    /// The file system of a file, with its own threads from now on. May block on the disk.
    pub(crate) fn meet(&self, file: &File, dev: u64) -> Arc<FileSystemEngine> {
        if let Some(disk) = self
            .met
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&dev)
        {
            return Arc::clone(disk);
        }
        let device = device_of(&self.places, &self.devices, file);
        let _alone = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut met = self.met.write().unwrap_or_else(PoisonError::into_inner);
        if met.len() >= DISKS_MAX {
            return Arc::clone(&self.first);
        }
        let walker = || Walker::new(Arc::clone(&self.places), &self.beneath);
        let walk = SmallFileWalks::new(self.small_files_ahead.then(walker));
        let disk = met.entry(dev).or_insert_with(|| match disk(device, dev, walk) {
            Ok(disk) => Arc::new(disk),
            Err(error) => {
                tracing::warn!(%error, "cannot start threads for another file system; it shares the tree's");
                Arc::clone(&self.first)
            }
        });
        Arc::clone(disk)
    }
}

fn disk(device: Option<Device>, dev: u64, walk: SmallFileWalks) -> io::Result<FileSystemEngine> {
    let name = device.as_ref().map_or("?", |device| device.name());
    if device.is_none() {
        tracing::warn!(
            file_system = dev,
            "a file system below the tree is on a device that was absent at start: its \
             files are read without readahead; restart the mount to enable it"
        );
    }
    threads(name, device.clone(), walk)
}

fn threads(
    name: &str,
    device: Option<Device>,
    walk: SmallFileWalks,
) -> io::Result<FileSystemEngine> {
    Ok(FileSystemEngine {
        names: ThreadPool::new(&format!("names-{name}"), THREADS_MAX, WAITING_MAX)?,
        reads: ThreadPool::new(&format!("reads-{name}"), THREADS_MAX, WAITING_MAX)?,
        walk,
        device,
    })
}

/// The engine of the device that a file lies on.
fn device_of(places: &BlockMap, devices: &[Device], file: &File) -> Option<Device> {
    let index = places.device_of(file).ok()?;
    let name = places.devices().into_iter().nth(index)?.name;
    let device = devices.iter().find(|device| **device.name() == *name);
    device.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_beyond_the_limit_share_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = File::open(folder.path()).expect("there");
        let disks = Disks::new(Vec::new(), folder.path(), &tree, 1, true).expect("threads");
        assert!(disks.engine_of(1).device.is_none());
        let stranger = disks.engine_of(2);
        assert!(!Arc::ptr_eq(&stranger, &disks.engine_of(1)));
        assert!(Arc::ptr_eq(&stranger, &disks.engine_of(3)));
        let second = disks.meet(&tree, 2);
        assert!(!Arc::ptr_eq(&second, &disks.engine_of(1)));
        assert!(Arc::ptr_eq(&second, &disks.engine_of(2)));
        for dev in 3..100 {
            disks.meet(&tree, dev);
        }
        assert!(Arc::ptr_eq(&disks.meet(&tree, 99), &disks.engine_of(1)));
        assert!(Arc::ptr_eq(&disks.engine_of(99), &stranger));
    }
}
