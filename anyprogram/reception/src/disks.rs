//! Maps file systems to devices, and recognises those without a disk.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_library::BlockMap;
use rustix::fs::{fstatfs, major};

/// File systems remembered; files on further ones are ignored.
const FILE_SYSTEMS_MAX: usize = 1024;
/// Magic numbers of file systems without a disk (`linux/magic.h`), where an engine is useless.
const WITHOUT_DISK: [u32; 9] = [
    0x0102_1994, // tmpfs, devtmpfs, memfd
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
];
/// Stacked file systems: disk pools, network folders, container layers. Any user may mount any
/// number of them in a mount namespace, and each would take a share of the memory.
const OVER_OTHERS: [u32; 2] = [
    0x6573_5546, // FUSE without a block device
    0x794c_7630, // overlay
];
/// Most stacked file systems that get a device.
const OVER_OTHERS_MAX: usize = 4;

/// The devices of the programs' files.
pub(crate) struct Disks {
    places: Arc<BlockMap>,
    /// Device index by file system.
    met: Mutex<DiskTable>,
}

#[derive(Default)]
struct DiskTable {
    devices: HashMap<u64, usize>,
    over_others: usize,
}

impl DiskTable {
    fn has_room(&self, below: StorageBelow) -> bool {
        let has_room = match below {
            StorageBelow::Disk => true,
            StorageBelow::Others => self.over_others < OVER_OTHERS_MAX,
            StorageBelow::Nothing => false,
        };
        has_room && self.devices.len() < FILE_SYSTEMS_MAX
    }

    fn add(&mut self, file_system: u64, device: usize, below: StorageBelow) {
        let is_new = self.devices.insert(file_system, device).is_none();
        self.over_others += usize::from(is_new && below == StorageBelow::Others);
    }
}

impl Disks {
    /// An empty map.
    pub(crate) fn new(places: Arc<BlockMap>) -> Self {
        let met = Mutex::default();
        Self { places, met }
    }

    /// The device of a known file system, without a query.
    pub(crate) fn device_of(&self, file_system: u64) -> Option<usize> {
        self.lock().devices.get(&file_system).copied()
    }

    /// The device of a file, if there is one. Queries the file system, which may never respond.
    pub(crate) fn find(&self, file: &File, file_system: u64) -> Option<usize> {
        if let Some(device) = self.device_of(file_system) {
            return Some(device);
        }
        let below = below(file, file_system);
        if !self.lock().has_room(below) {
            return None;
        }
        let device = self.places.device_of(file).ok()?;
        self.lock().add(file_system, device, below);
        Some(device)
    }

    fn lock(&self) -> MutexGuard<'_, DiskTable> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The storage below a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StorageBelow {
    /// A block device, a network, or something unknown.
    Disk,
    /// Other file systems, or a program.
    Others,
    Nothing,
}

fn below(file: &File, file_system: u64) -> StorageBelow {
    if major(file_system) != 0 {
        return StorageBelow::Disk;
    }
    match fstatfs(file).map(|found| found.f_type as u32) {
        Ok(kind) if OVER_OTHERS.contains(&kind) => StorageBelow::Others,
        Ok(kind) if !WITHOUT_DISK.contains(&kind) => StorageBelow::Disk,
        _ => StorageBelow::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn memory_file_has_no_device() {
        let places = Arc::new(BlockMap::beneath(Path::new("/")));
        let disks = Disks::new(Arc::clone(&places));
        let proc = File::open("/proc/self/maps").expect("there");
        let memory = memfd_create("test", MemfdFlags::CLOEXEC).expect("made");
        for file in [proc, memory.into()] {
            let dev = file.metadata().expect("asked").dev();
            assert_eq!((disks.find(&file, dev), disks.device_of(dev)), (None, None));
        }
        assert!(places.devices().is_empty());
    }

    #[test]
    fn stacked_file_systems_are_limited_and_disks_are_not() {
        let mut met = DiskTable::default();
        for file_system in 0..OVER_OTHERS_MAX as u64 {
            assert!(met.has_room(StorageBelow::Others));
            met.add(file_system, 0, StorageBelow::Others);
            met.add(file_system, 0, StorageBelow::Others);
        }
        assert!(!met.has_room(StorageBelow::Others) && met.has_room(StorageBelow::Disk));
        assert!(!met.has_room(StorageBelow::Nothing));
    }

    #[test]
    fn found_device_is_remembered() {
        let places = Arc::new(BlockMap::beneath(Path::new("/")));
        let disks = Disks::new(places);
        let file = tempfile::tempfile().expect("a file");
        let dev = file.metadata().expect("asked").dev();
        assert_eq!(disks.device_of(dev), None);
        let found = disks.find(&file, dev);
        // Temporary files may be in memory.
        assert_eq!(found.is_some(), below(&file, dev) != StorageBelow::Nothing);
        assert_eq!(disks.device_of(dev), found);
    }
}
