//! File systems on the disk: made quickly and small, as empty of surprises as each kind allows.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use rustix::mount::{MountFlags, mount};

use crate::error::Error;
use crate::mount::find_program;

/// Bytes of the disk for each inode of ext4, unless it is told a number: titles are large.
const BYTES_PER_INODE: u64 = 8 << 20;
const INODES_MIN: u64 = 4096;

headlong_units::names! {
    /// What is made on the disk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FileSystem {
        /// ext4 without a journal and fully initialised: nothing but its user makes it read or write
        /// later.
        Ext4 => "ext4",
        /// XFS.
        Xfs => "xfs",
        /// btrfs, data and metadata once each.
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

    /// The program that makes one, or what is missing.
    pub(crate) fn program(self) -> Result<PathBuf, String> {
        find_program(&format!("mkfs.{}", self.name()), self.package())
    }

    /// Makes one on a device; the disk's timing is off.
    pub(crate) fn make(self, device: &Path, size: u64, inodes: Option<u64>) -> Result<(), Error> {
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
            // No journal: nobody needs this file system after a crash. Flexible groups as large as
            // the device put all its tables at the front, so that files lie in one piece behind
            // them. No copies of the superblock either: they would stand in the way of long
            // files. Nothing reserved for root.
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
        Self::from_name(text).ok_or_else(|| {
            format!("`{text}` is no file system known here; there are ext4, xfs, btrfs")
        })
    }
}
