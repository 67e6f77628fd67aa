//! File systems on the disk: quick to make, small, and with as little activity of their own as
//! possible.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use rustix::mount::{MountFlags, mount};

use crate::error::Error;
use crate::mount::find_program;

/// Bytes of the disk per inode of ext4 by default: titles are large.
const BYTES_PER_INODE: u64 = 8 << 20;
const INODES_MIN: u64 = 4096;

headlong_units::names! {
    /// File system of the disk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FileSystem {
        /// ext4 without a journal and fully initialised: no background reads or writes later.
        Ext4 => "ext4",
        /// XFS.
        Xfs => "xfs",
        /// btrfs, with single data and metadata.
        Btrfs => "btrfs",
    }
}

impl FileSystem {
    const fn package(self) -> &'static str {
        match self {
            Self::Ext4 => "e2fsprogs",
            Self::Xfs => "xfsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// The mkfs program, or what is missing.
    pub(crate) fn program(self) -> Result<PathBuf, String> {
        find_program(&format!("mkfs.{}", self.name()), self.package())
    }

    /// Makes the file system on a device of `size` bytes; the timing of an emulated disk must be
    /// off. Whatever was on the device is lost.
    ///
    /// # Errors
    /// If the program is missing or fails.
    pub fn make(self, device: &Path, size: u64, inodes: Option<u64>) -> Result<(), Error> {
        let program = self
            .program()
            .map_err(|missing| Error::Missing(vec![missing]))?;
        let doing = || format!("{} {}", program.display(), device.display());
        let output = Command::new(&program)
            .args(self.arguments(size, inodes))
            .arg(device)
            .output()
            .map_err(Error::system(doing()))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::system(doing())(io::Error::other(text)))
    }

    fn arguments(self, size: u64, inodes: Option<u64>) -> Vec<String> {
        let fixed: &[&str] = match self {
            // No journal, because this file system is not needed after a crash. Flexible groups as
            // large as the device put all its tables at the front, so that files are contiguous
            // after them. No copies of the superblock, which would interrupt long files. No blocks
            // reserved for root.
            Self::Ext4 => &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-m",
                "0",
                "-G",
                "65536",
                "-O",
                "^has_journal,^resize_inode,flex_bg,extent,sparse_super2",
                "-E",
                "lazy_itable_init=0,nodiscard,num_backup_sb=0",
            ],
            Self::Xfs => &["-q", "-f", "-K"],
            Self::Btrfs => &["-q", "-f", "-K", "-d", "single", "-m", "single"],
        };
        let mut arguments: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
        if self == Self::Ext4 {
            let inodes = inodes.unwrap_or((size / BYTES_PER_INODE).max(INODES_MIN));
            arguments.extend(["-N".to_owned(), inodes.to_string()]);
        }
        arguments
    }

    /// Mounts it so that reading a file writes nothing.
    pub(crate) fn mount(self, device: &Path, point: &Path) -> Result<(), Error> {
        let doing = format!(
            "mounting {} ({}) at {}",
            device.display(),
            self.name(),
            point.display()
        );
        mount(device, point, self.name(), MountFlags::NOATIME, None)
            .map_err(|errno| Error::system(doing)(errno.into()))
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FileSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text)
            .ok_or_else(|| format!("unknown file system `{text}`; there are ext4, xfs, btrfs"))
    }
}
