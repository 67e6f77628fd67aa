//! What the headers of an MP4 file say: how long it plays, and what it carries.
//!
//! The one idea: walk the boxes and decode only the small ones that say something. The sample
//! tables, which are nearly all of a `moov`, are stepped over, so a file costs a read or two
//! wherever its `moov` lies. The boxes themselves are decoded by `mp4-atom`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use headlong_units::{BitRate, Duration};
use mp4_atom::{Buf, Decode, FourCC, Hdlr, Header, Mdhd, Mehd, Mvhd, Sidx};
use thiserror::Error;

/// Boxes looked at before giving up.
const BOXES_MAX: usize = 10_000;
/// Bytes read before giving up.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Largest `moov` believed.
const MOOV_BYTES_MAX: u64 = 64 << 20;
/// Largest box decoded.
const BOX_BYTES_MAX: u64 = 1 << 20;
/// Read at once; a `moov` without its sample tables fits.
const WINDOW_BYTES: usize = 64 << 10;
/// Tracks kept.
const TRACKS_MAX: usize = 64;

/// What the headers say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mp4Header {
    /// How long it plays; zero if the headers do not say.
    pub duration: Duration,
    /// Its tracks.
    pub tracks: Vec<Mp4Track>,
    /// Where the file ends by the boxes between `moov` and the first media box, that one among
    /// them. More than the file has, if it was cut or is still being copied; zero if nothing
    /// follows.
    pub end_declared: u64,
}

/// One track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mp4Track {
    /// What it carries.
    pub kind: TrackKind,
    /// How long it plays; zero if it does not say.
    pub duration: Duration,
}

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrackKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
    /// Anything else.
    #[default]
    Other,
}

/// Why the headers say nothing.
#[derive(Debug, Error)]
pub enum Mp4Error {
    /// Reading failed.
    #[error("its headers cannot be read ({0})")]
    Io(#[from] std::io::Error),
    /// It is something else under an MP4 name.
    #[error("it is no MP4 file: it does not consist of boxes")]
    NotMp4,
    /// There is no `moov`.
    #[error("it has no moov box; it may be cut off, or still being written")]
    NoMoov,
    /// A box is cut off or its contents make no sense.
    #[error("its `{0}` box is broken")]
    Broken(String),
    /// More boxes or bytes than any real file has there.
    #[error("its headers are larger than any real file's")]
    TooLarge,
}

impl Mp4Header {
    /// The bytes of the file over its duration; of one that was cut, the bytes it should have.
    pub fn bit_rate(&self, size_bytes: u64) -> Option<BitRate> {
        let whole_bytes = size_bytes.max(self.end_declared);
        BitRate::from_transfer(whole_bytes, self.duration).filter(|rate| rate.0 > 0)
    }

    /// Whether a file of so many bytes lacks some of its media.
    pub fn is_cut(&self, size_bytes: u64) -> bool {
        self.end_declared > size_bytes
    }
}

/// Reads the headers of a file of `size` bytes.
pub fn read_mp4_header(file: &File, size: u64) -> Result<Mp4Header, Mp4Error> {
    let mut reader = Reader {
        file,
        size,
        window: Vec::new(),
        window_start: 0,
        read_bytes: 0,
        box_count: 0,
    };
    let mut at = 0;
    while let Some(found) = reader.next_box(at, None)? {
        if found.kind == FourCC::new(b"moov") {
            let mut header = reader.moov(&found)?;
            header.end_declared = reader.end_declared(found.end);
            return Ok(header);
        }
        at = found.end;
    }
    Err(if at == 0 {
        Mp4Error::NotMp4
    } else {
        Mp4Error::NoMoov
    })
}

/// A box: its header begins at `start`, its contents at `body`.
struct Found {
    kind: FourCC,
    start: u64,
    body: u64,
    end: u64,
}

/// Reads through a window, so that neighbouring headers cost one read.
struct Reader<'a> {
    file: &'a File,
    size: u64,
    window: Vec<u8>,
    window_start: u64,
    read_bytes: u64,
    box_count: usize,
}

impl Reader<'_> {
    fn bytes(&mut self, at: u64, length: u64) -> Result<&[u8], Mp4Error> {
        let end = at.saturating_add(length).min(self.size);
        let window_end = self.window_start + self.window.len() as u64;
        if at < self.window_start || end > window_end {
            let wanted = end.saturating_sub(at).max(WINDOW_BYTES as u64);
            let wanted = wanted.min(self.size.saturating_sub(at));
            self.read_bytes += wanted;
            if wanted > BOX_BYTES_MAX || self.read_bytes > READ_BYTES_MAX {
                return Err(Mp4Error::TooLarge);
            }
            self.window.resize(wanted as usize, 0);
            self.window_start = at;
            if let Err(error) = self.file.read_exact_at(&mut self.window, at) {
                self.window.clear();
                return Err(error.into());
            }
        }
        let from = (at - self.window_start) as usize;
        Ok(&self.window[from..from + end.saturating_sub(at) as usize])
    }

    /// The box at `at`, inside a box that ends at `parent_end` or on the top level; `None` where
    /// no further box begins.
    ///
    /// A box of the top level may go on beyond the end of the file: a file that is cut off, or
    /// still being written, has its headers all the same if they come first.
    fn next_box(&mut self, at: u64, parent_end: Option<u64>) -> Result<Option<Found>, Mp4Error> {
        let limit = parent_end.unwrap_or(self.size).min(self.size);
        if limit.saturating_sub(at) < 8 {
            return Ok(None);
        }
        self.box_count += 1;
        if self.box_count > BOXES_MAX {
            return Err(Mp4Error::TooLarge);
        }
        let mut bytes = self.bytes(at, 16)?;
        let length = bytes.len();
        let kind = FourCC::from([bytes[4], bytes[5], bytes[6], bytes[7]]);
        // What is not made of boxes shows here: names of boxes are printable.
        if at == 0 && !bytes[4..8].iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(Mp4Error::NotMp4);
        }
        let broken = || {
            if at == 0 {
                Mp4Error::NotMp4
            } else {
                Mp4Error::Broken(printable(kind))
            }
        };
        let header = Header::decode(&mut bytes).map_err(|_| broken())?;
        let body = at + (length - bytes.remaining()) as u64;
        let end = match header.size {
            Some(size) => body.checked_add(size as u64).ok_or_else(broken)?,
            None => limit,
        };
        if end > limit && parent_end.is_some() {
            return Err(broken());
        }
        Ok(Some(Found {
            kind,
            start: at,
            body,
            end,
        }))
    }

    fn moov(&mut self, moov: &Found) -> Result<Mp4Header, Mp4Error> {
        if moov.end > self.size {
            return Err(Mp4Error::Broken("moov".to_string()));
        }
        if moov.end - moov.start > MOOV_BYTES_MAX {
            return Err(Mp4Error::TooLarge);
        }
        let mut header = Mp4Header::default();
        let (mut timescale, mut fragmented) = (0, false);
        let mut at = moov.body;
        while let Some(child) = self.next_box(at, Some(moov.end))? {
            match &child.kind.to_string()[..] {
                "mvhd" => {
                    let mvhd: Mvhd = self.decode(&child)?;
                    timescale = mvhd.timescale;
                    header.duration = length(mvhd.duration, mvhd.timescale);
                }
                "trak" if header.tracks.len() < TRACKS_MAX => {
                    let track = self.track(&child)?;
                    header.tracks.push(track);
                }
                "mvex" => {
                    fragmented = true;
                    let whole = self.fragment_duration(&child, timescale)?;
                    header.duration = header.duration.max(whole);
                }
                _ => {}
            }
            at = child.end;
        }
        let longest = header.tracks.iter().map(|track| track.duration).max();
        header.duration = header.duration.max(longest.unwrap_or_default());
        if fragmented && header.duration == Duration::ZERO {
            header.duration = self.indexed_duration(moov.end)?;
        }
        Ok(header)
    }

    fn track(&mut self, trak: &Found) -> Result<Mp4Track, Mp4Error> {
        let mut track = Mp4Track::default();
        let mut at = trak.body;
        while let Some(child) = self.next_box(at, Some(trak.end))? {
            if child.kind == FourCC::new(b"mdia") {
                let mut at = child.body;
                while let Some(inner) = self.next_box(at, Some(child.end))? {
                    match &inner.kind.to_string()[..] {
                        "mdhd" => {
                            let mdhd: Mdhd = self.decode(&inner)?;
                            track.duration = length(mdhd.duration, mdhd.timescale);
                        }
                        // Its name may be in any encoding; then the track is of no known kind.
                        "hdlr" => {
                            let handler = self.decode(&inner).ok();
                            track.kind =
                                handler.map_or(TrackKind::Other, |h: Hdlr| kind(h.handler));
                        }
                        _ => {}
                    }
                    at = inner.end;
                }
            }
            at = child.end;
        }
        Ok(track)
    }

    /// `mehd` of an `mvex`, in the time scale of the movie.
    fn fragment_duration(&mut self, mvex: &Found, timescale: u32) -> Result<Duration, Mp4Error> {
        let mut at = mvex.body;
        while let Some(child) = self.next_box(at, Some(mvex.end))? {
            if child.kind == FourCC::new(b"mehd") {
                let mehd: Mehd = self.decode(&child)?;
                return Ok(length(mehd.fragment_duration, timescale));
            }
            at = child.end;
        }
        Ok(Duration::ZERO)
    }

    /// The duration in a `sidx` between the headers and the first fragment.
    fn indexed_duration(&mut self, mut at: u64) -> Result<Duration, Mp4Error> {
        while let Some(found) = self.next_box(at, None)? {
            match &found.kind.to_string()[..] {
                "sidx" => {
                    let sidx: Sidx = self.decode(&found)?;
                    let ticks = sidx
                        .references
                        .iter()
                        .map(|r| u64::from(r.subsegment_duration));
                    return Ok(length(ticks.sum(), sidx.timescale));
                }
                "moof" | "mdat" => break,
                _ => at = found.end,
            }
        }
        Ok(Duration::ZERO)
    }

    /// The end of the first media box at or after `at`, as its header says it. What cannot be read
    /// there says nothing: the file has its headers all the same.
    fn end_declared(&mut self, mut at: u64) -> u64 {
        let mut end = 0;
        while let Ok(Some(found)) = self.next_box(at, None) {
            end = found.end;
            if ["mdat", "moof"].contains(&&found.kind.to_string()[..]) {
                break;
            }
            at = found.end;
        }
        end
    }

    fn decode<T: Decode>(&mut self, found: &Found) -> Result<T, Mp4Error> {
        let broken = || Mp4Error::Broken(printable(found.kind));
        if found.end > self.size {
            return Err(broken());
        }
        let mut bytes = self.bytes(found.start, found.end - found.start)?;
        T::decode(&mut bytes).map_err(|_| broken())
    }
}

/// A name for a sentence: in a broken file it is any four bytes, a line break among them.
fn printable(kind: FourCC) -> String {
    <[u8; 4]>::from(kind).escape_ascii().to_string()
}

fn kind(handler: FourCC) -> TrackKind {
    match &handler.to_string()[..] {
        "vide" => TrackKind::Video,
        "soun" => TrackKind::Audio,
        _ => TrackKind::Other,
    }
}

/// Ticks as time; all ones, in either width, means that nobody knows.
fn length(ticks: u64, timescale: u32) -> Duration {
    if timescale == 0 || ticks == u64::MAX || ticks == u64::from(u32::MAX) {
        return Duration::ZERO;
    }
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(timescale);
    Duration(u64::try_from(ns).unwrap_or(0))
}
