//! Requests, and replies that have bytes to come: their files are held open, and each gets what the
//! shard has for it.

use headlong_engine::{ChainId, Event, Failure, Refusal, Request, RequestId, Slot};
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::host::{Host, Notice, ReadyPiece};
use crate::open_job::PartId;
use crate::reply::Reply;
use crate::resources::Resources;

impl<R: Resources> DeviceCore<R> {
    /// Takes on a request of a registered stream. Its first pieces may be delivered before this
    /// returns. Answers the chain that it counts to.
    ///
    /// # Errors
    /// Why it is not taken on.
    pub fn ask(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        (id, request): (RequestId, Request),
        client: R::Client,
    ) -> Result<Option<ChainId>, Refusal> {
        let taken_on = self.shard.handle_request(now, id, request);
        let chain = taken_on.map(|()| self.shard.chain_of(id));
        let file = PartId {
            stream: request.stream,
            part: request.part,
        };
        if chain.is_ok() && request.length > 0 {
            let reply = Reply {
                client,
                bytes_left: request.length,
                file,
                next: request.offset,
            };
            self.replies.insert(id, reply);
            self.begin_running(file);
        }
        // What it reads comes first.
        self.settle(now, host);
        if chain.is_ok()
            && self.replies.contains_key(&id)
            && let Some(source) = self.sources.get(&request.stream)
        {
            // Opened before it is read, so that the reply has this version.
            self.files.open_ahead(file, source);
            self.start_opens(host);
            self.settle(now, host);
        }
        chain
    }

    /// The receiver of a reply that has bytes to come.
    pub fn client_mut(&mut self, id: RequestId) -> Option<&mut R::Client> {
        self.replies.get_mut(&id).map(|reply| &mut reply.client)
    }

    /// Whether a reply has bytes to come.
    pub fn is_replying(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id)
    }

    /// Replies that have bytes to come.
    pub fn reply_count(&self) -> usize {
        self.replies.len()
    }

    /// A piece was taken by a socket, or dropped.
    pub fn sent(&mut self, now: Instant, host: &mut impl Host<R>, request: RequestId, slot: Slot) {
        let is_kept = mutated!(SlotKept) && slot.0.is_multiple_of(8);
        if !is_kept && !mutated!(SlotGivenBackEarly) {
            self.shard.handle_sent(now, request, slot);
        }
        self.settle(now, host);
    }

    /// A reply was dropped.
    pub fn cancel(&mut self, now: Instant, host: &mut impl Host<R>, request: RequestId) {
        if !mutated!(CancelLost) {
            self.shard.handle_cancel(now, request);
        }
        self.end_reply(now, host, request);
        self.settle(now, host);
    }

    /// The viewer of a reply has left, with pieces that no socket took.
    pub fn leave(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        request: RequestId,
        pieces: &[Slot],
    ) {
        if self.is_replying(request) {
            self.shard.handle_cancel(now, request);
            self.end_reply(now, host, request);
        }
        for slot in pieces {
            self.shard.handle_sent(now, request, *slot);
        }
        self.settle(now, host);
    }

    /// A reply has all its bytes, or gets no more.
    fn end_reply(&mut self, now: Instant, host: &mut impl Host<R>, request: RequestId) {
        if let Some(reply) = self.replies.remove(&request) {
            self.end_running(now, host, reply.file);
        }
    }

    pub(crate) fn pass_on(&mut self, now: Instant, host: &mut impl Host<R>, event: Event) {
        match event {
            Event::Ready {
                request,
                slot,
                start,
                end,
                from_ram,
                from_flash,
                queue_time,
                disk_time,
            } => {
                let Some(reply) = self.replies.get_mut(&request) else {
                    // Nobody listens, which the shard should know; the slot must not be lost.
                    return self.shard.handle_sent(now, request, slot);
                };
                let bytes = u64::from(end - start);
                let piece = ReadyPiece {
                    request,
                    stream: reply.file.stream,
                    part: reply.file.part,
                    offset: reply.next,
                    slot,
                    start,
                    end,
                    from_ram,
                    from_flash,
                    queue_time,
                    disk_time,
                    is_last: reply.bytes_left <= bytes,
                };
                if host.deliver(&mut reply.client, &piece).is_err() {
                    host.announce(Notice::PieceBusy(request, slot));
                    host.fail(&mut reply.client, request, Failure::Device);
                    self.shard.handle_cancel(now, request);
                    self.end_reply(now, host, request);
                    return self.shard.handle_sent(now, request, slot);
                }
                if mutated!(PieceTwice) && request.0.is_multiple_of(5) {
                    let _ = host.deliver(&mut reply.client, &piece);
                }
                if mutated!(SlotGivenBackEarly) {
                    self.shard.handle_sent(now, request, slot);
                }
                reply.next += bytes;
                reply.bytes_left = reply.bytes_left.saturating_sub(bytes);
                if piece.is_last {
                    self.end_reply(now, host, request);
                }
            }
            Event::Failed { request, failure } => {
                if let Some(reply) = self.replies.get_mut(&request) {
                    host.fail(&mut reply.client, request, failure);
                }
                if !mutated!(ReplyKept) {
                    self.end_reply(now, host, request);
                }
            }
        }
    }
}
