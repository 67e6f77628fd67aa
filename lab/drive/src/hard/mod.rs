//! A hard disk: one arm, one spindle, a queue, and memory for reading and writing.
//!
//! The drive works on one command at a time, chosen when the previous one has completed. The cost
//! of a command follows from the positions of head and spindle and from the content of its memory.
//! Requests of any size cost the same to compute.
//!
//! Invariants: commands complete in the order in which they were started; the time of a turn is
//! constant; the head reads ahead only while the arm is idle.
//!
//! Left out: thermal recalibration, remapped sectors, retries, zero-latency reading (a track read
//! from wherever the head lands), reordering of commands that are all hits past one that is not.

mod arm;
mod geometry;
mod read_cache;
mod seek;
mod spec;
#[cfg(test)]
mod tests;
mod write_cache;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use self::arm::{Arm, RequestPosition};
pub use self::seek::{SeekCurve, SeekKnot};
pub use self::spec::{HardDriveSpec, QueueOrder, QueueSpec, ReadCacheSpec, WriteCacheSpec};
use self::write_cache::WriteCache;
use crate::{
    Completion, Direction, Drive, Refusal, Request, RequestId, SECTOR_BYTES, ServiceTimeBreakdown,
};

/// First byte of each zone, and bytes of a track in it.
pub(crate) fn track_bytes_by_zone(spec: &HardDriveSpec) -> Vec<(u64, u64)> {
    let geometry = geometry::Geometry::new(spec);
    let zones = geometry.zones();
    zones
        .map(|(sector, sectors)| (sector * SECTOR_BYTES, sectors * SECTOR_BYTES))
        .collect()
}

/// A queued command.
#[derive(Debug, Clone, Copy)]
struct QueuedCommand {
    id: RequestId,
    request: Request,
    target: RequestPosition,
    arrived_ns: u64,
}

/// The active command.
#[derive(Debug, Clone, Copy)]
struct ActiveCommand {
    completion: Completion,
    uses_arm: bool,
}

/// A run in transfer from the write cache to the medium.
#[derive(Debug, Clone, Copy)]
struct DestageTransfer {
    sectors: u64,
    end_ns: u64,
}

/// The state of a hard disk. See [`HardDriveSpec`] for its parameters.
#[derive(Debug, Clone)]
pub struct HardDrive {
    arm: Arm,
    write_cache: WriteCache,
    queue_spec: QueueSpec,
    wait_ns_max: u64,
    overhead_ns: u64,
    interface_bytes_per_s: u64,
    idle_ns: u64,
    /// Oldest first.
    queue: Vec<QueuedCommand>,
    /// Sector after the last started command, where a sweep continues.
    swept_to: u64,
    active: Option<ActiveCommand>,
    destage: Option<DestageTransfer>,
    done: VecDeque<Completion>,
    now_ns: u64,
    /// When the last command completed.
    quiet_since_ns: u64,
}

impl HardDrive {
    /// A drive of this kind: nothing in memory, the arm at the outer edge. Invalid figures (a rate
    /// or a speed of zero) are replaced by the smallest valid ones; `DriveSpec::check` reports
    /// them.
    pub fn new(spec: &HardDriveSpec) -> Self {
        Self {
            arm: Arm::new(spec),
            write_cache: WriteCache::new(spec.write_cache.bytes / SECTOR_BYTES),
            queue_spec: spec.queue,
            wait_ns_max: match spec.queue.wait_ms_max {
                0 => u64::MAX,
                wait_ms => u64::from(wait_ms) * 1_000_000,
            },
            overhead_ns: u64::from(spec.command_overhead_us) * 1_000,
            interface_bytes_per_s: spec.interface_bytes_per_s.max(1),
            idle_ns: u64::from(spec.write_cache.idle_ms) * 1_000_000,
            queue: Vec::new(),
            swept_to: 0,
            active: None,
            destage: None,
            done: VecDeque::new(),
            now_ns: 0,
            quiet_since_ns: 0,
        }
    }

    /// Processes all events up to a time, in order.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(next_ns) = self.next_event_ns() {
            if next_ns > self.now_ns {
                break;
            }
            if let Some(destage) = self.destage.filter(|destage| destage.end_ns <= next_ns) {
                self.destage = None;
                self.destage_on(destage.end_ns);
            } else if let Some(active) = self
                .active
                .take_if(|active| active.completion.ended.0 <= next_ns)
            {
                self.done.push_back(active.completion);
                self.quiet_since_ns = active.completion.ended.0;
                self.begin(active.completion.ended.0);
                if self.active.is_none() && self.destage.is_none() && self.write_cache.is_pressed(0)
                {
                    self.start_destage(active.completion.ended.0);
                }
            } else {
                self.start_destage(next_ns);
            }
        }
    }

    /// Time of the next event.
    fn next_event_ns(&self) -> Option<u64> {
        let active = self.active.as_ref();
        let active = active.map(|active| active.completion.ended.0);
        if self.destage.is_none() && active.is_some() {
            return active;
        }
        let destage = self.destage.map(|destage| destage.end_ns);
        let is_idle = self.active.is_none() && self.destage.is_none();
        let idle = (is_idle && !self.write_cache.is_empty())
            .then(|| self.quiet_since_ns.saturating_add(self.idle_ns));
        [active, destage, idle].into_iter().flatten().min()
    }

    /// Starts the next queued command, if there is one and the drive is free.
    fn begin(&mut self, at_ns: u64) {
        if self.active.is_some() || self.queue.is_empty() {
            return;
        }
        let queued = self.queue.remove(self.choose(at_ns));
        self.swept_to = queued.request.end();
        self.active = Some(match queued.request.direction {
            Direction::Read => self.read(queued, at_ns),
            Direction::Write => self.write(queued, at_ns),
        });
    }

    /// Index of the next command; the queue must not be empty.
    fn choose(&self, at_ns: u64) -> usize {
        let oldest_waits_ns = at_ns.saturating_sub(self.queue[0].arrived_ns);
        if self.queue.len() == 1 || oldest_waits_ns >= self.wait_ns_max {
            return 0;
        }
        match self.queue_spec.order {
            QueueOrder::Fcfs => 0,
            QueueOrder::Nearest => self.nearest(at_ns),
            QueueOrder::Sweep => self.next_upwards(),
        }
    }

    /// The first at or above the position of the sweep, else the lowest; the oldest among equals.
    fn next_upwards(&self) -> usize {
        let sectors = (0..).zip(self.queue.iter().map(|queued| queued.request.sector));
        let place = |(_, sector): &(usize, u64)| (*sector < self.swept_to, *sector);
        sectors.min_by_key(place).map_or(0, |(index, _)| index)
    }

    /// The command that the head reaches first.
    fn nearest(&self, at_ns: u64) -> usize {
        let view = self.arm.view(at_ns);
        let is_clean = self.write_cache.is_empty();
        let cost = |queued: &QueuedCommand, bound_ns: u64| {
            let request = &queued.request;
            match request.direction {
                Direction::Read
                    if !is_clean && self.write_cache.holds(request.sector, request.end()) =>
                {
                    0
                }
                Direction::Read => {
                    self.arm
                        .read_access_ns(&view, request, &queued.target, bound_ns)
                }
                Direction::Write if self.write_cache.absorbs(u64::from(request.sectors)) => 0,
                Direction::Write => self.arm.write_access_ns(&view, &queued.target),
            }
        };
        // A request that continues at the head usually came last and is nearest; starting with it
        // avoids estimates of most others. Among equals the oldest wins.
        let mut nearest = (u64::MAX, 0);
        for (index, queued) in self.queue.iter().enumerate().rev() {
            let cost_ns = cost(queued, nearest.0);
            if cost_ns <= nearest.0 {
                nearest = (cost_ns, index);
            }
        }
        nearest.1
    }

    /// When a command has been decoded; queued commands are decoded while they wait.
    fn ready_ns(&self, queued: &QueuedCommand, at_ns: u64) -> u64 {
        at_ns.max(queued.arrived_ns.saturating_add(self.overhead_ns))
    }

    fn interface_ns(&self, sectors: u32) -> u64 {
        let bytes = u128::from(sectors) * u128::from(SECTOR_BYTES);
        let ns = bytes * 1_000_000_000 / u128::from(self.interface_bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn read(&mut self, queued: QueuedCommand, at_ns: u64) -> ActiveCommand {
        let request = queued.request;
        let ready_ns = self.ready_ns(&queued, at_ns);
        let earliest_ns = ready_ns + self.interface_ns(request.sectors);
        let mut parts = ServiceTimeBreakdown {
            overhead: Duration(ready_ns - at_ns),
            ..ServiceTimeBreakdown::default()
        };
        let mut view = self.arm.view(ready_ns);
        let in_memory =
            self.write_cache.holds(request.sector, request.end()) || self.arm.hit(&view, &request);
        let mut is_sequential = true;
        let mut end_ns = earliest_ns;
        if !in_memory {
            let free_ns = self.destage.map_or(ready_ns, |d| d.end_ns.max(ready_ns));
            if free_ns > ready_ns {
                view = self.arm.view(free_ns);
            }
            let access = self.arm.read(&view, &request, &queued.target);
            parts.cleaning = Duration(free_ns - ready_ns);
            parts.seek = Duration(access.seek_ns);
            parts.rotation = Duration(access.rotation_ns);
            is_sequential = access.is_sequential;
            end_ns = access.end_ns.max(earliest_ns);
        }
        self.active_until(queued, at_ns, end_ns, parts, (is_sequential, !in_memory))
    }

    fn write(&mut self, queued: QueuedCommand, at_ns: u64) -> ActiveCommand {
        let request = queued.request;
        let ready_ns = self.ready_ns(&queued, at_ns);
        let (start, end) = (request.sector, request.end());
        self.arm.invalidate(start, end, ready_ns);
        let mut parts = ServiceTimeBreakdown {
            overhead: Duration(ready_ns - at_ns),
            ..ServiceTimeBreakdown::default()
        };
        if self.write_cache.absorbs(u64::from(request.sectors)) {
            let room_ns = self.make_room(u64::from(request.sectors), ready_ns);
            parts.cleaning = Duration(room_ns - ready_ns);
            self.write_cache.insert(start, end);
            if self.destage.is_none() && self.write_cache.is_pressed(0) {
                self.start_destage(room_ns);
            }
            let end_ns = room_ns + self.interface_ns(request.sectors);
            return self.active_until(queued, at_ns, end_ns, parts, (true, false));
        }
        self.write_cache.remove(start, end);
        let free_ns = self.destage.map_or(ready_ns, |d| d.end_ns.max(ready_ns));
        let access = self.arm.write(&queued.target, end, free_ns);
        parts.cleaning = Duration(free_ns - ready_ns);
        parts.seek = Duration(access.seek_ns);
        parts.rotation = Duration(access.rotation_ns);
        let end_ns = access
            .end_ns
            .max(ready_ns + self.interface_ns(request.sectors));
        self.active_until(queued, at_ns, end_ns, parts, (access.is_sequential, true))
    }

    /// The completed command; time that belongs to no other part counts as transfer.
    fn active_until(
        &self,
        queued: QueuedCommand,
        at_ns: u64,
        end_ns: u64,
        mut parts: ServiceTimeBreakdown,
        (is_sequential, uses_arm): (bool, bool),
    ) -> ActiveCommand {
        let others = parts.overhead + parts.seek + parts.rotation + parts.cleaning;
        parts.transfer = Duration(end_ns - at_ns) - others;
        ActiveCommand {
            completion: Completion {
                id: queued.id,
                request: queued.request,
                started: Instant(at_ns),
                ended: Instant(end_ns),
                parts,
                is_sequential,
            },
            uses_arm,
        }
    }

    /// Destages until this many sectors fit; returns when. They must fit into an empty cache.
    fn make_room(&mut self, sectors: u64, from_ns: u64) -> u64 {
        let mut at_ns = from_ns;
        loop {
            let in_flight = self.destage.map_or(0, |destage| destage.sectors);
            if self.write_cache.has_room(sectors, in_flight) {
                return at_ns;
            }
            match self.destage.take() {
                Some(destage) => at_ns = at_ns.max(destage.end_ns),
                None => self.start_destage(at_ns),
            }
        }
    }

    /// Starts to destage the next dirty run.
    fn start_destage(&mut self, at_ns: u64) {
        let Some((start, end)) = self.write_cache.take_next(self.arm.sector(at_ns)) else {
            return;
        };
        let target = self.arm.target(start);
        let access = self.arm.write(&target, end, at_ns);
        self.destage = Some(DestageTransfer {
            sectors: end - start,
            end_ns: access.end_ns,
        });
    }

    /// A run has been destaged: the next follows if the arm is idle.
    fn destage_on(&mut self, at_ns: u64) {
        let is_idle = self.active.is_none();
        let is_free = self.active.is_some_and(|active| !active.uses_arm);
        if is_idle || is_free && self.write_cache.is_pressed(0) {
            self.start_destage(at_ns);
        }
    }
}

impl Drive for HardDrive {
    fn capacity_sectors(&self) -> u64 {
        self.arm.sectors()
    }

    fn queue_depth(&self) -> usize {
        self.queue_spec.depth.max(1) as usize
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        self.advance(now.0);
        let end = request.sector.checked_add(u64::from(request.sectors));
        if request.sectors == 0 || end.is_none_or(|end| end > self.capacity_sectors()) {
            return Err(Refusal::OutOfRange);
        }
        if self.queue.len() + usize::from(self.active.is_some()) >= self.queue_depth() {
            return Err(Refusal::QueueFull);
        }
        self.queue.push(QueuedCommand {
            id,
            request,
            target: self.arm.target(request.sector),
            arrived_ns: self.now_ns,
        });
        self.begin(self.now_ns);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now.0);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_event_ns().map(Instant)
    }
}
