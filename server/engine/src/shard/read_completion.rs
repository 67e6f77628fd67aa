//! A read ends: its pieces go to the replies that wait for them; or it failed, or does not end, and
//! its waiters are failed or their pieces demanded again.
//!
//! An error belongs to a place. Bytes that were only read ahead there are abandoned, pieces that a
//! reply waits for are read once more by themselves, and the chains there are careful until reads
//! succeed again.

use alloc::vec::Vec;

use headlong_units::Instant;

use super::state::Shard;
use crate::chain::Chain;
use crate::command::{Failure, ReadOutcome};
use crate::health::ErrorRegion;
use crate::ids::{ChainId, ReadId, RequestId, StreamId};
use crate::memory::PieceKey;
use crate::runs::{OutstandingRead, RunClaim, RunId};

/// After an error, a chain is prefetched normally again when this many reads of one piece have
/// succeeded: a mebibyte of the usual pieces, more than one bad spot spoils.
const CAREFUL_READS: u8 = 16;

impl Shard {
    /// A read ended. Slots of a failed one may hold anything.
    pub fn handle_read_done(&mut self, now: Instant, id: ReadId, outcome: ReadOutcome) {
        self.begin(now);
        if let Some(read) = self.runs.done(self.now, id) {
            self.stats.reads_done += u64::from(!read.goes_on);
            let has_work = self.runs.has_rest() || !self.queue.is_empty();
            self.tail.record(self.runs.is_idle() && has_work);
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
        self.depth.record_read(self.now, read.bytes);
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

    /// Careful chains become less so with each successful read.
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
        let unread = |claim: &&RunClaim| {
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
        // Of a longer read, pieces that a reply waits for are retried by themselves: the bad spot
        // may be in the part that was only prefetched.
        for left in self.runs.take_rests_of(read.run) {
            self.be_careful(left.stream, left.from, left.to);
        }
        self.be_careful(read.stream, read.first_piece, read.end_piece());
    }

    /// A file of the stream is no longer the requested version. Its replies fail, and the stream is
    /// removed; but not while other replies read its other files and this one was only read ahead:
    /// they would fail each time they approach it.
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

    /// Waiters fail at once: an immediate retry would need the same resources.
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

    /// These pieces will not arrive: resets the fetched range of chains that counted on them.
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
        let region = ErrorRegion::of(place.0, logical, physical);
        if self.health.record_error(self.now, region, config) {
            self.fail_all_waiting(Failure::Offline);
        }
    }

    /// No read will complete: fails all replies that wait for the device.
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
        self.load.record_service(run.took);
        let was_late = self.now > run.deadline;
        self.stats.jobs += 1;
        self.stats.job_bytes += run.bytes;
        self.stats.job_bytes_wanted += run.wanted_bytes;
        self.stats.jobs_late += u64::from(was_late);
        self.load.record_job(self.now, !self.queue.is_empty());
    }

    /// Reads that take too long count as errors, and their waiters fail.
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

    /// Fails replies that have waited too long, whatever they wait for.
    pub(super) fn fail_late_replies(&mut self) {
        let wait_max = self.config.wait_timeout;
        while let Some(id) = self.replies.waiting_for(self.now, wait_max) {
            self.fail_request(id, Failure::TimedOut);
        }
    }

    /// Whether every outstanding read takes too long, and none has ended for as long as one may
    /// take. Not if jobs were held back until now because of an overtaken read: their reads must be
    /// tried first.
    pub(super) fn is_hung(&self) -> bool {
        let hung_at = self.runs.hung_at(self.config.read_timeout);
        let is_silent = hung_at.is_some_and(|at| at <= self.now);
        is_silent && (self.queue.is_empty() || !self.has_room_for_a_run())
    }

    /// Whether a piece is being read by an abandoned read.
    pub(super) fn is_abandoned(&self, key: PieceKey) -> bool {
        self.runs
            .read_containing(key)
            .is_some_and(|read| read.abandoned)
    }
}
