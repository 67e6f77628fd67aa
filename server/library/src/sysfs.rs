//! The disk below a file system, and its position there, by sysfs.
//!
//! Follows the layers below a block device (a partition to its disk, a mapping to its slaves) down
//! to the one disk that does the I/O, and adds up the offsets.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::mounts::Mount;

/// Most layers followed; volumes on encryption on a RAID on partitions are five.
const LAYERS_MAX: usize = 16;
/// Sector size in sysfs, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;

/// A whole disk, as described by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) name: String,
    pub(crate) rotational: Option<bool>,
    pub(crate) capacity_bytes: u64,
    pub(crate) request_bytes_max: Option<u64>,
    pub(crate) request_segments_max: Option<u64>,
}

/// The disk below the file system with this `st_dev`, and the byte of the disk at which the file
/// system begins. If the number is not a device's (btrfs), the source of the mount is used; `None`
/// if that is no device either (tmpfs, overlays, network), or is several disks.
///
/// The offset of a mapping in its slave is known only to the device mapper; such a file system is
/// assumed to begin where the slave does, which is right to within a few megabytes for encryption.
pub(crate) fn disk_below(sys: &Path, st_dev: u64, mount: Option<&Mount>) -> Option<(Disk, u64)> {
    let parts = match block_directory(sys, st_dev) {
        Some(directory) => vec![directory],
        None => members(sys, mount?),
    };
    let below = parts.iter().map(|part| follow(part, LAYERS_MAX));
    let (directory, start_bytes) = only_disk(&below.collect::<Vec<_>>())?;
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

/// The directory of the device with a queue below a block device, and the offset in it.
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
    let slaves = entries(&device.join("slaves")).filter_map(|slave| slave.canonicalize().ok());
    let below: Vec<_> = slaves.map(|slave| follow(&slave, layers_max)).collect();
    // No lower layer, or several disks, over which every position is spread.
    only_disk(&below).unwrap_or_else(itself)
}

/// The common disk of all parts, and the least of their offsets.
fn only_disk(parts: &[(PathBuf, u64)]) -> Option<(PathBuf, u64)> {
    let (disk, _) = parts.first()?;
    let start_bytes = parts.iter().map(|(_, start_bytes)| *start_bytes).min()?;
    let is_one = parts.iter().all(|(other, _)| other == disk);
    is_one.then(|| (disk.clone(), start_bytes))
}

fn block_directory(sys: &Path, dev: u64) -> Option<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", major(dev), minor(dev)));
    link.canonicalize().ok()
}

/// The devices of a mounted file system: its source and, for btrfs, the other members.
fn members(sys: &Path, mount: &Mount) -> Vec<PathBuf> {
    let Some(source) = source_directory(sys, &mount.source) else {
        return Vec::new();
    };
    let name = source.file_name().unwrap_or_default();
    let is_with_it = |folder: &PathBuf| folder.join(name).exists();
    let folders = entries(&sys.join("fs/btrfs")).map(|system| system.join("devices"));
    match folders.filter(|_| mount.kind == "btrfs").find(is_with_it) {
        Some(folder) => entries(&folder)
            .filter_map(|link| link.canonicalize().ok())
            .collect(),
        None => vec![source],
    }
}

/// The directory of the block device that is the source of a mount. Looked up by name first: a
/// sandboxed service sees no devices in `/dev`.
fn source_directory(sys: &Path, source: &Path) -> Option<PathBuf> {
    let name = source.strip_prefix("/dev").ok()?.to_str()?;
    let blocks = sys.join("class/block");
    let by_name = match name.strip_prefix("mapper/") {
        Some(mapping) => entries(&blocks).find(|block| {
            let named = fs::read_to_string(block.join("dm/name"));
            named.is_ok_and(|named| named.trim_end() == mapping)
        }),
        // The kernel's encoding of a slash in a name.
        None => Some(blocks.join(name.replace('/', "!"))),
    };
    let by_name = by_name.and_then(|link| link.canonicalize().ok());
    by_name.or_else(|| block_directory(sys, rustix::fs::stat(source).ok()?.st_rdev))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Size in bytes by a file with a number of sectors; zero if it cannot be read.
fn sectors(path: &Path) -> u64 {
    number(path).unwrap_or(0).saturating_mul(SECTOR_BYTES)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mounts::mounts;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// A sysfs of two disks, `sdy` and `sdz`, with two partitions each, and further layers on them.
    pub(crate) struct FakeSysfs(tempfile::TempDir);

    impl FakeSysfs {
        pub(crate) fn new() -> Self {
            let sys = Self(tempfile::tempdir().expect("temporary directory"));
            for links in ["dev/block", "class/block"] {
                fs::create_dir_all(sys.path().join(links)).expect("links");
            }
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
            let last = device.rsplit('/').next().expect("a name");
            for link in [link, format!("class/block/{last}")] {
                symlink(self.at(device), self.path().join(link)).expect("link");
            }
        }

        /// A btrfs of these members.
        pub(crate) fn btrfs(&self, id: &str, parts: &[&str]) {
            let devices = self.path().join("fs/btrfs").join(id).join("devices");
            fs::create_dir_all(&devices).expect("a folder");
            for part in parts {
                let last = part.rsplit('/').next().expect("a name");
                symlink(self.at(part), devices.join(last)).expect("link");
            }
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
            let (disk, start_bytes) = disk_below(self.path(), dev, None)?;
            Some((disk.name, start_bytes))
        }

        /// The disk below a file whose number is no device's, by a line of the mount table.
        fn below_mount(&self, line: &str) -> Option<(String, u64)> {
            let mount = mounts(line.as_bytes()).pop().expect("a mount");
            let (disk, start_bytes) = disk_below(self.path(), makedev(0, 31), Some(&mount))?;
            Some((disk.name, start_bytes))
        }
    }

    fn place(name: &str, start_sectors: u64) -> Option<(String, u64)> {
        Some((name.to_string(), start_sectors * 512))
    }

    #[test]
    fn partition_is_located_on_its_whole_disk() {
        let sys = FakeSysfs::new();
        let (disk, start_bytes) =
            disk_below(sys.path(), makedev(8, 18), None).expect("a block device");
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
    fn mapping_over_one_disk_is_located_on_that_disk() {
        let sys = FakeSysfs::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["sdz/sdz2"]);
        sys.block("dm-1", 512, makedev(253, 1), &["dm-0"]);
        sys.block("dm-2", 512, makedev(253, 2), &["sdz/sdz2", "sdz/sdz1"]);
        assert_eq!(sys.below(makedev(253, 0)), place("sdz", 4096));
        assert_eq!(sys.below(makedev(253, 1)), place("sdz", 4096));
        assert_eq!(sys.below(makedev(253, 2)), place("sdz", 2048));
    }

    #[test]
    fn mapping_over_several_disks_is_a_separate_device() {
        let sys = FakeSysfs::new();
        sys.block("md0", 4096, makedev(9, 0), &["sdy/sdy1", "sdz/sdz1"]);
        sys.partition("md0", 1, 64, makedev(259, 0));
        sys.block("dm-0", 1024, makedev(253, 0), &["md0/md01"]);
        assert_eq!(sys.below(makedev(9, 0)), place("md0", 0));
        assert_eq!(sys.below(makedev(259, 0)), place("md0", 64));
        assert_eq!(sys.below(makedev(253, 0)), place("md0", 64));
    }

    #[test]
    fn cyclic_layers_terminate() {
        let sys = FakeSysfs::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["dm-1"]);
        sys.block("dm-1", 1024, makedev(253, 1), &["dm-0"]);
        assert!(sys.below(makedev(253, 0)).is_some());
    }

    #[test]
    fn file_system_without_device_has_no_disk() {
        let sys = FakeSysfs::new();
        let tmpfs = "29 1 0:26 / /tmp rw - tmpfs tmpfs rw";
        assert_eq!(sys.below_mount(tmpfs), None);
        assert_eq!(sys.below(makedev(0, 26)), None);
    }

    #[test]
    fn btrfs_lies_on_its_member_whatever_its_file_numbers() {
        let sys = FakeSysfs::new();
        let line = "30 1 0:27 / /data rw,relatime shared:1 - btrfs /dev/sdz1 rw";
        sys.btrfs("1b", &["sdy/sdy1"]);
        assert_eq!(
            sys.below_mount(line),
            place("sdz", 2048),
            "no members listed"
        );
        sys.btrfs("2b", &["sdz/sdz1"]);
        assert_eq!(sys.below_mount(line), place("sdz", 2048));
    }

    #[test]
    fn btrfs_of_several_disks_is_on_none_of_them() {
        let sys = FakeSysfs::new();
        sys.btrfs("1b", &["sdy/sdy1", "sdz/sdz1"]);
        let line = "30 1 0:27 / /data rw - btrfs /dev/sdz1 rw";
        assert_eq!(sys.below_mount(line), None);
        sys.btrfs("2b", &["sdz/sdz2", "sdz"]);
        let line = "30 1 0:27 / /data rw - btrfs /dev/sdz2 rw";
        assert_eq!(
            sys.below_mount(line),
            place("sdz", 0),
            "two partitions of one disk"
        );
    }

    #[test]
    fn mapping_is_found_by_its_name() {
        let sys = FakeSysfs::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["sdz/sdz2"]);
        fs::create_dir(sys.at("dm-0").join("dm")).expect("a folder");
        fs::write(sys.at("dm-0").join("dm/name"), "films-1\n").expect("written");
        let line = |name: &str| format!("30 1 0:27 / /data rw - btrfs /dev/mapper/{name} rw");
        assert_eq!(sys.below_mount(&line("films-1")), place("sdz", 4096));
        assert_eq!(sys.below_mount(&line("films-2")), None);
    }
}
