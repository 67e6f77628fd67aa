//! Incremental reader of MP4 headers: takes bytes of a file as they pass, in pieces of any size, and
//! says how long the film plays and where its media ends.
//!
//! It asks for nothing. [`Mp4Scan::wants`] names the byte at which the next box header (or the rest of
//! a small box) begins; pieces that do not hold it are passed over, so `mdat` and the sample tables
//! are skipped wherever `moov` lies. At most [`BOX_BYTES_MAX`] bytes are kept between two pieces.

use alloc::vec::Vec;
use core::fmt;

use headlong_units::{BitRate, Duration};

/// Boxes inspected before the scan gives up.
const BOXES_MAX: u32 = 10_000;
/// Largest `moov` that is believed.
const MOOV_BYTES_MAX: u64 = 64 << 20;
/// Largest box decoded: a `sidx` of some 5,000 segments.
const BOX_BYTES_MAX: u64 = 64 << 10;
/// The rates that a film may have. A header that says anything else is not believed.
const RATE_MIN: BitRate = BitRate(100);
const RATE_MAX: BitRate = BitRate::from_kbps(2_000_000);

/// What the headers say of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mp4Facts {
    /// How long it plays; zero if the headers do not say.
    pub duration: Duration,
    /// Where the file ends by the boxes from `moov` to the first media box behind it. More than the
    /// file has, if it was cut or is still being copied; zero if no such box says anything.
    pub end_declared: u64,
}

impl Mp4Facts {
    /// The bytes of the file over its duration; of one that was cut, the bytes it should have. `None`
    /// if that is no rate of a film.
    pub fn bit_rate(&self, size_bytes: u64) -> Option<BitRate> {
        let whole_bytes = size_bytes.max(self.end_declared);
        BitRate::from_transfer(whole_bytes, self.duration)
            .filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate))
    }

    /// Whether a file of so many bytes lacks some of its media.
    pub fn is_cut(&self, size_bytes: u64) -> bool {
        self.end_declared > size_bytes
    }
}

/// Why the headers say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mp4Fault {
    /// It is something else under an MP4 name.
    NotMp4,
    /// There is no `moov`.
    NoMoov,
    /// A box is cut off or its contents make no sense.
    Broken([u8; 4]),
    /// More boxes or bytes than any real file has there.
    TooLarge,
}

impl fmt::Display for Mp4Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMp4 => f.write_str("it is no MP4 file: it does not consist of boxes"),
            Self::NoMoov => {
                f.write_str("it has no moov box; it may be cut off, or still being written")
            }
            // In a broken file a name is any four bytes, a line break among them.
            Self::Broken(kind) => write!(f, "its `{}` box is broken", kind.escape_ascii()),
            Self::TooLarge => f.write_str("its headers are larger than any real file's"),
        }
    }
}

impl core::error::Error for Mp4Fault {}

/// How far a scan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mp4Progress {
    /// It has not seen all headers. The facts so far; of a duration of zero nothing is known yet.
    Scanning(Mp4Facts),
    /// It has seen all that it looks for.
    Done(Mp4Facts),
    /// The headers say nothing.
    Failed(Mp4Fault),
}

/// The scan of one version of one file.
#[derive(Debug, Clone)]
pub struct Mp4Scan {
    size: u64,
    /// Where the box begins that is inspected next.
    next: u64,
    /// Bytes of the file from `next` on, if they did not come in one piece.
    kept: Vec<u8>,
    /// How many bytes from `next` on the next step needs.
    needed: u64,
    /// The boxes around `next`, outermost first.
    around: Vec<Around>,
    box_count: u32,
    /// Ticks a second of the movie.
    timescale: u32,
    is_fragmented: bool,
    has_moov: bool,
    facts: Mp4Facts,
    ended: Option<Result<(), Mp4Fault>>,
}

#[derive(Debug, Clone, Copy)]
struct Around {
    kind: [u8; 4],
    end: u64,
}

/// A box: its header begins where the scan stands, its contents at `body`.
struct Found {
    kind: [u8; 4],
    header_bytes: u64,
    end: u64,
}

/// A box header; 16 bytes with a length of 64 bits.
const HEADER_BYTES: u64 = 8;
const LONG_HEADER_BYTES: u64 = 16;

impl Mp4Scan {
    /// A scan of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            next: 0,
            kept: Vec::new(),
            needed: HEADER_BYTES,
            around: Vec::new(),
            box_count: 0,
            timescale: 0,
            is_fragmented: false,
            has_moov: false,
            facts: Mp4Facts::default(),
            ended: (size < HEADER_BYTES).then_some(Err(Mp4Fault::NotMp4)),
        }
    }

    /// The first byte that it has not seen and needs; `None` once it has ended.
    pub fn wants(&self) -> Option<u64> {
        let at = self.next + self.kept.len() as u64;
        self.ended.is_none().then_some(at)
    }

    /// What it knows.
    pub fn progress(&self) -> Mp4Progress {
        match self.ended {
            None => Mp4Progress::Scanning(self.facts),
            Some(Ok(())) => Mp4Progress::Done(self.facts),
            Some(Err(fault)) => Mp4Progress::Failed(fault),
        }
    }

    /// Takes bytes of the file that begin at `offset`.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) {
        while let Some(at) = self.wants() {
            let Some(from) = at.checked_sub(offset) else {
                return;
            };
            let fresh = usize::try_from(from)
                .ok()
                .and_then(|from| bytes.get(from..));
            let Some(fresh) = fresh.filter(|fresh| !fresh.is_empty()) else {
                return;
            };
            // A box of more than this is never needed.
            let needed = self.needed.min(BOX_BYTES_MAX) as usize;
            if self.kept.is_empty() && fresh.len() >= needed {
                self.step(&fresh[..needed]);
                continue;
            }
            let lacking = needed.saturating_sub(self.kept.len());
            self.kept
                .extend_from_slice(&fresh[..fresh.len().min(lacking)]);
            if self.kept.len() >= needed {
                let (kept, before) = (core::mem::take(&mut self.kept), self.next);
                self.step(&kept);
                if self.next == before {
                    // More of the same box is needed.
                    self.kept = kept;
                }
            }
        }
    }

    /// Goes on with the needed bytes from `next` on.
    fn step(&mut self, bytes: &[u8]) {
        if let Err(fault) = self.try_step(bytes) {
            // What is wrong behind a whole `moov` takes nothing from it.
            self.ended = Some(match self.has_moov && self.around.is_empty() {
                true => Ok(()),
                false => Err(fault),
            });
        }
    }

    fn try_step(&mut self, bytes: &[u8]) -> Result<(), Mp4Fault> {
        let limit = self.around.last().map_or(self.size, |around| around.end);
        let Some(found) = self.header(bytes, limit)? else {
            self.needed = LONG_HEADER_BYTES;
            return Ok(());
        };
        let inside = self.around.last().map(|around| around.kind);
        let wanted = match (inside.as_ref(), &found.kind) {
            (Some(b"moov"), b"mvhd") | (Some(b"mdia"), b"mdhd") => found.header_bytes + 32,
            (Some(b"mvex"), b"mehd") => found.header_bytes + 12,
            (None, b"sidx") if self.wants_index() => found.end - self.next,
            _ => 0,
        };
        // What is longer is no index of a film, and is stepped over.
        let wanted = wanted.min(found.end - self.next);
        if wanted <= BOX_BYTES_MAX && wanted > bytes.len() as u64 {
            if found.end > self.size {
                return Err(Mp4Fault::Broken(found.kind));
            }
            self.needed = wanted;
            return Ok(());
        }
        self.box_count += 1;
        if self.box_count > BOXES_MAX {
            return Err(Mp4Fault::TooLarge);
        }
        let body = bytes.get(found.header_bytes as usize..).unwrap_or_default();
        self.inspect(inside, &found, body)?;
        self.leave_ended();
        Ok(())
    }

    /// The header of the box at `next`; `None` if it is a long one and more bytes are needed.
    fn header(&self, bytes: &[u8], limit: u64) -> Result<Option<Found>, Mp4Fault> {
        let kind = array(bytes, 4).ok_or(Mp4Fault::NotMp4)?;
        let short = u32::from_be_bytes(array(bytes, 0).unwrap_or_default());
        // What is not made of boxes shows here: names of boxes are printable.
        if self.next == 0 && !kind.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(Mp4Fault::NotMp4);
        }
        let broken = match self.next {
            0 => Mp4Fault::NotMp4,
            _ => Mp4Fault::Broken(kind),
        };
        let (header_bytes, length) = match short {
            0 => (HEADER_BYTES, limit - self.next),
            1 if limit - self.next < LONG_HEADER_BYTES => return Err(broken),
            1 => match array(bytes, 8) {
                Some(length) => (LONG_HEADER_BYTES, u64::from_be_bytes(length)),
                None => return Ok(None),
            },
            length => (HEADER_BYTES, u64::from(length)),
        };
        let end = self.next.checked_add(length).ok_or(broken)?;
        let goes_beyond = end > limit && !self.around.is_empty();
        if length < header_bytes || goes_beyond {
            return Err(broken);
        }
        Ok(Some(Found {
            kind,
            header_bytes,
            end,
        }))
    }

    /// Takes in what a box says, and goes on inside it or after it.
    fn inspect(
        &mut self,
        inside: Option<[u8; 4]>,
        found: &Found,
        body: &[u8],
    ) -> Result<(), Mp4Fault> {
        let broken = Mp4Fault::Broken(found.kind);
        let mut enters = false;
        match (inside.as_ref(), &found.kind) {
            (None, b"moov") if !self.has_moov => {
                if found.end > self.size {
                    return Err(broken);
                }
                if found.end - self.next > MOOV_BYTES_MAX {
                    return Err(Mp4Fault::TooLarge);
                }
                self.has_moov = true;
                enters = true;
            }
            (None, b"mdat" | b"moof") if self.has_moov => {
                self.facts.end_declared = found.end;
                self.ended = Some(Ok(()));
            }
            (None, b"sidx") if self.wants_index() && !body.is_empty() => {
                self.facts.duration = indexed_duration(body).ok_or(broken)?;
            }
            (Some(b"moov"), b"mvhd") => {
                let (timescale, length) = media_time(body).ok_or(broken)?;
                self.timescale = timescale;
                self.facts.duration = self.facts.duration.max(length);
            }
            (Some(b"mdia"), b"mdhd") => {
                let (_, length) = media_time(body).ok_or(broken)?;
                self.facts.duration = self.facts.duration.max(length);
            }
            (Some(b"mvex"), b"mehd") => {
                let ticks = match body.first() {
                    Some(0) => array(body, 4).map(|ticks| u64::from(u32::from_be_bytes(ticks))),
                    _ => array(body, 4).map(u64::from_be_bytes),
                };
                let whole = length(ticks.ok_or(broken)?, self.timescale);
                self.facts.duration = self.facts.duration.max(whole);
            }
            (Some(b"moov"), b"mvex") => {
                self.is_fragmented = true;
                enters = true;
            }
            (Some(b"moov"), b"trak") | (Some(b"trak"), b"mdia") => enters = true,
            _ => {}
        }
        if self.has_moov && inside.is_none() && found.end > self.size {
            self.facts.end_declared = self.facts.end_declared.max(found.end);
        }
        self.needed = HEADER_BYTES;
        if enters {
            self.around.push(Around {
                kind: found.kind,
                end: found.end,
            });
            self.next += found.header_bytes;
        } else {
            self.next = found.end;
        }
        Ok(())
    }

    /// Leaves the boxes in which no further box begins, and ends where the file does.
    fn leave_ended(&mut self) {
        while let Some(around) = self.around.last() {
            if around.end - self.next >= HEADER_BYTES {
                return;
            }
            self.next = around.end;
            self.around.pop();
        }
        if self.ended.is_none() && self.size.saturating_sub(self.next) < HEADER_BYTES {
            self.ended = Some(match self.has_moov {
                true => Ok(()),
                false => Err(Mp4Fault::NoMoov),
            });
        }
    }

    /// Whether an index between the headers and the first fragment is what says how long it plays.
    fn wants_index(&self) -> bool {
        self.has_moov && self.is_fragmented && self.facts.duration == Duration::ZERO
    }
}

/// `N` bytes from `at` on.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Time scale and length of `mvhd` and `mdhd`, which begin alike.
fn media_time(body: &[u8]) -> Option<(u32, Duration)> {
    let (timescale, ticks) = match body.first()? {
        0 => (
            array(body, 12)?,
            u64::from(u32::from_be_bytes(array(body, 16)?)),
        ),
        _ => (array(body, 20)?, u64::from_be_bytes(array(body, 24)?)),
    };
    let timescale = u32::from_be_bytes(timescale);
    Some((timescale, length(ticks, timescale)))
}

/// The sum of a `sidx`.
fn indexed_duration(body: &[u8]) -> Option<Duration> {
    let timescale = u32::from_be_bytes(array(body, 8)?);
    // The earliest time and the first offset, in 32 bits each or in 64; and two bytes of nothing.
    let count_at = match body.first()? {
        0 => 22,
        _ => 30,
    };
    let count = usize::from(u16::from_be_bytes(array(body, count_at)?));
    let references = body.get(count_at + 2..)?.chunks_exact(12).take(count);
    let ticks = references
        .map(|reference| u64::from(u32::from_be_bytes(array(reference, 4).unwrap_or_default())));
    Some(length(ticks.sum(), timescale))
}

/// Ticks as time; all ones, in either width, means that nobody knows.
fn length(ticks: u64, timescale: u32) -> Duration {
    if timescale == 0 || ticks == u64::MAX || ticks == u64::from(u32::MAX) {
        return Duration::ZERO;
    }
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(timescale);
    Duration(u64::try_from(ns).unwrap_or(0))
}

#[cfg(test)]
#[path = "mp4_tests.rs"]
mod tests;
