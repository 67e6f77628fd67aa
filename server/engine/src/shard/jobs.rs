//! Planning: turns a piece that is missing, or will soon be, into a job with a size and a deadline.
//!
//! There are two kinds of job. A *demanded* one exists because a reply waits. An *ahead* one is
//! queued when a chain's remaining bytes last no longer than the horizon, or no longer than its
//! next request, and the device has little else to do: it delays no reply, and bytes that departed
//! viewers never read cost nothing. With many jobs waiting, reading ahead of need would delay the
//! replies that wait.

use headlong_units::{BitRate, Duration, Instant};

use super::state::Shard;
use crate::chain::Chain;
use crate::command::Failure;
use crate::health::DeviceState;
use crate::ids::{ChainId, JobId, RequestId, StreamId};
use crate::memory::PieceKey;
use crate::queue::Job;
use crate::sizing;

/// A player's buffer lets a job wait, but the player's own timeout is unknown: at most this many
/// times the usual patience.
const PATIENCE_STRETCH: u64 = 4;

/// With this many jobs waiting no further one is queued ahead of need. A busy device has as many
/// from waiting replies, and sweeps over them. In virtual time one to eight make no difference to
/// the throughput of a busy device, and all sustain more than no limit does
/// (docs/history/2026-11-23-short-sweeps.md).
const JOBS_AHEAD_MAX: usize = 4;

/// For a waiting viewer, at most this many unread bytes are taken from others: a chunk of the usual
/// size, and no more than a seek is worth.
const NEEDED_BYTES_MAX: u64 = 2 << 20;
/// At most this fraction of memory: with more, a waiting viewer would evict its own recent pieces.
const MEMORY_FOR_NEEDED: u64 = 8;

impl Shard {
    /// A reply waits for a piece: queues a job for it, unless one covers it already.
    pub(super) fn demand(&mut self, id: RequestId, piece: u32) {
        let Some(request) = self.replies.get(id) else {
            return;
        };
        let (stream, chain_id) = (request.stream, request.chain);
        let Some(chain) = self.chains.get(chain_id) else {
            return;
        };
        let deadline = self.demand_deadline(chain);
        if let Some(job) = self.queue.covering(stream, piece) {
            let (_, _, grace) = self.config.queueing();
            let lost_before = Instant(self.now.0.saturating_sub(grace.0));
            self.queue.update(job, |job| {
                job.demanded = true;
                // A lost job was for a viewer that has left; this request has just arrived.
                job.deadline = match job.deadline < lost_before {
                    true => deadline,
                    false => job.deadline.min(deadline),
                };
            });
            return;
        }
        if self.runs.will_bring((stream, piece)) {
            return;
        }
        let (startup, can_wait) = (is_starting(chain), self.is_far_ahead(chain));
        // The length of an open-ended request is unknown.
        let asked_bytes = if request.open_ended {
            0
        } else {
            request.end - request.next
        };
        let wanted_bytes = self.prefetch_bytes(chain, asked_bytes);
        let needed_bytes = asked_bytes.min(self.needed_bytes_max());
        let sizes = (wanted_bytes, needed_bytes);
        let job = self.plan(chain_id, stream, piece, sizes, deadline);
        let pieces_needed = needed_bytes.div_ceil(self.config.piece_bytes).max(1) as u32;
        if let Some(job) = job {
            self.push_job(Job {
                demanded: true,
                startup,
                can_wait,
                pieces_needed,
                ..job
            });
        }
    }

    /// Queues a chain's next job if its remaining bytes are about to run out.
    pub(super) fn consider_ahead(&mut self, id: ChainId) {
        let Some(chain) = self.chains.get(id) else {
            return;
        };
        if chain.job.is_some() || chain.careful > 0 || !self.reads_ahead_now() {
            return;
        }
        if self.asks_elsewhere_next(chain) {
            return;
        }
        let Some(stream) = self.streams.get(chain.stream) else {
            return;
        };
        let end = stream.layout.size_bytes();
        if chain.fetched_end >= end {
            return;
        }
        if self.device_state() == DeviceState::Offline {
            return;
        }
        let pace = self.pace(chain);
        let ahead_bytes = self.ahead_bytes(pace);
        let left = chain.fetched_end.saturating_sub(chain.position);
        // Most pieces are handed out in the middle of a prefetch; this is enough for any size.
        if left > ahead_bytes.max(chain.next_request_bytes()) {
            return;
        }
        let wanted_bytes = self.prefetch_bytes(chain, 0);
        let size_bytes = self.cut_to_memory(wanted_bytes);
        // At most half of a prefetch, so that a chain holds one on average and not two. The next
        // request, whatever its size, must not miss.
        let enough = ahead_bytes
            .min(size_bytes / 2)
            .max(chain.next_request_bytes())
            .min(size_bytes);
        if left > enough {
            return;
        }
        let (spare, can_wait) = (self.spare_patience(chain), self.is_far_ahead(chain));
        let (stream_id, position) = (chain.stream, chain.position);
        let reached = self.claim_present(id, enough);
        let left = reached.saturating_sub(position);
        if left > enough || reached >= end {
            return;
        }
        let deadline = self.now + pace.time_for(left) + spare;
        let Some(stream) = self.streams.get(stream_id) else {
            return;
        };
        let from = stream.layout.piece_at_logical(reached);
        // Bytes of an absent part cannot be read from this device.
        if stream.layout.present_until(from, from + 1) == from {
            return;
        }
        if let Some(job) = self.plan(id, stream_id, from, (wanted_bytes, 0), deadline) {
            self.push_job(Job { can_wait, ..job });
        }
    }

    /// Whether the device has so little to do that it may read ahead of need.
    pub(super) fn reads_ahead_now(&self) -> bool {
        self.config.reads_ahead() && self.queue.len() < JOBS_AHEAD_MAX
    }

    /// Claims pieces after the end of a chain's own prefetches that are in memory, being read for
    /// another chain, or on flash, until the chain has more than `enough` ahead of it. Returns the
    /// offset up to which its bytes are available.
    pub(super) fn claim_present(&mut self, id: ChainId, enough: u64) -> u64 {
        let Some(chain) = self.chains.get(id) else {
            return 0;
        };
        let stream_id = chain.stream;
        let Some(stream) = self.streams.get(stream_id) else {
            return 0;
        };
        let layout = &stream.layout;
        let limit = chain.position.saturating_add(enough);
        let mut reached = chain.fetched_end.max(chain.position);
        let mut piece = layout.piece_at_logical(reached);
        let mut claimed = alloc::vec::Vec::new();
        while reached <= limit && piece < layout.piece_count() {
            let slot = self.memory.find((stream_id, piece));
            let is_coming = slot.is_some() || self.queue.covering(stream_id, piece).is_some();
            if !is_coming && !self.is_on_flash((stream_id, piece)) {
                break;
            }
            claimed.extend(slot.map(|slot| (piece, slot)));
            piece += 1;
            reached = layout.logical_of_piece(piece);
        }
        let Some(chain) = self.chains.get_mut(id) else {
            return reached;
        };
        chain.fetched_end = chain.fetched_end.max(reached);
        for (piece, slot) in claimed {
            self.memory.own(slot, id);
            if self.memory.owner(slot) == Some(id) {
                chain.unread.insert(piece);
            }
        }
        reached
    }

    /// Plans a job of `wanted_bytes` from a piece on, reduced to the chain's fair share of memory,
    /// but not below the bytes that a reply waits for, and to the end of the stream.
    pub(super) fn plan(
        &self,
        chain: ChainId,
        stream_id: StreamId,
        from: u32,
        (wanted_bytes, needed_bytes): (u64, u64),
        deadline: Instant,
    ) -> Option<Job> {
        let layout = &self.streams.get(stream_id)?.layout;
        let start = layout.logical_of_piece(from);
        let needed = needed_bytes.min(wanted_bytes);
        let cut = self.cut_to_memory(wanted_bytes).max(needed).max(1);
        let last = start.saturating_add(cut - 1).min(layout.size_bytes() - 1);
        let end = layout.present_until(from, layout.piece_at_logical(last) + 1);
        let end = end.max(from + 1);
        Some(Job {
            chain,
            stream: stream_id,
            from,
            to: self.end_before_flash(stream_id, from, end),
            deadline,
            demanded: false,
            startup: false,
            can_wait: false,
            pieces_needed: 0,
            wanted_bytes: wanted_bytes.min(layout.size_bytes() - start),
            physical: layout.physical_of_piece(from).unwrap_or(0),
        })
    }

    pub(super) fn push_job(&mut self, job: Job) {
        let id = self.queue.push(job);
        let end = match self.streams.get(job.stream) {
            Some(stream) => stream.layout.logical_of_piece(job.to),
            None => return,
        };
        if let Some(chain) = self.chains.get_mut(job.chain) {
            chain.job = Some(id);
            chain.fetched_end = end;
        }
    }

    /// A job left the queue: its chain may queue another.
    pub(super) fn unlink_job(&mut self, job: &Job) {
        if let Some(chain) = self.chains.get_mut(job.chain) {
            chain.job = None;
        }
    }

    /// Undoes the plan of a job that will not be done: resets the fetched range of its chain.
    pub(super) fn give_up(&mut self, job: &Job) {
        let from = self
            .streams
            .get(job.stream)
            .map(|s| s.layout.logical_of_piece(job.from));
        if let (Some(from), Some(chain)) = (from, self.chains.get_mut(job.chain)) {
            chain.fetched_end = chain.fetched_end.min(from);
        }
    }

    /// A reply that waited for a piece has ended. A queued job without another waiting reply is
    /// removed, unless its chain still has a running reply: then it becomes an ahead job.
    pub(super) fn withdraw_demand(&mut self, (stream, piece): PieceKey) {
        let Some(id) = self.queue.covering(stream, piece) else {
            return;
        };
        let Some(job) = self.queue.job(id).copied().filter(|job| job.demanded) else {
            return;
        };
        let pieces = (stream, job.from)..(stream, job.to);
        let is_waited_for = self.replies.waited(pieces).next().is_some();
        if is_waited_for {
            return;
        }
        let is_read = |chain: &Chain| {
            let mut replies = chain.active.iter().filter_map(|id| self.replies.get(*id));
            replies.any(|reply| !reply.has_ended())
        };
        if self.chains.get(job.chain).is_some_and(is_read) {
            self.queue.update(id, |job| job.demanded = false);
            return;
        }
        self.queue.remove(id);
        if self.is_job_of(job.chain, id) {
            self.unlink_job(&job);
        }
        self.give_up(&job);
    }

    /// Queues a job for every piece in `from..to` that a reply waits for and no read or job covers.
    pub(super) fn demand_again(&mut self, stream: StreamId, from: u32, to: u32) {
        let range = (stream, from)..(stream, to.max(from));
        let orphans: alloc::vec::Vec<(u32, RequestId)> = self
            .replies
            .waited(range)
            .filter(|(key, _)| self.memory.find(*key).is_none())
            .filter_map(|(key, waiters)| Some((key.1, *waiters.first()?)))
            .collect();
        let is_offline = self.device_state() == DeviceState::Offline;
        for (piece, request) in orphans {
            match is_offline {
                true => self.fail_waiters((stream, piece), Failure::Offline),
                false => self.demand(request, piece),
            }
        }
    }

    /// The size by the rule for a chain; one piece for a careful chain.
    pub(super) fn prefetch_bytes(&self, chain: &Chain, asked_bytes: u64) -> u64 {
        if chain.careful > 0 {
            return self.config.piece_bytes;
        }
        if self.asks_elsewhere_next(chain) {
            return asked_bytes.max(self.config.piece_bytes);
        }
        let (sizing, shape) = (self.control.sizing(), chain.shape());
        let rate = self.bit_rate(chain).or(self.control.bit_rate_mean());
        sizing::prefetch_bytes(sizing, shape, asked_bytes, rate)
    }

    /// Whether reading ahead for a viewer is wasted: its next request goes to another process.
    fn asks_elsewhere_next(&self, chain: &Chain) -> bool {
        self.is_replaced && !chain.open_ended
    }

    /// Bytes that a viewer at this pace reads within the horizon.
    fn ahead_bytes(&self, pace: BitRate) -> u64 {
        pace.bytes_in(self.config.ahead_horizon)
    }

    /// Reduces a prefetch to memory: by the controller, or to the chain's even share.
    fn cut_to_memory(&self, wanted_bytes: u64) -> u64 {
        let budget = self.memory.slot_count() as u64 * self.config.piece_bytes;
        match self.control.cut(wanted_bytes, self.reader_count()) {
            Some(cut) => cut.max(self.config.piece_bytes).min(budget / 2),
            None => sizing::fair_share_bytes(&self.config, budget, self.reader_count()),
        }
        .min(wanted_bytes)
    }

    fn needed_bytes_max(&self) -> u64 {
        let budget = self.memory.slot_count() as u64 * self.config.piece_bytes;
        NEEDED_BYTES_MAX.min(budget / MEMORY_FOR_NEEDED)
    }

    /// Number of chains with a reader.
    pub(super) fn reader_count(&self) -> u64 {
        self.chains.reader_count() as u64
    }

    /// Bit rate by the player as far as it is trusted, by the manifest, or by the long-run pace of
    /// the viewer.
    pub(super) fn bit_rate(&self, chain: &Chain) -> Option<BitRate> {
        let known = self.streams.bit_rate(chain.stream);
        let said = chain.believed_bit_rate(known, self.config.pace_default);
        said.or(known).or_else(|| chain.pace.long_run(self.now))
    }

    pub(super) fn pace(&self, chain: &Chain) -> BitRate {
        let known = self.streams.bit_rate(chain.stream);
        chain.pace(self.now, known, self.config.pace_default)
    }

    fn demand_deadline(&self, chain: &Chain) -> Instant {
        let said = chain.hints.deadline.filter(|_| chain.hinted_at == self.now);
        if let Some(deadline) = said {
            // No deadline is tighter than that of a viewer with an empty buffer.
            self.now + deadline.max(self.config.startup_patience)
        } else if is_starting(chain) {
            self.now + self.config.startup_patience
        } else {
            self.now + self.config.patience.max(self.spare_patience(chain))
        }
    }

    /// Half of the player's buffer, within bounds. A viewer far ahead of its playback has the upper
    /// bound, whatever it reports.
    fn spare_patience(&self, chain: &Chain) -> Duration {
        let most = self.config.patience.times(PATIENCE_STRETCH);
        match self.is_far_ahead(chain) {
            true => most,
            false => Duration(chain.buffer(self.now).0 / 2).min(most),
        }
    }

    /// Whether a reader downloads instead of watching. It takes any number of bytes at once, so
    /// that each of its jobs is late; that is no sign of overload, and its jobs can wait for
    /// others.
    fn is_far_ahead(&self, chain: &Chain) -> bool {
        let known = self.streams.bit_rate(chain.stream);
        let known = chain
            .believed_bit_rate(known, self.config.pace_default)
            .or(known);
        chain.is_far_ahead(self.now, known, self.config.pace_default)
    }

    /// Whether this is a chain's job.
    pub(super) fn is_job_of(&self, chain: ChainId, job: JobId) -> bool {
        self.chains
            .get(chain)
            .is_some_and(|chain| chain.job == Some(job))
    }
}

/// Whether the viewer has an empty buffer: the player reports so, or it reports no buffer and no
/// bytes were read for it yet.
fn is_starting(chain: &Chain) -> bool {
    chain.hints.startup || (chain.prefetched_bytes == 0 && chain.hints.buffer.is_none())
}
