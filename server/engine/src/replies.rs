//! Requests in progress, and the waiters of each piece.
//!
//! Invariants: a waiting reply is in the waiter list of its piece once, and in no other; a list is
//! in order of arrival and never empty; a reply that has ended waits for no piece, and is kept
//! while its socket still has pieces; `next` is at most `end`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeBounds;

use headlong_units::{Duration, Instant};
use smallvec::SmallVec;

use crate::age_queue::{AgeQueue, StayId};
use crate::id_map::IdMap;
use crate::ids::{ChainId, RequestId, Slot, StreamId, ViewerId};
use crate::memory::PieceKey;

/// Pieces of the usual send window: this many are stored in the reply itself.
const SENT_AT_ONCE: usize = 4;

/// A request in progress. Offsets are within its part.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) chain: ChainId,
    pub(crate) stream: StreamId,
    pub(crate) part: u32,
    pub(crate) open_ended: bool,
    /// The address whose share of memory it takes.
    holder: Option<ViewerId>,
    /// Next byte to hand out; the socket has or had all bytes before it.
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// Pieces handed out and not yet returned.
    sending: SmallVec<[Slot; SENT_AT_ONCE]>,
    waiting: Option<AwaitedPiece>,
    /// When it was requested.
    begun: Instant,
    /// How long it waited for pieces that have arrived.
    waited: Duration,
    /// Failed or cancelled: it only waits for its slots to be returned.
    ended: bool,
}

/// The piece that a reply waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AwaitedPiece {
    pub(crate) piece: u32,
    pub(crate) since: Instant,
    /// When the read of the piece was issued; `None` before that.
    pub(crate) issued_at: Option<Instant>,
    turn: StayId,
}

impl Reply {
    /// A reply of `next..end` of a part.
    pub(crate) fn new(
        now: Instant,
        chain: ChainId,
        (stream, part): (StreamId, u32),
        open_ended: bool,
        (next, end): (u64, u64),
    ) -> Self {
        Self {
            chain,
            stream,
            part,
            open_ended,
            holder: None,
            next,
            end,
            sending: SmallVec::new(),
            waiting: None,
            begun: now,
            waited: Duration::ZERO,
            ended: false,
        }
    }

    /// The same, charged to a share of memory.
    pub(crate) fn held_by(self, holder: Option<ViewerId>) -> Self {
        Self { holder, ..self }
    }

    /// The address whose share of memory it takes.
    pub(crate) fn holder(&self) -> Option<ViewerId> {
        self.holder
    }

    /// Pieces handed out and not yet returned.
    pub(crate) fn sending_count(&self) -> usize {
        self.sending.len()
    }

    /// How long it has waited for the device so far, in all.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        let waiting = self.waiting.map(|waiting| now.since(waiting.since));
        self.waited + waiting.unwrap_or(Duration::ZERO)
    }

    /// How long it has been in progress so far, without waiting for the device.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        now.since(self.begun) - self.waited(now)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether all of it was handed out, or it has ended.
    pub(crate) fn is_whole(&self) -> bool {
        self.ended || self.next >= self.end
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The piece that it waits for.
    pub(crate) fn waited_for(&self) -> Option<PieceKey> {
        self.waiting.map(|waiting| (self.stream, waiting.piece))
    }
}

/// All requests in progress.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    by_id: IdMap<RequestId, Reply>,
    /// Waiters of each piece that is not in memory yet, in order of arrival.
    waiters: BTreeMap<PieceKey, Vec<RequestId>>,
    /// Waiting replies, by the time at which they began to wait.
    waiting: AgeQueue<RequestId>,
    /// Pieces being sent, by holder.
    held: IdMap<ViewerId, usize>,
}

impl Replies {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Reply> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Reply> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn add(&mut self, id: RequestId, reply: Reply) {
        self.by_id.insert(id, reply);
    }

    /// Pieces of a holder that are being sent.
    pub(crate) fn held(&self, holder: ViewerId) -> usize {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// Hands a piece to a reply's socket.
    pub(crate) fn hand_out(&mut self, id: RequestId, slot: Slot) {
        let Some(reply) = self.by_id.get_mut(&id) else {
            return;
        };
        reply.sending.push(slot);
        let holder = reply.holder;
        self.hold(holder);
    }

    /// The socket returns a piece. Returns whether the reply had it.
    pub(crate) fn take_back(&mut self, id: RequestId, slot: Slot) -> bool {
        let Some(reply) = self.by_id.get_mut(&id) else {
            return false;
        };
        let Some(index) = reply.sending.iter().position(|sent| *sent == slot) else {
            return false;
        };
        reply.sending.swap_remove(index);
        let holder = reply.holder;
        self.release(holder);
        true
    }

    fn hold(&mut self, holder: Option<ViewerId>) {
        if let Some(holder) = holder {
            *self.held.entry(holder).or_default() += 1;
        }
    }

    fn release(&mut self, holder: Option<ViewerId>) {
        let Some(holder) = holder else {
            return;
        };
        if let Some(count) = self.held.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&holder);
            }
        }
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Reply> {
        debug_assert!(self.by_id.get(&id).is_none_or(|reply| !reply.is_waiting()));
        let reply = self.by_id.remove(&id)?;
        debug_assert!(reply.sending.is_empty());
        Some(reply)
    }

    /// A reply waits for a piece from now on.
    pub(crate) fn wait(&mut self, now: Instant, id: RequestId, piece: u32) {
        let Some(reply) = self.by_id.get_mut(&id) else {
            return;
        };
        debug_assert!(!reply.ended && reply.waiting.is_none());
        reply.waiting = Some(AwaitedPiece {
            piece,
            since: now,
            issued_at: None,
            turn: self.waiting.push(now, id),
        });
        let key = (reply.stream, piece);
        self.waiters.entry(key).or_default().push(id);
        let turn_of = |id| Some(self.by_id.get(&id)?.waiting?.turn);
        self.waiting.tidy(self.by_id.len(), turn_of);
    }

    /// A reply that has waited for `wait_max`.
    pub(crate) fn waiting_for(&mut self, now: Instant, wait_max: Duration) -> Option<RequestId> {
        let turn_of = |id| Some(self.by_id.get(&id)?.waiting?.turn);
        let (since, id) = self.waiting.oldest(turn_of)?;
        (now.since(since) >= wait_max).then_some(id)
    }

    /// No reply will have waited for `wait_max` before this time.
    pub(crate) fn poll_timeout(&self, wait_max: Duration) -> Option<Instant> {
        self.waiting.since().map(|since| since + wait_max)
    }

    /// The read of the piece that a reply waits for was issued at `issued_at`.
    pub(crate) fn set_issued(&mut self, id: RequestId, issued_at: Instant) {
        let reply = self.by_id.get_mut(&id);
        if let Some(waiting) = reply.and_then(|reply| reply.waiting.as_mut()) {
            waiting.issued_at = Some(issued_at);
        }
    }

    /// A piece has arrived: removes and returns its waiters, in order of arrival.
    pub(crate) fn wake(&mut self, now: Instant, key: PieceKey) -> Vec<(RequestId, AwaitedPiece)> {
        let ids = self.waiters.remove(&key).unwrap_or_default();
        let waited = |id: RequestId| {
            let reply = self.by_id.get_mut(&id)?;
            reply.waited = reply.waited(now);
            Some((id, reply.waiting.take()?))
        };
        ids.into_iter().filter_map(waited).collect()
    }

    /// Ends a reply. Returns whether its socket has none of its pieces either.
    pub(crate) fn end(&mut self, id: RequestId) -> bool {
        let Some(reply) = self.by_id.get_mut(&id) else {
            return false;
        };
        reply.ended = true;
        let is_over = reply.sending.is_empty();
        if let Some(waiting) = reply.waiting.take() {
            let key = (reply.stream, waiting.piece);
            if let Some(waiters) = self.waiters.get_mut(&key) {
                waiters.retain(|waiter| *waiter != id);
                if waiters.is_empty() {
                    self.waiters.remove(&key);
                }
            }
        }
        is_over
    }

    /// Waiters of a piece, in order of arrival.
    pub(crate) fn waiters(&self, key: PieceKey) -> &[RequestId] {
        self.waiters.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Pieces with waiters, ascending, each with its waiters.
    pub(crate) fn waited(
        &self,
        range: impl RangeBounds<PieceKey>,
    ) -> impl Iterator<Item = (PieceKey, &[RequestId])> {
        let waiters = self.waiters.range(range);
        waiters.map(|(key, ids)| (*key, ids.as_slice()))
    }

    /// Panics if an invariant is broken. `is_brought` returns whether a piece is being read or will
    /// be.
    pub(crate) fn check_invariants(&self, is_brought: impl Fn(PieceKey) -> bool) {
        for (id, reply) in &self.by_id {
            assert!(reply.next <= reply.end, "{id:?}");
            assert!(!reply.ended || !reply.sending.is_empty(), "{id:?} is over");
            let Some(waiting) = reply.waiting else {
                continue;
            };
            let key = (reply.stream, waiting.piece);
            assert!(!reply.ended, "{id:?} has ended and waits");
            assert!(
                is_brought(key),
                "{id:?} waits for piece {key:?}, which is neither read nor queued"
            );
            let times = self.waiters(key).iter().filter(|of| *of == id).count();
            assert_eq!(times, 1, "{id:?} in the list of {key:?}");
            assert!(self.waiting.has(waiting.turn), "{id:?} is in no queue");
        }
        for (holder, count) in &self.held {
            let theirs = self
                .by_id
                .values()
                .filter(|reply| reply.holder == Some(*holder));
            let pieces: usize = theirs.map(|reply| reply.sending.len()).sum();
            assert_eq!(pieces, *count, "of {holder:?}");
        }
        let waiting = self.by_id.values().filter(|reply| reply.is_waiting());
        let listed: usize = self.waiters.values().map(Vec::len).sum();
        assert_eq!(listed, waiting.count());
        assert!(self.waiters.values().all(|ids| !ids.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: StreamId = StreamId(1);

    proptest! {
        #[test]
        fn waiters_of_piece_wake_in_order_of_arrival(
            steps in prop::collection::vec((0_u64..6, 0_u32..3, 0_u8..4), 0..200),
        ) {
            let mut replies = Replies::default();
            let mut model: Vec<(u32, RequestId)> = Vec::new();
            for (now, (id, piece, what)) in (0..).zip(steps) {
                let id = RequestId(id);
                if replies.get(id).is_none() {
                    replies.add(id, Reply::new(Instant(now), ChainId(0), (STREAM, 0), false, (0, 9)));
                }
                let waits = model.iter().any(|(_, of)| *of == id);
                match what {
                    0 => {
                        let woken = replies.wake(Instant(now), (STREAM, piece));
                        let woken: Vec<RequestId> = woken.into_iter().map(|(id, _)| id).collect();
                        let of_piece = model.iter().filter(|(of, _)| *of == piece);
                        let expected: Vec<RequestId> = of_piece.map(|(_, id)| *id).collect();
                        prop_assert_eq!(woken, expected);
                        model.retain(|(of, _)| *of != piece);
                    }
                    1 => {
                        prop_assert!(replies.end(id), "its socket has no piece");
                        replies.remove(id);
                        model.retain(|(_, of)| *of != id);
                    }
                    _ if !waits => {
                        replies.wait(Instant(now), id, piece);
                        model.push((piece, id));
                    }
                    _ => replies.set_issued(id, Instant(now)),
                }
                replies.check_invariants(|_| true);
            }
        }
    }
}
