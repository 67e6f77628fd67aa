//! Requests and running replies. The file of a running reply is held open, and each piece that the
//! shard makes ready is delivered to its reply.

use headlong_engine::{ChainId, Event, Failure, Refusal, Request, RequestId, Slot};
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::host::{Host, Notice, ReadyPiece};
use crate::open_job::PartId;
use crate::reply::Reply;
use crate::resources::Resources;

impl<R: Resources> DeviceCore<R> {
    /// Accepts a request for a registered stream and returns its chain. Pieces may be delivered
    /// before this returns.
    ///
    /// # Errors
    /// If the shard refuses the request.
    pub fn request(
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
        // The request's own reads come before the open below.
        self.drain_queues(now, host);
        if chain.is_ok()
            && self.replies.contains_key(&id)
            && let Some(source) = self.sources.get(&request.stream)
        {
            // Opened before any read, so that the reply is served from this version.
            self.files.open_ahead(file, source);
            self.locations.add_candidate(file);
            self.start_opens(now, host);
            self.drain_queues(now, host);
        }
        chain
    }

    /// The receiver of a running reply.
    pub fn client_mut(&mut self, id: RequestId) -> Option<&mut R::Client> {
        self.replies.get_mut(&id).map(|reply| &mut reply.client)
    }

    /// Whether a reply is running.
    pub fn is_replying(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id)
    }

    /// Number of running replies.
    pub fn reply_count(&self) -> usize {
        self.replies.len()
    }

    /// A socket has taken a piece, or the piece was dropped.
    pub fn sent(&mut self, now: Instant, host: &mut impl Host<R>, request: RequestId, slot: Slot) {
        let is_kept = mutated!(SlotKept) && slot.0.is_multiple_of(8);
        if !is_kept && !mutated!(SlotGivenBackEarly) {
            self.shard.handle_sent(now, request, slot);
        }
        self.drain_queues(now, host);
    }

    /// A reply was dropped.
    pub fn cancel(&mut self, now: Instant, host: &mut impl Host<R>, request: RequestId) {
        if !mutated!(CancelLost) {
            self.shard.handle_cancel(now, request);
        }
        self.end_reply(now, host, request);
        self.drain_queues(now, host);
    }

    /// The client of a reply has disconnected, with `pieces` still undelivered.
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
        self.drain_queues(now, host);
    }

    /// A reply is complete, or has failed.
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
                    // The reply has ended, which the shard should know; return the slot so that it
                    // does not leak.
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
