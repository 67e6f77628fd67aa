//! Where files lie on their disks, for whoever wants to look at a layout and not to serve it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use headlong_engine::Extent;
use rustix::fs::fstat;

use crate::device::{DeviceInfo, Devices};
use crate::raw;

/// Where one file lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// Which device, as an index into [`Places::devices`].
    pub device: usize,
    /// Runs of bytes in file order, their positions counted from the start of the disk. Empty if
    /// the file has no bytes, or the file system does not say where they are.
    pub extents: Vec<Extent>,
}

/// Asks the kernel where files lie, and knows the devices met so far.
#[derive(Debug)]
pub struct Places {
    devices: Devices,
    beneath: PathBuf,
}

impl Places {
    /// For files below `directory`; a device that the kernel has no name for is called after it.
    pub fn beneath(directory: &Path) -> Self {
        Self {
            devices: Devices::of_roots(Path::new("/sys"), &[]),
            beneath: directory.to_path_buf(),
        }
    }

    /// Where an open file lies. What was not yet written out is written first.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn of(&self, file: &File) -> io::Result<FilePlace> {
        let stat = fstat(file)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let place = self.devices.place(stat.st_dev, &self.beneath);
        let mut extents = raw::extents(file, size, raw::FLAG_SYNC)?;
        for extent in &mut extents {
            extent.physical = extent.physical.saturating_add(place.start_bytes);
        }
        Ok(FilePlace {
            device: place.device,
            extents,
        })
    }

    /// Where an open file begins, if it has been written out; nothing is written out for it.
    pub fn start_of(&self, file: &File) -> Option<u64> {
        let stat = fstat(file).ok()?;
        let place = self.devices.place(stat.st_dev, &self.beneath);
        let extents = raw::extents(file, 1, 0).ok()?;
        let first = extents.first().filter(|extent| extent.offset == 0)?;
        Some(first.physical.saturating_add(place.start_bytes))
    }

    /// Which device an open file or folder lies on, as an index into [`Self::devices`].
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn device_of(&self, file: &File) -> io::Result<usize> {
        let st_dev = fstat(file)?.st_dev;
        Ok(self.devices.place(st_dev, &self.beneath).device)
    }

    /// The devices met so far.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_a_file_cover_it_or_nothing_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, vec![7; 100_000]).expect("written");
        let places = Places::beneath(folder.path());
        let file = File::open(&path).expect("there");
        let place = places.of(&file).expect("asked");
        let first = place.extents.first().map(|extent| extent.physical);
        assert_eq!(places.start_of(&file), first, "it is written out by now");
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
