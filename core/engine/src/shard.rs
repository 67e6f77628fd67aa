//! The contract of a shard. (Signatures first; the body follows.)
#![expect(unused_variables, clippy::todo, missing_docs, reason = "contract only")]

use alloc::vec::Vec;
use headlong_units::{Duration, Instant};

use crate::*;

/// Health of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceState {
    Online,
    Failing,
    Offline,
}

/// One live chain, for the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainView {
    pub viewer: ViewerId,
    pub stream: StreamId,
    /// Bytes requested so far.
    pub length_bytes: u64,
    /// Bytes in memory for it and not yet read by it.
    pub unread_bytes: u64,
    /// Size of its next prefetch.
    pub prefetch_bytes: u64,
    pub pace: headlong_units::BitRate,
    /// Time until it runs dry if nothing more is read.
    pub slack: Duration,
}

/// One device: queue, share of memory, chains. Owned by one thread.
pub struct Shard {}

impl Shard {
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        todo!()
    }
    /// New settings for policy, order, retention, admission, patience...; piece and memory stay.
    pub fn handle_config(&mut self, now: Instant, config: EngineConfig) -> Result<(), ConfigError> {
        todo!()
    }
    pub fn handle_stream(&mut self, now: Instant, spec: StreamSpec) -> Result<(), Refusal> {
        todo!()
    }
    /// The bit rate became known (headers were read) or a better one was found.
    pub fn handle_bit_rate(
        &mut self,
        now: Instant,
        stream: StreamId,
        rate: headlong_units::BitRate,
    ) {
        todo!()
    }
    /// The stream's files changed or went: its pieces are dropped, its requests fail.
    pub fn handle_stream_gone(&mut self, now: Instant, stream: StreamId) {
        todo!()
    }
    pub fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        todo!()
    }
    /// One slot of an earlier `Ready` is back: the socket took it, or the reply was dropped.
    pub fn handle_sent(&mut self, now: Instant, id: RequestId, slot: Slot) {
        todo!()
    }
    /// Nobody wants the reply any more. Slots still out are returned with `handle_sent` as ever.
    pub fn handle_cancel(&mut self, now: Instant, id: RequestId) {
        todo!()
    }
    pub fn handle_read_done(&mut self, now: Instant, id: ReadId, outcome: ReadOutcome) {
        todo!()
    }
    /// Time passed; call it when `poll_timeout` says so, or at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        todo!()
    }
    /// Next command; call until `None` after every `handle_*`.
    pub fn poll_command(&mut self) -> Option<Command> {
        todo!()
    }
    /// Next event; call until `None` after every `handle_*`.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }
    /// When to call `handle_timeout` next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }
    pub fn stats(&self) -> Stats {
        todo!()
    }
    pub fn memory_use(&self) -> MemoryUse {
        todo!()
    }
    pub fn queue_use(&self, now: Instant) -> QueueUse {
        todo!()
    }
    pub fn device_state(&self) -> DeviceState {
        todo!()
    }
    /// Up to `max` live chains, those closest to running dry first.
    pub fn chain_views(&self, now: Instant, max: usize) -> Vec<ChainView> {
        todo!()
    }
    /// Up to `max` physical positions of queued jobs, ascending.
    pub fn queue_positions(&self, max: usize) -> Vec<u64> {
        todo!()
    }
    pub fn chain_count(&self) -> usize {
        todo!()
    }
}
