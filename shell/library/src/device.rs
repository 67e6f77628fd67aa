//! Which devices the files lie on, as the kernel describes them in sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

use crate::root::Root;

/// One device that holds files of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// As files on it have it in `st_dev`.
    pub st_dev: u64,
    /// Kernel name (`sda1`, `loop0`, `dm-3`); the path of a root on it, or `MAJ:MIN`, where the
    /// kernel has none (tmpfs, overlays, network).
    pub name: String,
    /// Whether it rotates, by the kernel; `None` if it does not say.
    pub rotational: Option<bool>,
    /// Bytes it holds.
    pub capacity_bytes: u64,
    /// The roots that lie on it; empty if only a directory mounted below a root does.
    pub roots: Vec<PathBuf>,
}

/// The devices seen so far; a device keeps its index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Devices(Vec<DeviceInfo>);

impl Devices {
    pub(crate) fn of_roots(roots: &[Root]) -> Self {
        let mut devices = Self::default();
        for root in roots {
            let index = devices.index_of(root.dev(), &root.path);
            devices.0[index].roots.push(root.path.clone());
        }
        devices
    }

    /// The index of a device, described now if it is new; `beneath` is some root it was found in.
    pub(crate) fn index_of(&mut self, st_dev: u64, beneath: &Path) -> usize {
        if let Some(index) = self.0.iter().position(|device| device.st_dev == st_dev) {
            return index;
        }
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut info = describe(Path::new("/sys"), &mountinfo, st_dev);
        if info.name.is_empty() {
            info.name = beneath.display().to_string();
        }
        if info.capacity_bytes == 0
            && let Ok(space) = rustix::fs::statvfs(beneath)
        {
            info.capacity_bytes = space.f_blocks.saturating_mul(space.f_frsize);
        }
        self.0.push(info);
        self.0.len() - 1
    }

    pub(crate) fn all(&self) -> &[DeviceInfo] {
        &self.0
    }
}

/// What `sys` says about a device; a file system without a device of its own (btrfs) is looked up
/// in the table of mounts.
fn describe(sys: &Path, mountinfo: &str, st_dev: u64) -> DeviceInfo {
    let mut directory = block_directory(sys, st_dev);
    if directory.is_none() {
        let source = mount_source(mountinfo, st_dev);
        let rdev = source.and_then(|source| rustix::fs::stat(source).ok());
        directory = rdev.and_then(|stat| block_directory(sys, stat.st_rdev));
    }
    let directory = directory.unwrap_or_default();
    // A partition has no queue of its own: the whole disk, one directory up, has it.
    let rotational = [Some(directory.as_path()), directory.parent()]
        .into_iter()
        .flatten()
        .find_map(|at| number(&at.join("queue/rotational")));
    let name = directory.file_name().and_then(|name| name.to_str());
    DeviceInfo {
        st_dev,
        name: name.unwrap_or_default().to_string(),
        rotational: rotational.map(|flag| flag != 0),
        // Sectors are 512 bytes here whatever the device says.
        capacity_bytes: number(&directory.join("size"))
            .unwrap_or(0)
            .saturating_mul(512),
        roots: Vec::new(),
    }
}

fn block_directory(sys: &Path, dev: u64) -> Option<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", major(dev), minor(dev)));
    link.canonicalize().ok()
}

/// The device named as the source of the mount with this `st_dev`.
fn mount_source(mountinfo: &str, st_dev: u64) -> Option<&str> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let (major, minor) = left.split(' ').nth(2)?.split_once(':')?;
        let dev = makedev(major.parse().ok()?, minor.parse().ok()?);
        let source = right.split(' ').nth(1)?;
        (dev == st_dev && source.starts_with("/dev/")).then_some(source)
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().expect("temporary directory");
        let disk = sys.path().join("devices/pci0/block/sdz");
        fs::create_dir_all(disk.join("queue")).expect("queue");
        fs::create_dir_all(disk.join("sdz1")).expect("partition");
        fs::write(disk.join("queue/rotational"), "1\n").expect("rotational");
        fs::write(disk.join("size"), "2048\n").expect("size");
        fs::write(disk.join("sdz1/size"), "1024\n").expect("size");
        fs::create_dir_all(sys.path().join("dev/block")).expect("links");
        for (number, target) in [("8:0", "sdz"), ("8:1", "sdz/sdz1")] {
            let target = Path::new("../../devices/pci0/block").join(target);
            symlink(target, sys.path().join("dev/block").join(number)).expect("link");
        }
        sys
    }

    #[test]
    fn a_partition_rotates_if_its_disk_does() {
        let sys = sys();
        let partition = describe(sys.path(), "", makedev(8, 1));
        assert_eq!(partition.name, "sdz1");
        assert_eq!(partition.rotational, Some(true));
        assert_eq!(partition.capacity_bytes, 1024 * 512);
        assert_eq!(describe(sys.path(), "", makedev(8, 0)).name, "sdz");
    }

    #[test]
    fn a_file_system_without_a_device_says_nothing() {
        let sys = sys();
        let mountinfo = "29 1 0:26 / /tmp rw - tmpfs tmpfs rw\n";
        let info = describe(sys.path(), mountinfo, makedev(0, 26));
        assert_eq!((info.name.as_str(), info.rotational), ("", None));
    }

    #[test]
    fn the_table_of_mounts_names_the_source() {
        let mountinfo = "30 1 0:27 / /data rw,relatime shared:1 - btrfs /dev/sdz1 rw\n";
        assert_eq!(mount_source(mountinfo, makedev(0, 27)), Some("/dev/sdz1"));
        assert_eq!(mount_source(mountinfo, makedev(0, 28)), None);
    }
}
