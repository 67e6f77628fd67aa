//! Errors of reading settings of the kernel.

use std::path::PathBuf;

/// Why a disk's settings were not read.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No device of that name.
    #[error(
        "{0}: no such block device; `lsblk` lists them, and `headlong check` those that roots lie on"
    )]
    NoDevice(String),
    /// A folder or file that lies on no disk.
    #[error(
        "{0}: lies on no disk of this machine (memory, network or an overlay), so it has no \
         such settings; name a block device"
    )]
    NoDisk(String),
    /// The kernel has no settings for it.
    #[error(
        "{}: no such folder, so the kernel has no settings for this device; is /sys mounted?",
        .0.display()
    )]
    NoQueue(PathBuf),
}
