//! Issuing reads: a job becomes a run of reads.
//!
//! A run is the work of one job, with the jobs that merged into it: one read, or several if it
//! continues in the next chunk file or after pieces that are in memory. The reads of a run are
//! consecutive, without other jobs in between. Memory is taken here, before the read: reading ahead
//! never takes another live chain's unread pieces; a reply that waits may take one, which is
//! counted.

use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_units::{Instant, KIB};

use super::state::Shard;
use crate::chain::Chain;
use crate::command::{Command, ReadCommand};
use crate::health::DeviceState;
use crate::ids::{ChainId, RequestId, Slot, StreamId};
use crate::lanes::LEAD_BYTES_MAX;
use crate::queue::Job;
use crate::read_depth::JobSize;
use crate::runs::{OutstandingRead, RunClaim, RunId};

/// A gap that the device passes over without a seek: a file's last block is seldom full, so the
/// next file does not begin at the end of its bytes. Passing this much takes a millisecond on the
/// slowest disk.
const PASSED_BYTES: u64 = 64 * KIB;

impl Shard {
    /// Issues reads while the device can take more.
    pub(super) fn issue_reads(&mut self) {
        while self.device_state() != DeviceState::Offline {
            self.runs.give_lanes(self.lanes());
            if let Some((run, job)) = self.next_rest() {
                if !self.issue(run, job) {
                    self.close_run_if_over(run);
                }
                continue;
            }
            if self.queue.is_empty() || !self.has_room_for_a_run() {
                return;
            }
            let (order, service) = (self.config.queueing(), self.load.service());
            let Some(id) = self.queue.next(order, self.now, self.runs.head(), service) else {
                return;
            };
            let Some(job) = self.queue.job(id).copied() else {
                return;
            };
            if job.demanded && self.memory.available() == 0 && self.victim(&job).is_none() {
                // Every piece is being read or sent; one of them will be returned.
                return;
            }
            self.queue.take(id);
            if self.is_job_of(job.chain, id) {
                self.unlink_job(&job);
            }
            self.start_run(job);
        }
    }

    fn next_rest(&mut self) -> Option<(RunId, Job)> {
        let reads_max = self.config.outstanding_reads_max as usize;
        let has_room = self.config.has_arm || self.runs.reads_outstanding() < reads_max;
        has_room.then(|| self.runs.next_rest())?
    }

    /// Whether one more run may begin: at a device with an arm when all but fewer runs than there
    /// are lanes are near their ends. None may while the device keeps overtaking a read: that is
    /// the only way to make it turn back.
    pub(super) fn has_room_for_a_run(&self) -> bool {
        let reads_max = self.config.outstanding_reads_max as usize;
        let has_room = match self.config.has_arm {
            true => self.runs.has_room(self.lanes(), self.tail.bytes()),
            false => self.runs.reads_outstanding() < reads_max,
        };
        if !has_room {
            return false;
        }
        let bytes: u64 = self.runs.reads().map(|read| read.bytes).sum();
        let bytes = bytes + self.runs.pieces_left() * self.config.piece_bytes;
        let overtaken_max = self.config.outstanding_reads_max;
        let is_left_behind =
            |read: &OutstandingRead| !read.abandoned && read.overtaken >= overtaken_max;
        (bytes < self.config.outstanding_bytes_max || self.runs.is_idle())
            && !self.runs.reads().any(is_left_behind)
    }

    /// Runs that a device works on at a time; unlimited without an arm.
    fn lanes(&self) -> usize {
        match self.config.has_arm {
            true => self.lanes.count().min(self.config.outstanding_reads_max) as usize,
            false => usize::MAX,
        }
    }

    fn start_run(&mut self, job: Job) {
        let has_reader = self.chains.get(job.chain).is_some();
        if !has_reader && !job.demanded {
            return;
        }
        let job = self.cut_for_others(job);
        let mut claims = alloc::vec![RunClaim::of(&job)];
        let job = self.merge_jobs(job, &mut claims);
        let run = self.runs.begin(&job, claims);
        self.runs.give_lanes(self.lanes());
        if !self.issue(run, job) {
            self.close_run_if_over(run);
        }
    }

    /// Cuts off the end of a job that would make others late by more than a start may take.
    fn cut_for_others(&mut self, job: Job) -> Job {
        let outstanding = self.runs.count() as u64;
        let latest = (self.now, self.config.startup_patience);
        let Some(time) = self
            .queue
            .time_for_each(self.config.queueing(), latest, outstanding)
        else {
            return job;
        };
        let piece_bytes = self.config.piece_bytes;
        let chain = self.chains.get(job.chain);
        let requested_bytes = (u64::from(job.pieces_needed) * piece_bytes)
            .max(chain.map_or(0, Chain::next_request_bytes));
        let drive = self.control.best_known_drive();
        let size = JobSize {
            requested_bytes,
            wanted_bytes: job.wanted_bytes,
        };
        let bytes = self.depth.bytes(drive, size, time);
        let pieces = u32::try_from(bytes.div_ceil(piece_bytes)).unwrap_or(u32::MAX);
        let to = job.to.min(job.from.saturating_add(pieces.max(1)));
        if to < job.to {
            self.give_up(&Job { from: to, ..job });
            self.demand_again(job.stream, to, job.to);
        }
        Job { to, ..job }
    }

    /// Merges jobs of other chains that overlap this one, or adjoin its end; not where a read has
    /// failed: a retry must fail or succeed by itself.
    fn merge_jobs(&mut self, mut job: Job, claims: &mut Vec<RunClaim>) -> Job {
        let pieces_max = (self.config.read_bytes_max / self.config.piece_bytes) as u32;
        // A victim for a job lies outside the job; for a wider one there may be none.
        while self.memory.available() > 0 {
            let before = job.from.checked_sub(1);
            let before = before.and_then(|piece| self.queue.covering(job.stream, piece));
            let other = before.or_else(|| self.queue.touching(job.stream, job.from, job.to));
            let Some((id, other)) = other.and_then(|id| Some((id, *self.queue.job(id)?))) else {
                return job;
            };
            let (from, to) = (job.from.min(other.from), job.to.max(other.to));
            if to - from > pieces_max || self.is_careful(&job) || self.is_careful(&other) {
                return job;
            }
            self.queue.remove(id);
            if self.is_job_of(other.chain, id) {
                self.unlink_job(&other);
            }
            claims.push(RunClaim::of(&other));
            self.stats.jobs_merged += 1;
            let piece_bytes = self.config.piece_bytes;
            job = Job {
                from,
                to,
                deadline: job.deadline.min(other.deadline),
                demanded: job.demanded || other.demanded,
                pieces_needed: job.pieces_needed.max(other.pieces_needed),
                startup: job.startup && other.startup,
                can_wait: job.can_wait && other.can_wait,
                wanted_bytes: (job.wanted_bytes.max(other.wanted_bytes))
                    .max(u64::from(to - from) * piece_bytes),
                ..job
            };
        }
        job
    }

    fn is_careful(&self, job: &Job) -> bool {
        let chain = self.chains.get(job.chain);
        chain.is_some_and(|chain| chain.careful > 0)
    }

    /// Issues the first read of the remainder of a job. Returns whether it did.
    fn issue(&mut self, run: RunId, mut job: Job) -> bool {
        let Some((from, to)) = self.first_gap(&job) else {
            return false;
        };
        let to = match self.config.has_arm {
            true => self.cut_for_arm(run, from, to, job.to),
            false => to,
        };
        job.from = from;
        let wanted = (to - from) as usize;
        let available = self.memory.available();
        let needed = if job.demanded {
            job.pieces_needed.max(1)
        } else {
            0
        };
        let count = wanted.min(available.max(needed as usize));
        if count == 0 || (!job.demanded && count < wanted.div_ceil(4)) {
            self.give_up(&job);
            self.demand_again(job.stream, job.from, job.to);
            return false;
        }
        let slots = self.take_memory(&job, from, count);
        let count = slots.len();
        if count == 0 {
            self.give_up(&job);
            self.demand_again(job.stream, job.from, job.to);
            return false;
        }
        let rest = Job {
            from: from + count as u32,
            ..job
        };
        if count < wanted {
            self.give_up(&rest);
        } else if rest.from < rest.to {
            self.runs.go_on(run, rest);
        }
        self.send_read(run, &job, slots);
        if count < wanted {
            self.demand_again(rest.stream, rest.from, rest.to);
        }
        true
    }

    /// End of the next read of a run at a device with an arm: a lead at first if the device still
    /// works on another run, and a separate tail at the end ([`crate::lanes`]). Cuts are aligned to
    /// the kernel's request size, so that the drive gets no more requests than for one long read.
    fn cut_for_arm(&self, run: RunId, from: u32, to: u32, end: u32) -> u32 {
        let piece_bytes = self.config.piece_bytes;
        let pieces = |bytes: u64| {
            u32::try_from(bytes / piece_bytes)
                .unwrap_or(u32::MAX)
                .max(1)
        };
        let request = pieces(self.config.request_bytes_max.min(LEAD_BYTES_MAX));
        if !self.runs.has_lane(run) {
            return to.min(from.saturating_add(request));
        }
        let (length, tail) = (to - from, pieces(self.tail.bytes()));
        let body = length.saturating_sub(tail) / request * request;
        match to == end && body > 0 {
            true => from + body,
            false => to,
        }
    }

    /// The first consecutive missing pieces of a job in one file.
    fn first_gap(&self, job: &Job) -> Option<(u32, u32)> {
        let layout = &self.streams.get(job.stream)?.layout;
        let is_missing = |piece: &u32| self.memory.find((job.stream, *piece)).is_none();
        let from = (job.from..job.to).find(is_missing)?;
        let part = layout.place(from).part;
        let pieces_max = (self.config.read_bytes_max / self.config.piece_bytes).max(1) as u32;
        let end = job.to.min(from.saturating_add(pieces_max));
        let ends = |piece: &u32| !is_missing(piece) || layout.place(*piece).part != part;
        let to = (from + 1..end).find(ends).unwrap_or(end);
        Some((from, to))
    }

    /// Takes memory for `count` pieces from `from` on; fewer if not even live chains can yield any.
    pub(super) fn take_memory(&mut self, job: &Job, from: u32, count: usize) -> Vec<Slot> {
        self.ask_again_who_wants();
        let mut slots = Vec::with_capacity(count);
        for piece in from..from + count as u32 {
            let key = (job.stream, piece);
            let (slot, evicted) = match self.memory.take(self.now, key) {
                Some(taken) => taken,
                None => {
                    let Some(victim) = self.victim(job) else {
                        break;
                    };
                    (victim, Some(self.memory.take_unread(self.now, victim, key)))
                }
            };
            if let Some(evicted) = evicted {
                self.offer_to_flash(&evicted, slot);
                self.count_dropped(&evicted);
            }
            slots.push(slot);
        }
        slots
    }

    /// The unread piece that will be needed last: the furthest piece of the chain with the most
    /// time left.
    fn victim(&self, job: &Job) -> Option<Slot> {
        let mut latest: Option<(Instant, Reverse<ChainId>, Slot)> = None;
        for (id, chain) in self.chains.iter() {
            let Some(stream) = self.streams.get(chain.stream) else {
                continue;
            };
            let idle = |piece: u32| {
                let slot = self.memory.find((chain.stream, piece))?;
                let is_wanted = chain.stream == job.stream && (job.from..job.to).contains(&piece);
                (!is_wanted && self.memory.can_take_unread(slot, id)).then_some((piece, slot))
            };
            let Some((piece, slot)) = chain.unread.iter().rev().find_map(idle) else {
                continue;
            };
            let ahead = stream
                .layout
                .logical_of_piece(piece)
                .saturating_sub(chain.position);
            let needed_at = self.now + self.pace(chain).time_for(ahead);
            let of = Reverse(id);
            if latest.is_none_or(|(at, before, _)| (needed_at, of) > (at, before)) {
                latest = Some((needed_at, of, slot));
            }
        }
        latest.map(|(_, _, slot)| slot)
    }

    fn send_read(&mut self, run: RunId, job: &Job, slots: Vec<Slot>) {
        let Some(stream) = self.streams.get(job.stream) else {
            return;
        };
        let last_piece = job.from + slots.len() as u32 - 1;
        let (first, last) = (
            stream.layout.place(job.from),
            stream.layout.place(last_piece),
        );
        let length = last.offset + last.length - first.offset;
        let (start, end) = (first.logical, last.logical + last.length);
        // The device stays at a run that continues, whatever else was issued meanwhile.
        let run_end = self.runs.end_of(run);
        let head = run_end.unwrap_or(self.runs.head());
        let place = stream.layout.physical(first.part, first.offset);
        let physical = place.unwrap_or(head);
        let physical_end = stream
            .layout
            .physical(last.part, last.offset)
            .map_or(physical, |at| at + last.length);
        let is_elsewhere = !(head..=head.saturating_add(PASSED_BYTES)).contains(&physical);
        let distance = physical.abs_diff(head);
        self.stats.seek_bytes = self.stats.seek_bytes.wrapping_add(distance);
        self.stats.seeks += u64::from(is_elsewhere);
        let goes_on = run_end == Some(physical) && place.is_some();
        self.stats.reads += u64::from(!goes_on);
        self.stats.bytes_read += length;
        if let Some(chain) = self.chains.get_mut(job.chain) {
            chain.prefetched_bytes += length;
            let again = chain.read_once_end.min(end).saturating_sub(start);
            chain.read_once_end = chain.read_once_end.max(end);
            self.control.record_again(again);
        }
        self.mark_issued(job.stream, job.from, last_piece);
        let read = OutstandingRead {
            run,
            stream: job.stream,
            first_piece: job.from,
            slots: slots.clone(),
            bytes: length,
            issued_at: self.now,
            is_elsewhere,
            goes_on,
            abandoned: false,
            overtaken: 0,
        };
        self.commands.push_back(Command::Read(ReadCommand {
            id: self.runs.issue(read, physical_end),
            stream: job.stream,
            part: first.part,
            offset: first.offset,
            length,
            slots,
        }));
    }

    fn mark_issued(&mut self, stream: StreamId, first: u32, last: u32) {
        let waited = self.replies.waited((stream, first)..=(stream, last));
        let waiters: Vec<RequestId> = waited.flat_map(|(_, ids)| ids).copied().collect();
        for id in waiters {
            self.replies.set_issued(id, self.now);
        }
    }
}
