//! The moving parts, and the read cache that they fill while idle.

use super::geometry::{Geometry, Track};
use super::read_cache::{ReadCache, ReadaheadStream};
use super::seek::SeekCurve;
use super::spec::HardDriveSpec;
use crate::{Request, SECTOR_BYTES};

/// Position of a request, computed once on arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestPosition {
    sector: u64,
    place: Track,
    stream_ns: u64,
    angle_ns: u64,
}

/// Cost of reaching some sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccessCost {
    pub(super) seek_ns: u64,
    pub(super) rotation_ns: u64,
    pub(super) end_ns: u64,
    pub(super) is_sequential: bool,
}

/// State of the head.
#[derive(Debug, Clone, Copy)]
enum HeadState {
    /// Reading ahead, or stopped at the limit of the readahead.
    Streaming(ReadaheadStream),
    /// After the last sector of a write, which it passed at this time.
    Passing { sector: u64, at_ns: u64 },
    /// At rest; its angle is unknown.
    Resting { sector: u64 },
}

/// The moving parts at one time, shared by the cost estimates of all queued requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArmSnapshot {
    now_ns: u64,
    /// The track of the head.
    place: Track,
    /// The sector that it passes at this moment, at the end of a write.
    passing: Option<u64>,
    /// The readahead in progress, if any.
    ahead: Option<ReadaheadState>,
}

/// Readahead at one time.
#[derive(Debug, Clone, Copy)]
struct ReadaheadState {
    /// First sector in memory.
    start: u64,
    /// First sector that has not been read.
    position: u64,
    /// The time at which stream time would be 0, extrapolated from the present.
    origin_ns: i128,
}

impl ReadaheadState {
    /// Time until the head, reading ahead, passes a target.
    fn wait_ns(&self, view: &ArmSnapshot, target: &RequestPosition) -> u64 {
        let there_ns = self.origin_ns + i128::from(target.stream_ns);
        u64::try_from(there_ns - i128::from(view.now_ns)).unwrap_or(0)
    }
}

/// Arm, spindle and read cache.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    geometry: Geometry,
    seek: SeekCurve,
    /// Lower bound of seeks to another cylinder.
    seek_ns_min: u64,
    write_settle_ns: u64,
    cache: ReadCache,
    head: HeadState,
}

impl Arm {
    pub(super) fn new(spec: &HardDriveSpec) -> Self {
        Self {
            geometry: Geometry::new(spec),
            seek: spec.seek.clone(),
            seek_ns_min: spec.seek.least_ns(),
            write_settle_ns: u64::from(spec.write_settle_us) * 1_000,
            cache: ReadCache::new(
                spec.read_cache.segments,
                spec.read_cache.segment_bytes / SECTOR_BYTES,
            ),
            head: HeadState::Resting { sector: 0 },
        }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.geometry.sectors()
    }

    /// Position of a sector.
    pub(super) fn target(&self, sector: u64) -> RequestPosition {
        let stream_ns = self.geometry.stream_ns(sector);
        RequestPosition {
            sector,
            place: self.geometry.place(sector),
            stream_ns,
            angle_ns: self.geometry.angle_ns(stream_ns),
        }
    }

    /// The sector after the last one that the head passed.
    pub(super) fn sector(&self, now_ns: u64) -> u64 {
        match &self.head {
            HeadState::Streaming(stream) => stream.position(&self.geometry, now_ns),
            HeadState::Passing { sector, .. } | HeadState::Resting { sector } => *sector,
        }
    }

    /// The moving parts at a time.
    pub(super) fn view(&self, now_ns: u64) -> ArmSnapshot {
        let position = self.sector(now_ns);
        let passing = match self.head {
            HeadState::Passing { sector, at_ns } if at_ns == now_ns => Some(sector),
            _ => None,
        };
        let ahead = match &self.head {
            HeadState::Streaming(stream) => {
                let stalled_ns = (position >= stream.limit)
                    .then(|| self.stalled_ns(stream, now_ns))
                    .flatten();
                let (from_ns, at_ns) = match stalled_ns {
                    Some(wait_ns) => {
                        let limit = stream.limit.min(self.sectors() - 1);
                        (self.geometry.stream_ns(limit), now_ns + wait_ns)
                    }
                    None => (stream.anchor_stream_ns, stream.anchor_ns),
                };
                Some(ReadaheadState {
                    start: self.cache.kept(stream, position).start,
                    position,
                    origin_ns: i128::from(at_ns) - i128::from(from_ns),
                })
            }
            _ => None,
        };
        ArmSnapshot {
            now_ns,
            place: self.geometry.place(position.saturating_sub(1)),
            passing,
            ahead,
        }
    }

    /// Seek time to a target, and the rotational delay after it.
    fn reach_ns(&self, view: &ArmSnapshot, target: &RequestPosition, settle_ns: u64) -> (u64, u64) {
        if view.passing == Some(target.sector) {
            // Continues to the next track, if the sector is there, as when streaming.
            let behind_ns = self.geometry.stream_end_ns(target.sector);
            return (0, target.stream_ns.saturating_sub(behind_ns));
        }
        let (from, to) = (view.place, target.place);
        let seek_ns = if from.cylinder != to.cylinder {
            let stroke = self.geometry.stroke(from.cylinder, to.cylinder);
            self.seek.time_ns(stroke) + settle_ns
        } else if from.head != to.head {
            self.geometry.head_switch_ns() + settle_ns
        } else {
            0
        };
        let there_ns = view.now_ns + seek_ns;
        (
            seek_ns,
            self.geometry.rotation_ns(target.angle_ns, there_ns),
        )
    }

    /// Time until a read could begin: the criterion for the nearest request. If it exceeds
    /// `bound_ns` for certain, the result may be any time that exceeds it.
    pub(super) fn read_access_ns(
        &self,
        view: &ArmSnapshot,
        request: &Request,
        target: &RequestPosition,
        bound_ns: u64,
    ) -> u64 {
        if self.cache.holds(request.sector, request.end()) {
            return 0;
        }
        let mut wait_ns = u64::MAX;
        if let Some(ahead) = view.ahead.filter(|ahead| ahead.start <= target.sector) {
            if target.sector < ahead.position {
                return 0;
            }
            wait_ns = ahead.wait_ns(view, target);
            if target.sector <= ahead.position + 1 {
                return wait_ns;
            }
        }
        // After a write the next sector may be on the next cylinder.
        let is_elsewhere =
            view.place.cylinder != target.place.cylinder && view.passing != Some(target.sector);
        if is_elsewhere && wait_ns.min(self.seek_ns_min) > bound_ns {
            return u64::MAX;
        }
        let (seek_ns, rotation_ns) = self.reach_ns(view, target, 0);
        wait_ns.min(seek_ns + rotation_ns)
    }

    /// Like [`Self::read_access_ns`], for a write.
    pub(super) fn write_access_ns(&self, view: &ArmSnapshot, target: &RequestPosition) -> u64 {
        let (seek_ns, rotation_ns) = self.reach_ns(view, target, self.write_settle_ns);
        seek_ns + rotation_ns
    }

    /// Whether a read is entirely in memory.
    pub(super) fn hit(&mut self, view: &ArmSnapshot, request: &Request) -> bool {
        let (start, end) = (request.sector, request.end());
        if self.cache.hit(start, end) {
            return true;
        }
        let is_kept = view
            .ahead
            .is_some_and(|ahead| ahead.start <= start && end <= ahead.position);
        if is_kept {
            // The reader has advanced, so the readahead advances as well.
            self.read_on(end, view.now_ns);
        }
        is_kept
    }

    /// Extends the readahead to behind `end`. If it had stopped, the head waits for its sector;
    /// returns the time of that.
    fn read_on(&mut self, end: u64, now_ns: u64) -> u64 {
        let HeadState::Streaming(mut stream) = self.head else {
            return 0;
        };
        let ahead = end.saturating_add(self.cache.ahead_sectors());
        let limit = stream.limit.max(ahead.min(self.sectors()));
        if limit == stream.limit {
            return 0;
        }
        let stalled_ns = self.stalled_ns(&stream, now_ns);
        if let Some(wait_ns) = stalled_ns {
            stream.start = self.cache.kept(&stream, stream.limit).start;
            stream.anchor = stream.limit;
            stream.anchor_stream_ns = self.geometry.stream_ns(stream.limit);
            stream.anchor_ns = now_ns + wait_ns;
        }
        stream.limit = limit;
        self.head = HeadState::Streaming(stream);
        stalled_ns.unwrap_or(0)
    }

    /// If the head has reached its limit: the time until it can continue.
    fn stalled_ns(&self, stream: &ReadaheadStream, now_ns: u64) -> Option<u64> {
        let next_ns = self
            .geometry
            .stream_ns(stream.limit.min(self.sectors() - 1));
        // The head is still in time until the next sector begins.
        let switch_ns = next_ns.saturating_sub(self.geometry.stream_end_ns(stream.limit));
        let stalls_ns = stream.end_ns(&self.geometry, stream.limit) + switch_ns;
        let angle_ns = || self.geometry.angle_ns(next_ns);
        (now_ns > stalls_ns).then(|| self.geometry.rotation_ns(angle_ns(), now_ns))
    }

    /// If the readahead reaches the start of a read no later than a seek would: the time, and
    /// whether the start has been or is just being read.
    fn waits_for(&self, view: &ArmSnapshot, target: &RequestPosition) -> Option<(u64, bool)> {
        let ahead = view.ahead?;
        if target.sector < ahead.start {
            return None;
        }
        if target.sector < ahead.position {
            return Some((0, true));
        }
        let wait_ns = ahead.wait_ns(view, target);
        // Stream times are rounded down, so the head may appear one sector behind.
        if target.sector <= ahead.position + 1 {
            return Some((wait_ns, true));
        }
        let (seek_ns, rotation_ns) = self.reach_ns(view, target, 0);
        (wait_ns <= seek_ns + rotation_ns).then_some((wait_ns, false))
    }

    /// Performs a read that is not entirely in memory.
    pub(super) fn read(
        &mut self,
        view: &ArmSnapshot,
        request: &Request,
        target: &RequestPosition,
    ) -> AccessCost {
        let (start, end, now_ns) = (request.sector, request.end(), view.now_ns);
        if let Some((wait_ns, is_sequential)) = self.waits_for(view, target) {
            let resumed_ns = self.read_on(end, now_ns);
            return AccessCost {
                seek_ns: 0,
                rotation_ns: wait_ns.max(resumed_ns),
                end_ns: self.stream_end_ns(end, now_ns),
                is_sequential,
            };
        }
        if let Some(ahead) = view.ahead {
            self.stop_at(ahead.position);
        }
        let kept = self.cache.take_beginning(start, end);
        let target = kept.map_or(*target, |run| self.target(run.end));
        let (seek_ns, rotation_ns) = self.reach_ns(view, &target, 0);
        let ahead = end.saturating_add(self.cache.ahead_sectors());
        self.head = HeadState::Streaming(ReadaheadStream {
            start: kept.map_or(start, |run| run.start),
            anchor: target.sector,
            anchor_stream_ns: target.stream_ns,
            anchor_ns: now_ns + seek_ns + rotation_ns,
            limit: ahead.min(self.sectors()),
        });
        AccessCost {
            seek_ns,
            rotation_ns,
            end_ns: self.stream_end_ns(end, now_ns),
            is_sequential: false,
        }
    }

    /// When the readahead has read everything before `sector`.
    fn stream_end_ns(&self, sector: u64, now_ns: u64) -> u64 {
        match &self.head {
            HeadState::Streaming(stream) => stream.end_ns(&self.geometry, sector).max(now_ns),
            HeadState::Passing { .. } | HeadState::Resting { .. } => now_ns,
        }
    }

    /// Writes to the medium.
    pub(super) fn write(&mut self, target: &RequestPosition, end: u64, now_ns: u64) -> AccessCost {
        self.stop(now_ns);
        let view = self.view(now_ns);
        let (seek_ns, rotation_ns) = self.reach_ns(&view, target, self.write_settle_ns);
        let begin_ns = now_ns + seek_ns + rotation_ns;
        let end_ns = begin_ns + (self.geometry.stream_end_ns(end) - target.stream_ns);
        self.head = HeadState::Passing {
            sector: end,
            at_ns: end_ns,
        };
        AccessCost {
            seek_ns,
            rotation_ns,
            end_ns,
            is_sequential: view.passing == Some(target.sector),
        }
    }

    /// Ends the readahead and keeps the read data in the cache.
    fn stop(&mut self, now_ns: u64) {
        self.stop_at(self.sector(now_ns));
    }

    /// Ends the readahead at a sector.
    fn stop_at(&mut self, position: u64) {
        if let HeadState::Streaming(stream) = self.head {
            self.cache.keep(self.cache.kept(&stream, position));
            self.head = HeadState::Resting { sector: position };
        }
    }

    /// Drops cached data that a write makes stale.
    pub(super) fn invalidate(&mut self, start: u64, end: u64, now_ns: u64) {
        if let HeadState::Streaming(stream) = self.head
            && start < stream.limit
            && end > stream.start
        {
            self.stop(now_ns);
        }
        self.cache.invalidate(start, end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Direction;
    use crate::hard::spec::tests::small_drive;

    fn request(sector: u64) -> Request {
        Request {
            sector,
            sectors: 8,
            direction: Direction::Read,
        }
    }

    proptest! {
        /// Random past reads and writes, and possible next positions.
        #[test]
        fn bound_affects_only_costs_beyond_it(
            past in prop::collection::vec((0_u64..1_800_000, any::<bool>()), 1..6),
            near in 0_u64..64,
            far in 0_u64..1_800_000,
            bound_ns in 0_u64..30_000_000,
            rest_ns in 0_u64..20_000_000,
        ) {
            let mut arm = Arm::new(&small_drive());
            let mut now_ns = 0;
            for (sector, is_write) in &past {
                let target = arm.target(*sector);
                let access = match is_write {
                    true => arm.write(&target, sector + 8, now_ns),
                    false => arm.read(&arm.view(now_ns), &request(*sector), &target),
                };
                now_ns = access.end_ns;
            }
            now_ns += rest_ns / 2 * (rest_ns % 2);
            let last = past.last().map_or(0, |(sector, _)| *sector);
            for sector in [last + near, last.saturating_sub(near), far] {
                let (view, target) = (arm.view(now_ns), arm.target(sector));
                let cost_ns = |bound_ns| arm.read_access_ns(&view, &request(sector), &target, bound_ns);
                let (all_ns, bounded_ns) = (cost_ns(u64::MAX), cost_ns(bound_ns));
                prop_assert!(
                    bounded_ns == all_ns || (all_ns > bound_ns && bounded_ns > bound_ns),
                    "{} {} {}", all_ns, bounded_ns, bound_ns
                );
            }
        }
    }
}
