//! Files beside a title that was stored as many small files, as with HLS and DASH.
//!
//! The segment files of one rendition are one file of the log, a *stream*. A small file of the same
//! title, such as a playlist, has no position in it.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, FileInfo};

/// A chain from offset zero that is shorter reads the segment table, bytes; a smaller file beside
/// a stream is a playlist or an initialization segment.
const HEADER_BYTES: u64 = 1 << 20;

/// Role of a file in its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FileRole {
    /// All of a rendition, which may start with a segment table.
    #[default]
    Whole,
    /// All segment files of a rendition.
    Stream,
    /// A small file beside a stream.
    Beside,
}

impl FileRole {
    /// Whether positions in the file are positions in a title.
    pub(crate) const fn has_places(self) -> bool {
        !matches!(self, Self::Beside)
    }

    /// Whether a chain of the file reads only the segment table, or a file beside a stream.
    pub(crate) const fn is_header(self, chain: &Chain) -> bool {
        match self {
            Self::Whole => chain.start == 0 && chain.length < HEADER_BYTES,
            Self::Stream => false,
            Self::Beside => true,
        }
    }
}

/// The role of each file, if these are the streams.
pub(crate) fn roles(files: &[FileInfo], streams: &[u32]) -> Vec<FileRole> {
    let mut roles = vec![FileRole::Whole; files.len()];
    let titles = files.iter().map(|file| file.title as usize + 1).max();
    let mut has_stream = vec![false; titles.unwrap_or(0)];
    for stream in streams {
        if let Some(role) = roles.get_mut(*stream as usize) {
            *role = FileRole::Stream;
            has_stream[files[*stream as usize].title as usize] = true;
        }
    }
    for (role, file) in roles.iter_mut().zip(files) {
        let is_small = file.size_bytes < HEADER_BYTES;
        if has_stream[file.title as usize] && *role == FileRole::Whole && is_small {
            *role = FileRole::Beside;
        }
    }
    roles
}
