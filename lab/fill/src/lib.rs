//! The files of a catalogue: creating them where an experiment wants them, and checking them.
//!
//! The one idea: files are written one after another, in the catalogue's order of creation, each in
//! one go and past the page cache. A file system that takes what it is given in order then lays the
//! catalogue out in that order, whatever form its titles are stored in (thesis 3.5.2).
//!
//! Invariants: a file of the right size is never written again; a file that could not be written in
//! full does not stay; the note that the catalogue is complete ([`MANIFEST`]) is written last, and
//! is gone while it is not true. Deliberately absent: any choice of what exists, which is the
//! catalogue's.

mod block;
mod error;
mod fill;
mod manifest;
mod verify;

pub use error::FillError;
pub use fill::{Filled, fill};
pub use manifest::{MANIFEST, Manifest};
pub use verify::{Extent, Verified, verify};

/// How far it got. Told after every file or so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Files that are done, kept ones too.
    pub files: u64,
    /// Of so many.
    pub files_total: u64,
    /// Bytes that were written or read.
    pub bytes: u64,
    /// Of so many.
    pub bytes_total: u64,
}

#[cfg(test)]
mod tests;
