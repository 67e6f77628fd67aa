//! The devices that hold the files.
//!
//! A device is a unit with one queue. Two partitions of a disk share its head, so they are one
//! device, and positions are counted from the start of the disk, not of the partition.
//!
//! Invariants: a device keeps its index; no two devices have the same name; no lock is held while
//! the kernel is asked to describe a new device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{major, minor};

use crate::mounted_root::MountedRoot;
use crate::mounts::{Mount, innermost, read_mounts};
use crate::options::LibraryOptions;
use crate::root::{Root, RootError, open_roots};
use crate::sysfs::{Disk, disk_below};

/// One device that holds files of the library: a whole disk, or its equivalent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kernel name of the whole disk (`sda`, `nvme0n1`, `loop0`), or of a combination of several
    /// (`md0`, `dm-3`); the path of a root on it if the kernel has no name for it (tmpfs, overlays,
    /// network).
    pub name: String,
    /// Whether the name is the kernel's.
    pub has_kernel_name: bool,
    /// Whether it rotates, by the kernel; `None` if unknown.
    pub rotational: Option<bool>,
    /// Capacity in bytes, all partitions together. Without a kernel name, the last report of its
    /// file system (ZFS reports less when another dataset grows).
    pub capacity_bytes: u64,
    /// Largest request that the kernel issues to it (`max_sectors_kb`); `None` if unknown.
    pub request_bytes_max: Option<u64>,
    /// Most memory segments of one request (`max_segments`); `None` if unknown.
    pub request_segments_max: Option<u64>,
    /// The file systems on it that are known so far, by `st_dev` of their files or by the number in
    /// the mount table.
    pub st_devs: Vec<u64>,
    /// The roots that lie on it; empty if only a directory mounted below a root does.
    pub roots: Vec<PathBuf>,
    /// Its mount points below roots at the start, in alphabetical order.
    pub beneath: Vec<PathBuf>,
}

impl DeviceInfo {
    /// Whether it is treated as rotating unless the operator configures otherwise. An unknown
    /// device is: one read at a time is slow on flash, but many at a time are ruinous on a disk.
    pub fn rotates(&self) -> bool {
        self.rotational.unwrap_or(true)
    }

    /// The paths that identify it after a restart, when its kernel name may have changed: its
    /// roots, or its mount points below roots on other devices.
    pub fn lasting_paths(&self) -> &[PathBuf] {
        match self.roots.is_empty() {
            true => &self.beneath,
            false => &self.roots,
        }
    }
}

/// Properties of roots that are known without reading files below them.
#[derive(Debug)]
pub struct RootsInfo {
    /// The devices that they lie on, with the names and in the order of a scan.
    pub devices: Vec<DeviceInfo>,
    /// The resolved path of each root, in their order; `None` if it is missing.
    pub real_paths: Vec<Option<PathBuf>>,
    /// Why roots are missing, as far as this is known without waiting for a disk.
    pub missing: Vec<RootError>,
}

/// Inspects the roots and their devices, for a bounded time whatever hangs. The last
/// `link_targets` of the roots are targets of links.
///
/// # Errors
/// Errors in the list of roots, or common to all of them; a failing disk is no error here.
pub fn inspect_roots(
    roots: &[MountedRoot],
    link_targets: usize,
) -> Result<RootsInfo, Vec<RootError>> {
    let roots = open_roots(roots, link_targets, LibraryOptions::default().open_timeout)?;
    let real = |root: &Arc<Root>| root.place().map(|(real, _)| real);
    Ok(RootsInfo {
        devices: Devices::of_roots(Kernel::default(), &roots).all(),
        real_paths: roots.iter().map(real).collect(),
        missing: (roots
            .iter()
            .filter(|root| root.was_missing.load(Ordering::Relaxed)))
        .filter_map(|root| root.trouble())
        .collect(),
    })
}

/// Location of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystemLocation {
    /// Index of the device.
    pub(crate) device: usize,
    /// Byte of the device at which the file system begins.
    pub(crate) start_bytes: u64,
}

/// Paths of the kernel's information on disks and mounts.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) sys: PathBuf,
    pub(crate) mountinfo: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            mountinfo: "/proc/self/mountinfo".into(),
        }
    }
}

impl Kernel {
    fn mounts(&self) -> Vec<Mount> {
        read_mounts(&self.mountinfo)
    }
}

/// The devices known so far.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    kernel: Kernel,
    table: RwLock<DeviceTable>,
}

#[derive(Debug, Default)]
struct DeviceTable {
    devices: Vec<DeviceInfo>,
    /// By `st_dev`, and by the number in the mount table.
    places: HashMap<u64, FileSystemLocation>,
    /// By root, the devices on which it or a file system mounted below it lay at the start.
    of_roots: Vec<Vec<usize>>,
}

impl Devices {
    /// The devices of the roots, then those of the file systems mounted below them. The location of
    /// a root that is not open yet is taken from the mount table; a missing root has a device of
    /// its own, for the disk that will appear.
    pub(crate) fn of_roots(kernel: Kernel, roots: &[Arc<Root>]) -> Self {
        let devices = Self {
            kernel,
            ..Self::default()
        };
        let mounts = devices.kernel.mounts();
        for root in roots {
            let place = match root.place() {
                Some((real, dev)) => devices.place(dev, &real, &root.path),
                None if root.was_missing.load(Ordering::Relaxed) => {
                    devices.write(|table| FileSystemLocation {
                        device: table.add_nameless(0, &root.path, 0),
                        start_bytes: 0,
                    })
                }
                None => {
                    let reached = root.real_path_so_far();
                    devices.place_of_mount(innermost(&mounts, &reached), &root.path)
                }
            };
            devices.write(|table| {
                let roots = &mut table.devices[place.device].roots;
                // A folder may be of several sites.
                if !roots.contains(&root.path) {
                    roots.push(root.path.clone());
                }
                table.of_roots.push(vec![place.device]);
            });
        }
        devices.write(|table| table.add_link_targets(roots));
        for (index, root) in roots.iter().enumerate() {
            let real = root.real_path_so_far();
            for mount in mounts.iter().filter(|mount| mount.is_served_below(&real)) {
                let place = devices.place_of_mount(Some(mount), &root.path);
                devices.write(|table| table.add_beneath(index, place.device, &mount.point));
            }
        }
        devices
    }

    /// Location of the file system of a file, determined now if it is new; `beneath` is a root in
    /// which it was found. The path of the file is real and absolute.
    pub(crate) fn place(&self, st_dev: u64, file: &Path, beneath: &Path) -> FileSystemLocation {
        if let Some(place) = self.location(st_dev) {
            return place;
        }
        let mounts = self.kernel.mounts();
        let mount = innermost(&mounts, file).filter(|mount| mount.may_have_files_of(st_dev));
        let space_bytes = rustix::fs::statvfs(beneath)
            .map_or(0, |space| space.f_blocks.saturating_mul(space.f_frsize));
        // A disk that was unplugged and mounted again has another name, and keeps its engine.
        let before = mount.and_then(|mount| self.mounted_at(&mount.point));
        self.add(st_dev, mount, before, beneath, space_bytes)
    }

    /// Records that a root lies on this file system from now on. If its disk is new, it gets the
    /// engine of the root's device.
    pub(crate) fn move_root(&self, root: usize, st_dev: u64, real: &Path) {
        let mounts = self.kernel.mounts();
        let mount = innermost(&mounts, real).filter(|mount| mount.may_have_files_of(st_dev));
        let before = self.of_root(root).first().copied();
        self.add(st_dev, mount, before, real, 0);
    }

    /// The same for a mount, without asking the file system for its size, as it may not respond.
    fn place_of_mount(&self, mount: Option<&Mount>, beneath: &Path) -> FileSystemLocation {
        let dev = mount.map_or(0, |mount| mount.dev);
        self.location(dev)
            .unwrap_or_else(|| self.add(dev, mount, None, beneath, 0))
    }

    /// Adds a file system; on the device `before` if its disk is new.
    fn add(
        &self,
        st_dev: u64,
        mount: Option<&Mount>,
        before: Option<usize>,
        beneath: &Path,
        space_bytes: u64,
    ) -> FileSystemLocation {
        let (disk, start_bytes) = match disk_below(&self.kernel.sys, st_dev, mount) {
            Some((disk, start_bytes)) => (Some(disk), start_bytes),
            None => (None, 0),
        };
        let numbers = [st_dev, mount.map_or(st_dev, |mount| mount.dev)];
        self.write(|table| {
            // Another file of the mount was added before, or by another thread meanwhile.
            let known = numbers.iter().find_map(|number| table.places.get(number));
            let is_met = |disk: &Disk| table.position(&disk.name).is_some();
            let before = before.filter(|_| !disk.as_ref().is_some_and(is_met));
            let place = known.copied().unwrap_or_else(|| FileSystemLocation {
                device: match (before, disk) {
                    (Some(before), _) => before,
                    (None, Some(disk)) => table.index_of(disk),
                    (None, None) => table.add_nameless(st_dev, beneath, space_bytes),
                },
                start_bytes,
            });
            for number in numbers {
                if table.places.insert(number, place).is_none() {
                    table.devices[place.device].st_devs.push(number);
                }
            }
            place
        })
    }

    /// Location of a known file system.
    pub(crate) fn location(&self, st_dev: u64) -> Option<FileSystemLocation> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.places.get(&st_dev).copied()
    }

    pub(crate) fn all(&self) -> Vec<DeviceInfo> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.devices.clone()
    }

    /// The device that was mounted at a point below a root at the start.
    fn mounted_at(&self, point: &Path) -> Option<usize> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut devices = table.devices.iter();
        devices.position(|device| device.beneath.iter().any(|other| other == point))
    }

    /// The devices that a scan of a root reaches, as present at the start.
    pub(crate) fn of_root(&self, root: usize) -> Vec<usize> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.of_roots.get(root).cloned().unwrap_or_default()
    }

    fn write<T>(&self, f: impl FnOnce(&mut DeviceTable) -> T) -> T {
        f(&mut self.table.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DeviceTable {
    /// The index of a disk, which is added if it is new.
    fn index_of(&mut self, disk: Disk) -> usize {
        if let Some(index) = self.position(&disk.name) {
            return index;
        }
        let index = self.add(disk.name, disk.rotational, disk.capacity_bytes);
        let device = &mut self.devices[index];
        device.has_kernel_name = true;
        device.request_bytes_max = disk.request_bytes_max;
        device.request_segments_max = disk.request_segments_max;
        index
    }

    /// Adds a device without a kernel name, under a unique name.
    fn add_nameless(&mut self, st_dev: u64, beneath: &Path, space_bytes: u64) -> usize {
        let mut name = beneath.display().to_string();
        if self.position(&name).is_some() {
            name = format!("{name} ({}:{})", major(st_dev), minor(st_dev));
        }
        self.add(name, None, space_bytes)
    }

    /// A scan of any root may reach the targets of links.
    fn add_link_targets(&mut self, roots: &[Arc<Root>]) {
        let targets = roots.iter().zip(&self.of_roots);
        let targets = targets.filter(|(root, _)| root.is_link_target);
        let targets: Vec<usize> = targets.flat_map(|(_, devices)| devices.clone()).collect();
        for devices in &mut self.of_roots {
            for target in &targets {
                if !devices.contains(target) {
                    devices.push(*target);
                }
            }
        }
    }

    /// Records that a device is mounted at a point below a root.
    fn add_beneath(&mut self, root: usize, device: usize, point: &Path) {
        let beneath = &mut self.devices[device].beneath;
        if let Err(at) = beneath.binary_search_by(|other| other.as_path().cmp(point)) {
            beneath.insert(at, point.to_path_buf());
        }
        if !self.of_roots[root].contains(&device) {
            self.of_roots[root].push(device);
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }

    fn add(&mut self, name: String, rotational: Option<bool>, capacity_bytes: u64) -> usize {
        self.devices.push(DeviceInfo {
            name,
            has_kernel_name: false,
            rotational,
            capacity_bytes,
            request_bytes_max: None,
            request_segments_max: None,
            st_devs: Vec::new(),
            roots: Vec::new(),
            beneath: Vec::new(),
        });
        self.devices.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use crate::sysfs::tests::FakeSysfs;
    use rustix::fs::makedev;
    use std::fs;

    /// Devices on a machine with this mount table.
    fn devices(sys: &FakeSysfs, mountinfo: &str) -> Devices {
        devices_of(sys, mountinfo, &[])
    }

    fn devices_of(sys: &FakeSysfs, mountinfo: &str, roots: &[Arc<Root>]) -> Devices {
        let kernel = Kernel {
            sys: sys.path().to_path_buf(),
            mountinfo: sys.path().join("mountinfo"),
        };
        fs::write(&kernel.mountinfo, mountinfo).expect("written");
        Devices::of_roots(kernel, roots)
    }

    #[test]
    fn partitions_of_one_disk_are_one_device() {
        let sys = FakeSysfs::new();
        let devices = devices(&sys, "");
        let beneath = Path::new("/");
        let at = |minor| devices.place(makedev(8, minor), beneath, beneath);
        let (first, second, other) = (at(17), at(18), at(1));
        assert_eq!((first.device, second.device, other.device), (0, 0, 1));
        assert_eq!(
            (first.start_bytes, second.start_bytes),
            (2048 * 512, 4096 * 512)
        );
        let all = devices.all();
        assert_eq!((all[0].name.as_str(), all[1].name.as_str()), ("sdz", "sdy"));
        assert_eq!(all[0].capacity_bytes, 512 << 20);
        assert_eq!(all[0].st_devs, [makedev(8, 17), makedev(8, 18)]);
        assert!(all[0].has_kernel_name);
    }

    #[test]
    fn devices_without_kernel_name_get_unique_names() {
        let sys = FakeSysfs::new();
        let devices = devices(&sys, "");
        let beneath = Path::new("/");
        let at = |minor| devices.place(makedev(0, minor), beneath, beneath).device;
        assert_eq!((at(40), at(41), at(40)), (0, 1, 0));
        let all = devices.all();
        assert_eq!(
            (all[0].name.as_str(), all[1].name.as_str()),
            ("/", "/ (0:41)")
        );
        assert!(all.iter().all(|device| device.rotates()
            && device.capacity_bytes > 0
            && !device.has_kernel_name));
    }

    const ROOT: &str = "22 1 8:1 / / rw - ext4 /dev/sdy1 rw\n";

    #[test]
    fn btrfs_subvolumes_lie_on_disk_of_enclosing_mount() {
        let sys = FakeSysfs::new();
        sys.btrfs("1b", &["sdz/sdz1"]);
        let table = "30 22 0:27 / /srv/films rw - btrfs /dev/sdz1 rw\n";
        let devices = devices(&sys, &format!("{ROOT}{table}"));
        let root = Path::new("/srv");
        let at = |minor, path: &str| devices.place(makedev(0, minor), Path::new(path), root);
        let (first, second) = (at(31, "/srv/films/a"), at(32, "/srv/films/sub/b"));
        assert_eq!((first, first.start_bytes), (second, 2048 * 512));
        let names: Vec<String> = devices.all().into_iter().map(|info| info.name).collect();
        assert_eq!(names, ["sdz"]);
    }

    #[test]
    fn btrfs_of_several_disks_is_one_device() {
        let sys = FakeSysfs::new();
        sys.btrfs("1b", &["sdy/sdy2", "sdz/sdz1"]);
        let table = "30 22 0:27 /a /srv/a rw - btrfs /dev/sdz1 rw\n\
                     31 22 0:27 /b /srv/b rw - btrfs /dev/sdz1 rw\n";
        let devices = devices(&sys, &format!("{ROOT}{table}"));
        let at = |minor, path: &str| {
            let path = Path::new(path);
            devices.place(makedev(0, minor), path, path).device
        };
        assert_eq!((at(31, "/srv/a"), at(32, "/srv/b")), (0, 0));
        assert_eq!(devices.all()[0].name, "/srv/a");
    }

    #[test]
    fn equal_disks_below_one_root_differ_by_mount_point() {
        let sys = FakeSysfs::new();
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("there");
        let roots = open_roots(
            &[MountedRoot::at("", &real)],
            0,
            LibraryOptions::default().open_timeout,
        );
        // Numbers that the folder's own disk does not have.
        sys.partition("sdz", 3, 64, makedev(250, 1));
        sys.partition("sdz", 4, 64, makedev(250, 2));
        sys.partition("sdy", 3, 64, makedev(250, 3));
        let mount =
            |line: &str, below: &str| line.replace("AT", &real.join(below).display().to_string());
        let table = [
            mount("31 22 250:1 / AT rw - xfs /dev/sdz3 rw\n", "d2"),
            mount("32 22 250:3 / AT rw - xfs /dev/sdy3 rw\n", "d1"),
            mount("33 22 250:2 / AT rw - xfs /dev/sdz4 rw\n", "d0"),
        ];
        let devices = devices_of(&sys, &table.concat(), &roots.expect("right"));
        let all = devices.all();
        let paths =
            |below: &[&str]| -> Vec<PathBuf> { below.iter().map(|at| real.join(at)).collect() };
        assert_eq!(all[0].lasting_paths(), std::slice::from_ref(&real));
        assert_eq!(
            (all[1].name.as_str(), all[1].lasting_paths()),
            ("sdz", &paths(&["d0", "d2"])[..])
        );
        assert_eq!(
            (all[2].name.as_str(), all[2].lasting_paths()),
            ("sdy", &paths(&["d1"])[..])
        );
        assert_eq!(devices.of_root(0), [0, 1, 2], "a scan does not reach all");
    }

    #[test]
    fn unresponsive_root_is_located_by_its_links() {
        let sys = FakeSysfs::new();
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("there");
        std::os::unix::fs::symlink(real.join("disk1/videos"), real.join("link")).expect("linked");
        let point = real.join("disk1").display().to_string();
        let table = format!(
            "{ROOT}31 22 8:17 / {point} rw - xfs /dev/sdz1 rw\n\
             32 22 8:2 / {point}/videos/more rw - xfs /dev/sdy2 rw\n"
        );
        let roots = [Arc::new(Root::late(&real.join("link")))];
        let devices = devices_of(&sys, &table, &roots);
        let all = devices.all();
        assert_eq!(
            (all[0].name.as_str(), &all[0].roots),
            ("sdz", &vec![real.join("link")])
        );
        assert_eq!(
            (all[1].name.as_str(), all.len()),
            ("sdy", 2),
            "the mount below it"
        );
        assert_eq!(devices.of_root(0), [0, 1]);
    }

    #[test]
    fn disk_that_returns_under_new_name_keeps_its_engine() {
        let sys = FakeSysfs::new();
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("there");
        let roots = [Arc::new(Root::late(&real))];
        let below = real.join("d1");
        let table = |line: &str| {
            format!(
                "{ROOT}31 22 {line} / {} rw - xfs /dev/x rw\n",
                below.display()
            )
        };
        let devices = devices_of(&sys, &table("0:40"), &roots);
        fs::write(sys.path().join("mountinfo"), table("8:17")).expect("written");
        let place = devices.place(makedev(8, 17), &below.join("a"), &real);
        assert_eq!(
            (place.device, place.start_bytes),
            (1, 2048 * 512),
            "mounted below the root"
        );
        devices.move_root(0, makedev(9, 9), &real);
        assert_eq!(
            devices.location(makedev(9, 9)).map(|place| place.device),
            Some(0)
        );
        assert_eq!(devices.all().len(), 2);
    }

    #[test]
    fn known_file_system_is_not_on_mount_around_its_name() {
        let sys = FakeSysfs::new();
        let devices = devices(&sys, ROOT);
        let at = |dev| devices.place(dev, Path::new("/a"), Path::new("/")).device;
        assert_ne!(
            at(makedev(0, 40)),
            at(makedev(8, 1)),
            "no file of ext4 has such a number"
        );
    }

    #[test]
    fn target_of_links_is_a_device_that_scans_of_roots_reach() {
        let sys = FakeSysfs::new();
        let disk = tempfile::tempdir().expect("a folder");
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let memory = memory.expect("a folder");
        let dev = |at: &Path| rustix::fs::stat(at).expect("there").st_dev;
        if dev(disk.path()) == dev(memory.path()) {
            return;
        }
        sys.partition("sdz", 5, 0, dev(disk.path()));
        let paths = [disk.path().join("root"), memory.path().to_path_buf()];
        fs::create_dir(&paths[0]).expect("made");
        std::os::unix::fs::symlink(&paths[1], paths[0].join("link")).expect("linked");
        fs::write(paths[1].join("a.mp4"), "a").expect("written");
        let kernel = Kernel {
            sys: sys.path().to_path_buf(),
            ..Kernel::default()
        };
        let options = LibraryOptions {
            unserved_roots: 1,
            link_targets: 1,
            ..LibraryOptions::default()
        };
        let library = Library::open_in(
            kernel,
            &paths.map(|path| MountedRoot::at("", &path)),
            options,
        )
        .expect("opened");
        library.rescan();
        assert_eq!(library.devices().len(), 2);
        assert_eq!(library.devices_of_root(0), [0, 1]);
        let file = library.resolve("link/a.mp4").expect("it is there");
        assert_eq!((file.root, file.device), (0, 1));
        assert!(library.resolve("a.mp4").is_err());
    }

    /// A library over the disk of temporary directories and over memory; the test declares both as
    /// partitions of `sdz` that begin at these sectors.
    fn library(starts_sectors: [u64; 2]) -> (Library, [tempfile::TempDir; 2]) {
        let sys = FakeSysfs::new();
        let disk = tempfile::tempdir();
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let roots = [disk, memory].map(|root| root.expect("a folder"));
        let devs = [0, 1].map(|at| rustix::fs::stat(roots[at].path()).expect("there").st_dev);
        sys.partition("sdz", 5, starts_sectors[0], devs[0]);
        if devs[0] != devs[1] {
            sys.partition("sdz", 6, starts_sectors[1], devs[1]);
        }
        let playlist = "#EXTM3U\n#EXTINF:1,\n0.ts\n#EXTINF:1,\n1.ts\n#EXT-X-ENDLIST\n";
        for (root, name) in [(0, "v.m3u8"), (0, "0.ts"), (1, "1.ts")] {
            fs::write(roots[root].path().join(name), playlist).expect("written");
        }
        let paths = [0, 1].map(|at| MountedRoot::at("", roots[at].path()));
        let kernel = Kernel {
            sys: sys.path().to_path_buf(),
            ..Kernel::default()
        };
        let library = Library::open_in(kernel, &paths, LibraryOptions::default());
        let library = library.expect("the roots are fine");
        library.rescan();
        (library, roots)
    }

    #[test]
    fn stream_may_span_two_partitions_of_one_disk() {
        let (library, _roots) = library([100, 200]);
        let stream = &library.resolve("1.ts").expect("there").stream;
        let paths: Vec<&str> = stream.parts.iter().map(|part| &*part.path).collect();
        assert_eq!(paths, ["0.ts", "1.ts"]);
        assert_eq!(library.devices().len(), 1);
        assert_eq!(library.devices()[0].name, "sdz");
        assert_eq!(library.devices()[0].roots.len(), 2);
    }

    #[test]
    fn positions_are_counted_from_start_of_disk() {
        let (start_sectors, (library, roots)) = (1 << 40, library([1 << 40, 0]));
        let stream = &library.resolve("0.ts").expect("there").stream;
        let file = fs::File::open(roots[0].path().join("0.ts")).expect("there");
        let size = stream.parts[0].size();
        // Both are empty if the file system does not report the location of files.
        let mut within = crate::raw::extents(&file, size, crate::raw::FLAG_SYNC).expect("asked");
        for extent in &mut within {
            extent.physical += start_sectors * 512;
        }
        let located = stream.locate(0, &file);
        assert_eq!(located.unwrap_or_default(), within);
        assert_eq!(stream.spec().parts[0].extents, within);
    }
}
