//! The moving parts, and the read cache that they fill while nobody wants them.

use super::geometry::{Geometry, Place};
use super::read_cache::{ReadCache, Stream};
use super::seek::SeekCurve;
use super::spec::HardDriveSpec;
use crate::{Direction, Request, SECTOR_BYTES};

/// What getting at some sectors costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) seek_ns: u64,
    pub(super) rotation_ns: u64,
    pub(super) end_ns: u64,
    pub(super) is_sequential: bool,
}

/// What the head is doing.
#[derive(Debug, Clone, Copy)]
enum Head {
    /// Reading on, or waiting at the end of what it wanted to read.
    Streaming(Stream),
    /// Behind the last sector of a write, which it passed at this time.
    Passing { sector: u64, at_ns: u64 },
    /// Somewhere; nobody knows at which angle.
    Resting { sector: u64 },
}

/// Arm, spindle and read cache.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    geometry: Geometry,
    seek: SeekCurve,
    write_settle_ns: u64,
    cache: ReadCache,
    head: Head,
}

impl Arm {
    pub(super) fn new(spec: &HardDriveSpec) -> Self {
        Self {
            geometry: Geometry::new(spec),
            seek: spec.seek.clone(),
            write_settle_ns: u64::from(spec.write_settle_us) * 1_000,
            cache: ReadCache::new(
                spec.read_cache.segments,
                spec.read_cache.segment_bytes / SECTOR_BYTES,
            ),
            head: Head::Resting { sector: 0 },
        }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.geometry.sectors()
    }

    /// Where the head is.
    pub(super) fn sector(&self, now_ns: u64) -> u64 {
        match &self.head {
            Head::Streaming(stream) => stream.position(&self.geometry, now_ns),
            Head::Passing { sector, .. } | Head::Resting { sector } => *sector,
        }
    }

    /// Whether the head, at the end of a write, is just about to pass a sector.
    fn is_passing(&self, target: u64, now_ns: u64) -> bool {
        matches!(self.head, Head::Passing { sector, at_ns } if (sector, at_ns) == (target, now_ns))
    }

    /// Time of the arm to a sector, and then of the spindle.
    fn reach_ns(&self, target: u64, settle_ns: u64, now_ns: u64) -> (u64, u64) {
        if self.is_passing(target, now_ns) {
            // On to the next track, if the sector lies there, as when streaming.
            let begin_ns = self.geometry.stream_ns(target);
            return (
                0,
                begin_ns.saturating_sub(self.geometry.stream_end_ns(target)),
            );
        }
        // The track that the head is on is that of the last sector it passed.
        let from = self.geometry.place(self.sector(now_ns).saturating_sub(1));
        let seek_ns = self.move_ns(from, self.geometry.place(target), settle_ns);
        let rotation_ns = self.geometry.rotation_ns(target, now_ns + seek_ns);
        (seek_ns, rotation_ns)
    }

    fn move_ns(&self, from: Place, to: Place, settle_ns: u64) -> u64 {
        if from.cylinder != to.cylinder {
            let stroke = self.geometry.stroke(from.cylinder, to.cylinder);
            self.seek.time_ns(stroke) + settle_ns
        } else if from.head != to.head {
            self.geometry.head_switch_ns() + settle_ns
        } else {
            0
        }
    }

    /// How long until the first sector of a request could be read or written: what the drive goes by
    /// when it chooses the nearest.
    pub(super) fn access_ns(&self, request: &Request, now_ns: u64) -> u64 {
        let settle_ns = match request.direction {
            Direction::Write => self.write_settle_ns,
            Direction::Read => {
                if self.cache.holds(request.sector, request.end()) {
                    return 0;
                }
                if let Some((wait_ns, _)) = self.waits_for(request, now_ns) {
                    return wait_ns;
                }
                0
            }
        };
        let (seek_ns, rotation_ns) = self.reach_ns(request.sector, settle_ns, now_ns);
        seek_ns + rotation_ns
    }

    /// Whether a read is all in memory.
    pub(super) fn hit(&mut self, request: &Request, now_ns: u64) -> bool {
        let (start, end) = (request.sector, request.end());
        if self.cache.hit(start, end) {
            return true;
        }
        let Head::Streaming(stream) = &self.head else {
            return false;
        };
        let position = stream.position(&self.geometry, now_ns);
        let kept = self.cache.kept(stream, position);
        let is_kept = kept.start <= start && end <= kept.end;
        if is_kept {
            // The reader has come further: so does the drive.
            self.read_on(end, now_ns);
        }
        is_kept
    }

    /// Lets the head read on behind `end`; if it had stopped, it waits for its sector to come round.
    fn read_on(&mut self, end: u64, now_ns: u64) -> u64 {
        let Head::Streaming(mut stream) = self.head else {
            return 0;
        };
        let ahead = end.saturating_add(self.cache.ahead_sectors());
        let limit = stream.limit.max(ahead.min(self.geometry.sectors()));
        let mut waited_ns = 0;
        if limit > stream.limit {
            if let Some(wait_ns) = self.stalled_ns(&stream, now_ns) {
                waited_ns = wait_ns;
                stream.start = self.cache.kept(&stream, stream.limit).start;
                stream.anchor = stream.limit;
                stream.anchor_ns = now_ns + wait_ns;
            }
            stream.limit = limit;
            self.head = Head::Streaming(stream);
        }
        waited_ns
    }

    /// If the head has come to its limit: how long until it can go on.
    fn stalled_ns(&self, stream: &Stream, now_ns: u64) -> Option<u64> {
        let geometry = &self.geometry;
        let gap_ns = geometry.stream_ns(stream.limit.min(geometry.sectors() - 1));
        let passed_ns = stream.end_ns(geometry, stream.limit);
        // Until the next sector begins the head is still in time for it.
        let switch_ns = gap_ns.saturating_sub(geometry.stream_end_ns(stream.limit));
        if now_ns <= passed_ns + switch_ns {
            return None;
        }
        Some(geometry.rotation_ns(stream.limit.min(geometry.sectors() - 1), now_ns))
    }

    /// If the head, reading on, comes by the beginning of a read no later than by moving there: how
    /// long that takes, and whether the beginning is there already.
    fn waits_for(&self, request: &Request, now_ns: u64) -> Option<(u64, bool)> {
        let Head::Streaming(stream) = &self.head else {
            return None;
        };
        let position = stream.position(&self.geometry, now_ns);
        let kept = self.cache.kept(stream, position);
        if request.sector < kept.start.min(stream.limit) {
            return None;
        }
        if request.sector < position {
            return Some((0, true));
        }
        // Stream times are rounded down, so the head may seem one sector behind.
        let is_next = request.sector <= position + 1;
        let wait_ns = match self.stalled_ns(stream, now_ns) {
            Some(stalled_ns) => {
                let from_ns = self
                    .geometry
                    .stream_ns(stream.limit.min(self.sectors() - 1));
                stalled_ns
                    + self
                        .geometry
                        .stream_ns(request.sector)
                        .saturating_sub(from_ns)
            }
            None => {
                let span_ns = self.geometry.stream_ns(request.sector)
                    - self.geometry.stream_ns(stream.anchor);
                (stream.anchor_ns + span_ns).saturating_sub(now_ns)
            }
        };
        if is_next {
            return Some((wait_ns, true));
        }
        let (seek_ns, rotation_ns) = self.reach_ns(request.sector, 0, now_ns);
        (wait_ns <= seek_ns + rotation_ns).then_some((wait_ns, false))
    }

    /// Reads what is not all in memory.
    pub(super) fn read(&mut self, request: &Request, now_ns: u64) -> Access {
        let (start, end) = (request.sector, request.end());
        if let Some((wait_ns, is_sequential)) = self.waits_for(request, now_ns) {
            let resumed_ns = self.read_on(end, now_ns);
            return Access {
                seek_ns: 0,
                rotation_ns: wait_ns.max(resumed_ns),
                end_ns: self.stream_end_ns(end, now_ns),
                is_sequential,
            };
        }
        self.stop(now_ns);
        let kept = self.cache.take_beginning(start, end);
        let target = kept.map_or(start, |run| run.end);
        let (seek_ns, rotation_ns) = self.reach_ns(target, 0, now_ns);
        let ahead = end.saturating_add(self.cache.ahead_sectors());
        self.head = Head::Streaming(Stream {
            start: kept.map_or(start, |run| run.start),
            anchor: target,
            anchor_ns: now_ns + seek_ns + rotation_ns,
            limit: ahead.min(self.geometry.sectors()),
        });
        Access {
            seek_ns,
            rotation_ns,
            end_ns: self.stream_end_ns(end, now_ns),
            is_sequential: false,
        }
    }

    /// When the head, reading on, has read everything before `sector`.
    fn stream_end_ns(&self, sector: u64, now_ns: u64) -> u64 {
        match &self.head {
            Head::Streaming(stream) => stream.end_ns(&self.geometry, sector).max(now_ns),
            Head::Passing { .. } | Head::Resting { .. } => now_ns,
        }
    }

    /// Writes to the medium.
    pub(super) fn write(&mut self, start: u64, end: u64, now_ns: u64) -> Access {
        self.stop(now_ns);
        let is_sequential = self.is_passing(start, now_ns);
        let (seek_ns, rotation_ns) = self.reach_ns(start, self.write_settle_ns, now_ns);
        let begin_ns = now_ns + seek_ns + rotation_ns;
        let span_ns = self.geometry.stream_end_ns(end) - self.geometry.stream_ns(start);
        self.head = Head::Passing {
            sector: end,
            at_ns: begin_ns + span_ns,
        };
        Access {
            seek_ns,
            rotation_ns,
            end_ns: begin_ns + span_ns,
            is_sequential,
        }
    }

    /// Ends reading on; what was read is remembered.
    fn stop(&mut self, now_ns: u64) {
        if let Head::Streaming(stream) = self.head {
            let position = stream.position(&self.geometry, now_ns);
            self.cache.keep(self.cache.kept(&stream, position));
            self.head = Head::Resting { sector: position };
        }
    }

    /// Forgets what a write makes wrong.
    pub(super) fn invalidate(&mut self, start: u64, end: u64, now_ns: u64) {
        if let Head::Streaming(stream) = self.head
            && start < stream.limit
            && end > stream.start
        {
            self.stop(now_ns);
        }
        self.cache.invalidate(start, end);
    }
}
