//! Why an SSD cannot be used, with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use headlong_flash::format::{LayoutError, SuperError};
use headlong_units::Bytes;
use thiserror::Error;

/// Why an SSD cannot be used.
#[derive(Debug, Error)]
#[error("{}: {trouble}", path.display())]
pub struct FlashError {
    /// As named.
    pub path: PathBuf,
    /// What is wrong with it.
    pub trouble: Trouble,
}

/// What is wrong with an SSD.
#[derive(Debug, Error)]
pub enum Trouble {
    /// It cannot be opened.
    #[error("cannot be opened: {}; {}", .0, remedy(.0))]
    Open(io::Error),
    /// It is neither a device nor a file.
    #[error("neither a block device nor a file; name one of them")]
    Kind,
    /// Another process has it.
    #[error("in use by another process, or mounted; stop that first, or name another")]
    InUse,
    /// It is no tier that fits.
    #[error("{0}")]
    Super(SuperError),
    /// It cannot be divided so.
    #[error("{0}")]
    Layout(LayoutError),
    /// Somebody's data, which it looks like, may be on it.
    #[error(
        "has {0} on it, which formatting would destroy; name another, or say --force if it is not \
         wanted any more"
    )]
    Recognised(&'static str),
    /// The size that was said does not go with what is there.
    #[error("{0}")]
    Size(String),
    /// Pieces of another size, by its super record, than the configuration says.
    #[error(
        "was formatted for pieces of {was}, and piece is {is}; set piece to the former, or format it \
         anew with --piece {is} --force"
    )]
    Piece {
        /// By its super record.
        was: Bytes,
        /// By the configuration.
        is: Bytes,
    },
    /// The SSDs do not go together.
    #[error(
        "has blocks of {is}, and the SSD named first has {first}; format it anew with --block {first} \
         --force"
    )]
    Block {
        /// Of this one.
        is: Bytes,
        /// Of the first.
        first: Bytes,
    },
    /// The same tier twice.
    #[error("is named twice; name each SSD once")]
    Twice,
    /// Fewer blocks than disks.
    #[error("has {blocks} blocks for {disks} disks; format it with smaller blocks")]
    Disks {
        /// Its blocks.
        blocks: u32,
        /// Disks that it serves.
        disks: usize,
    },
    /// Reading or writing failed.
    #[error("{0}; look into the kernel's log (dmesg)")]
    Io(io::Error),
}

impl Trouble {
    /// Of the SSD of this name.
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
            "make it with `headlong flash format`, or let the unit of systemd show it"
        }
        io::ErrorKind::PermissionDenied => "let the server's user read and write it",
        io::ErrorKind::ReadOnlyFilesystem => {
            "let it be writable; for a unit of systemd, by ReadWritePaths="
        }
        _ => "look into the kernel's log (dmesg)",
    }
}
