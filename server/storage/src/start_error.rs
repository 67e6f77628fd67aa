//! Errors at the start of a device.

use std::io;

use headlong_engine::ConfigError;
use headlong_units::Bytes;
use thiserror::Error;

/// A device cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings are invalid.
    #[error("device {name}: {error}")]
    Config {
        /// The device.
        name: String,
        /// The problem and its remedy.
        error: ConfigError,
    },
    /// The kernel does not provide the memory.
    #[error("device {name}: cannot reserve {memory} of memory: {error}; lower memory")]
    Memory {
        /// The device.
        name: String,
        /// Amount requested.
        memory: Bytes,
        /// The cause.
        error: io::Error,
    },
    /// `io_uring` is required but refused.
    #[error("device {name}: the kernel refuses io_uring: {error}; set io to auto or pread")]
    IoUring {
        /// The device.
        name: String,
        /// The cause.
        error: io::Error,
    },
    /// Out of threads or descriptors.
    #[error("device {name}: cannot start its threads: {error}; raise the limits of the process")]
    Threads {
        /// The device.
        name: String,
        /// The cause.
        error: io::Error,
    },
}
