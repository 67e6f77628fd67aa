//! Errors of the measured device.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Alternative without a device.
const WITHOUT: &str = "`headlong disk probe PRESET` measures models without a device";

/// Why a device was not measured, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The page cache cannot be bypassed.
    #[error(
        "{}: no direct I/O here, and without it the page cache would be measured; name a block \
         device, or a file on ext4, xfs or btrfs; {WITHOUT}", .0.display()
    )]
    NoDirectIo(PathBuf),
    /// The argument cannot be measured; with the remedy.
    #[error("{0}")]
    Mistake(String),
    /// A request failed.
    #[error("{0}")]
    Failed(String),
}

impl ProbeError {
    /// Whether the arguments are wrong, and not the machine.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// A path, and the problem with it.
    pub(super) fn of(path: &Path, wrong: impl Display) -> Self {
        Self::Mistake(format!("{}: {wrong}", path.display()))
    }

    /// The user lacks permission.
    pub(super) fn no_permission(path: &Path) -> Self {
        let remedy = "run as root, or as a member of the group that may use it (often `disk`)";
        Self::of(path, format_args!("no permission; {remedy}; {WITHOUT}"))
    }

    /// It is in use: mounted, or below another device, as far as is known.
    pub(super) fn in_use(path: &Path, users: &[String]) -> Self {
        let by = match users {
            [] => String::new(),
            users => format!(" ({})", users.join("; ")),
        };
        let remedy = "writing to it would destroy what is there; unmount it and detach loop devices \
                      first, or probe without --write";
        Self::of(path, format_args!("in use{by}; {remedy}"))
    }

    /// It is too small to measure.
    pub(super) fn too_small(name: impl Display, bytes: u64, needed: u64) -> Self {
        Self::Mistake(format!(
            "{name}: {bytes} bytes are too few to measure; at least {needed} are needed"
        ))
    }
}
