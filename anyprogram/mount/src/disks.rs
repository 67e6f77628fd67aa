//! The disks below the tree: the engine of each, and threads that may wait for it.
//!
//! Invariant: whatever a disk does, nobody who needs another one waits for it: each file system has
//! threads of its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use headlong_library::Places;
use headlong_serve::disk::Device;
use headlong_serve::thread_pool::ThreadPool;
use headlong_walk::{Swept, Walker};
use rustix::fs::readlink;

use crate::small::Walk;
use crate::tree::path_of;

/// Threads of a file system for names and attributes, and as many for reads without the engine.
const THREADS_MAX: usize = 32;
/// Most of each that wait for a thread; more are refused. The kernel has no more in its own queues.
const WAITING_MAX: usize = 16_384;
/// File systems with threads of their own; those beyond share those of strangers for names, and of
/// the tree's for reads.
const DISKS_MAX: usize = 64;

/// A file system: what reads its files, and what waits for it.
pub(crate) struct Disk {
    /// `None` if no engine was started for its device: its files are read as they are asked for.
    pub(crate) device: Option<Device>,
    pub(crate) names: ThreadPool,
    pub(crate) reads: ThreadPool,
    pub(crate) walk: Walk,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = &self.device;
        f.debug_struct("Disk").field("device", device).finish()
    }
}

/// All that were met.
#[derive(Debug)]
pub(crate) struct Disks {
    pub(crate) places: Arc<Places>,
    /// The tree, as the kernel calls it.
    pub(crate) beneath: PathBuf,
    /// Whether the next small files are read ahead.
    small_files_ahead: bool,
    devices: Vec<Device>,
    /// Of the tree itself.
    first: Arc<Disk>,
    /// Those that nobody has met: each may hang, and the tree's threads are not to wait for it.
    strangers: Arc<Disk>,
    met: RwLock<HashMap<u64, Arc<Disk>>>,
    /// Held by whoever starts the threads of a new one.
    meeting: Mutex<()>,
}

impl Disks {
    /// Engines, and the tree that lies on one of their devices.
    ///
    /// # Errors
    /// If the system gives no threads, or cannot say where the tree lies.
    pub(crate) fn new(
        devices: Vec<Device>,
        path: &Path,
        tree: &File,
        dev: u64,
        small_files_ahead: bool,
    ) -> io::Result<Self> {
        let places = Arc::new(Places::beneath(path));
        let device = device_of(&places, &devices, tree);
        let beneath = readlink(path_of(tree), Vec::new())?;
        let beneath = PathBuf::from(OsString::from_vec(beneath.into_bytes()));
        let walker = small_files_ahead.then(|| Walker::new(Arc::clone(&places), &beneath));
        let first = Arc::new(disk(device, dev, Walk::new(walker))?);
        let strangers = Arc::new(threads("new", None, Walk::new(None))?);
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

    /// Sweeps for programs that go through small files, on all of them, and what was read.
    pub(crate) fn swept(&self) -> (u64, Swept) {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = (0, Swept::default());
        for disk in met.values() {
            let (sweeps, swept) = disk.walk.swept();
            all.0 += sweeps;
            all.1.files = all.1.files.saturating_add(swept.files);
            all.1.bytes += swept.bytes;
        }
        all
    }

    /// The file system of that number. Those that nobody has met have threads together.
    pub(crate) fn known(&self, dev: u64) -> Arc<Disk> {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(met.get(&dev).unwrap_or(&self.strangers))
    }

    /// The file system that a file lies on, with threads of its own from now on. May wait for it.
    pub(crate) fn meet(&self, file: &File, dev: u64) -> Arc<Disk> {
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
        let walk = Walk::new(self.small_files_ahead.then(walker));
        let disk = met.entry(dev).or_insert_with(|| match disk(device, dev, walk) {
            Ok(disk) => Arc::new(disk),
            Err(error) => {
                tracing::warn!(%error, "no threads for one more file system; it shares the tree's");
                Arc::clone(&self.first)
            }
        });
        Arc::clone(disk)
    }
}

fn disk(device: Option<Device>, dev: u64, walk: Walk) -> io::Result<Disk> {
    let name = device.as_ref().map_or("?", |device| device.name());
    if device.is_none() {
        tracing::warn!(
            file_system = dev,
            "a file system below the tree lies on a device that was not there at the start: its \
             files are read as they are asked for; start again to have them read ahead"
        );
    }
    threads(name, device.clone(), walk)
}

fn threads(name: &str, device: Option<Device>, walk: Walk) -> io::Result<Disk> {
    Ok(Disk {
        names: ThreadPool::new(&format!("names-{name}"), THREADS_MAX, WAITING_MAX)?,
        reads: ThreadPool::new(&format!("reads-{name}"), THREADS_MAX, WAITING_MAX)?,
        walk,
        device,
    })
}

/// The engine of the device that a file lies on.
fn device_of(places: &Places, devices: &[Device], file: &File) -> Option<Device> {
    let index = places.device_of(file).ok()?;
    let name = places.devices().into_iter().nth(index)?.name;
    let device = devices.iter().find(|device| **device.name() == *name);
    device.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_an_engine_has_threads_all_the_same_and_those_beyond_share() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = File::open(folder.path()).expect("there");
        let disks = Disks::new(Vec::new(), folder.path(), &tree, 1, true).expect("threads");
        assert!(disks.known(1).device.is_none());
        let stranger = disks.known(2);
        assert!(!Arc::ptr_eq(&stranger, &disks.known(1)));
        assert!(Arc::ptr_eq(&stranger, &disks.known(3)));
        let second = disks.meet(&tree, 2);
        assert!(!Arc::ptr_eq(&second, &disks.known(1)));
        assert!(Arc::ptr_eq(&second, &disks.known(2)));
        for dev in 3..100 {
            disks.meet(&tree, dev);
        }
        assert!(Arc::ptr_eq(&disks.meet(&tree, 99), &disks.known(1)));
        assert!(Arc::ptr_eq(&disks.known(99), &stranger));
    }
}
