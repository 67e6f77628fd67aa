//! Replies that have bytes to come: their files are held open, and each gets what the shard has for it.

use std::sync::Arc;

use headlong_engine::{Event, Failure, Request, RequestId};
use headlong_units::Instant;

use super::DeviceEngine;
use super::waiting::Waiting;
use crate::disk::reply::{Piece, PieceInfo};
use crate::raw::PieceOf;

impl DeviceEngine {
    pub(super) fn begin_reply(&mut self, id: RequestId, request: &Request) {
        let (stream, part) = (request.stream, request.part);
        let waiting = Waiting {
            pieces: None,
            bytes_left: request.length,
            stream,
            part,
            next: request.offset,
        };
        self.replies.insert(id, waiting);
        *self.running.entry(stream).or_insert(0) += 1;
        self.parts.files.pin(stream, part);
    }

    /// A reply has all its bytes, or gets no more.
    pub(super) fn end_reply(&mut self, now: Instant, request: RequestId) {
        let Some(Waiting { stream, part, .. }) = self.replies.remove(&request) else {
            return;
        };
        self.parts.files.unpin(stream, part);
        let running = self.running.entry(stream).or_insert(1);
        *running -= 1;
        if *running == 0 {
            self.running.remove(&stream);
            if let Some(is_regrouped) = self.gone.remove(&stream) {
                self.forget(now, stream, is_regrouped);
            }
        }
    }

    pub(super) fn pass_on(&mut self, now: Instant, event: Event) {
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
                let Some(waiting) = self.replies.get_mut(&request) else {
                    // Nobody listens, which the shard should know; the slot must not be lost.
                    return self.parts.shard.handle_sent(now, request, slot);
                };
                let Some(view) = self.parts.pool.view(slot, start, end) else {
                    let device = &self.parts.identity.name;
                    tracing::error!(device, ?request, ?slot, "piece is still being filled");
                    waiting.give(&mut self.ready, Err(Failure::Device));
                    self.parts.shard.handle_cancel(now, request);
                    self.end_reply(now, request);
                    return self.parts.shard.handle_sent(now, request, slot);
                };
                let info = PieceInfo {
                    from_ram,
                    from_flash,
                    queue_time,
                    disk_time,
                };
                let device = Arc::clone(&self.receiver);
                self.parts.pool.note_stream(&[slot], waiting.stream);
                let view = view.of(PieceOf {
                    stream: waiting.stream,
                    part: waiting.part,
                    number: (waiting.next / self.parts.config.piece_bytes) as u32,
                });
                waiting.next += u64::from(end - start);
                let piece = Piece::new(view, info, (request, slot), device);
                waiting.bytes_left = waiting.bytes_left.saturating_sub(u64::from(end - start));
                waiting.give(&mut self.ready, Ok(piece));
                if waiting.bytes_left == 0 {
                    self.end_reply(now, request);
                }
            }
            Event::Failed { request, failure } => {
                if let Some(waiting) = self.replies.get(&request) {
                    waiting.give(&mut self.ready, Err(failure));
                }
                self.end_reply(now, request);
            }
        }
    }
}
