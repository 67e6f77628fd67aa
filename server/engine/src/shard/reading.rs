//! The device's turn: a job becomes a run of reads, and a read that ended becomes pieces.
//!
//! A run is what one job, with the jobs that merged into it, makes the device do: one read, or
//! several if it goes on in the next chunk file or past pieces that are there already. The parts
//! of a run follow one another without other jobs in between. Memory is taken here, before the
//! read: what cannot be had without taking another live chain's unread pieces is not read ahead,
//! and a reply that waits takes one such piece, which is counted.

use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_units::{Instant, KIB};

use super::state::Shard;
use crate::chain::Chain;
use crate::command::{Command, Failure, ReadCommand, ReadOutcome};
use crate::health::{DeviceState, Region};
use crate::ids::{ChainId, ReadId, RequestId, Slot, StreamId};
use crate::memory::PieceKey;
use crate::opening::Opening;
use crate::queue::Job;
use crate::runs::{Claim, OutstandingRead, RunId};

/// After an error, a chain whose next so many reads succeed, of a piece each, is prefetched for as
/// ever: a mebibyte of the usual pieces, more than what one bad spot spoils.
const CAREFUL_READS: u8 = 16;

/// A gap that the device passes rather than goes round: a file's last block is seldom full, so the next
/// file does not begin where its bytes end. To pass as much takes a millisecond on the slowest disk.
const PASSED_BYTES: u64 = 64 * KIB;

impl Shard {
    /// The lead of a read's [`Opening`] has come: the device is at the read, and the run that it
    /// belongs to goes on in the next file. Who cannot tell need not.
    pub fn handle_read_begun(&mut self, now: Instant, id: ReadId) {
        self.begin(now);
        self.runs.begun(id);
        self.finish();
    }

    /// A read ended. Slots of a failed one may hold anything.
    pub fn handle_read_done(&mut self, now: Instant, id: ReadId, outcome: ReadOutcome) {
        self.begin(now);
        if let Some((read, took)) = self.runs.done(self.now, id) {
            self.stats.reads_done += 1;
            self.load.record_service(took);
            match outcome {
                ReadOutcome::Done => self.measure_run(read.run),
                _ => self.runs.failed(read.run),
            }
            match outcome {
                _ if !self.streams.contains(read.stream) => self.discard(&read),
                ReadOutcome::Done => self.read_done(&read),
                ReadOutcome::Changed => self.read_of_another_version(&read),
                ReadOutcome::Error => self.read_failed(&read),
                ReadOutcome::NoResources => self.read_not_tried(&read),
            }
            self.close_run_if_over(read.run);
        }
        self.finish();
    }

    fn read_done(&mut self, read: &OutstandingRead) {
        self.health.record_success();
        self.trust_again(read);
        for (index, slot) in read.slots.iter().enumerate() {
            let key = (read.stream, read.first_piece + index as u32);
            let owner = self.claimant(read, key);
            self.memory.filled(self.now, *slot, owner);
            if let Some(chain) = owner.and_then(|owner| self.chains.get_mut(owner)) {
                chain.unread.insert(key.1);
            }
            self.wake_waiters(key, *slot);
        }
    }

    /// Chains that are careful and have pieces read without an error become less so.
    fn trust_again(&mut self, read: &OutstandingRead) {
        let Some(run) = self.runs.get(read.run) else {
            return;
        };
        for claim in &run.claims {
            if let Some(chain) = self.chains.get_mut(claim.chain) {
                chain.careful = chain.careful.saturating_sub(1);
            }
        }
    }

    /// The live chain that a piece was read for, if it has not passed it.
    fn claimant(&self, read: &OutstandingRead, key: PieceKey) -> Option<ChainId> {
        let layout = &self.streams.get(key.0)?.layout;
        let place = layout.place(key.1);
        let run = self.runs.get(read.run)?;
        let claims = run
            .claims
            .iter()
            .filter(|claim| (claim.from..claim.to).contains(&key.1));
        let unread = |claim: &&Claim| {
            let chain = self.chains.get(claim.chain);
            chain.is_some_and(|chain| chain.position < place.logical + place.length)
        };
        let mut claims = claims.filter(unread);
        claims.next().map(|claim| claim.chain)
    }

    fn read_failed(&mut self, read: &OutstandingRead) {
        self.discard(read);
        self.stats.read_errors += 1;
        self.record_device_error((read.stream, read.first_piece));
        if read.slots.len() == 1 {
            self.fail_waiters((read.stream, read.first_piece), Failure::Device);
        }
        // Of a longer read, what a reply waits for is tried again by itself: the bad spot may be
        // in what was only prefetched.
        for left in self.runs.take_rests_of(read.run) {
            self.be_careful(left.stream, left.from, left.to);
        }
        self.be_careful(read.stream, read.first_piece, read.end_piece());
    }

    /// A file of the stream is not the one that was asked for any more. Whoever reads it fails, and
    /// the stream goes; but not while others read its other files, for whom this was only read ahead:
    /// they would fail again each time that they come near it.
    fn read_of_another_version(&mut self, read: &OutstandingRead) {
        self.discard(read);
        let Some(layout) = self.streams.layout(read.stream) else {
            return;
        };
        let part = layout.place(read.first_piece).part;
        let chains = self.chains.of_stream(read.stream);
        let active = chains.iter().filter_map(|id| self.chains.get(*id));
        let mut requests: Vec<RequestId> = active.flat_map(|c| &c.active).copied().collect();
        requests.sort_unstable();
        let is_running = |id: &RequestId| {
            let reply = self.replies.get(*id);
            reply.is_some_and(|reply| reply.next < reply.end && reply.part != part)
        };
        if !requests.iter().any(is_running) {
            self.forget_on_flash(read.stream, Some(part));
            return self.remove_stream(read.stream);
        }
        let of_part = |id: &RequestId| self.replies.get(*id).is_some_and(|of| of.part == part);
        let of_part: Vec<RequestId> = requests.into_iter().filter(of_part).collect();
        for id in of_part {
            self.fail_request(id, Failure::Changed);
        }
        let rests = self.runs.take_rests_of(read.run);
        let ends = rests.iter().map(|job| job.to);
        let (from, to) = (read.first_piece, ends.fold(read.end_piece(), u32::max));
        self.give_up_pieces(read.stream, from, to, |_| ());
        self.demand_again(read.stream, from, to);
    }

    /// Who waits is told at once: to try again at once would only need the same once more.
    fn read_not_tried(&mut self, read: &OutstandingRead) {
        self.discard(read);
        let rests = self.runs.take_rests_of(read.run);
        let ends = rests.iter().map(|job| job.to);
        let (from, to) = (read.first_piece, ends.fold(read.end_piece(), u32::max));
        self.give_up_pieces(read.stream, from, to, |_| ());
        let waiting = self.replies.waited((read.stream, from)..(read.stream, to));
        let is_missing = |(stream, piece): &PieceKey| {
            self.memory.find((*stream, *piece)).is_none()
                && self.queue.covering(*stream, *piece).is_none()
        };
        let keys: Vec<PieceKey> = waiting.map(|(key, _)| key).filter(is_missing).collect();
        for key in keys {
            self.fail_waiters(key, Failure::NoResources);
        }
    }

    fn be_careful(&mut self, stream: StreamId, from: u32, to: u32) {
        self.give_up_pieces(stream, from, to, |chain| chain.careful = CAREFUL_READS);
        self.demand_again(stream, from, to);
    }

    /// These pieces will not come: chains that counted on them have what they had before.
    fn give_up_pieces(&mut self, id: StreamId, from: u32, to: u32, note: impl Fn(&mut Chain)) {
        let Some(layout) = self.streams.layout(id) else {
            return;
        };
        let (start, end) = (layout.logical_of_piece(from), layout.logical_of_piece(to));
        for chain in self.chains.of_stream(id) {
            if let Some(chain) = self.chains.get_mut(chain)
                && chain.fetched_end > start
                && chain.position < end
            {
                note(chain);
                chain.fetched_end = chain.fetched_end.min(start.max(chain.position));
            }
        }
    }

    fn record_device_error(&mut self, place: PieceKey) {
        let config = self.health_config();
        let Some(layout) = self.streams.layout(place.0) else {
            return;
        };
        let (logical, physical) = (
            layout.logical_of_piece(place.1),
            layout.physical_of_piece(place.1),
        );
        let region = Region::of(place.0, logical, physical);
        if self.health.record_error(self.now, region, config) {
            self.fail_all_waiting(Failure::Offline);
        }
    }

    /// Nothing will be read any more: everybody who waits for the device fails.
    fn fail_all_waiting(&mut self, failure: Failure) {
        for job in self.queue.drain() {
            self.unlink_job(&job);
            self.give_up(&job);
        }
        for (run, job) in self.runs.take_all_rests() {
            self.give_up(&job);
            self.close_run_if_over(run);
        }
        let waiting: Vec<PieceKey> = self.replies.waited(..).map(|(key, _)| key).collect();
        for key in waiting {
            self.fail_waiters(key, failure);
        }
    }

    fn discard(&mut self, read: &OutstandingRead) {
        for slot in &read.slots {
            self.memory.unfilled(*slot);
        }
    }

    pub(super) fn close_run_if_over(&mut self, id: RunId) {
        let Some(run) = self.runs.take_if_over(id) else {
            return;
        };
        if run.bytes == 0 {
            return;
        }
        let was_late = self.now > run.deadline;
        self.stats.jobs += 1;
        self.stats.job_bytes += run.bytes;
        self.stats.job_bytes_wanted += run.wanted_bytes;
        self.stats.jobs_late += u64::from(was_late);
        self.load.record_job(self.now, !self.queue.is_empty());
    }

    /// Gives the device work as long as it can take some.
    pub(super) fn issue_reads(&mut self) {
        while self.device_state() != DeviceState::Offline {
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
                // Every piece is being read or sent; one of them will come back.
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
        let may_choose = self.may_choose();
        let reads_max = self.reads_max();
        let has_room = may_choose || self.runs.reads_outstanding() < reads_max as usize;
        has_room.then(|| self.runs.next_rest(may_choose))?
    }

    /// Whether one more run may begin. None may while the device keeps passing over a read, which
    /// is the only way to make it turn round.
    fn has_room_for_a_run(&self) -> bool {
        let runs_max = self.reads_max();
        let under_way = match self.may_choose() {
            true => self.runs.count(),
            false => self.runs.reads_outstanding(),
        };
        if under_way >= runs_max as usize {
            return false;
        }
        let bytes: u64 = self.runs.reads().map(|read| read.bytes).sum();
        let bytes = bytes + self.runs.pieces_left() * self.config.piece_bytes;
        let is_left_behind = |read: &OutstandingRead| !read.abandoned && read.overtaken >= runs_max;
        (bytes < self.config.outstanding_bytes_max || self.runs.is_idle())
            && !self.runs.reads().any(is_left_behind)
    }

    /// Whether a drive with an arm chooses between several reads.
    fn may_choose(&self) -> bool {
        self.config.has_arm && self.reads_max() > 1
    }

    /// Reads, or runs where the drive chooses, that may be outstanding now.
    fn reads_max(&self) -> u32 {
        match self.config.has_arm && self.interleaving.is_one_at_a_time(self.now) {
            true => 1,
            false => self.config.outstanding_reads_max,
        }
    }

    fn start_run(&mut self, job: Job) {
        let has_reader = self.chains.get(job.chain).is_some();
        if !has_reader && !job.demanded {
            return;
        }
        let job = self.cut_for_others(job);
        let mut claims = alloc::vec![Claim::of(&job)];
        let job = self.merge_jobs(job, &mut claims);
        let run = self.runs.begin(&job, claims);
        if !self.issue(run, job) {
            self.close_run_if_over(run);
        }
    }

    /// Leaves out the end of a job that would make others late by more than a start may take.
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
        let asked = (u64::from(job.pieces_needed) * piece_bytes)
            .max(chain.map_or(0, Chain::next_request_bytes));
        let device = self.control.drive().ok_or(self.load.service());
        let bytes = self.depth.bytes(device, asked, time);
        let pieces = u32::try_from(bytes.div_ceil(piece_bytes)).unwrap_or(u32::MAX);
        let to = job.to.min(job.from.saturating_add(pieces.max(1)));
        if to < job.to {
            self.give_up(&Job { from: to, ..job });
            self.demand_again(job.stream, to, job.to);
        }
        Job { to, ..job }
    }

    /// Jobs of other chains that overlap this one, or go on where it ends, become part of it.
    fn merge_jobs(&mut self, mut job: Job, claims: &mut Vec<Claim>) -> Job {
        let pieces_max = (self.config.read_bytes_max / self.config.piece_bytes) as u32;
        // What others give up for a job is not within it: of one that is wider it may be nothing.
        while self.memory.available() > 0 {
            let before = job.from.checked_sub(1);
            let before = before.and_then(|piece| self.queue.covering(job.stream, piece));
            let other = before.or_else(|| self.queue.touching(job.stream, job.from, job.to));
            let Some((id, other)) = other.and_then(|id| Some((id, *self.queue.job(id)?))) else {
                return job;
            };
            let (from, to) = (job.from.min(other.from), job.to.max(other.to));
            if to - from > pieces_max {
                return job;
            }
            self.queue.remove(id);
            if self.is_job_of(other.chain, id) {
                self.unlink_job(&other);
            }
            claims.push(Claim::of(&other));
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

    /// Issues the first read of what is left of a job. Answers whether it did.
    fn issue(&mut self, run: RunId, mut job: Job) -> bool {
        let Some((from, to)) = self.first_gap(&job) else {
            return false;
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

    /// The first pieces of a job that are missing and lie one behind the other in one file.
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

    /// Memory for `count` pieces from `from` on; fewer if not even live chains have any to give.
    pub(super) fn take_memory(&mut self, job: &Job, from: u32, count: usize) -> Vec<Slot> {
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

    /// The unread piece that will be missed last: the furthest piece of the chain with the most
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
        // The device stays at a run that goes on, whatever else was issued meanwhile.
        let run_end = self.runs.end_of(run);
        let head = run_end.unwrap_or(self.runs.head());
        let place = stream.layout.physical(first.part, first.offset);
        let physical = place.unwrap_or(head);
        let physical_end = stream
            .layout
            .physical(last.part, last.offset)
            .map_or(physical, |at| at + last.length);
        let is_elsewhere = !(head..=head.saturating_add(PASSED_BYTES)).contains(&physical);
        self.stats.seek_bytes += physical.abs_diff(head);
        self.stats.seeks += u64::from(is_elsewhere);
        self.stats.reads += 1;
        self.stats.bytes_read += length;
        let request_max = self.config.request_bytes_max;
        let follows = run_end.is_some() && place.is_some() && !is_elsewhere;
        let opening = match (self.may_choose(), self.runs.goes_on(run)) {
            (false, _) => None,
            // One stream with what the device is at: nothing is gained by showing it little.
            _ if follows && self.runs.is_shown(run, length) => None,
            (true, false) => Opening::of(length, request_max),
            (true, true) => Opening::of_run(length, request_max),
        };
        if let Some(chain) = self.chains.get_mut(job.chain) {
            chain.prefetched_bytes += length;
            let again = chain.read_once_end.min(end).saturating_sub(start);
            chain.read_once_end = chain.read_once_end.max(end);
            self.control.record_again(again);
        }
        self.tell_waiters_issued(job.stream, job.from, last_piece);
        let read = OutstandingRead {
            run,
            stream: job.stream,
            first_piece: job.from,
            slots: slots.clone(),
            bytes: length,
            issued_at: self.now,
            is_elsewhere,
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
            opening,
        }));
    }

    fn tell_waiters_issued(&mut self, stream: StreamId, first: u32, last: u32) {
        let waited = self.replies.waited((stream, first)..=(stream, last));
        let waiters: Vec<RequestId> = waited.flat_map(|(_, ids)| ids).copied().collect();
        for id in waiters {
            self.replies.set_issued(id, self.now);
        }
    }

    /// Reads that take too long count as errors, and nobody waits for them any more.
    pub(super) fn abandon_late_reads(&mut self) {
        let timeout = self.config.read_timeout;
        while let Some((stream, first, end)) = self.runs.abandon_late(self.now, timeout) {
            self.stats.read_errors += 1;
            for piece in first..end {
                self.fail_waiters((stream, piece), Failure::TimedOut);
            }
            self.record_device_error((stream, first));
        }
        if self.is_hung() {
            self.fail_all_waiting(Failure::TimedOut);
        }
    }

    /// When the device will count as hung unless a read ends before.
    pub(super) fn hangs_at(&self) -> Option<Instant> {
        let hung_at = self.runs.hung_at(self.config.read_timeout);
        hung_at.filter(|at| *at > self.now)
    }

    /// Replies that have waited for too long, whatever for, are told so.
    pub(super) fn fail_late_replies(&mut self) {
        let wait_max = self.config.wait_timeout;
        while let Some(id) = self.replies.waiting_for(self.now, wait_max) {
            self.fail_request(id, Failure::TimedOut);
        }
    }

    /// Whether every outstanding read takes too long, and none has ended for as long as one may take.
    /// Not if others were held back until now for the one that it passed over: what they do is to be
    /// seen first.
    pub(super) fn is_hung(&self) -> bool {
        let hung_at = self.runs.hung_at(self.config.read_timeout);
        let is_silent = hung_at.is_some_and(|at| at <= self.now);
        is_silent && (self.queue.is_empty() || !self.has_room_for_a_run())
    }

    /// Whether a piece is being brought by a read that nobody should wait for.
    pub(super) fn is_abandoned(&self, key: PieceKey) -> bool {
        self.runs.bringing(key).is_some_and(|read| read.abandoned)
    }
}
