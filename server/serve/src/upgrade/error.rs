//! Why one process does not take another's place.

use std::process::ExitStatus;

use crate::net::ListenAddress;

/// Why one process does not take another's place.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The first process of a container or a machine cannot be replaced.
    #[error(
        "this is process 1, and all processes end with it: start a new container beside this one, \
         or start headlong below an init (`--init`)"
    )]
    FirstProcess,
    /// The program cannot be started.
    #[error("cannot start {path}: {source}; install it there")]
    Start {
        /// Where it should be.
        path: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The new program looked at its configuration and ended.
    #[error("the new program ended with {0}; its own messages say why")]
    Refused(ExitStatus),
    /// The other process has ended, or broke off.
    #[error("the other process has ended before it could serve; its own messages say why")]
    Ended,
    /// The old process does not want to be replaced any more.
    #[error("the old process goes on serving; its own messages say why")]
    GivenUp,
    /// It takes too long.
    #[error("the other process is not ready in time; look what its disks do")]
    Late,
    /// The other speaks otherwise.
    #[error("the other process says `{0}`, which is not expected; both must be headlong serve")]
    Unexpected(String),
    /// The service manager would not know the new process, and end it.
    #[error(
        "the service manager does not hear of the new process ({0}), and would end it; look what \
         holds the service manager up (`systemctl status`), then upgrade again"
    )]
    Unheard(std::io::Error),
    /// The way to the other process is broken.
    #[error("cannot speak with the other process: {0}; do not set HEADLONG_UPGRADE by hand")]
    Channel(#[from] std::io::Error),
    /// The service manager passed a listener that the configuration does not name.
    #[error(
        "the service manager passes a listener on {0}, which the configuration does not name; add it \
         to listen, or take it out of the socket unit"
    )]
    Unnamed(ListenAddress),
    /// The service manager passed something that is no listener.
    #[error(
        "the service manager passes descriptor {number}, which is no listening socket of the network or \
         of a path ({source}); use ListenStream= with address and port, or with a path"
    )]
    Passed {
        /// Which.
        number: i32,
        /// What the kernel said.
        source: std::io::Error,
    },
}
