//! Replying: hands pieces to replies in order, up to the send window, and takes slots back.
//!
//! A reply waits for at most one piece, the next; its arrival wakes the reply, which then continues
//! while memory has the following pieces.

use headlong_units::{ByteRange, Duration, Instant};

use super::state::Shard;
use crate::command::{Event, Failure};
use crate::health::DeviceState;
use crate::ids::{ChainId, RequestId, Slot, ViewerId};
use crate::memory::PieceKey;
use crate::replies::{AwaitedPiece, Reply};

/// The replies of one address may fill their windows up to this fraction of a device's memory.
/// Beyond it each has one piece, as when memory is short: an address may have thousands of viewers
/// behind it, and none is refused.
const HOLDER_SHARE: usize = 4;

/// Origin of a reply's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrigin {
    /// They were in memory.
    Ram,
    /// They were read from flash for this reply.
    Flash,
    /// The reply had to wait for the device.
    Disk,
}

impl Shard {
    /// Hands out the pieces in memory, up to the send window; then waits for the next piece.
    pub(super) fn advance(&mut self, id: RequestId) {
        loop {
            let Some(request) = self.replies.get(id) else {
                return;
            };
            if request.has_ended() || request.is_waiting() {
                return;
            }
            if request.next == request.end {
                if request.sending_count() == 0 {
                    self.remove_request(id);
                }
                return;
            }
            let sending = request.sending_count();
            let is_at_share = sending > 0 && self.is_at_share(request.holder());
            if sending >= self.send_window_pieces() || is_at_share {
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

    /// Pieces that a reply may hold: the window, or one when memory is short.
    fn send_window_pieces(&self) -> usize {
        let is_short = self.memory.available() < self.memory.slot_count() / 8;
        let window = self.config.send_window_bytes / self.config.piece_bytes;
        if is_short {
            1
        } else {
            (window as usize).max(1)
        }
    }

    /// Whether the replies of a holder have reached its share, so that each gets one piece at a
    /// time.
    fn is_at_share(&self, holder: Option<ViewerId>) -> bool {
        let share = self.memory.slot_count() / HOLDER_SHARE;
        holder.is_some_and(|holder| self.replies.held(holder) >= share.max(1))
    }

    fn wait_for(&mut self, id: RequestId, piece: u32) {
        let Some(reply) = self.replies.get(id) else {
            return;
        };
        let key = (reply.stream, piece);
        let is_coming = self.memory.find(key).is_some() || self.read_from_flash(id, piece);
        if !is_coming && self.device_state() == DeviceState::Offline {
            if !self.postpone_for_flash(id, key) {
                self.fail_request(id, Failure::Offline);
            }
            return;
        }
        self.replies.wait(self.now, id, piece);
        if !is_coming {
            self.demand(id, piece);
        } else if let Some(issued_at) = self.issued_at(key) {
            self.replies.set_issued(id, issued_at);
        }
    }

    /// When the read of a piece was issued.
    fn issued_at(&self, key: PieceKey) -> Option<Instant> {
        let of_flash = || self.flash.as_ref()?.issued_at(key.0, key.1);
        let read = self.runs.read_containing(key).map(|read| read.issued_at);
        read.or_else(of_flash)
    }

    /// A piece has arrived that replies wait for.
    pub(super) fn wake_waiters(&mut self, key: PieceKey, slot: Slot) {
        for (id, waited) in self.replies.wake(self.now, key) {
            self.hand_out(id, slot, Some(waited));
            self.advance(id);
        }
    }

    fn hand_out(&mut self, id: RequestId, slot: Slot, waited: Option<AwaitedPiece>) {
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
        let fresh_bytes = self
            .memory
            .begin_sending(self.now, slot, start as u32, end as u32);
        let source = match waited {
            _ if fresh_bytes > 0 && self.memory.is_on_flash(slot) => ByteOrigin::Flash,
            None => ByteOrigin::Ram,
            Some(_) => ByteOrigin::Disk,
        };
        request.next = place.offset + end;
        let (chain_id, open_ended) = (request.chain, request.open_ended);
        self.replies.hand_out(id, slot);
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
            from_ram: source == ByteOrigin::Ram,
            from_flash: source == ByteOrigin::Flash,
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
            // The position of its only request.
            true => self.chains.move_to(chain_id, place.logical + end),
            false => self.move_chain(chain_id),
        }
        self.consider_ahead(chain_id);
    }

    /// Counts sent bytes; `fresh_bytes` of them had not been sent since they were read.
    fn count_sent(&mut self, bytes: u64, fresh_bytes: u64, source: ByteOrigin, open_ended: bool) {
        self.stats.bytes_sent += bytes;
        // Bytes from flash are no measurement of the device.
        if source != ByteOrigin::Flash {
            self.depth.record_sent(self.now, bytes);
        }
        match source {
            ByteOrigin::Ram => self.stats.bytes_from_ram += bytes,
            ByteOrigin::Flash => self.stats.bytes_from_flash += bytes,
            ByteOrigin::Disk => self.stats.bytes_from_disk += bytes,
        }
        self.stats.bytes_reused += bytes - fresh_bytes;
        if open_ended {
            self.stats.bytes_requested += bytes;
        }
    }

    /// Moves the reader to the furthest behind of its requests, or to the chain's end without one.
    pub(super) fn move_chain(&mut self, id: ChainId) {
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

    /// A slot of an earlier [`Event::Ready`] is returned: the socket took it, or the reply was
    /// dropped. To be called once for each.
    pub fn handle_sent(&mut self, now: Instant, id: RequestId, slot: Slot) {
        self.begin(now);
        if self.replies.take_back(id, slot) {
            let reply = self.replies.get(id);
            let is_over =
                reply.is_some_and(|reply| reply.has_ended() && reply.sending_count() == 0);
            self.rest(slot, id);
            if is_over {
                self.remove_request(id);
            } else {
                self.advance(id);
            }
        }
        self.finish();
    }

    /// Pieces in these slots were sent without a request to the engine, as they were in memory
    /// ([`Self::in_memory_around`]): they are retained as if they had been requested.
    pub fn handle_used(&mut self, now: Instant, slots: &[Slot]) {
        self.begin(now);
        for slot in slots {
            self.memory.touch(self.now, *slot);
            let key = self.memory.key(*slot);
            if let Some(stream) = self.streams.get(key.0) {
                let bytes = stream.layout.place(key.1).length;
                self.note_use(key, bytes);
            }
        }
        self.finish();
    }

    /// The reply is cancelled. Slots not yet returned still are, with [`Self::handle_sent`].
    pub fn handle_cancel(&mut self, now: Instant, id: RequestId) {
        self.begin(now);
        if let Some(reply) = self.replies.get(id).filter(|reply| !reply.has_ended()) {
            let waited = reply.waited(self.now);
            let patience = self.config.patience;
            self.bearing.record_left(self.now, waited, patience);
        }
        self.end_request(id);
        self.finish();
    }

    /// Fails a reply that cannot be completed; one that was handed out completely can no longer
    /// fail.
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

    /// Fails all replies that wait for a piece.
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
        if !reply.has_ended() {
            self.bearing.record_sent(reply.took(self.now));
        }
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
