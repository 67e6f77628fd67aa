//! The devices that the files lie on.
//!
//! The one idea: a device is what has one queue. Two partitions of a disk share its head, so they
//! are one device, and a position is counted from the start of the disk, not of the partition.
//!
//! Invariants: a device keeps its index; no two devices have the same name. Who waits for the
//! kernel to describe a new device holds no lock.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{major, minor};

use crate::mounts::{dev_of, mounts};
use crate::options::LibraryOptions;
use crate::root::{Root, RootError, open_roots};
use crate::sysfs::{Disk, disk_below};

/// One device that holds files of the library: a whole disk, or what stands for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kernel name of the whole disk (`sda`, `nvme0n1`, `loop0`), or of what is made of several
    /// (`md0`, `dm-3`); the path of a root on it where the kernel has none (tmpfs, overlays,
    /// network).
    pub name: String,
    /// Whether it rotates, by the kernel; `None` if it does not say.
    pub rotational: Option<bool>,
    /// Bytes it holds, all partitions together.
    pub capacity_bytes: u64,
    /// Largest request that the kernel gives it (`max_sectors_kb`); `None` if it does not say.
    pub request_bytes_max: Option<u64>,
    /// Most pieces of memory of one request (`max_segments`); `None` if the kernel does not say.
    pub request_segments_max: Option<u64>,
    /// The file systems on it that were met so far, as files have them in `st_dev`.
    pub st_devs: Vec<u64>,
    /// The roots that lie on it; empty if only a directory mounted below a root does.
    pub roots: Vec<PathBuf>,
}

impl DeviceInfo {
    /// Whether it is treated as rotating unless the operator knows better. A device of which the
    /// kernel says nothing is: one read at a time is slow on flash, but many at a time are ruin on
    /// a disk.
    pub fn rotates(&self) -> bool {
        self.rotational.unwrap_or(true)
    }
}

/// What there is to know of roots without looking at a file below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootsSeen {
    /// The devices that they lie on, under the names and in the order that a scan has.
    pub devices: Vec<DeviceInfo>,
    /// The roots without links; those whose disks fail or do not answer are left out.
    pub real_paths: Vec<PathBuf>,
}

/// Looks at the roots and the devices that they lie on, for a bounded time whatever hangs.
///
/// # Errors
/// Everything that is wrong with any of the roots; a disk that fails is no error here.
pub fn look_at_roots(roots: &[PathBuf]) -> Result<RootsSeen, Vec<RootError>> {
    let roots = open_roots(roots, LibraryOptions::default().open_timeout)?;
    let real = |root: &Arc<Root>| Some(root.place()?.0.to_path_buf());
    Ok(RootsSeen {
        devices: Devices::of_roots(Path::new("/sys"), &roots).all(),
        real_paths: roots.iter().filter_map(real).collect(),
    })
}

/// Where a file system lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the device.
    pub(crate) device: usize,
    /// Byte of the device at which the file system begins.
    pub(crate) start_bytes: u64,
}

/// The devices met so far.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    sys: PathBuf,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    devices: Vec<DeviceInfo>,
    /// By `st_dev`.
    places: HashMap<u64, Place>,
}

impl Devices {
    /// The devices of the roots, then those of what is mounted below them. Of a root that is not
    /// open yet, the table of mounts says where it lies.
    pub(crate) fn of_roots(sys: &Path, roots: &[Arc<Root>]) -> Self {
        let devices = Self {
            sys: sys.to_path_buf(),
            ..Self::default()
        };
        let mounts = mounts(&mount_table());
        for root in roots {
            let place = match root.place() {
                Some((_, dev)) => devices.place(dev, &root.path),
                None => devices.place_without_asking(dev_of(&mounts, &root.path), &root.path),
            };
            devices.write(|table| {
                let roots = &mut table.devices[place.device].roots;
                roots.push(root.path.clone());
            });
        }
        for (root, (real, _)) in roots.iter().filter_map(|root| Some((root, root.place()?))) {
            for mount in mounts.iter().filter(|mount| mount.is_served_below(real)) {
                devices.place_without_asking(mount.dev, &root.path);
            }
        }
        devices
    }

    /// Where a file system lies, which is found out now if it is new; `beneath` is some root it
    /// was found in.
    pub(crate) fn place(&self, st_dev: u64, beneath: &Path) -> Place {
        if let Some(place) = self.known(st_dev) {
            return place;
        }
        let space_bytes = rustix::fs::statvfs(beneath)
            .map_or(0, |space| space.f_blocks.saturating_mul(space.f_frsize));
        self.add(st_dev, beneath, space_bytes)
    }

    /// The same without asking the file system, which may not answer, how large it is.
    fn place_without_asking(&self, st_dev: u64, beneath: &Path) -> Place {
        self.known(st_dev)
            .unwrap_or_else(|| self.add(st_dev, beneath, 0))
    }

    fn add(&self, st_dev: u64, beneath: &Path, space_bytes: u64) -> Place {
        let (disk, start_bytes) = match disk_below(&self.sys, &mount_table(), st_dev) {
            Some((disk, start_bytes)) => (Some(disk), start_bytes),
            None => (None, 0),
        };
        self.write(|table| {
            // Somebody else may have met it meanwhile.
            if let Some(place) = table.places.get(&st_dev) {
                return *place;
            }
            let device = match disk {
                Some(disk) => table.index_of(disk),
                None => table.add_nameless(st_dev, beneath, space_bytes),
            };
            let place = Place {
                device,
                start_bytes,
            };
            table.devices[device].st_devs.push(st_dev);
            table.places.insert(st_dev, place);
            place
        })
    }

    /// Where a file system lies that was met before.
    pub(crate) fn known(&self, st_dev: u64) -> Option<Place> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.places.get(&st_dev).copied()
    }

    pub(crate) fn all(&self) -> Vec<DeviceInfo> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.devices.clone()
    }

    fn write<T>(&self, f: impl FnOnce(&mut Table) -> T) -> T {
        f(&mut self.table.write().unwrap_or_else(PoisonError::into_inner))
    }
}

fn mount_table() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

impl Table {
    /// The index of a disk, which is added if it is new.
    fn index_of(&mut self, disk: Disk) -> usize {
        if let Some(index) = self.position(&disk.name) {
            return index;
        }
        let index = self.add(disk.name, disk.rotational, disk.capacity_bytes);
        self.devices[index].request_bytes_max = disk.request_bytes_max;
        self.devices[index].request_segments_max = disk.request_segments_max;
        index
    }

    /// Adds what the kernel has no name for, under a name that no other device has.
    fn add_nameless(&mut self, st_dev: u64, beneath: &Path, space_bytes: u64) -> usize {
        let mut name = beneath.display().to_string();
        if self.position(&name).is_some() {
            name = format!("{name} ({}:{})", major(st_dev), minor(st_dev));
        }
        self.add(name, None, space_bytes)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }

    fn add(&mut self, name: String, rotational: Option<bool>, capacity_bytes: u64) -> usize {
        self.devices.push(DeviceInfo {
            name,
            rotational,
            capacity_bytes,
            request_bytes_max: None,
            request_segments_max: None,
            st_devs: Vec::new(),
            roots: Vec::new(),
        });
        self.devices.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use crate::sysfs::tests::Sys;
    use rustix::fs::makedev;

    fn devices(sys: &Sys) -> Devices {
        Devices::of_roots(sys.path(), &[])
    }

    #[test]
    fn two_partitions_of_one_disk_are_one_device() {
        let sys = Sys::new();
        let devices = devices(&sys);
        let beneath = Path::new("/");
        let at = |minor| devices.place(makedev(8, minor), beneath);
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
    }

    #[test]
    fn devices_without_a_kernel_name_have_names_of_their_own() {
        let sys = Sys::new();
        let devices = devices(&sys);
        let beneath = Path::new("/");
        let at = |minor| devices.place(makedev(0, minor), beneath).device;
        assert_eq!((at(40), at(41), at(40)), (0, 1, 0));
        let all = devices.all();
        assert_eq!(
            (all[0].name.as_str(), all[1].name.as_str()),
            ("/", "/ (0:41)")
        );
        assert!(
            all.iter()
                .all(|device| device.rotates() && device.capacity_bytes > 0)
        );
    }

    /// A library over the disk that temporary directories lie on and over memory, both of which are
    /// said to be partitions of `sdz` that begin at these sectors.
    fn library(starts_sectors: [u64; 2]) -> (Library, [tempfile::TempDir; 2]) {
        let sys = Sys::new();
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
        let paths = [0, 1].map(|at| roots[at].path().to_path_buf());
        let library = Library::open_in(sys.path(), &paths, LibraryOptions::default());
        let library = library.expect("the roots are fine");
        library.rescan();
        (library, roots)
    }

    #[test]
    fn a_stream_may_go_over_two_partitions_of_one_disk() {
        let (library, _roots) = library([100, 200]);
        let stream = &library.resolve("1.ts").expect("there").stream;
        let paths: Vec<&str> = stream.parts.iter().map(|part| &*part.path).collect();
        assert_eq!(paths, ["0.ts", "1.ts"]);
        assert_eq!(library.devices().len(), 1);
        assert_eq!(library.devices()[0].name, "sdz");
        assert_eq!(library.devices()[0].roots.len(), 2);
    }

    #[test]
    fn positions_are_counted_from_the_start_of_the_disk() {
        let (start_sectors, (library, roots)) = (1 << 40, library([1 << 40, 0]));
        let stream = &library.resolve("0.ts").expect("there").stream;
        let file = fs::File::open(roots[0].path().join("0.ts")).expect("there");
        let size = stream.parts[0].size();
        // A file system that does not say where files lie leaves both empty.
        let mut within = crate::raw::extents(&file, size, crate::raw::FLAG_SYNC).expect("asked");
        for extent in &mut within {
            extent.physical += start_sectors * 512;
        }
        assert_eq!(stream.spec().parts[0].extents, within);
    }
}
