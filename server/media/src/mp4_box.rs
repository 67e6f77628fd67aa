//! Boxes of ISO base media files (ISO/IEC 14496-12, 4.2): headers, and the boxes inside a box.

use alloc::vec::Vec;

use headlong_units::Duration;

use crate::timeline::ticks_to_duration;

/// Size of a box header; 16 bytes with a 64-bit length.
pub(crate) const HEADER_BYTES: u64 = 8;
pub(crate) const LONG_HEADER_BYTES: u64 = 16;

/// The header of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mp4BoxHeader {
    /// Its type.
    pub kind: [u8; 4],
    /// Bytes of the header: 8 or 16.
    pub header_bytes: u64,
    /// End of the box, from the start of the file; never before that of the header.
    pub end: u64,
}

impl Mp4BoxHeader {
    /// Reads the header of the box at `start` in a file, whose first bytes are `bytes`; it is in a
    /// box, or a file, that ends at `limit`. `None` if 16 bytes are needed.
    ///
    /// # Errors
    /// The length is impossible. A box that is not `is_nested` may end beyond `limit`: the file may
    /// be truncated.
    pub fn read(
        bytes: &[u8],
        start: u64,
        limit: u64,
        is_nested: bool,
    ) -> Result<Option<Self>, Mp4Fault> {
        let kind = array(bytes, 4).ok_or(Mp4Fault::NotMp4)?;
        let short = u32::from_be_bytes(array(bytes, 0).unwrap_or_default());
        // Detects other formats: names of boxes are printable.
        if start == 0 && !kind.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(Mp4Fault::NotMp4);
        }
        let broken = match start {
            0 => Mp4Fault::NotMp4,
            _ => Mp4Fault::Broken(kind),
        };
        let left = limit.checked_sub(start).ok_or(broken)?;
        let (header_bytes, length) = match short {
            0 => (HEADER_BYTES, left),
            1 if left < LONG_HEADER_BYTES => return Err(broken),
            1 => match array(bytes, 8) {
                Some(length) => (LONG_HEADER_BYTES, u64::from_be_bytes(length)),
                None => return Ok(None),
            },
            length => (HEADER_BYTES, u64::from(length)),
        };
        let end = start.checked_add(length).ok_or(broken)?;
        if length < header_bytes || (is_nested && end > limit) {
            return Err(broken);
        }
        Ok(Some(Self {
            kind,
            header_bytes,
            end,
        }))
    }
}

/// A box in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mp4Box<'a> {
    /// Its type.
    pub kind: [u8; 4],
    /// The box with its header.
    pub whole: &'a [u8],
    /// Its contents.
    pub body: &'a [u8],
}

/// The boxes in the body of a box, which must be in memory as a whole. Ends after the first broken
/// one, and where fewer bytes are left than a header has.
pub fn mp4_boxes(body: &[u8]) -> impl Iterator<Item = Result<Mp4Box<'_>, Mp4Fault>> {
    let mut left = body;
    core::iter::from_fn(move || {
        if (left.len() as u64) < HEADER_BYTES {
            return None;
        }
        let here = core::mem::take(&mut left);
        // A nested box never begins a file.
        let start = HEADER_BYTES;
        let header = Mp4BoxHeader::read(here, start, start + here.len() as u64, true);
        let header = match header {
            Ok(Some(header)) => header,
            Ok(None) => return Some(Err(Mp4Fault::Broken(array(here, 4).unwrap_or_default()))),
            Err(fault) => return Some(Err(fault)),
        };
        let length = (header.end - start) as usize;
        left = &here[length..];
        Some(Ok(Mp4Box {
            kind: header.kind,
            whole: &here[..length],
            body: &here[header.header_bytes as usize..length],
        }))
    })
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

// Why the headers of an MP4 file are unusable.

/// Why the headers are unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mp4Fault {
    /// Another format under an MP4 name.
    #[error("it is not an MP4 file: it does not consist of boxes")]
    NotMp4,
    /// There is no `moov`.
    #[error("it has no moov box; it may be truncated, or still being written")]
    NoMoov,
    /// A box is truncated or its contents are invalid: its name, which in a broken file may be any
    /// four bytes, including a line break.
    #[error("its `{}` box is broken", .0.escape_ascii())]
    Broken([u8; 4]),
    /// More boxes than any real file has there.
    #[error("its headers are larger than any real file's")]
    TooLarge,
}

// Duration of a fragmented MP4 file without an index, as recorders write it: estimated from the
// start times and positions of its first fragments.

/// Fragments of one track after which the estimate is final.
const FRAGMENTS_MAX: u32 = 64;
/// Media after which the estimate is final: more evens out scenes of different rates.
const SPAN_MAX: Duration = Duration::from_secs(60);
/// Tracks whose time scale is kept; a fragment of another one is ignored.
const TRACKS_MAX: usize = 16;

/// Time scales of the tracks, and the fragments seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mp4Fragments {
    /// Id and time scale of each track.
    tracks: Vec<(u32, u32)>,
    /// Track of the header that is being read.
    track: u32,
    first: Option<FragmentStart>,
    last: Option<FragmentStart>,
    count: u32,
}

/// Start of a fragment of one track.
#[derive(Debug, Clone, Copy)]
struct FragmentStart {
    track: u32,
    ticks: u64,
    offset: u64,
}

impl Mp4Fragments {
    /// A `tkhd` or `tfhd` names the track that the following boxes describe.
    pub(crate) fn enter_track(&mut self, track: u32) {
        self.track = track;
    }

    /// The time scale of the current track.
    pub(crate) fn set_timescale(&mut self, timescale: u32) {
        if self.tracks.len() < TRACKS_MAX && timescale > 0 {
            self.tracks.push((self.track, timescale));
        }
    }

    /// A fragment of the current track begins at this time, in the `moof` at `offset`.
    pub(crate) fn add(&mut self, ticks: u64, offset: u64) {
        let start = FragmentStart {
            track: self.track,
            ticks,
            offset,
        };
        let first = *self.first.get_or_insert(start);
        if first.track == start.track {
            self.last = Some(start);
            self.count += 1;
        }
    }

    /// Whether no more fragments are needed.
    pub(crate) fn are_enough(&self) -> bool {
        self.count >= FRAGMENTS_MAX || self.span().is_some_and(|(span, _)| span >= SPAN_MAX)
    }

    /// The duration of a file of `size` bytes, if its other fragments are like the first ones.
    pub(crate) fn duration(&self, size: u64) -> Option<Duration> {
        let (span, bytes) = self.span()?;
        let media_bytes = size.checked_sub(self.first?.offset)?;
        let ns = u128::from(span.0) * u128::from(media_bytes) / u128::from(bytes);
        u64::try_from(ns).ok().map(Duration)
    }

    /// Time and bytes from the first fragment to the last one.
    fn span(&self) -> Option<(Duration, u64)> {
        let (first, last) = (self.first?, self.last?);
        let known = self.tracks.iter().find(|(track, _)| *track == first.track);
        let ticks = last.ticks.checked_sub(first.ticks)?;
        let span = ticks_to_duration(ticks, u64::from(known?.1));
        let bytes = last.offset.checked_sub(first.offset)?;
        (span > Duration::ZERO && bytes > 0).then_some((span, bytes))
    }
}
