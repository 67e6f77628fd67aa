//! Errors of an upgrade.

use std::process::ExitStatus;

use headlong_net::ListenAddress;

/// An upgrade failed.
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
        /// Path of the program.
        path: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The new program ended during its checks.
    #[error("the new program ended with {0}; see its own messages")]
    Refused(ExitStatus),
    /// The other process has ended or closed the connection.
    #[error("the other process ended before it was ready; see its own messages")]
    Ended,
    /// The old process aborted the upgrade.
    #[error("the old process continues serving; see its own messages")]
    GivenUp,
    /// The other process was not ready in time.
    #[error("the other process was not ready in time; check its disks")]
    Late,
    /// The other process sent an unexpected message.
    #[error("unexpected message `{0}` from the other process; both must be headlong serve")]
    Unexpected(String),
    /// The service manager was not notified of the new process, and would kill it.
    #[error(
        "the service manager was not notified of the new process ({0}), and would kill it; check \
         the service manager (`systemctl status`), then upgrade again"
    )]
    Unheard(std::io::Error),
    /// The connection to the other process failed.
    #[error("cannot communicate with the other process: {0}; do not set HEADLONG_UPGRADE by hand")]
    Channel(#[from] std::io::Error),
    /// The service manager passed a listener that the configuration does not name.
    #[error(
        "the service manager passes a listener on {0}, which the configuration does not name; add it \
         to listen, or remove it from the socket unit"
    )]
    Unnamed(ListenAddress),
    /// The service manager passed a descriptor that is not a listening socket.
    #[error(
        "the service manager passes descriptor {number}, which is not a listening TCP or \
         unix socket ({source}); use ListenStream= with address and port, or with a path"
    )]
    Passed {
        /// The descriptor.
        number: i32,
        /// Error of the kernel.
        source: std::io::Error,
    },
}
