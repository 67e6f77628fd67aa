//! Errors of reading or writing settings of the kernel.

use std::io;
use std::path::PathBuf;

/// Why a disk's settings were not read, changed or restored.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No device of that name.
    #[error(
        "{0}: no such block device; `lsblk` lists them, and `headlong check` those that roots lie on"
    )]
    NoDevice(String),
    /// A folder or file that lies on no disk.
    #[error(
        "{0}: lies on no disk of this machine (memory, network or an overlay), so there is nothing \
         to set; name a block device"
    )]
    NoDisk(String),
    /// The kernel has no settings for it.
    #[error(
        "{}: no such folder, so the kernel has no settings for this device; is /sys mounted?",
        .0.display()
    )]
    NoQueue(PathBuf),
    /// Requires root.
    #[error("{}: no permission to write; run the command as root", .0.display())]
    NotRoot(PathBuf),
    /// `/sys` is read-only, as in containers.
    #[error(
        "{}: /sys cannot be written to here; in a container, run the command on its host",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// The kernel did not accept a value.
    #[error(
        "{}: the kernel refused `{value}` ({reason}); {rest}", file.display()
    )]
    Refused {
        /// The setting.
        file: PathBuf,
        /// The intended value.
        value: String,
        /// The kernel's error or reaction.
        reason: String,
        /// State of the other settings.
        rest: String,
    },
    /// The file of former values cannot be used.
    #[error(
        "{}: {source}; former values are kept there, so nothing was changed; name another folder \
         with --state", path.display()
    )]
    State {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No change is recorded.
    #[error("{}: no such file, so nothing of {device} was changed from here; {hint}", path.display())]
    NothingToUndo {
        /// The device.
        device: String,
        /// Where its former values would be.
        path: PathBuf,
        /// Where else to look.
        hint: String,
    },
}

impl TuneError {
    /// Whether the arguments are wrong, and not the machine.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}
