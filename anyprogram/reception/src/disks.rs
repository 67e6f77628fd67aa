//! Which disk a file lies on, and which file systems lie on none.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_library::Places;
use rustix::fs::{fstatfs, major};

/// File systems that are remembered; files on others are left alone.
const FILE_SYSTEMS_MAX: usize = 1024;
/// Magic numbers of file systems without a disk of their own (`linux/magic.h`). To most an engine is
/// of no use, and of some any user may mount as many as he likes, in a namespace of his own.
const WITHOUT_DISK: [u32; 11] = [
    0x0102_1994, // tmpfs, devtmpfs, memfd
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6573_5546, // FUSE without a block device
    0x794c_7630, // overlay
];

/// The disks that files of programs lie on.
pub(crate) struct Disks {
    places: Arc<Places>,
    /// Index of the device by file system, where there is one.
    met: Mutex<HashMap<u64, usize>>,
}

impl Disks {
    /// None met yet.
    pub(crate) fn new(places: Arc<Places>) -> Self {
        let met = Mutex::default();
        Self { places, met }
    }

    /// The device of a file system that was met before. Nobody is asked.
    pub(crate) fn known(&self, file_system: u64) -> Option<usize> {
        self.lock().get(&file_system).copied()
    }

    /// The device that a file lies on, if it lies on any. Asks the file system, which may never answer.
    pub(crate) fn find(&self, file: &File, file_system: u64) -> Option<usize> {
        if let Some(device) = self.known(file_system) {
            return Some(device);
        }
        if self.lock().len() >= FILE_SYSTEMS_MAX || !has_disk(file, file_system) {
            return None;
        }
        let device = self.places.device_of(file).ok()?;
        self.lock().insert(file_system, device);
        Some(device)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is a block device below, or a network, or what is not known to be neither.
fn has_disk(file: &File, file_system: u64) -> bool {
    let is_without = |kind| WITHOUT_DISK.contains(&kind);
    major(file_system) != 0 || fstatfs(file).is_ok_and(|found| !is_without(found.f_type as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn a_file_in_memory_lies_on_no_disk_and_adds_none() {
        let places = Arc::new(Places::beneath(Path::new("/")));
        let disks = Disks::new(Arc::clone(&places));
        let proc = File::open("/proc/self/maps").expect("there");
        let memory = memfd_create("test", MemfdFlags::CLOEXEC).expect("made");
        for file in [proc, memory.into()] {
            let dev = file.metadata().expect("asked").dev();
            assert_eq!((disks.find(&file, dev), disks.known(dev)), (None, None));
        }
        assert!(places.devices().is_empty());
    }

    #[test]
    fn a_disk_that_was_met_is_known() {
        let places = Arc::new(Places::beneath(Path::new("/")));
        let disks = Disks::new(places);
        let file = tempfile::tempfile().expect("a file");
        let dev = file.metadata().expect("asked").dev();
        assert_eq!(disks.known(dev), None);
        let found = disks.find(&file, dev);
        // Temporary files may lie in memory.
        assert_eq!(found.is_some(), has_disk(&file, dev));
        assert_eq!(disks.known(dev), found);
    }
}
