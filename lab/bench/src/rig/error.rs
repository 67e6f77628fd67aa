//! What can go wrong on the machine.

use std::fmt;
use std::io;

/// Why a rig could not be set up, or stopped being one.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// Something of the system said no.
    #[error("{what}: {error}")]
    Io {
        /// What it was about.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// The bench was told to end.
    #[error("the bench is being ended")]
    Stopping,
    /// A program ended that should not have, or could not do its part.
    #[error("{what} failed: {words}")]
    Failed {
        /// The program, and what it was to do.
        what: String,
        /// The end of what it said.
        words: String,
    },
    /// A program did not come to an end.
    #[error("{what} did not end within {seconds} s; it was killed; it said: {words}")]
    Stuck {
        /// The program.
        what: String,
        /// How long was waited.
        seconds: u64,
        /// The end of what it said.
        words: String,
    },
    /// No control groups for memory.
    #[error("memory cannot be limited: no memory controller below /sys/fs/cgroup; mount one")]
    NoMemoryGroups,
    /// No network of one's own, or not with this congestion control.
    #[error(
        "a network with TCP congestion control {congestion_control} cannot be made: it takes root, \
         and one of the allowed ones, which are here: {allowed}"
    )]
    NoNetwork {
        /// What was asked for.
        congestion_control: String,
        /// What the kernel allows.
        allowed: String,
    },
    /// The link that all share could not be made.
    #[error(
        "a link of {link} cannot be made: it takes `tc` (package iproute2) and a kernel with the token \
         bucket (sch_tbf); leave [network] link out to do without"
    )]
    NoLink {
        /// What was asked for.
        link: headlong_units::BitRate,
    },
    /// A setting of the kernel is not what was written.
    #[error("{device}: wanted {wanted}, but the kernel has {found}")]
    NotInForce {
        /// The block device.
        device: String,
        /// What was written.
        wanted: String,
        /// What was read back.
        found: String,
    },
    /// The page cache could not be emptied.
    #[error(
        "{device} is still mounted somewhere else, so its page cache stays warm: find who holds it \
         with `grep {device} /proc/*/mountinfo`"
    )]
    Warm {
        /// The block device.
        device: String,
    },
    /// Another bench has the store.
    #[error("{0} is in use by another bench; wait for it, or name another folder with --store")]
    StoreInUse(String),
    /// What a program printed makes no sense.
    #[error("{what} answered {answer}")]
    Answer {
        /// The program.
        what: String,
        /// What it printed.
        answer: String,
    },
}

impl RigError {
    /// An error of the system about `what`.
    pub(crate) fn io(what: impl fmt::Display, error: io::Error) -> Self {
        let what = what.to_string();
        Self::Io { what, error }
    }
}
