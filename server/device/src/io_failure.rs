//! Classification of system call errors.

use headlong_engine::ReadOutcome;

/// Reason of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoFailure {
    /// Interrupted or temporarily unavailable (`EINTR`, `EAGAIN`).
    Interrupted,
    /// Invalid arguments (`EINVAL`): for a direct read, its alignment.
    Refused,
    /// The file was removed or replaced, or may not be opened any more.
    Replaced,
    /// No descriptor available (`EMFILE`, `ENFILE`).
    TooManyFiles,
    /// Out of memory (`ENOMEM`).
    NoMemory,
    /// The device failed.
    Device,
}

impl IoFailure {
    /// Classifies a Linux error number. An error without a number is a device failure.
    pub const fn of_errno(errno: Option<i32>) -> Self {
        match errno {
            // EINTR, EAGAIN
            Some(4 | 11) => Self::Interrupted,
            // EINVAL
            Some(22) => Self::Refused,
            // EPERM, ENOENT, EACCES, EXDEV, ENOTDIR, ELOOP, ESTALE
            Some(1 | 2 | 13 | 18 | 20 | 40 | 116) => Self::Replaced,
            // ENFILE, EMFILE
            Some(23 | 24) => Self::TooManyFiles,
            // ENOMEM
            Some(12) => Self::NoMemory,
            _ => Self::Device,
        }
    }

    /// The outcome of a read with this failure. Exhausted process limits must not count against the
    /// device, because clients can cause them.
    pub fn outcome(self) -> ReadOutcome {
        match self {
            Self::TooManyFiles if mutated!(ResourcesBlamed) => ReadOutcome::Error,
            Self::Replaced => ReadOutcome::Changed,
            Self::TooManyFiles | Self::NoMemory => ReadOutcome::NoResources,
            Self::Interrupted | Self::Refused | Self::Device => ReadOutcome::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_device_failures_count_as_device_errors() {
        for (errno, outcome) in [
            (2, ReadOutcome::Changed),
            (116, ReadOutcome::Changed),
            (5, ReadOutcome::Error),
            (19, ReadOutcome::Error),
            (24, ReadOutcome::NoResources),
            (23, ReadOutcome::NoResources),
            (12, ReadOutcome::NoResources),
        ] {
            assert_eq!(
                IoFailure::of_errno(Some(errno)).outcome(),
                outcome,
                "{errno}"
            );
        }
        assert_eq!(IoFailure::of_errno(None), IoFailure::Device);
    }
}
