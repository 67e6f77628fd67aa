//! Errors at the start of the server.

use headlong_net::{BindError, TlsError};
use headlong_storage::StartError;
use headlong_storage::flash::FlashError;
use headlong_telemetry::{DaemonLogError, SinkError};

use crate::upgrade::UpgradeError;
use headlong_config::Mistakes;

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings do not fit the devices found.
    #[error("{0}")]
    Config(#[from] Mistakes),
    /// A folder cannot be served.
    #[error("{0}")]
    Roots(String),
    /// A path cannot be filled from its origin.
    #[error("{0}")]
    Pull(String),
    /// Players cannot be steered.
    #[error("{0}")]
    Steering(String),
    /// An address is in use, or does not belong to this machine.
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
    /// The server's own log cannot be set up.
    #[error(transparent)]
    DaemonLog(#[from] DaemonLogError),
    /// The handover from the old process failed.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// Threads or signal handlers are not available.
    #[error("cannot start: {0}; raise the limits of the process")]
    System(#[from] std::io::Error),
}

impl RunError {
    /// The mistakes in the configuration, if they are the cause.
    pub fn mistakes(&self) -> Option<&Mistakes> {
        match self {
            Self::Config(mistakes) => Some(mistakes),
            _ => None,
        }
    }
}
