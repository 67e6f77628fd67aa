//! Titles that lie on the server as many small files, as those of HLS and DASH do.
//!
//! The one idea: the pieces of one rendition are laid end to end, so that a place in a piece is a
//! place in the title. A file that is no piece is a whole of its own.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, FileInfo};

/// A chain from offset zero that is shorter reads the table of segments, bytes; a file beside pieces
/// that is smaller is a playlist, or what a player reads before the first piece.
const HEADER_BYTES: u64 = 1 << 20;

/// What a file is of its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Piece,
    Beside,
}

/// What a file is a part of, and where it begins in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Whole {
    part: Part,
    /// Its first file.
    first: u32,
    before_bytes: u64,
    /// Its size, bytes; 0 if that is not known.
    pub(crate) bytes: u64,
    /// How long it plays, s; 0 if that is not known.
    pub(crate) seconds: f64,
}

impl Whole {
    /// Of a file that is no piece.
    pub(crate) const fn of(file: u32, info: &FileInfo) -> Self {
        Self {
            part: Part::All,
            first: file,
            before_bytes: 0,
            bytes: info.size_bytes,
            seconds: info.duration_s,
        }
    }

    /// Whether places in the file are places in a title.
    pub(crate) const fn has_places(&self) -> bool {
        !matches!(self.part, Part::Beside)
    }

    /// Where a byte of the file lies in it.
    pub(crate) const fn place(&self, at: u64) -> u64 {
        self.before_bytes.saturating_add(at)
    }

    /// The same with a number that all parts of it have in common.
    pub(crate) const fn key(&self, at: u64) -> (u32, u64) {
        (self.first, self.place(at))
    }

    /// Whether a chain of the file reads nothing but the table at its start, or a file beside pieces.
    pub(crate) const fn is_header(&self, chain: &Chain) -> bool {
        match self.part {
            Part::All => chain.start == 0 && chain.length < HEADER_BYTES,
            Part::Piece => false,
            Part::Beside => true,
        }
    }
}

/// By file, what it is a part of, if each of `streams` is the pieces of one rendition in order.
pub(crate) fn laid_end_to_end<'a>(
    files: &[FileInfo],
    streams: impl IntoIterator<Item = &'a [u32]>,
) -> Vec<Whole> {
    let numbered = (0..).zip(files);
    let mut wholes: Vec<Whole> = numbered.map(|(file, info)| Whole::of(file, info)).collect();
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
            wholes[*file as usize] = Whole {
                part: Part::Piece,
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
        if is_in_pieces[info.title as usize] && whole.part == Part::All && is_small {
            (whole.part, whole.bytes, whole.seconds) = (Part::Beside, 0, 0.0);
        }
    }
    wholes
}
