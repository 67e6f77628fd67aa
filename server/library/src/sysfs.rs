//! Which disk a file system lies on, and where on it, as the kernel tells it in sysfs.
//!
//! The one idea: follow what a block device lies on (a partition on its disk, a mapping on its
//! slaves) down to the one disk that moves its head for it, and add up the starts on the way.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::mounts::Mount;

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
/// system begins. Of a file system whose files have a number that is no device's (btrfs), the mount
/// says what it is made of; `None` if it does not either (tmpfs, overlays, network), or that is
/// several disks.
///
/// Where in its slave a mapping begins is known to the device mapper alone; such a file system is
/// said to begin where the slave does, which is right to within a few megabytes for encryption.
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
    let slaves = entries(&device.join("slaves")).filter_map(|slave| slave.canonicalize().ok());
    let below: Vec<_> = slaves.map(|slave| follow(&slave, layers_max)).collect();
    // Nothing below it, or several disks, each of which has a part of every position.
    only_disk(&below).unwrap_or_else(itself)
}

/// The disk of which all parts are, and the least of their starts, where it can begin at all.
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

/// The devices that a mounted file system is made of: the one named as its source and, of btrfs,
/// those beside it.
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

/// The directory of the block device that is the source of a mount. Its name is asked first: a
/// service sees no devices in `/dev`.
fn source_directory(sys: &Path, source: &Path) -> Option<PathBuf> {
    let name = source.strip_prefix("/dev").ok()?.to_str()?;
    let blocks = sys.join("class/block");
    let by_name = match name.strip_prefix("mapper/") {
        Some(mapping) => entries(&blocks).find(|block| {
            let named = fs::read_to_string(block.join("dm/name"));
            named.is_ok_and(|named| named.trim_end() == mapping)
        }),
        // As the kernel writes a slash in a name.
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

/// Bytes of as many sectors as a file says; zero if it says nothing.
fn sectors(path: &Path) -> u64 {
    number(path).unwrap_or(0).saturating_mul(SECTOR_BYTES)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mounts::mounts;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// A sysfs of two disks, `sdy` and `sdz`, with two partitions each, and what is set up on them.
    pub(crate) struct Sys(tempfile::TempDir);

    impl Sys {
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

        /// A btrfs of these parts.
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

        /// What is below a file whose number is no device's, by a line of the table of mounts.
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
    fn a_partition_is_a_place_on_its_whole_disk() {
        let sys = Sys::new();
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
        let tmpfs = "29 1 0:26 / /tmp rw - tmpfs tmpfs rw";
        assert_eq!(sys.below_mount(tmpfs), None);
        assert_eq!(sys.below(makedev(0, 26)), None);
    }

    #[test]
    fn a_btrfs_lies_on_its_member_whatever_numbers_its_files_have() {
        let sys = Sys::new();
        let line = "30 1 0:27 / /data rw,relatime shared:1 - btrfs /dev/sdz1 rw";
        sys.btrfs("1b", &["sdy/sdy1"]);
        assert_eq!(sys.below_mount(line), place("sdz", 2048), "none is told");
        sys.btrfs("2b", &["sdz/sdz1"]);
        assert_eq!(sys.below_mount(line), place("sdz", 2048));
    }

    #[test]
    fn a_btrfs_of_several_disks_is_on_none_of_them() {
        let sys = Sys::new();
        sys.btrfs("1b", &["sdy/sdy1", "sdz/sdz1"]);
        let line = "30 1 0:27 / /data rw - btrfs /dev/sdz1 rw";
        assert_eq!(sys.below_mount(line), None);
        sys.btrfs("2b", &["sdz/sdz2", "sdz"]);
        let line = "30 1 0:27 / /data rw - btrfs /dev/sdz2 rw";
        assert_eq!(sys.below_mount(line), place("sdz", 0), "two parts of one");
    }

    #[test]
    fn a_mapping_is_found_by_its_name() {
        let sys = Sys::new();
        sys.block("dm-0", 1024, makedev(253, 0), &["sdz/sdz2"]);
        fs::create_dir(sys.at("dm-0").join("dm")).expect("a folder");
        fs::write(sys.at("dm-0").join("dm/name"), "films-1\n").expect("written");
        let line = |name: &str| format!("30 1 0:27 / /data rw - btrfs /dev/mapper/{name} rw");
        assert_eq!(sys.below_mount(&line("films-1")), place("sdz", 4096));
        assert_eq!(sys.below_mount(&line("films-2")), None);
    }
}
