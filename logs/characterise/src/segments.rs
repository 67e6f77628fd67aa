//! Titles stored as many small files, as with HLS and DASH.
//!
//! The segment files of one rendition are concatenated, so that a position in a file is a position
//! in the title. Any other file is a title by itself.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, FileInfo};

/// A chain from offset zero that is shorter reads the segment table, bytes; a smaller file beside
/// segment files is a playlist or an initialization segment.
const HEADER_BYTES: u64 = 1 << 20;

/// Role of a file in its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRole {
    All,
    Piece,
    Beside,
}

/// The concatenation that a file belongs to, and its start in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Concatenation {
    part: FileRole,
    /// Number of its first file.
    first: u32,
    before_bytes: u64,
    /// Total size, bytes; 0 if unknown.
    pub(crate) bytes: u64,
    /// Play time, s; 0 if unknown.
    pub(crate) seconds: f64,
}

impl Concatenation {
    /// A file that is no segment file.
    pub(crate) const fn of(file: u32, info: &FileInfo) -> Self {
        Self {
            part: FileRole::All,
            first: file,
            before_bytes: 0,
            bytes: info.size_bytes,
            seconds: info.duration_s,
        }
    }

    /// Whether positions in the file are positions in a title.
    pub(crate) const fn has_places(&self) -> bool {
        !matches!(self.part, FileRole::Beside)
    }

    /// Position of a byte of the file in the concatenation.
    pub(crate) const fn place(&self, at: u64) -> u64 {
        self.before_bytes.saturating_add(at)
    }

    /// The same, with a number shared by all files of the concatenation.
    pub(crate) const fn key(&self, at: u64) -> (u32, u64) {
        (self.first, self.place(at))
    }

    /// Whether a chain of the file reads only the segment table, or a file beside segment files.
    pub(crate) const fn is_header(&self, chain: &Chain) -> bool {
        match self.part {
            FileRole::All => chain.start == 0 && chain.length < HEADER_BYTES,
            FileRole::Piece => false,
            FileRole::Beside => true,
        }
    }
}

/// The concatenation of each file, if each of `streams` lists the segment files of one rendition in
/// order.
pub(crate) fn laid_end_to_end<'a>(
    files: &[FileInfo],
    streams: impl IntoIterator<Item = &'a [u32]>,
) -> Vec<Concatenation> {
    let numbered = (0..).zip(files);
    let mut wholes: Vec<Concatenation> = numbered
        .map(|(file, info)| Concatenation::of(file, info))
        .collect();
    let titles = files.iter().map(|file| file.title as usize + 1).max();
    let mut is_in_pieces = vec![false; titles.unwrap_or(0)];
    for stream in streams {
        let known = stream.iter().filter(|file| (**file as usize) < files.len());
        let infos = || known.clone().map(|file| &files[*file as usize]);
        let bytes = infos().fold(0, |sum: u64, info| sum.saturating_add(info.size_bytes));
        let is_timed = infos().all(|info| info.duration_s > 0.0);
        let seconds: f64 = infos().map(|info| info.duration_s).sum();
        let mut before_bytes = 0;
        for (file, info) in known.clone().zip(infos()) {
            wholes[*file as usize] = Concatenation {
                part: FileRole::Piece,
                first: stream[0],
                before_bytes,
                bytes,
                seconds: if is_timed { seconds } else { 0.0 },
            };
            is_in_pieces[info.title as usize] = true;
            before_bytes = before_bytes.saturating_add(info.size_bytes);
        }
    }
    for (whole, info) in wholes.iter_mut().zip(files) {
        let is_small = info.size_bytes < HEADER_BYTES;
        if is_in_pieces[info.title as usize] && whole.part == FileRole::All && is_small {
            (whole.part, whole.bytes, whole.seconds) = (FileRole::Beside, 0, 0.0);
        }
    }
    wholes
}
