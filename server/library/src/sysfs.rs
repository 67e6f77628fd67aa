//! Which disk a file system lies on, and where on it, as the kernel tells it in sysfs.
//!
//! The one idea: follow what a block device lies on (a partition on its disk, a mapping on its
//! slaves) down to the one disk that moves its head for it, and add up the starts on the way.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::mounts::mounts;

/// Most layers followed; volumes on encryption on a RAID on partitions are five.
const LAYERS_MAX: usize = 16;
/// Sectors are of this size here whatever the device says.
const SECTOR_BYTES: u64 = 512;

/// A whole disk, as far as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) name: String,
    pub(crate) rotational: Option<bool>,
    pub(crate) capacity_bytes: u64,
    pub(crate) request_bytes_max: Option<u64>,
    pub(crate) request_segments_max: Option<u64>,
}

/// The disk below the file system with this `st_dev`, and the byte of the disk at which the file
/// system begins. A file system without a device of its own (btrfs) is looked up in the table of
/// mounts; `None` if it is not there either (tmpfs, overlays, network).
///
/// Where in its slave a mapping begins is known to the device mapper alone; such a file system is
/// said to begin where the slave does, which is right to within a few megabytes for encryption.
pub(crate) fn disk_below(sys: &Path, mountinfo: &str, st_dev: u64) -> Option<(Disk, u64)> {
    let directory = block_directory(sys, st_dev).or_else(|| {
        let source = mount_source(mountinfo, st_dev)?;
        block_directory(sys, rustix::fs::stat(source).ok()?.st_rdev)
    })?;
    let (directory, start_bytes) = follow(&directory, LAYERS_MAX);
    let disk = Disk {
        name: directory.file_name()?.to_str()?.to_string(),
        rotational: number(&directory.join("queue/rotational")).map(|flag| flag != 0),
        capacity_bytes: sectors(&directory.join("size")),
        request_bytes_max: number(&directory.join("queue/max_sectors_kb"))
            .map(|kib| kib.saturating_mul(1024)),
        request_segments_max: number(&directory.join("queue/max_segments")),
    };
    Some((disk, start_bytes))
}

/// The directory of what has a queue of its own below a block device, and where on it that begins.
fn follow(device: &Path, layers_max: usize) -> (PathBuf, u64) {
    let itself = || (device.to_path_buf(), 0);
    let Some(layers_max) = layers_max.checked_sub(1) else {
        return itself();
    };
    if device.join("partition").exists() {
        // A partition has no queue of its own: the whole disk, one directory up, has it.
        let Some(disk) = device.parent() else {
            return itself();
        };
        let (below, start_bytes) = follow(disk, layers_max);
        let within_bytes = sectors(&device.join("start"));
        return (below, start_bytes.saturating_add(within_bytes));
    }
    let slaves = fs::read_dir(device.join("slaves")).into_iter().flatten();
    let slaves = slaves.filter_map(|slave| slave.ok()?.path().canonicalize().ok());
    let below: Vec<_> = slaves.map(|slave| follow(&slave, layers_max)).collect();
    match below.first() {
        // Several parts of one disk: the least is where it can begin at all.
        Some((disk, _)) if below.iter().all(|(other, _)| other == disk) => {
            let start_bytes = below.iter().map(|(_, start_bytes)| *start_bytes).min();
            (disk.clone(), start_bytes.unwrap_or(0))
        }
        // Nothing below it, or several disks, each of which has a part of every position.
        _ => itself(),
    }
}

fn block_directory(sys: &Path, dev: u64) -> Option<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", major(dev), minor(dev)));
    link.canonicalize().ok()
}

/// The device named as the source of the mount with this `st_dev`.
fn mount_source(mountinfo: &str, st_dev: u64) -> Option<PathBuf> {
    let mut mounts = mounts(mountinfo).into_iter();
    mounts.find_map(|mount| {
        let is_it = mount.dev == st_dev && mount.source.starts_with("/dev");
        is_it.then_some(mount.source)
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Bytes of as many sectors as a file says; zero if it says nothing.
fn sectors(path: &Path) -> u64 {
    number(path).unwrap_or(0).saturating_mul(SECTOR_BYTES)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// A sysfs of two disks, `sdy` and `sdz`, with two partitions each, and what is set up on them.
    pub(crate) struct Sys(tempfile::TempDir);

    impl Sys {
        pub(crate) fn new() -> Self {
            let sys = Self(tempfile::tempdir().expect("temporary directory"));
            fs::create_dir_all(sys.path().join("dev/block")).expect("links");
            for (index, disk) in ["sdy", "sdz"].into_iter().enumerate() {
                sys.block(disk, 1 << 20, makedev(8, 16 * index as u32), &[]);
                fs::write(sys.at(disk).join("queue/rotational"), "1\n").expect("rotational");
                fs::write(sys.at(disk).join("queue/max_sectors_kb"), "1280\n").expect("requests");
                fs::write(sys.at(disk).join("queue/max_segments"), "168\n").expect("segments");
                sys.partition(disk, 1, 2048, makedev(8, 16 * index as u32 + 1));
                sys.partition(disk, 2, 4096, makedev(8, 16 * index as u32 + 2));
            }
            sys
        }

        pub(crate) fn path(&self) -> &Path {
            self.0.path()
        }

        fn at(&self, device: &str) -> PathBuf {
            self.path().join("devices/block").join(device)
        }

        fn link(&self, dev: u64, device: &str) {
            let link = format!("dev/block/{}:{}", major(dev), minor(dev));
            symlink(self.at(device), self.path().join(link)).expect("link");
        }

        fn block(&self, name: &str, sectors: u64, dev: u64, slaves: &[&str]) {
            fs::create_dir_all(self.at(name).join("queue")).expect("queue");
            fs::create_dir_all(self.at(name).join("slaves")).expect("slaves");
            fs::write(self.at(name).join("size"), format!("{sectors}\n")).expect("size");
            for slave in slaves {
                let last = slave.rsplit('/').next().expect("a name");
                let link = self.at(name).join("slaves").join(last);
                symlink(self.at(slave), link).expect("link");
            }
            self.link(dev, name);
        }

        pub(crate) fn partition(&self, disk: &str, index: u32, start_sectors: u64, dev: u64) {
            let name = format!("{disk}/{disk}{index}");
            fs::create_dir_all(self.at(&name)).expect("partition");
            for (file, value) in [("partition", u64::from(index)), ("start", start_sectors)] {
                fs::write(self.at(&name).join(file), format!("{value}\n")).expect("written");
            }
            fs::write(self.at(&name).join("size"), "2048\n").expect("size");
            self.link(dev, &name);
        }

        fn below(&self, dev: u64) -> Option<(String, u64)> {
            let (disk, start_bytes) = disk_below(self.path(), "", dev)?;
            Some((disk.name, start_bytes))
        }
    }

    fn place(name: &str, start_sectors: u64) -> Option<(String, u64)> {
        Some((name.to_string(), start_sectors * 512))
    }

    #[test]
    fn a_partition_is_a_place_on_its_whole_disk() {
        let sys = Sys::new();
        let (disk, start_bytes) =
            disk_below(sys.path(), "", makedev(8, 18)).expect("a block device");
        let sdz = Disk {
            name: "sdz".to_string(),
            rotational: Some(true),
            request_bytes_max: Some(1280 << 10),
            request_segments_max: Some(168),
            capacity_bytes: 512 << 20,
        };
        assert_eq!((disk, start_bytes), (sdz, 4096 * 512));
        assert_eq!(sys.below(makedev(8, 16)), place("sdz", 0));
        assert_eq!(sys.below(makedev(9, 9)), None);
    }

    #[test]
    fn a_mapping_over_one_disk_is_a_place_on_that_disk() {
        let sys = Sys::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["sdz/sdz2"]);
        sys.block("dm-1", 512, makedev(253, 1), &["dm-0"]);
        sys.block("dm-2", 512, makedev(253, 2), &["sdz/sdz2", "sdz/sdz1"]);
        assert_eq!(sys.below(makedev(253, 0)), place("sdz", 4096));
        assert_eq!(sys.below(makedev(253, 1)), place("sdz", 4096));
        assert_eq!(sys.below(makedev(253, 2)), place("sdz", 2048));
    }

    #[test]
    fn a_mapping_over_several_disks_is_a_device_of_its_own() {
        let sys = Sys::new();
        sys.block("md0", 4096, makedev(9, 0), &["sdy/sdy1", "sdz/sdz1"]);
        sys.partition("md0", 1, 64, makedev(259, 0));
        sys.block("dm-0", 1024, makedev(253, 0), &["md0/md01"]);
        assert_eq!(sys.below(makedev(9, 0)), place("md0", 0));
        assert_eq!(sys.below(makedev(259, 0)), place("md0", 64));
        assert_eq!(sys.below(makedev(253, 0)), place("md0", 64));
    }

    #[test]
    fn layers_that_lie_on_each_other_come_to_an_end() {
        let sys = Sys::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["dm-1"]);
        sys.block("dm-1", 1024, makedev(253, 1), &["dm-0"]);
        assert!(sys.below(makedev(253, 0)).is_some());
    }

    #[test]
    fn a_file_system_without_a_device_has_no_disk() {
        let sys = Sys::new();
        let mountinfo = "29 1 0:26 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(disk_below(sys.path(), mountinfo, makedev(0, 26)), None);
    }

    #[test]
    fn the_table_of_mounts_names_the_source() {
        let mountinfo = "30 1 0:27 / /data rw,relatime shared:1 - btrfs /dev/sdz1 rw\n";
        assert_eq!(
            mount_source(mountinfo, makedev(0, 27)),
            Some("/dev/sdz1".into())
        );
        assert_eq!(mount_source(mountinfo, makedev(0, 28)), None);
    }
}
