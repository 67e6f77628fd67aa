//! Dispatch of the messages to a device.

use headlong_device::PartId;
use headlong_engine::{ConfigError, EngineConfig, Refusal, Slot, StreamId};
use headlong_units::Instant;

use super::DeviceEngine;
use crate::flash::{FlashDone, FlashSource};
use crate::learned_state;
use crate::message::{DeviceMessage, DeviceRequest, ExpectedRange};
use crate::piece_transfer::{self, IncomingPiece};

impl DeviceEngine {
    /// Handles a message.
    pub(crate) fn handle(&mut self, now: Instant, message: DeviceMessage) {
        let (core, host) = (&mut self.core, &mut self.host);
        match message {
            DeviceMessage::Request(ask) => {
                let DeviceRequest {
                    id,
                    request,
                    register,
                    answer,
                } = *ask;
                // If the requester has left, the reply is dropped here and cancels itself.
                let _ = answer.send(self.request(now, (id, request), register));
            }
            DeviceMessage::Expect(expect) => self.expect(now, *expect),
            DeviceMessage::Sent { request, slot } => core.sent(now, host, request, slot),
            DeviceMessage::Cancel(request) => core.cancel(now, host, request),
            DeviceMessage::BitRate(stream, rate) => {
                core.shard_mut().handle_bit_rate(now, stream, rate)
            }
            DeviceMessage::Part(stream, part, spec) => {
                core.handle_part(now, host, PartId { stream, part }, *spec);
            }
            DeviceMessage::Gone(stream, is_regrouped) => {
                core.handle_stream_removed(now, host, stream, is_regrouped);
            }
            DeviceMessage::Configure(config, answer) => {
                let _ = answer.send(self.configure(now, *config));
            }
            DeviceMessage::Flash(FlashDone { end, taken }) => {
                core.handle_flash(now, host, end);
                // Dropping it allows recovery to send the next part.
                drop(taken);
            }
            DeviceMessage::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
            DeviceMessage::Learned(answer) => {
                let _ = answer.send(learned_state::export(core));
            }
            DeviceMessage::Returning(told) => {
                core.set_restored_chains(learned_state::restored_chains(
                    now,
                    self.time_scale,
                    Some(&told),
                ));
            }
            DeviceMessage::Retire(retires, done) => {
                core.shard_mut().handle_retiring(now, retires);
                self.vacated = Some(done);
            }
            DeviceMessage::Replaced => core.shard_mut().handle_replaced(now),
            DeviceMessage::PassOn(answer) => {
                let (shard, arrivals) = (core.shard_mut(), &mut self.arrivals);
                let leaving = piece_transfer::take_out(now, shard, &host.pool, arrivals);
                if let Err(left) = answer.send(leaving) {
                    let slots: Vec<Slot> = left.into_iter().map(|piece| piece.slot).collect();
                    shard.handle_passed_on(now, &slots);
                }
            }
            DeviceMessage::PassedOn(slots) => core.shard_mut().handle_passed_on(now, &slots),
            DeviceMessage::Arrived(pieces, taken) => {
                let taken_bytes = self.arrived(now, pieces);
                // The sending process may have exited.
                let _ = taken.send(taken_bytes);
            }
            DeviceMessage::TakeFlash(part, say) if !core.has_flash() => {
                self.take_flash(FlashSource { part, say });
            }
            DeviceMessage::TakeFlash(..) => {}
            DeviceMessage::LeaveFlash => {
                host.flash = None;
                core.leave_flash(now, host);
            }
        }
        self.core.drain_queues(now, &mut self.host);
        self.settled();
    }

    fn expect(&mut self, now: Instant, expect: ExpectedRange) {
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
    fn arrived(&mut self, now: Instant, pieces: Vec<IncomingPiece>) -> u64 {
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
