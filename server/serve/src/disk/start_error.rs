//! Why a device cannot be started.

use std::io;

use headlong_engine::ConfigError;
use headlong_units::Bytes;
use thiserror::Error;

/// Why a device cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings cannot work.
    #[error("device {name}: {error}")]
    Config {
        /// The device.
        name: String,
        /// What is wrong, and the remedy.
        error: ConfigError,
    },
    /// The kernel does not give the memory.
    #[error("device {name}: cannot reserve {memory} of memory: {error}; lower memory")]
    Memory {
        /// The device.
        name: String,
        /// What was asked for.
        memory: Bytes,
        /// Why not.
        error: io::Error,
    },
    /// io_uring was demanded and is refused.
    #[error("device {name}: the kernel refuses io_uring: {error}; set io to auto or pread")]
    IoUring {
        /// The device.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// No thread or descriptor is left.
    #[error("device {name}: cannot start its threads: {error}; raise the limits of the process")]
    Threads {
        /// The device.
        name: String,
        /// Why not.
        error: io::Error,
    },
}
