//! Requests join chains, replies get their pieces in order, and slots come back.

use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration, Instant};

use super::state::Shard;
use crate::chain::MayBegin;
use crate::command::{Event, Failure, Refusal};
use crate::config::Admission;
use crate::health::DeviceState;
use crate::ids::{ChainId, RequestId, Slot, StreamId};
use crate::joining::Between;
use crate::layout::Layout;
use crate::memory::PieceKey;
use crate::replies::{Reply, Waiting};
use crate::request::{Hints, Request};

/// Streams of more pieces are not looked through for one request: 128 MiB of the usual pieces.
const PIECES_LOOKED_AT_MAX: u32 = 2048;

/// What of a stream is in memory without a gap. Offsets are logical: bytes from the stream's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInMemory {
    /// Where each of its parts begins.
    pub part_starts: Vec<u64>,
    /// Bytes in all of them.
    pub stream_bytes: u64,
    /// What is there.
    pub range: ByteRange,
}

/// Where a reply's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// They were in memory.
    Ram,
    /// They were read from flash for this.
    Flash,
    /// The reply had to wait for the device.
    Disk,
}

impl Shard {
    /// A viewer wants bytes. If they are taken on, they come as [`Event::Ready`], in order.
    ///
    /// # Errors
    /// Why the request is not taken on; nothing more will be said of it.
    pub fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        self.begin(now);
        let result = self.take_on(id, request);
        let turned_away = matches!(
            result,
            Err(Refusal::Overloaded { .. } | Refusal::Full | Refusal::Offline { .. })
        );
        self.stats.requests_refused += u64::from(turned_away);
        self.finish();
        result
    }

    fn take_on(&mut self, id: RequestId, request: Request) -> Result<(), Refusal> {
        let stream = self
            .streams
            .get(request.stream)
            .ok_or(Refusal::UnknownStream)?;
        let part_bytes = stream
            .layout
            .part_bytes(request.part)
            .ok_or(Refusal::OutOfBounds)?;
        let end = request
            .offset
            .checked_add(request.length)
            .ok_or(Refusal::OutOfBounds)?;
        if end > part_bytes {
            return Err(Refusal::OutOfBounds);
        }
        // A chunk file is asked for whole, and still is one chunk of a longer sequence.
        let open_ended = request.open_ended && stream.layout.part_count() == 1;
        let start = stream.layout.logical(request.part, request.offset);
        let first_piece = stream.layout.piece_at(request.part, request.offset);
        if request.length > 0 {
            self.check_device((request.stream, first_piece))?;
        }
        if self.replies.len() >= self.config.requests_max {
            return Err(Refusal::Full);
        }
        // An open-ended request does not say how far it will go.
        let asked = ByteRange::new(
            start,
            if open_ended {
                start
            } else {
                start + request.length
            },
        );
        let chain = self.join_chain(&request, asked, open_ended)?;
        self.stats.requests += 1;
        if !open_ended {
            self.stats.bytes_requested += request.length;
        }
        let from = (request.stream, request.part);
        let reply = Reply::new(chain, from, open_ended, (request.offset, end));
        self.replies.add(id, reply);
        self.note_request(id, chain, &request, asked);
        self.advance(id);
        Ok(())
    }

    /// The chain that a request in progress is part of; `None` of one that is over or was not
    /// taken on. Numbers are never used twice.
    pub fn chain_of(&self, id: RequestId) -> Option<ChainId> {
        self.replies.get(id).map(|request| request.chain)
    }

    /// A device out of service still serves what is in memory.
    fn check_device(&self, first: PieceKey) -> Result<(), Refusal> {
        let in_memory = || {
            let slot = self.memory.find(first);
            slot.is_some_and(|slot| self.memory.is_ready(slot))
        };
        if self.device_state() != DeviceState::Offline || in_memory() || self.is_on_flash(first) {
            return Ok(());
        }
        let until = self.health.retry_at().map(|at| at.since(self.now));
        let retry_after = until
            .unwrap_or(self.config.read_timeout)
            .max(Duration::from_secs(1));
        Err(Refusal::Offline { retry_after })
    }

    fn join_chain(
        &mut self,
        request: &Request,
        asked: ByteRange,
        open_ended: bool,
    ) -> Result<ChainId, Refusal> {
        let reader = (request.viewer, request.stream);
        let found = self.chains.find(
            self.now,
            (self.config.chain_gap, Between::of(&self.config)),
            reader,
            asked,
        );
        if let Some((chain, bridged)) = found {
            if let Some(other) = bridged {
                self.merge_chains(chain, other);
            }
            if self.chains.meet(self.now, chain, open_ended) {
                self.stats.chains += 1;
                self.stats.expected_met += 1;
            }
            return Ok(chain);
        }
        self.admit(request)?;
        if self.chains.len() >= self.config.chains_max {
            let idle = self.chains.longest_idle().ok_or(Refusal::Full)?;
            self.end_chain(idle);
        }
        self.stats.chains += 1;
        let (chain, surplus) = self.chains.begin(self.now, reader, asked.start, open_ended);
        self.streams.begin_chain(request.stream);
        if let Some(surplus) = surplus {
            self.end_chain(surplus);
        }
        Ok(chain)
    }

    /// Asked for each new chain, as each takes its share of the device, whoever reads it.
    fn admit(&mut self, request: &Request) -> Result<(), Refusal> {
        if self.config.admission == Admission::Accept {
            return Ok(());
        }
        let waiting = self.queue.pressing();
        let is_refused = self.load.refuses(self.now, waiting, self.config.patience);
        if !is_refused || self.needs_no_device(request.stream) {
            return Ok(());
        }
        match self.chains.may_begin(request.viewer) {
            MayBegin::Another => Ok(()),
            MayBegin::InsteadOf(left) => {
                self.end_chain(left);
                Ok(())
            }
            MayBegin::Nothing => {
                self.stats.chains_refused += 1;
                let retry_after = self.retry_after();
                Err(Refusal::Overloaded { retry_after })
            }
        }
    }

    /// Whether all of a stream is in memory or on flash. Part of it is not enough: its chain would
    /// go on to the rest.
    fn needs_no_device(&self, stream: StreamId) -> bool {
        let pieces = self.streams.layout(stream).map(Layout::piece_count);
        let Some(pieces) = pieces.filter(|pieces| *pieces <= PIECES_LOOKED_AT_MAX) else {
            return false;
        };
        (0..pieces).all(|piece| {
            let key = (stream, piece);
            self.memory.find(key).is_some() || self.is_on_flash(key)
        })
    }

    /// What of a stream is in memory without a gap around a byte of a part, as far as it is looked
    /// through; `None` if that byte is not. As long as that is so, nothing has to be read for who asks
    /// for it, unless it comes near the end.
    pub fn in_memory_around(
        &self,
        stream: StreamId,
        part: u32,
        offset: u64,
    ) -> Option<PartInMemory> {
        let layout = self.streams.layout(stream)?;
        let parts = layout.part_count() as u32;
        if parts > PIECES_LOOKED_AT_MAX || offset >= layout.part_bytes(part)? {
            return None;
        }
        let is_ready = |piece: &u32| {
            let slot = self.memory.find((stream, *piece));
            slot.is_some_and(|slot| self.memory.is_ready(slot))
        };
        let at = layout.piece_at(part, offset);
        let least = at.saturating_sub(PIECES_LOOKED_AT_MAX);
        let most = layout.piece_count().min(at + PIECES_LOOKED_AT_MAX);
        let last = (at..most).take_while(is_ready).last()?;
        let first = (least..at).rev().take_while(is_ready).last();
        let end = layout.place(last);
        Some(PartInMemory {
            part_starts: (0..parts).map(|part| layout.logical(part, 0)).collect(),
            stream_bytes: layout.size_bytes(),
            range: ByteRange::new(
                layout.logical_of_piece(first.unwrap_or(at)),
                end.logical + end.length,
            ),
        })
    }

    fn note_request(
        &mut self,
        id: RequestId,
        chain_id: ChainId,
        request: &Request,
        asked: ByteRange,
    ) {
        let now = self.now;
        let connection = request.viewer.connection();
        self.chains.begin_request(now, chain_id, id, connection);
        self.stats.chain_bytes += self.chains.extend(chain_id, asked);
        let Some(chain) = self.chains.get_mut(chain_id) else {
            return;
        };
        chain.note_request(asked.len());
        if request.hints != Hints::default() {
            chain.hints = request.hints;
            chain.hinted_at = now;
        }
        match chain.active.len() {
            1 => self.chains.move_to(chain_id, asked.start),
            _ => self.move_chain(chain_id),
        }
    }

    /// A request showed that two chains of a viewer are one.
    fn merge_chains(&mut self, into: ChainId, from: ChainId) {
        let Some(other) = self.chains.end(from) else {
            return;
        };
        self.streams.end_chain(self.now, other.stream);
        for id in &other.active {
            if let Some(reply) = self.replies.get_mut(*id) {
                reply.chain = into;
            }
        }
        for piece in other.unread.iter() {
            if let Some(slot) = self.memory.find((other.stream, piece))
                && self.memory.owner(slot) == Some(from)
            {
                self.memory.change_owner(slot, into);
            }
        }
        self.runs.rename_chain(from, into);
        if let Some(job) = other.job {
            self.queue.update(job, |job| job.chain = into);
        }
        let whole = ByteRange::new(other.start, other.end);
        let longer_by = self.chains.extend(into, whole);
        // Two that overlap have bytes in common, which count twice: a counter does not go back.
        self.stats.chain_bytes += longer_by.saturating_sub(other.length_bytes());
        // One that was only expected was not counted as begun.
        self.stats.chains_joined += u64::from(!other.is_expected());
        let Some(chain) = self.chains.get_mut(into) else {
            return;
        };
        chain.fetched_end = chain.fetched_end.max(other.fetched_end);
        chain.prefetched_bytes += other.prefetched_bytes;
        chain.take_requests(other.active);
        for piece in other.unread.iter() {
            chain.unread.insert(piece);
        }
        chain.job = chain.job.or(other.job);
        chain.careful = chain.careful.max(other.careful);
    }

    /// Hands out what is there, up to the send window; then waits for the next piece.
    pub(super) fn advance(&mut self, id: RequestId) {
        loop {
            let Some(request) = self.replies.get(id) else {
                return;
            };
            if request.has_ended() || request.is_waiting() {
                return;
            }
            if request.next == request.end {
                if request.sending.is_empty() {
                    self.remove_request(id);
                }
                return;
            }
            if request.sending.len() >= self.send_window_pieces() {
                return;
            }
            let Some(stream) = self.streams.get(request.stream) else {
                return;
            };
            let key = (
                request.stream,
                stream.layout.piece_at(request.part, request.next),
            );
            match self.memory.find(key) {
                Some(slot) if self.memory.is_ready(slot) => self.hand_out(id, slot, None),
                Some(_) if self.is_abandoned(key) => {
                    self.fail_request(id, Failure::TimedOut);
                    return;
                }
                _ => {
                    self.wait_for(id, key.1);
                    return;
                }
            }
        }
    }

    /// Pieces a reply may hold: the window, or one when memory is short.
    fn send_window_pieces(&self) -> usize {
        let is_short = self.memory.available() < self.memory.slot_count() / 8;
        let window = self.config.send_window_bytes / self.config.piece_bytes;
        if is_short {
            1
        } else {
            (window as usize).max(1)
        }
    }

    fn wait_for(&mut self, id: RequestId, piece: u32) {
        let Some(reply) = self.replies.get(id) else {
            return;
        };
        let key = (reply.stream, piece);
        let is_coming = self.memory.find(key).is_some() || self.read_from_flash(id, piece);
        if !is_coming && self.device_state() == DeviceState::Offline {
            self.fail_request(id, Failure::Offline);
            return;
        }
        self.replies.wait(self.now, id, piece);
        if !is_coming {
            self.demand(id, piece);
        } else if let Some(issued_at) = self.issued_at(key) {
            self.replies.set_issued(id, issued_at);
        }
    }

    /// When what brings a piece was issued.
    fn issued_at(&self, key: PieceKey) -> Option<Instant> {
        let of_flash = || self.flash.as_ref()?.issued_at(key.0, key.1);
        let read = self.runs.bringing(key).map(|read| read.issued_at);
        read.or_else(of_flash)
    }

    /// The piece that some replies wait for is there.
    pub(super) fn wake_waiters(&mut self, key: PieceKey, slot: Slot) {
        for (id, waited) in self.replies.wake(key) {
            self.hand_out(id, slot, Some(waited));
            self.advance(id);
        }
    }

    fn hand_out(&mut self, id: RequestId, slot: Slot, waited: Option<Waiting>) {
        let key = self.memory.key(slot);
        let Some(request) = self.replies.get_mut(id) else {
            return;
        };
        let Some(stream) = self.streams.get(key.0) else {
            return;
        };
        let place = stream.layout.place(key.1);
        let start = request.next - place.offset;
        let end = place.length.min(request.end - place.offset);
        let fresh_bytes = self.memory.begin_sending(slot, (start as u32, end as u32));
        let source = match waited {
            _ if fresh_bytes > 0 && self.memory.is_on_flash(slot) => Source::Flash,
            None => Source::Ram,
            Some(_) => Source::Disk,
        };
        request.next = place.offset + end;
        request.sending.push(slot);
        let (chain_id, open_ended) = (request.chain, request.open_ended);
        self.count_sent(end - start, fresh_bytes.into(), source, open_ended);
        self.note_use(key, end - start);
        let (queue_time, disk_time) = waited.map_or((Duration::ZERO, Duration::ZERO), |waited| {
            let issued_at = waited.issued_at.unwrap_or(self.now).max(waited.since);
            (issued_at.since(waited.since), self.now.since(issued_at))
        });
        self.events.push_back(Event::Ready {
            request: id,
            slot,
            start: start as u32,
            end: end as u32,
            from_ram: source == Source::Ram,
            from_flash: source == Source::Flash,
            queue_time,
            disk_time,
        });
        let now = self.now;
        let mut is_alone = false;
        if let Some(chain) = self.chains.get_mut(chain_id) {
            is_alone = chain.active.len() == 1;
            chain.pace.record(now, end - start);
            chain.last_seen = now;
            if end == place.length && chain.unread.remove(key.1) {
                self.memory.disown(slot, None);
            }
        }
        if open_ended {
            let sent = ByteRange::new(place.logical + start, place.logical + end);
            self.stats.chain_bytes += self.chains.extend(chain_id, sent);
        }
        match is_alone {
            // It is where this request is.
            true => self.chains.move_to(chain_id, place.logical + end),
            false => self.move_chain(chain_id),
        }
        self.consider_ahead(chain_id);
    }

    /// Counts what was sent; `fresh_bytes` of it had not been sent since they were read.
    fn count_sent(&mut self, bytes: u64, fresh_bytes: u64, source: Source, open_ended: bool) {
        self.stats.bytes_sent += bytes;
        // What flash brought says nothing of the device.
        if fresh_bytes > 0 && source != Source::Flash {
            self.depth.record_sent(self.now, fresh_bytes);
        }
        match source {
            Source::Ram => self.stats.bytes_from_ram += bytes,
            Source::Flash => self.stats.bytes_from_flash += bytes,
            Source::Disk => self.stats.bytes_from_disk += bytes,
        }
        self.stats.bytes_reused += bytes - fresh_bytes;
        if open_ended {
            self.stats.bytes_requested += bytes;
        }
    }

    /// The reader is where the furthest behind of its requests is, else where it left off.
    fn move_chain(&mut self, id: ChainId) {
        let Some(chain) = self.chains.get(id) else {
            return;
        };
        let Some(stream) = self.streams.get(chain.stream) else {
            return;
        };
        let requests = chain.active.iter().filter_map(|id| self.replies.get(*id));
        let place = |request: &Reply| stream.layout.logical(request.part, request.next);
        let position = requests.map(place).min().unwrap_or(chain.end);
        self.chains.move_to(id, position);
    }

    /// A slot of an earlier [`Event::Ready`] is back: the socket took it, or the reply was
    /// dropped. To be called once for each.
    pub fn handle_sent(&mut self, now: Instant, id: RequestId, slot: Slot) {
        self.begin(now);
        if let Some(request) = self.replies.get_mut(id)
            && let Some(index) = request.sending.iter().position(|sent| *sent == slot)
        {
            request.sending.swap_remove(index);
            let is_over = request.has_ended() && request.sending.is_empty();
            self.rest(slot);
            if is_over {
                self.remove_request(id);
            } else {
                self.advance(id);
            }
        }
        self.finish();
    }

    /// Pieces in these slots were sent without asking for them, to whoever nothing has to be read for
    /// ([`Self::in_memory_around`]): they are kept as if they had been asked for.
    pub fn handle_used(&mut self, now: Instant, slots: &[Slot]) {
        self.begin(now);
        for slot in slots {
            self.memory.touch(*slot);
            let key = self.memory.key(*slot);
            if let Some(stream) = self.streams.get(key.0) {
                let bytes = stream.layout.place(key.1).length;
                self.note_use(key, bytes);
            }
        }
        self.finish();
    }

    /// Nobody wants the reply any more. Slots still out are returned with
    /// [`Self::handle_sent`] as ever.
    pub fn handle_cancel(&mut self, now: Instant, id: RequestId) {
        self.begin(now);
        self.end_request(id);
        self.finish();
    }

    /// A reply cannot be completed; one that has been handed out whole can no longer fail.
    pub(super) fn fail_request(&mut self, id: RequestId, failure: Failure) {
        let Some(request) = self.replies.get(id) else {
            return;
        };
        if request.has_ended() {
            return;
        }
        if request.next < request.end {
            self.stats.requests_failed += 1;
            self.events.push_back(Event::Failed {
                request: id,
                failure,
            });
        }
        self.end_request(id);
    }

    /// Fails everybody who waits for a piece.
    pub(super) fn fail_waiters(&mut self, key: PieceKey, failure: Failure) {
        for id in self.replies.waiters(key).to_vec() {
            self.fail_request(id, failure);
        }
    }

    fn end_request(&mut self, id: RequestId) {
        let reply = self.replies.get(id);
        let waited_for = reply.and_then(Reply::waited_for);
        if let Some(reply) = reply.filter(|reply| reply.next < reply.end)
            && let Some(stream) = self.streams.get(reply.stream)
        {
            let logical = |offset| stream.layout.logical(reply.part, offset);
            let rest = ByteRange::new(logical(reply.next), logical(reply.end));
            self.chains.cut_off(reply.chain, rest);
        }
        if self.replies.end(id) {
            self.remove_request(id);
        }
        if let Some(key) = waited_for {
            self.withdraw_demand(key);
        }
    }

    fn remove_request(&mut self, id: RequestId) {
        let Some(reply) = self.replies.remove(id) else {
            return;
        };
        self.chains.end_request(self.now, reply.chain, id);
        let Some(chain) = self.chains.get(reply.chain) else {
            return;
        };
        match (chain.is_idle(), chain.end) {
            (true, end) => self.chains.move_to(reply.chain, end),
            (false, _) => self.move_chain(reply.chain),
        }
    }
}
