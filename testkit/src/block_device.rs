//! A block device over a slow disk, and a file system on it: what a server sees of a real drive.
//!
//! The loop device reads its file directly, so that no page cache hides reads from the drive. The
//! file system is ext4 without a journal and fully initialised: nothing but its user makes it
//! read or write later. Guards drop from the inside out: file system, loop device, disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};

use crate::slow_disk::{DriveModel, SlowDisk, unmount_when_free};

const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// A mounted file system on a loop device on a slow disk.
pub struct BlockDevice {
    // Dropped in this order.
    mounted: Mounted,
    loop_device: LoopDevice,
    disk: SlowDisk,
}

impl BlockDevice {
    /// Makes a disk (see [`SlowDisk::new`]), a file system on it, and mounts that; timing off.
    pub fn new(size_bytes: u64, model: DriveModel, compression: f64) -> io::Result<Self> {
        let disk = SlowDisk::new(size_bytes, model, compression)?;
        let loop_device = LoopDevice::attach(&disk.path())?;
        make_file_system(&loop_device.path)?;
        let point = disk.directory().join("root");
        fs::create_dir_all(&point)?;
        let mounted = Mounted::mount(&loop_device.path, &point)?;
        Ok(Self {
            mounted,
            loop_device,
            disk,
        })
    }

    /// The root of the mounted file system.
    pub fn root(&self) -> &Path {
        &self.mounted.point
    }

    /// The device node, `/dev/loopN`.
    pub fn device(&self) -> &Path {
        &self.loop_device.path
    }

    /// The disk below: timing, faults, trace.
    pub fn disk(&self) -> &SlowDisk {
        &self.disk
    }

    /// Kernel name of the device, `loopN`.
    pub fn device_name(&self) -> String {
        let name = self.loop_device.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Where a file lies on the disk: runs of bytes in file order, as `filefrag` tells them.
    pub fn extents(&self, file: &Path) -> io::Result<Vec<FileExtent>> {
        let program = find_program("filefrag").map_err(io::Error::other)?;
        let output = Command::new(program)
            .args(["-v", "-b4096"])
            .arg(file)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let extents: Vec<FileExtent> = text.lines().filter_map(parse_extent).collect();
        if extents.is_empty() {
            return Err(io::Error::other(format!(
                "filefrag shows no extents: {text}"
            )));
        }
        Ok(extents)
    }

    /// Writes everything out, drops what the kernel cached of it, empties the trace and switches
    /// the timing on: the moment a measurement begins.
    pub fn start(&self) -> io::Result<()> {
        rustix::fs::syncfs(fs::File::open(self.root())?)?;
        // A mount made anew begins with cold caches for this file system and leaves those of
        // the rest of the machine alone.
        unmount_when_free(&self.mounted.point, Instant::now() + RELEASE_TIMEOUT)?;
        mount_file_system(&self.loop_device.path, &self.mounted.point)?;
        self.disk.forget_trace();
        self.disk.switch_timing(true);
        Ok(())
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        // A hanging disk would hold the unmounting for ever; what was written to it does not matter
        // any more, and without the timing the rest is quick.
        self.disk.heal();
        self.disk.switch_timing(false);
    }
}

/// A run of bytes of a file that is contiguous on the disk.
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

struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    fn attach(file: &Path) -> io::Result<Self> {
        let output = Command::new(find_program("losetup").map_err(io::Error::other)?)
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!(
                "losetup {}: {text}",
                file.display()
            )));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let device = Self { path };
        device.check_direct_io()?;
        // The kernel takes a loop device over FUSE for flash.
        fs::write(device.setting("queue/rotational"), "1")?;
        Ok(device)
    }

    fn setting(&self, name: &str) -> PathBuf {
        Path::new("/sys/block")
            .join(self.path.file_name().unwrap_or_default())
            .join(name)
    }

    /// losetup does not fail when the kernel refuses direct I/O; everything measured would be
    /// wrong.
    fn check_direct_io(&self) -> io::Result<()> {
        let setting = self.setting("loop/dio");
        match fs::read_to_string(&setting)?.trim() {
            "1" => Ok(()),
            other => Err(io::Error::other(format!(
                "{} is {other}: the loop device would read through the page cache",
                setting.display()
            ))),
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detach = |program| {
            Command::new(program)
                .arg("--detach")
                .arg(&self.path)
                .output()
        };
        match find_program("losetup").map(detach) {
            Ok(Ok(output)) if output.status.success() => {}
            other => eprintln!("testkit: cannot detach {}: {other:?}", self.path.display()),
        }
    }
}

struct Mounted {
    point: PathBuf,
}

impl Mounted {
    fn mount(device: &Path, point: &Path) -> io::Result<Self> {
        mount_file_system(device, point)?;
        Ok(Self {
            point: point.to_owned(),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let end = Instant::now() + RELEASE_TIMEOUT;
        if let Err(error) = unmount_when_free(&self.point, end) {
            eprintln!("testkit: cannot unmount {}: {error}", self.point.display());
        }
    }
}

fn mount_file_system(device: &Path, point: &Path) -> io::Result<()> {
    mount(device, point, "ext4", MountFlags::NOATIME, None)?;
    Ok(())
}

fn make_file_system(device: &Path) -> io::Result<()> {
    let output = Command::new(find_program("mkfs.ext4").map_err(io::Error::other)?)
        // No journal: nobody needs this file system after a crash. Flexible groups as large as the
        // device put all its tables at the front, so that files lie in one piece behind them.
        .args([
            "-q", "-F", "-b", "4096", "-m", "0", "-N", "4096", "-G", "65536",
        ])
        // No copies of the superblock either: they would stand in the way of long files.
        .args([
            "-O",
            "^has_journal,^resize_inode,flex_bg,extent,sparse_super2",
        ])
        .args(["-E", "lazy_itable_init=0,nodiscard,num_backup_sb=0"])
        .arg(device)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!(
            "mkfs.ext4 {}: {text}",
            device.display()
        )));
    }
    Ok(())
}

/// Where a system program is; root's path on Debian may lack the directories for those.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("{name} is not installed (Debian: util-linux, e2fsprogs)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_read_and_headings_are_not() {
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
