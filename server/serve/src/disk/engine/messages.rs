//! Dispatch of the messages to a device.

use headlong_device::PartId;
use headlong_engine::{ConfigError, EngineConfig, Refusal, Slot, StreamId};
use headlong_units::Instant;

use super::DeviceEngine;
use crate::disk::learned;
use crate::disk::message::{Ask, Expect, Message};
use crate::disk::passing_on::{self, Arrived};
use crate::flash::{FlashDone, FlashSource};

impl DeviceEngine {
    /// Handles a message.
    pub(crate) fn handle(&mut self, now: Instant, message: Message) {
        let (core, host) = (&mut self.core, &mut self.host);
        match message {
            Message::Request(ask) => {
                let Ask {
                    id,
                    request,
                    register,
                    answer,
                } = *ask;
                // If the requester has left, the reply is dropped here and cancels itself.
                let _ = answer.send(self.ask(now, (id, request), register));
            }
            Message::Expect(expect) => self.expect(now, *expect),
            Message::Sent { request, slot } => core.sent(now, host, request, slot),
            Message::Cancel(request) => core.cancel(now, host, request),
            Message::BitRate(stream, rate) => core.shard_mut().handle_bit_rate(now, stream, rate),
            Message::Part(stream, part, spec) => {
                core.handle_part(now, host, PartId { stream, part }, *spec);
            }
            Message::Gone(stream, is_regrouped) => {
                core.handle_stream_gone(now, host, stream, is_regrouped);
            }
            Message::Configure(config, answer) => {
                let _ = answer.send(self.configure(now, *config));
            }
            Message::Flash(FlashDone { end, taken }) => {
                core.handle_flash(now, host, end);
                // Dropping it allows recovery to send the next part.
                drop(taken);
            }
            Message::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
            Message::Learned(answer) => {
                let _ = answer.send(learned::tell(core));
            }
            Message::Returning(told) => {
                core.set_returning(learned::returning(now, self.time_scale, Some(&told)));
            }
            Message::Retire(retires, done) => {
                core.shard_mut().handle_retiring(now, retires);
                self.vacated = Some(done);
            }
            Message::Replaced => core.shard_mut().handle_replaced(now),
            Message::PassOn(answer) => {
                let (shard, arrivals) = (core.shard_mut(), &mut self.arrivals);
                let leaving = passing_on::take_out(now, shard, &host.pool, arrivals);
                if let Err(left) = answer.send(leaving) {
                    let slots: Vec<Slot> = left.into_iter().map(|piece| piece.slot).collect();
                    shard.handle_passed_on(now, &slots);
                }
            }
            Message::PassedOn(slots) => core.shard_mut().handle_passed_on(now, &slots),
            Message::Arrived(pieces, taken) => {
                let taken_bytes = self.arrived(now, pieces);
                // The sending process may have exited.
                let _ = taken.send(taken_bytes);
            }
            Message::TakeFlash(part, say) if !core.has_flash() => {
                self.take_flash(FlashSource { part, say });
            }
            Message::TakeFlash(..) => {}
            Message::LeaveFlash => {
                host.flash = None;
                core.leave_flash(now, host);
            }
        }
        self.core.settle(now, &mut self.host);
        self.settled();
    }

    fn expect(&mut self, now: Instant, expect: Expect) {
        let registered = self.register(now, expect.register);
        let told: Result<(), Refusal> = registered.and_then(|()| {
            let shard = self.core.shard_mut();
            shard.handle_expected(now, expect.expected)
        });
        let _ = expect.answer.send(told);
    }

    fn configure(&mut self, now: Instant, config: EngineConfig) -> Result<(), ConfigError> {
        self.core.configure(now, &mut self.host, config)?;
        // The pool keeps its size, so the shard does too.
        self.config = EngineConfig {
            piece_bytes: self.config.piece_bytes,
            memory_bytes: self.config.memory_bytes,
            ..config
        };
        Ok(())
    }

    /// Stores received pieces. Returns the number of bytes that are in memory now.
    fn arrived(&mut self, now: Instant, pieces: Vec<Arrived>) -> u64 {
        let streams: Vec<StreamId> = self.core.sources().keys().copied().collect();
        let mut taken_bytes = 0;
        for piece in pieces {
            let to = (self.core.shard_mut(), &self.host.pool);
            let bytes = piece.bytes.len() as u64;
            if self.arrivals.take(now, to, streams.iter().copied(), piece) {
                taken_bytes += bytes;
            }
        }
        taken_bytes
    }
}
