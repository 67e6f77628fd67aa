//! A step of a plan.

use headlong_units::{Duration, Instant};

use crate::fault::{CrashPoint, DiskFault, FileChange, RestartKind, SsdFault};
use crate::session::ViewerSession;
use crate::settings::SettingChange;

/// A step and its time.
pub(crate) type TimedStep = (Instant, PlanStep);

/// A step.
#[derive(Debug, Clone)]
pub(crate) enum PlanStep {
    /// A viewer arrives.
    Session(ViewerSession),
    /// A fault of a disk begins, for a time.
    Disk(usize, DiskFault, Duration),
    /// A fault of an SSD begins, for a time.
    Ssd(usize, SsdFault, Duration),
    /// A file changes: disk, title and part.
    File(usize, usize, usize, FileChange),
    /// The server ends and starts again.
    Restart(RestartKind, CrashPoint),
    /// The wall clock jumps by so many milliseconds.
    Clock(i64),
    /// New settings for a disk.
    Settings(usize, SettingChange),
}

impl PlanStep {
    /// The only disk that it affects, if there is one.
    pub(crate) fn disk(&self) -> Option<usize> {
        match self {
            Self::Session(session) => Some(session.disk),
            Self::Disk(disk, ..) | Self::File(disk, ..) | Self::Settings(disk, _) => Some(*disk),
            Self::Ssd(..) | Self::Restart(..) | Self::Clock(_) => None,
        }
    }

    /// The kinds of faults of the step, by their numbers in docs/develop/faults.md.
    pub(crate) fn faults(&self) -> &'static [u8] {
        match self {
            Self::Disk(_, fault, _) => fault.numbers(),
            Self::Ssd(_, fault, _) => fault.numbers(),
            Self::File(.., FileChange::Truncate(_) | FileChange::Extend(_)) => &[13, 19],
            Self::File(..) => &[19],
            Self::Restart(RestartKind::Clean, _) => &[20],
            Self::Restart(RestartKind::Kill, _) => &[1],
            Self::Restart(RestartKind::PowerCut, _) => &[2, 3, 4],
            Self::Clock(_) => &[17],
            Self::Session(_) | Self::Settings(..) => &[],
        }
    }

    /// Whether it is anything but an arriving viewer.
    pub(crate) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Session(_))
    }
}
