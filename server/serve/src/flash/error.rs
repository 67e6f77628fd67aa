//! Why an SSD cannot be used, with what to do about it.

use std::io;
use std::path::PathBuf;

use headlong_flash::format::{LayoutError, SuperError};
use headlong_units::Bytes;
use thiserror::Error;

/// Why an SSD cannot be used.
#[derive(Debug, Error)]
pub enum FlashError {
    /// It cannot be opened.
    #[error("{}: cannot be opened: {error}; {}", path.display(), remedy(error))]
    Open {
        /// As named.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// It is neither a device nor a file.
    #[error("{}: neither a block device nor a file; name one of them", path.display())]
    Kind {
        /// As named.
        path: PathBuf,
    },
    /// Another process has it.
    #[error("{}: in use by another process, or mounted; stop that first, or name another", path.display())]
    InUse {
        /// As named.
        path: PathBuf,
    },
    /// It is no tier that fits.
    #[error("{}: {error}", path.display())]
    Super {
        /// As named.
        path: PathBuf,
        /// What it is instead.
        error: SuperError,
    },
    /// It cannot be divided so.
    #[error("{}: {error}", path.display())]
    Layout {
        /// As named.
        path: PathBuf,
        /// Why.
        error: LayoutError,
    },
    /// Somebody's data may be on it.
    #[error("{}: has {what} on it, which formatting would destroy; name another, or say --force if it is not wanted any more", path.display())]
    Recognised {
        /// As named.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// The size that was said does not go with what is there.
    #[error("{}: {text}", path.display())]
    Size {
        /// As named.
        path: PathBuf,
        /// What is wrong, and what to do.
        text: String,
    },
    /// Pieces of another size.
    #[error("{}: was formatted for pieces of {}, and piece is {}; set piece to the former, or format it anew with --piece {} --force", path.display(), Bytes(*was), Bytes(*is), Bytes(*is))]
    Piece {
        /// As named.
        path: PathBuf,
        /// By its super record.
        was: u64,
        /// By the configuration.
        is: u64,
    },
    /// The SSDs do not go together.
    #[error("{}: has blocks of {}, and the SSD named first has {}; format it anew with --block {} --force", path.display(), Bytes(*is), Bytes(*first), Bytes(*first))]
    Block {
        /// As named.
        path: PathBuf,
        /// Of this one.
        is: u64,
        /// Of the first.
        first: u64,
    },
    /// The same tier twice.
    #[error("{}: is named twice; name each SSD once", path.display())]
    Twice {
        /// As named.
        path: PathBuf,
    },
    /// Fewer blocks than disks.
    #[error("{}: has {blocks} blocks for {disks} disks; format it with smaller blocks", path.display())]
    Disks {
        /// As named.
        path: PathBuf,
        /// Its blocks.
        blocks: u32,
        /// Disks that it serves.
        disks: usize,
    },
    /// Reading or writing failed.
    #[error("{}: {error}; look into the kernel's log (dmesg)", path.display())]
    Io {
        /// As named.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "make it with `headlong flash format`, or let the unit of systemd show it"
        }
        io::ErrorKind::PermissionDenied => "let the server's user read and write it",
        io::ErrorKind::ReadOnlyFilesystem => {
            "let it be writable; for a unit of systemd, by ReadWritePaths="
        }
        _ => "look into the kernel's log (dmesg)",
    }
}
