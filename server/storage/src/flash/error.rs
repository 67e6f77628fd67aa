//! Errors of SSDs of the flash tier, with remedies.

use std::io;
use std::path::{Path, PathBuf};

use headlong_flash::format::{LayoutError, SuperError};
use headlong_units::Bytes;
use thiserror::Error;

/// An SSD cannot be used.
#[derive(Debug, Error)]
#[error("{}: {trouble}", path.display())]
pub struct FlashError {
    /// Its path, as configured.
    pub path: PathBuf,
    /// The problem.
    pub trouble: FlashErrorKind,
}

/// The problem with an SSD.
#[derive(Debug, Error)]
pub enum FlashErrorKind {
    /// It cannot be opened.
    #[error("cannot be opened: {}; {}", .0, remedy(.0))]
    Open(io::Error),
    /// It is neither a device nor a file.
    #[error("neither a block device nor a file; name one of them")]
    Kind,
    /// Another process uses it.
    #[error("in use by another process, or mounted; stop that first, or name another")]
    InUse,
    /// Its super record is missing or invalid.
    #[error("{0}")]
    Super(SuperError),
    /// It cannot be divided into blocks of this size.
    #[error("{0}")]
    Layout(LayoutError),
    /// It may hold other data, which was recognised.
    #[error(
        "has {0} on it, which formatting would destroy; name another, or use --force if that is \
         not needed any more"
    )]
    Recognised(&'static str),
    /// The requested size does not match the existing one.
    #[error("{0}")]
    Size(String),
    /// It was formatted for a different piece size than the configured one.
    #[error(
        "was formatted for pieces of {was}, and piece is {is}; set piece to the former, or format \
         it again with --piece {is} --force"
    )]
    Piece {
        /// Piece size in its super record.
        was: Bytes,
        /// Piece size in the configuration.
        is: Bytes,
    },
    /// Its block size differs from that of the first SSD.
    #[error(
        "has blocks of {is}, and the SSD named first has {first}; format it again with --block \
         {first} --force"
    )]
    Block {
        /// Block size of this SSD.
        is: Bytes,
        /// Block size of the first SSD.
        first: Bytes,
    },
    /// The same tier is listed twice.
    #[error("is named twice; name each SSD once")]
    Twice,
    /// Fewer blocks than disks.
    #[error("has {blocks} blocks for {disks} disks; format it with smaller blocks")]
    Disks {
        /// Number of its blocks.
        blocks: u32,
        /// Number of disks it has to serve.
        disks: usize,
    },
    /// A read or write failed.
    #[error("{0}; check the kernel log (dmesg)")]
    Io(io::Error),
}

impl FlashErrorKind {
    /// The error of the SSD at `path`.
    pub(super) fn of(self, path: &Path) -> FlashError {
        let path = path.to_path_buf();
        FlashError {
            path,
            trouble: self,
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "create it with `headlong flash format`, or make it visible to the systemd unit"
        }
        io::ErrorKind::PermissionDenied => "give the server's user read and write access",
        io::ErrorKind::ReadOnlyFilesystem => {
            "make it writable; in a systemd unit, by ReadWritePaths="
        }
        _ => "check the kernel log (dmesg)",
    }
}
