//! A track of a title: what its headers say.

use alloc::string::{String, ToString};
use core::ops::Range;

use headlong_media::mp4_boxes;

use crate::codec::Codec;
use crate::fault::PackageFault;
use crate::fields::{broken, find, require, u16_at, u32_at, u64_at, versioned_at};
use crate::sample_table::SampleTable;

/// Tracks of a file, with those that are left out; each takes some 400 bytes while they are read.
pub(crate) const TRACKS_MAX: usize = 1000;

/// A day: no delay is longer, and no media begins later.
const DELAY_MAX_SECONDS: u64 = 86_400;
/// Empty edits and one of media; real files have two.
const EDITS_MAX: u32 = 16;

/// Whether a track is seen or heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TrackKind {
    Video,
    Audio,
}

/// A track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) id: u32,
    pub(crate) kind: TrackKind,
    pub(crate) codec: Codec,
    /// ISO 639-2, unless it is undetermined.
    pub(crate) language: Option<String>,
    /// Ticks per second; not zero.
    pub(crate) timescale: u32,
    /// Where the edit list lets the media begin, in ticks of the media.
    pub(crate) media_start: i64,
    /// How much later than the title it begins, in ticks.
    pub(crate) delay: u64,
    /// Decoding time of the first sample in the fragments of the file, in ticks.
    pub(crate) fragments_start: u64,
    /// Added to composition times, so that none is negative, and to `media_start`: some programs
    /// read negative ones as positive.
    pub(crate) composition_shift: u32,
    /// Whether samples are presented before the sync sample that they follow.
    pub(crate) has_leading_samples: bool,
    pub(crate) table: SampleTable,
    /// The box `trak` in the bytes of `moov`, with its header.
    pub(crate) whole: Range<usize>,
}

impl Track {
    /// Reads the `trak` at a place in the body of `moov`; `None` if it is no video or audio of a
    /// supported codec.
    pub(crate) fn read(
        moov: &[u8],
        whole: Range<usize>,
        movie_timescale: u32,
        file_bytes: u64,
    ) -> Result<Option<Self>, PackageFault> {
        let trak = mp4_boxes(&moov[whole.clone()]).next();
        let trak = trak.ok_or(broken(b"trak"))??.body;
        let mdia = require(trak, b"mdia")?.body;
        let hdlr = require(mdia, b"hdlr")?.body;
        let kind = match hdlr.get(8..12) {
            Some(b"vide") => TrackKind::Video,
            Some(b"soun") => TrackKind::Audio,
            _ => return Ok(None),
        };
        let stbl = require(require(mdia, b"minf")?.body, b"stbl")?.body;
        let stsd = require(stbl, b"stsd")?.body;
        let Some(codec) = Codec::read(stsd, kind == TrackKind::Video)? else {
            return Ok(None);
        };
        let mdhd = require(mdia, b"mdhd")?.body;
        let is_short = mdhd.first() == Some(&0);
        let timescale = u32_at(mdhd, if is_short { 12 } else { 20 });
        let timescale = timescale.filter(|scale| *scale > 0);
        let timescale = timescale.ok_or(broken(b"mdhd"))?;
        let language = u16_at(mdhd, if is_short { 20 } else { 32 });
        let tkhd = require(trak, b"tkhd")?.body;
        let id = u32_at(tkhd, if tkhd.first() == Some(&0) { 12 } else { 20 });
        let (media_start, delay) = edits(trak, timescale, movie_timescale)?;
        let stbl_at = stbl.as_ptr() as usize - moov.as_ptr() as usize;
        let table = SampleTable::read(moov, stbl_at..stbl_at + stbl.len(), file_bytes)?;
        Ok(Some(Self {
            id: id.ok_or(broken(b"tkhd"))?,
            kind,
            codec,
            language: language.and_then(language_code),
            timescale,
            media_start,
            delay,
            fragments_start: 0,
            composition_shift: 0,
            has_leading_samples: false,
            table,
            whole,
        }))
    }

    /// Lets it begin later, by so many ticks.
    pub(crate) fn delay_by(&mut self, ticks: u64) -> Result<(), PackageFault> {
        let delay = self.delay.checked_add(ticks);
        let max = u64::from(self.timescale) * DELAY_MAX_SECONDS;
        self.delay = delay
            .filter(|delay| *delay <= max)
            .ok_or(PackageFault::Edits)?;
        Ok(())
    }

    /// Time in the title of a time in the media, in ticks.
    pub(crate) fn title_time(&self, media: i64) -> i64 {
        let delay = i64::try_from(self.delay).unwrap_or(i64::MAX);
        media.saturating_sub(self.media_start).saturating_add(delay)
    }
}

/// Where the media begins, and how much later than the title: an empty edit, then the media.
fn edits(trak: &[u8], timescale: u32, movie_timescale: u32) -> Result<(i64, u64), PackageFault> {
    let Some(edts) = find(trak, b"edts")? else {
        return Ok((0, 0));
    };
    let Some(elst) = find(edts.body, b"elst")? else {
        return Ok((0, 0));
    };
    let elst = elst.body;
    let version = *elst.first().ok_or(broken(b"elst"))?;
    let count = u32_at(elst, 4).ok_or(broken(b"elst"))?;
    let width = if version == 0 { 12 } else { 20 };
    let mut start = None;
    let mut delay_ticks = 0_u128;
    if count > EDITS_MAX {
        return Err(PackageFault::Edits);
    }
    for index in 0..count as usize {
        let at = 8 + index * width;
        let length = versioned_at(elst, version, at).ok_or(broken(b"elst"))?;
        let media = match version {
            0 => u32_at(elst, at + 4).map(|media| i64::from(media as i32)),
            _ => u64_at(elst, at + 8).map(|media| media as i64),
        };
        let rate = u32_at(elst, at + width - 4).ok_or(broken(b"elst"))?;
        match media.ok_or(broken(b"elst"))? {
            -1 if start.is_none() => delay_ticks += u128::from(length),
            -1 => {}
            media if start.is_none() && rate == 1 << 16 && media >= 0 => start = Some(media),
            _ => return Err(PackageFault::Edits),
        }
    }
    let scale = u128::from(movie_timescale.max(1));
    // A product of 32 and at most 68 bits; rounded to the nearest tick.
    let scaled = (delay_ticks * u128::from(timescale) + scale / 2) / scale;
    let max = i64::from(timescale) * DELAY_MAX_SECONDS as i64;
    let delay = i64::try_from(scaled).ok().filter(|delay| *delay <= max);
    let start = Some(start.unwrap_or(0)).filter(|start| *start <= max);
    let places = start.zip(delay).ok_or(PackageFault::Edits)?;
    Ok((places.0, places.1.unsigned_abs()))
}

/// The packed letters of `mdhd`; `None` for `und` and for codes of QuickTime.
fn language_code(packed: u16) -> Option<String> {
    let letters = [packed >> 10, packed >> 5, packed].map(|five| (five & 0x1f) as u8 + 0x60);
    let code = str::from_utf8(&letters).ok()?;
    let is_known = letters.iter().all(u8::is_ascii_lowercase) && code != "und";
    is_known.then(|| code.to_string())
}
