//! What can be wrong with a device that is to be measured.

use std::io;
use std::path::PathBuf;

use headlong_units::Bytes;

/// Where presets still work.
const WITHOUT: &str = "`headlong disk probe PRESET` measures models without a device";

/// Why a device was not measured, or not to the end.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing of that name.
    #[error("{}: {source}", path.display())]
    NotFound {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Neither block device nor file.
    #[error("{}: not a block device and not a file but {found}", path.display())]
    WrongKind {
        /// What was named.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The user may not.
    #[error(
        "{}: no permission; run as root, or as a member of the group that may use it (often `disk`); \
         {WITHOUT}", .0.display()
    )]
    NoPermission(PathBuf),
    /// Somebody uses it.
    #[error(
        "{}: in use{}; writing to it would destroy what is there; unmount it and detach loop devices \
         first, or probe without --write", path.display(), by(users)
    )]
    InUse {
        /// Which device.
        path: PathBuf,
        /// Where it or a part of it is mounted, and what lies over it, as far as is known.
        users: Vec<String>,
    },
    /// Nobody may write to it.
    #[error("{}: is read-only; `blockdev --setrw` may change that, or probe without --write", .0.display())]
    ReadOnly(PathBuf),
    /// A file that is not on the disk.
    #[error(
        "{}: {} of {} were never written, and are read without the disk; write them first, such as \
         with `shred -n 1`, or name a device or a file that is full", path.display(),
        Bytes(*unwritten), Bytes(*bytes)
    )]
    Unwritten {
        /// Which file.
        path: PathBuf,
        /// Bytes that were never written.
        unwritten: u64,
        /// How large it is.
        bytes: u64,
    },
    /// The page cache cannot be left out.
    #[error(
        "{}: no direct I/O here, and without it the page cache would be measured; name a block \
         device, or a file on ext4, xfs or btrfs; {WITHOUT}", .0.display()
    )]
    NoDirectIo(PathBuf),
    /// Too small to be measured.
    #[error("{name}: {bytes} bytes are too few to measure; at least {needed} are needed")]
    TooSmall {
        /// Which device.
        name: String,
        /// How large it is.
        bytes: u64,
        /// How large it must be.
        needed: u64,
    },
    /// A request failed.
    #[error("{name}: {what} of {bytes} bytes at byte {offset} failed: {source}")]
    Failed {
        /// Which device.
        name: String,
        /// `a read` or `a write`.
        what: &'static str,
        /// Where.
        offset: u64,
        /// How long.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A model did not answer: a mistake in its description.
    #[error("{name}: the model does not answer a request at sector {sector}: {problem}")]
    Model {
        /// Its name.
        name: String,
        /// Where.
        sector: u64,
        /// What it said.
        problem: String,
    },
}

impl ProbeError {
    /// Whether the arguments are at fault, and not the machine.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Model { .. })
    }
}

fn by(users: &[String]) -> String {
    match users {
        [] => String::new(),
        users => format!(" ({})", users.join("; ")),
    }
}
