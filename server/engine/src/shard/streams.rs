//! Registration, change and removal of streams.

use alloc::vec::Vec;

use headlong_units::{BitRate, Instant};

use super::state::Shard;
use crate::command::{Command, Failure, Refusal};
use crate::ids::{ChainId, JobId, RequestId, Slot, StreamId};
use crate::layout::Layout;
use crate::memory::EvictedPiece;
use crate::stream::{Extent, PartSpec, StreamSpec};
use crate::unread_pieces::UnreadPieces;

impl Shard {
    /// Registers a stream, so that requests may refer to it. A registered one is unchanged.
    ///
    /// # Errors
    /// [`Refusal::Full`] if the table is full of streams in use, [`Refusal::OutOfBounds`] if the
    /// stream has no parts or more pieces than can be numbered.
    pub fn handle_stream(&mut self, now: Instant, spec: StreamSpec) -> Result<(), Refusal> {
        self.begin(now);
        if self.streams.contains(spec.id) {
            return Ok(());
        }
        if spec.parts.is_empty() {
            return Err(Refusal::OutOfBounds);
        }
        if self.streams.len() >= self.config.streams_max {
            let unused = self.streams.longest_unused();
            self.drop_stream(unused.ok_or(Refusal::Full)?);
        }
        let layout =
            Layout::new(spec.parts, self.config.piece_bytes).ok_or(Refusal::OutOfBounds)?;
        self.streams.add(self.now, spec.id, layout, spec.bit_rate);
        self.finish();
        Ok(())
    }

    /// The bit rate of a stream became known or more accurate.
    pub fn handle_bit_rate(&mut self, now: Instant, stream: StreamId, rate: BitRate) {
        self.begin(now);
        self.streams.set_bit_rate(stream, rate);
        self.finish();
    }

    /// One part of a stream appeared or was removed, while the others are unchanged: updates its
    /// location; it is read ahead of need only while it is present. Its bytes are the same as
    /// before.
    pub fn handle_part(&mut self, now: Instant, stream: StreamId, part: u32, spec: PartSpec) {
        self.begin(now);
        self.streams.set_part(stream, part, spec);
        self.finish();
    }

    /// The file system reported where a part lies, or that it lies elsewhere than assumed: jobs of
    /// the stream move to their places in the queue, and its reads in flight end there.
    pub fn handle_location(
        &mut self,
        now: Instant,
        stream: StreamId,
        part: u32,
        extents: Vec<Extent>,
    ) {
        self.begin(now);
        if let Some(layout) = self.streams.set_extents(stream, part, extents) {
            self.runs
                .relocate(stream, |piece| layout.physical_end_of_piece(piece));
            self.queue
                .relocate(stream, |piece| layout.physical_of_piece(piece).unwrap_or(0));
        }
        self.finish();
    }

    /// More parts of a stream became known: they follow the last one. So only few files of a large
    /// title must be examined before the first is read.
    ///
    /// # Errors
    /// [`Refusal::OutOfBounds`] if there is no such stream, or it would have more pieces than can
    /// be numbered: the parts before that are appended.
    pub fn handle_more_parts(
        &mut self,
        now: Instant,
        stream: StreamId,
        parts: Vec<PartSpec>,
    ) -> Result<(), Refusal> {
        self.begin(now);
        let is_whole = self.streams.append(stream, parts);
        self.finish();
        is_whole.then_some(()).ok_or(Refusal::OutOfBounds)
    }

    /// The stream's files changed or were removed: its pieces are dropped, and its requests fail
    /// with [`Failure::Changed`]. Slots being sent stay valid until they are returned.
    pub fn handle_stream_removed(&mut self, now: Instant, stream: StreamId) {
        self.begin(now);
        self.forget_on_flash(stream, None);
        self.remove_stream(stream);
        self.finish();
    }

    /// The same for a stream whose files now belong to another stream: their records on flash stay
    /// valid. Records of other files age out.
    pub fn handle_stream_regrouped(&mut self, now: Instant, stream: StreamId) {
        self.begin(now);
        self.remove_stream(stream);
        self.finish();
    }

    /// The content of a slot was lost, because its memory can be reclaimed (the kernel's page
    /// cache): the piece is read again when it is requested. Has no effect on a slot that is being
    /// read into or sent.
    pub fn handle_lost(&mut self, now: Instant, slot: Slot) {
        self.begin(now);
        self.break_rests(slot);
        if let Some(lost) = self.memory.lose(self.now, slot) {
            self.count_dropped(&lost);
        }
        self.finish();
    }

    pub(super) fn remove_stream(&mut self, stream: StreamId) {
        if !self.streams.contains(stream) {
            return;
        }
        let chains = self.chains.of_stream(stream);
        let active = chains.iter().filter_map(|id| self.chains.get(*id));
        let mut requests: Vec<RequestId> = active.flat_map(|c| &c.active).copied().collect();
        requests.sort_unstable();
        for request in requests {
            self.fail_request(request, Failure::Changed);
        }
        for chain in chains {
            self.end_chain(chain);
        }
        self.drop_stream(stream);
    }

    fn drop_stream(&mut self, stream: StreamId) {
        for job in self.queue.drain_stream(stream) {
            self.unlink_job(&job);
        }
        for run in self.runs.forget_stream(stream) {
            self.close_run_if_over(run);
        }
        for dropped in self.memory.drop_stream(self.now, stream) {
            self.count_dropped(&dropped);
        }
        self.streams.remove(stream);
        self.commands.push_back(Command::Forget(stream));
    }

    /// Ends a chain: its unread pieces lose their owner.
    pub(super) fn end_chain(&mut self, id: ChainId) {
        let Some(chain) = self.chains.end(id) else {
            return;
        };
        // Announced requests that never arrived say nothing about real chains.
        if !chain.is_expected() {
            self.remember_chain(&chain);
        }
        self.streams.end_chain(self.now, chain.stream);
        self.let_go(chain.stream, id, &chain.unread, chain.job);
    }

    /// Releases the unread pieces of a chain, and stops reading ahead for it; its position is still
    /// tracked.
    pub(super) fn empty_chain(&mut self, id: ChainId) {
        let Some(chain) = self.chains.get_mut(id) else {
            return;
        };
        let unread = core::mem::take(&mut chain.unread);
        chain.fetched_end = chain.position;
        let (stream, job) = (chain.stream, chain.job);
        if self.let_go(stream, id, &unread, job)
            && let Some(chain) = self.chains.get_mut(id)
        {
            chain.job = None;
        }
    }

    /// Releases the pieces and the ahead job of a chain. Returns whether the job was removed.
    fn let_go(
        &mut self,
        stream: StreamId,
        id: ChainId,
        unread: &UnreadPieces,
        job: Option<JobId>,
    ) -> bool {
        let job = job.filter(|job| self.queue.job(*job).is_some_and(|job| !job.demanded));
        if let Some(job) = job {
            self.queue.remove(job);
        }
        for piece in unread.iter() {
            let key = (stream, piece);
            if let Some(slot) = self.memory.find(key)
                && self.memory.owner(slot) == Some(id)
            {
                let wanted_at = self.wanted_at(key);
                self.memory.disown(slot, wanted_at);
            }
        }
        job.is_some()
    }

    /// Counts a piece that left memory, and updates the chain that owned it.
    pub(super) fn count_dropped(&mut self, dropped: &EvictedPiece) {
        let Some(stream) = self.streams.get(dropped.key.0) else {
            return;
        };
        let bytes = stream.layout.place(dropped.key.1).length;
        let logical = stream.layout.logical_of_piece(dropped.key.1);
        let Some(owner) = dropped.owner else {
            if dropped.was_read {
                self.stats.cache_evicted_bytes += bytes;
            } else {
                self.stats.wasted_bytes += bytes;
            }
            return;
        };
        self.stats.prefetch_evictions += 1;
        self.stats.prefetch_evicted_bytes += bytes;
        self.stats.prefetch_eviction_time += dropped.age;
        if let Some(chain) = self.chains.get_mut(owner) {
            chain.unread.remove(dropped.key.1);
            chain.fetched_end = chain.fetched_end.min(logical);
        }
    }
}
