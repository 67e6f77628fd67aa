//! Block map: the location of files on their disks, for callers that inspect a layout.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use headlong_engine::Extent;
use rustix::fs::fstat;

use crate::device::{DeviceInfo, Devices, FileSystemLocation, Kernel};
use crate::raw;

/// Location of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLocation {
    /// Its device, as an index into [`BlockMap::devices`].
    pub device: usize,
    /// Runs of bytes in file order, with positions from the start of the disk. Empty if the file
    /// has no bytes, or the file system does not report their location.
    pub extents: Vec<Extent>,
}

/// Queries the kernel for the location of files, and stores the devices known so far.
#[derive(Debug)]
pub struct BlockMap {
    devices: Devices,
    beneath: PathBuf,
}

impl BlockMap {
    /// For files below `directory`; a device without a kernel name is named after it.
    pub fn beneath(directory: &Path) -> Self {
        Self {
            devices: Devices::of_roots(Kernel::default(), &[]),
            beneath: directory.to_path_buf(),
        }
    }

    /// Location of an open file. Unwritten data is written out first.
    ///
    /// # Errors
    /// If the kernel query fails.
    pub fn of(&self, file: &File) -> io::Result<FileLocation> {
        let stat = fstat(file)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let place = self.place(file, stat.st_dev);
        let mut extents = raw::extents(file, size, raw::FLAG_SYNC)?;
        for extent in &mut extents {
            extent.physical = extent.physical.saturating_add(place.start_bytes);
        }
        Ok(FileLocation {
            device: place.device,
            extents,
        })
    }

    /// Where an open file begins, if it has been written out; does not force a write.
    pub fn start_of(&self, file: &File) -> Option<u64> {
        let stat = fstat(file).ok()?;
        let place = self.place(file, stat.st_dev);
        let extents = raw::extents(file, 1, 0).ok()?;
        let first = extents.first().filter(|extent| extent.offset == 0)?;
        Some(first.physical.saturating_add(place.start_bytes))
    }

    /// The device of an open file or folder, as an index into [`Self::devices`].
    ///
    /// # Errors
    /// If the kernel query fails.
    pub fn device_of(&self, file: &File) -> io::Result<usize> {
        let st_dev = fstat(file)?.st_dev;
        Ok(self.place(file, st_dev).device)
    }

    fn place(&self, file: &File, st_dev: u64) -> FileSystemLocation {
        self.devices.location(st_dev).unwrap_or_else(|| {
            // Accesses no disk.
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let path = path.as_deref().unwrap_or(&self.beneath);
            self.devices.place(st_dev, path, &self.beneath)
        })
    }

    /// The devices known so far.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_cover_the_file_or_are_unknown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, vec![7; 100_000]).expect("written");
        let places = BlockMap::beneath(folder.path());
        let file = File::open(&path).expect("there");
        let place = places.of(&file).expect("asked");
        let first = place.extents.first().map(|extent| extent.physical);
        assert_eq!(places.start_of(&file), first, "the file is written out");
        let bytes: u64 = place.extents.iter().map(|extent| extent.length).sum();
        assert!(bytes == 100_000 || place.extents.is_empty(), "{place:?}");
        assert!(place.device < places.devices().len());
        let empty = folder.path().join("b");
        let place = places
            .of(&File::create(&empty).expect("made"))
            .expect("asked");
        assert!(place.extents.is_empty());
    }
}
