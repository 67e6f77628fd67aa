//! Incremental parser of MP4 headers: takes bytes of a file as they pass, in pieces of any size,
//! and returns the duration of the film and the end of its media.
//!
//! It causes no reads. [`Mp4Scan::wants`] returns the offset of the next box header (or of the rest
//! of a small box); pieces without it are ignored, so `mdat` and the sample tables are skipped
//! wherever `moov` lies and however large it is. At most [`BOX_BYTES_MAX`] bytes are kept between
//! two pieces.

use alloc::vec::Vec;

use headlong_units::Duration;

use crate::header_facts::HeaderFacts;
use crate::mp4_box::{
    HEADER_BYTES, LONG_HEADER_BYTES, Mp4BoxHeader, Mp4Fault, Mp4Fragments, array,
};

/// Boxes inspected before the scan gives up.
const BOXES_MAX: u32 = 10_000;
/// Largest box decoded: a `sidx` of some 5,000 segments.
const BOX_BYTES_MAX: u64 = 64 << 10;

/// Progress of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mp4Progress {
    /// Some headers are missing. The facts so far; not known yet if the duration is zero.
    Scanning(HeaderFacts),
    /// All relevant headers were parsed.
    Done(HeaderFacts),
    /// The headers are unusable.
    Failed(Mp4Fault),
}

/// The scan of one version of one file.
#[derive(Debug, Clone)]
pub struct Mp4Scan {
    size: u64,
    /// Offset of the next box to inspect.
    next: u64,
    /// Bytes from `next` on, if they arrived in several pieces.
    kept: Vec<u8>,
    /// How many bytes from `next` on the next step needs.
    needed: u64,
    /// The boxes around `next`, outermost first.
    around: Vec<EnclosingBox>,
    box_count: u32,
    /// Ticks per second of the movie.
    timescale: u32,
    is_fragmented: bool,
    has_moov: bool,
    fragments: Mp4Fragments,
    facts: HeaderFacts,
    ended: Option<Result<(), Mp4Fault>>,
}

#[derive(Debug, Clone, Copy)]
struct EnclosingBox {
    kind: [u8; 4],
    start: u64,
    end: u64,
}

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
            fragments: Mp4Fragments::default(),
            facts: HeaderFacts::default(),
            ended: (size < HEADER_BYTES).then_some(Err(Mp4Fault::NotMp4)),
        }
    }

    /// The first byte that it still needs; `None` once it has ended.
    pub fn wants(&self) -> Option<u64> {
        let at = self.next + self.kept.len() as u64;
        self.ended.is_none().then_some(at)
    }

    /// The result so far.
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
            // No larger part of a box is ever needed.
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

    /// Continues with the needed bytes from `next` on.
    fn step(&mut self, bytes: &[u8]) {
        if let Err(fault) = self.try_step(bytes) {
            // An error after a complete `moov` does not invalidate that.
            let is_in_moov = self
                .around
                .first()
                .is_some_and(|outer| outer.kind == *b"moov");
            self.ended = Some(match self.has_moov && !is_in_moov {
                true => Ok(()),
                false => Err(fault),
            });
        }
    }

    fn try_step(&mut self, bytes: &[u8]) -> Result<(), Mp4Fault> {
        let limit = self.around.last().map_or(self.size, |around| around.end);
        let is_nested = !self.around.is_empty();
        let found = Mp4BoxHeader::read(bytes, self.next, limit, is_nested)?;
        let Some(found) = found else {
            self.needed = LONG_HEADER_BYTES;
            return Ok(());
        };
        let inside = self.around.last().map(|around| around.kind);
        let wanted = match (inside.as_ref(), &found.kind) {
            (Some(b"moov"), b"mvhd") | (Some(b"mdia"), b"mdhd") => found.header_bytes + 32,
            (Some(b"trak"), b"tkhd") => found.header_bytes + 24,
            (Some(b"mvex"), b"mehd") | (Some(b"traf"), b"tfdt") => found.header_bytes + 12,
            (Some(b"traf"), b"tfhd") => found.header_bytes + 8,
            (None, b"sidx") if self.wants_index() => found.end - self.next,
            _ => 0,
        };
        // A longer one is no index of a film, and is skipped.
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

    /// Evaluates a box, and continues inside it or after it.
    fn inspect(
        &mut self,
        inside: Option<[u8; 4]>,
        found: &Mp4BoxHeader,
        body: &[u8],
    ) -> Result<(), Mp4Fault> {
        let broken = Mp4Fault::Broken(found.kind);
        let mut enters = false;
        match (inside.as_ref(), &found.kind) {
            (None, b"moov") if !self.has_moov => {
                if found.end > self.size {
                    return Err(broken);
                }
                self.has_moov = true;
                enters = true;
            }
            (None, b"moof") if self.wants_fragments() && found.end <= self.size => enters = true,
            (None, b"mdat") if self.wants_fragments() => {}
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
                let (timescale, length) = media_time(body).ok_or(broken)?;
                self.fragments.set_timescale(timescale);
                self.facts.duration = self.facts.duration.max(length);
            }
            (Some(b"trak"), b"tkhd") => {
                let at = match body.first() {
                    Some(0) => 12,
                    _ => 20,
                };
                let track = array(body, at).map(u32::from_be_bytes);
                self.fragments.enter_track(track.unwrap_or_default());
            }
            (Some(b"traf"), b"tfhd") => {
                let track = array(body, 4).map(u32::from_be_bytes);
                self.fragments.enter_track(track.unwrap_or_default());
            }
            (Some(b"traf"), b"tfdt") => self.add_fragment(body),
            (Some(b"mvex"), b"mehd") => {
                let whole = length(ticks(body).ok_or(broken)?, self.timescale);
                self.facts.duration = self.facts.duration.max(whole);
            }
            (Some(b"moov"), b"mvex") => {
                self.is_fragmented = true;
                enters = true;
            }
            (Some(b"moov"), b"trak") | (Some(b"trak"), b"mdia") | (Some(b"moof"), b"traf") => {
                enters = true;
            }
            _ => {}
        }
        if self.has_moov && inside.is_none() && found.end > self.size {
            self.facts.end_declared = self.facts.end_declared.max(found.end);
        }
        self.needed = HEADER_BYTES;
        if enters {
            self.around.push(EnclosingBox {
                kind: found.kind,
                start: self.next,
                end: found.end,
            });
            self.next += found.header_bytes;
        } else {
            self.next = found.end;
        }
        Ok(())
    }

    /// Leaves the boxes that contain no further box, and ends the scan at the end of the file.
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

    /// Whether the duration must come from an index between the headers and the first fragment.
    fn wants_index(&self) -> bool {
        self.has_moov && self.is_fragmented && self.facts.duration == Duration::ZERO
    }

    /// Whether it must come from the fragments, because there was no index.
    fn wants_fragments(&self) -> bool {
        self.wants_index() || self.facts.is_estimated
    }

    /// A fragment's start time improves the estimate; an unreadable one changes nothing.
    fn add_fragment(&mut self, body: &[u8]) {
        let moof = self.around.first().map_or(self.next, |moof| moof.start);
        if let Some(ticks) = ticks(body) {
            self.fragments.add(ticks, moof);
        }
        if let Some(estimate) = self.fragments.duration(self.size) {
            self.facts.duration = estimate;
            self.facts.is_estimated = true;
        }
        if self.fragments.are_enough() {
            self.ended = Some(Ok(()));
        }
    }
}

/// Time scale and duration of `mvhd` and `mdhd`, which have the same beginning.
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

/// The time of `mehd` and `tfdt`, which have the same form.
fn ticks(body: &[u8]) -> Option<u64> {
    match body.first()? {
        0 => array(body, 4).map(|ticks| u64::from(u32::from_be_bytes(ticks))),
        _ => array(body, 4).map(u64::from_be_bytes),
    }
}

/// Total duration of a `sidx`.
fn indexed_duration(body: &[u8]) -> Option<Duration> {
    let timescale = u32::from_be_bytes(array(body, 8)?);
    // The earliest time and the first offset, in 32 bits each or in 64; and two reserved bytes.
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

/// Ticks as a duration; all ones, in either width, means unknown.
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
