//! Creates and verifies the files of a catalogue.
//!
//! Files are written one after another in the catalogue's order of creation, each in one go and
//! without the page cache. A file system that allocates in order of writing then lays the catalogue
//! out in that order, whatever form its titles are stored in (thesis 3.5.2).
//!
//! Invariants: a file of the right size and content at its ends is never written again; an
//! incomplete file is removed; the manifest of a complete catalogue ([`MANIFEST`]) is written last,
//! and removed while the catalogue is incomplete. The catalogue alone decides which files exist.

mod direct_io;
mod error;
mod fill;
mod manifest;
mod verify;

pub use error::FillError;
pub use fill::{FillResult, fill};
pub use manifest::{MANIFEST, Manifest};
pub use verify::{VerifyResult, VerifyScope, verify};

/// Progress, reported after every block or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillProgress {
    /// Complete files, including kept ones.
    pub files: u64,
    /// All files.
    pub files_total: u64,
    /// Bytes written or read.
    pub bytes: u64,
    /// All bytes to write or read.
    pub bytes_total: u64,
}

#[cfg(test)]
mod tests;
