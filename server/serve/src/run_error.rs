//! Why the server did not start.

use crate::config::Mistakes;
use crate::disk::StartError;
use crate::flash::FlashError;
use crate::log::{DaemonLogError, SinkError};
use crate::net::{BindError, TlsError};
use crate::upgrade::UpgradeError;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings do not fit the devices that were found.
    #[error("{0}")]
    Config(#[from] Mistakes),
    /// Folders that cannot be served.
    #[error("{0}")]
    Roots(String),
    /// A path cannot be filled from its origin.
    #[error("{0}")]
    Pull(String),
    /// An address is taken or not this machine's.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An SSD of the flash tier cannot be used.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A device cannot be started.
    #[error(transparent)]
    Device(#[from] StartError),
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A log file cannot be opened.
    #[error(transparent)]
    Log(#[from] SinkError),
    /// The daemon's own log cannot be set up.
    #[error(transparent)]
    DaemonLog(#[from] DaemonLogError),
    /// This process was to take another's place.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The system gives no threads or no signals.
    #[error("cannot start: {0}; raise the limits of the process")]
    System(#[from] std::io::Error),
}

impl RunError {
    /// What is wrong with the configuration, if that is why.
    pub fn mistakes(&self) -> Option<&Mistakes> {
        match self {
            Self::Config(mistakes) => Some(mistakes),
            _ => None,
        }
    }
}
