//! A block device on a slow disk, optionally with a file system: what a server sees of a real
//! drive.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use headlong_vdisk::control::StopSignal;
use headlong_vdisk::mount::find_program;
use headlong_vdisk::{DiskOptions, FileSystem, QueueSettings, VirtualDisk};

use crate::slow_disk::{DriveModel, SlowDisk, file_options, io_error};

/// A mounted file system on a loop device on a slow disk.
pub struct BlockDevice {
    disk: SlowDisk,
    root: PathBuf,
}

impl BlockDevice {
    /// Creates a disk (see [`SlowDisk::new`]), makes a file system on it, and mounts it; timing
    /// off.
    pub fn new(size_bytes: u64, model: DriveModel, compression: f64) -> io::Result<Self> {
        let disk = VirtualDisk::start(DiskOptions {
            file: file_options(size_bytes, model, compression),
            file_system: Some(FileSystem::Ext4),
            inodes: None,
            mount: None,
            queue: QueueSettings {
                is_rotational: true,
                ..QueueSettings::default()
            },
            control: None,
            stop: StopSignal::default(),
        });
        let disk = disk.map_err(io_error)?;
        let root = disk.mount().ok_or(io::ErrorKind::NotFound)?;
        let disk = SlowDisk::below(disk);
        Ok(Self { disk, root })
    }

    /// The root of the mounted file system.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn device(&self) -> &VirtualDisk {
        self.disk.above().expect("a disk with a device")
    }

    /// The disk below: timing, faults, trace.
    pub fn disk(&self) -> &SlowDisk {
        &self.disk
    }

    /// Kernel name of the device, `loopN`.
    pub fn device_name(&self) -> String {
        self.device().device_name()
    }

    /// Position of a file on the disk: extents in file order, as `filefrag` reports them.
    pub fn extents(&self, file: &Path) -> io::Result<Vec<FileExtent>> {
        let program = find_program("filefrag", "e2fsprogs").map_err(io::Error::other)?;
        let output = Command::new(program)
            .args(["-v", "-b4096"])
            .arg(file)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let extents: Vec<FileExtent> = text.lines().filter_map(parse_extent).collect();
        if extents.is_empty() {
            return Err(io::Error::other(format!(
                "filefrag reports no extents: {text}"
            )));
        }
        Ok(extents)
    }

    /// Writes all data back, drops it from the kernel's cache, empties the trace and switches the
    /// timing on: call it when a measurement begins.
    pub fn start(&self) -> io::Result<()> {
        self.device().remount().map_err(io_error)?;
        self.disk.forget_trace();
        self.disk.switch_timing(true);
        Ok(())
    }
}

/// A non-rotational block device on an empty slow disk.
pub struct RawDevice(SlowDisk);

impl RawDevice {
    /// Creates a disk (see [`SlowDisk::new`]) and a device on it; timing off.
    pub fn new(size_bytes: u64, model: DriveModel) -> io::Result<Self> {
        let disk = VirtualDisk::start(DiskOptions {
            file: file_options(size_bytes, model, 1.0),
            file_system: None,
            inodes: None,
            mount: None,
            queue: QueueSettings::default(),
            control: None,
            stop: StopSignal::default(),
        });
        Ok(Self(SlowDisk::below(disk.map_err(io_error)?)))
    }

    /// Its node in `/dev`.
    pub fn path(&self) -> &Path {
        let device = self.0.above();
        device.expect("a disk with a device").device()
    }

    /// The disk below: timing, faults, trace.
    pub fn disk(&self) -> &SlowDisk {
        &self.0
    }
}

/// An extent of a file that is contiguous on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file.
    pub offset: u64,
    /// Offset on the disk.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
}

/// A line such as `0: 0.. 2047: 34816.. 36863: 2048: last,eof`, in blocks of 4096.
fn parse_extent(line: &str) -> Option<FileExtent> {
    let mut columns = line.split(':').map(str::trim);
    columns.next()?.parse::<u32>().ok()?;
    let first_of = |column: &str| column.split("..").next()?.trim().parse::<u64>().ok();
    let (offset, physical) = (first_of(columns.next()?)?, first_of(columns.next()?)?);
    let length: u64 = columns.next()?.parse().ok()?;
    Some(FileExtent {
        offset: offset * 4096,
        physical: physical * 4096,
        length: length * 4096,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_extents_and_ignores_headings() {
        let line = "   1:     2048..    4095:      36864..     38911:   2048:             last,eof";
        let extent = FileExtent {
            offset: 2048 << 12,
            physical: 36864 << 12,
            length: 2048 << 12,
        };
        assert_eq!(parse_extent(line), Some(extent));
        assert_eq!(
            parse_extent(" ext:     logical_offset:        physical_offset: length:"),
            None
        );
        assert_eq!(
            parse_extent("File size of x is 8388608 (2048 blocks of 4096 bytes)"),
            None
        );
    }
}
