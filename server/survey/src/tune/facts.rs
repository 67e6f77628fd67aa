//! The kernel's settings of a disk, read from a tree like `/sys` and one like `/proc`.
//!
//! A partition has no queue: its disk has. A combination of several disks (md, LVM) has limits of
//! its own, but the I/O happens in its members, so those come first.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use headlong_library::{MountedRoot, inspect_roots, read_mounts};
use rustix::fs::{major, minor};
use serde::Serialize;

use super::error::TuneError;

/// Most layers followed; volumes on encryption on a RAID on partitions are five.
const LAYERS_MAX: usize = 16;

/// Facts about one device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TuneFacts {
    /// Kernel name, such as `sda`.
    pub name: String,
    /// Devices that it consists of; empty for a disk.
    pub members: Vec<String>,
    /// Whether it rotates; `None` if the kernel does not report it, here and below.
    pub rotational: Option<bool>,
    /// The scheduler in use.
    pub scheduler: Option<String>,
    /// All available schedulers.
    pub schedulers: Vec<String>,
    /// Largest request that the kernel issues, KiB.
    pub max_sectors_kb: Option<u64>,
    /// Largest request that the device takes, KiB.
    pub max_hw_sectors_kb: Option<u64>,
    /// Requests that the kernel queues for it.
    pub nr_requests: Option<u64>,
    /// Commands that the drive gets at once (SCSI and SATA).
    pub queue_depth: Option<u64>,
    /// Readahead of the page cache, KiB.
    pub read_ahead_kb: Option<u64>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Mounts of it, its partitions, or devices above it.
    pub mounts: Vec<MountFacts>,
    /// Its NUMA node, on machines with several nodes.
    pub numa: Option<NumaPlacement>,
    /// Transparent huge pages of the machine: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// An attribute and its value that identify the device for udev, whatever its name.
    pub identity: Option<(&'static str, String)>,
}

/// A mount on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountFacts {
    /// The mount point.
    #[serde(serialize_with = "shown")]
    pub point: PathBuf,
    /// Its options, separated by commas.
    pub options: String,
}

/// A path need not be UTF-8.
fn shown<S: serde::Serializer>(path: &Path, into: S) -> Result<S::Ok, S::Error> {
    into.collect_str(&path.display())
}

/// NUMA placement of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NumaPlacement {
    /// The node of its controller.
    pub node: usize,
    /// Number of nodes of the machine.
    pub nodes: usize,
    /// Whether this process may run on a processor of that node.
    pub is_near: bool,
}

/// The kernel's two trees of information.
#[derive(Debug, Clone)]
pub struct KernelTrees {
    sys: PathBuf,
    proc: PathBuf,
}

impl Default for KernelTrees {
    /// The trees of this machine.
    fn default() -> Self {
        Self::at("/sys".into(), "/proc".into())
    }
}

impl KernelTrees {
    /// Trees at another place, such as a test's.
    pub fn at(sys: PathBuf, proc: PathBuf) -> Self {
        Self { sys, proc }
    }

    /// The facts of all disks below a device, and then of the devices above them.
    ///
    /// `device` is a kernel name, a device node, or a folder on one.
    ///
    /// # Errors
    /// If there is no such device, or the kernel has no settings for it.
    pub fn facts(&self, device: &str) -> Result<Vec<TuneFacts>, TuneError> {
        let mut directories = Vec::new();
        add_with_members(&self.directory(device)?, LAYERS_MAX, &mut directories);
        let facts = directories.iter().map(|directory| self.facts_of(directory));
        let mut facts = facts.collect::<Result<Vec<TuneFacts>, TuneError>>()?;
        // Facts about the machine and the whole are reported once.
        for member in facts.iter_mut().rev().skip(1) {
            member.mounts.clear();
            member.huge_pages = None;
        }
        Ok(facts)
    }

    /// The same for a device by its kernel name only, which accesses no file system.
    ///
    /// # Errors
    /// As [`Self::facts`].
    pub fn facts_by_name(&self, name: &str) -> Result<Vec<TuneFacts>, TuneError> {
        match name.contains('/') {
            true => Err(TuneError::NoDisk(name.to_owned())),
            false => self.facts(name),
        }
    }

    /// The name of the whole device that an argument refers to.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn name(&self, device: &str) -> Result<String, TuneError> {
        Ok(name_of(&whole(&self.directory(device)?)))
    }

    fn directory(&self, device: &str) -> Result<PathBuf, TuneError> {
        let none = || TuneError::NoDevice(device.to_owned());
        let of_name = |name: &str| {
            let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
            let link = self.sys.join("class/block").join(name);
            link.canonicalize().ok().filter(|_| is_name)
        };
        if let Some(directory) = of_name(device) {
            return Ok(directory);
        }
        let path = Path::new(device);
        let metadata = fs::metadata(path).map_err(|_| none())?;
        if metadata.file_type().is_block_device() {
            return self.of_number(metadata.rdev()).ok_or_else(none);
        }
        if !metadata.is_dir() {
            return Err(none());
        }
        let no_disk = || TuneError::NoDisk(device.to_owned());
        let found = inspect_roots(&[MountedRoot::at("", path)], 0).map_err(|_| none())?;
        let found = found.devices.iter().find(|info| !info.roots.is_empty());
        of_name(&found.ok_or_else(no_disk)?.name).ok_or_else(no_disk)
    }

    fn of_number(&self, dev: u64) -> Option<PathBuf> {
        let number = format!("{}:{}", major(dev), minor(dev));
        self.sys.join("dev/block").join(number).canonicalize().ok()
    }

    fn facts_of(&self, directory: &Path) -> Result<TuneFacts, TuneError> {
        let queue = directory.join("queue");
        if !queue.is_dir() {
            return Err(TuneError::NoQueue(queue));
        }
        let number = |file: &str| text(&directory.join(file))?.parse().ok();
        let schedulers = text(&queue.join("scheduler")).unwrap_or_default();
        let names = schedulers.split_whitespace();
        let names = names.map(|name| name.trim_matches(['[', ']']).to_owned());
        let huge_pages = text(&self.sys.join("kernel/mm/transparent_hugepage/enabled"));
        Ok(TuneFacts {
            name: name_of(directory),
            members: members(directory).iter().map(|one| name_of(one)).collect(),
            rotational: number("queue/rotational").map(|flag: u64| flag != 0),
            scheduler: chosen(&schedulers),
            schedulers: names.collect(),
            max_sectors_kb: number("queue/max_sectors_kb"),
            max_hw_sectors_kb: number("queue/max_hw_sectors_kb"),
            nr_requests: number("queue/nr_requests"),
            queue_depth: number("device/queue_depth"),
            read_ahead_kb: number("queue/read_ahead_kb"),
            write_cache: text(&queue.join("write_cache")),
            mounts: self.mounts_on(directory),
            numa: self.numa(directory),
            huge_pages: huge_pages.and_then(|text| chosen(&text)),
            identity: identity(directory),
        })
    }

    fn mounts_on(&self, directory: &Path) -> Vec<MountFacts> {
        let lies_on = |mount: &headlong_library::Mount| {
            // No other file is accessed: it may lie on a file system that does not respond.
            let source = Some(&mount.source).filter(|path| path.starts_with("/dev"));
            let by_source = || self.of_number(fs::metadata(source?).ok()?.rdev());
            let device = self.of_number(mount.dev).or_else(by_source);
            let mut below = Vec::new();
            if let Some(device) = device {
                add_with_members(&device, LAYERS_MAX, &mut below);
            }
            below.iter().any(|one| one == directory)
        };
        let mounts = read_mounts(&self.proc.join("self/mountinfo"));
        let found = mounts.into_iter().filter(lies_on);
        let found = found.map(|mount| MountFacts {
            point: mount.point,
            options: mount.options,
        });
        found.collect()
    }

    fn numa(&self, directory: &Path) -> Option<NumaPlacement> {
        let node = directory
            .ancestors()
            .find_map(|folder| text(&folder.join("numa_node")))?;
        // The kernel reports -1 if the node is unknown.
        let node: usize = node.parse().ok()?;
        let nodes = self.sys.join("devices/system/node");
        let there = list(&text(&nodes.join("online"))?);
        let processors = list(&text(&nodes.join(format!("node{node}/cpulist")))?);
        let status = text(&self.proc.join("self/status")).unwrap_or_default();
        let allowed = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = list(allowed?.trim());
        Some(NumaPlacement {
            node,
            nodes: there.len(),
            is_near: processors.iter().any(|one| allowed.contains(one)),
        })
    }
}

/// The members of a device, each before the device above it; every device once.
fn add_with_members(directory: &Path, layers_max: usize, into: &mut Vec<PathBuf>) {
    let directory = whole(directory);
    let Some(layers_max) = layers_max.checked_sub(1) else {
        return;
    };
    for member in members(&directory) {
        add_with_members(&member, layers_max, into);
    }
    if !into.contains(&directory) {
        into.push(directory);
    }
}

/// A partition's disk is one directory up.
fn whole(directory: &Path) -> PathBuf {
    match (directory.join("partition").exists(), directory.parent()) {
        (true, Some(disk)) => disk.to_path_buf(),
        _ => directory.to_path_buf(),
    }
}

fn members(directory: &Path) -> Vec<PathBuf> {
    let slaves = fs::read_dir(directory.join("slaves")).into_iter().flatten();
    let slaves = slaves.filter_map(|slave| slave.ok()?.path().canonicalize().ok());
    let mut members: Vec<PathBuf> = slaves.map(|slave| whole(&slave)).collect();
    members.sort();
    members.dedup();
    members
}

fn identity(directory: &Path) -> Option<(&'static str, String)> {
    let attributes = [
        ("ATTRS{wwid}", "wwid"),
        ("ATTRS{wwid}", "device/wwid"),
        ("ATTR{dm/uuid}", "dm/uuid"),
    ];
    attributes.into_iter().find_map(|(attribute, file)| {
        let value = text(&directory.join(file))?;
        // Other characters would have a meaning in a rule.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " .-_:".contains(c);
        (!value.is_empty() && value.chars().all(is_plain)).then_some((attribute, value))
    })
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The name in brackets, or the only one.
fn chosen(text: &str) -> Option<String> {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    let name = inside.map_or(text.trim(), |(name, _)| name);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The numbers of a list such as `0-3,8`.
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

fn text(path: &Path) -> Option<String> {
    let read: io::Result<String> = fs::read_to_string(path);
    Some(read.ok()?.trim().to_owned())
}

#[cfg(test)]
#[path = "facts_tests.rs"]
pub(super) mod tests;
