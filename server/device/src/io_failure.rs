//! Errors of system calls, as far as decisions depend on them.

use headlong_engine::ReadOutcome;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoFailure {
    /// It was interrupted, or is to be tried again (`EINTR`, `EAGAIN`).
    Interrupted,
    /// Its arguments were refused (`EINVAL`): of a direct read, its alignment.
    Refused,
    /// The file is removed, replaced, or not to be opened any more.
    Replaced,
    /// No descriptor is left (`EMFILE`, `ENFILE`).
    TooManyFiles,
    /// No memory is left (`ENOMEM`).
    NoMemory,
    /// The device failed.
    Device,
}

impl IoFailure {
    /// By the number that Linux has for the error; `None` if it has none.
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

    /// The outcome of a read that failed so. A device must not be taken out of service because
    /// clients used up what this process may have.
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
    fn only_device_errors_count_against_the_device() {
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
