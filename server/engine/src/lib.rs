//! The engine: decides what to read, how much, when and in which order, and what to keep in memory.
//!
//! A state machine without I/O. The shell reports events with their time (`handle_*`) and carries
//! out commands (`poll_command`, `poll_event`, `poll_timeout`). The shell owns the bytes; the
//! engine handles tokens for pieces of memory. The server and the simulation in virtual time
//! therefore make the same decisions.
//!
//! Invariants: no clock, no I/O, no randomness, and no dependence on the iteration order of a hash
//! map: the same calls give the same commands and events, byte for byte. Every table has a bound; a
//! full one refuses with [`Refusal::Full`]. No input makes it panic. Start reading at [`Shard`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission_slack;
mod age_queue;
mod chain;
mod chain_matching;
mod chains;
mod command;
mod config;
mod control;
mod flash;
mod health;
mod id_map;
mod ids;
mod index;
mod knobs;
mod lanes;
mod layout;
mod lingering_slot;
mod load;
mod lru;
mod memory;
mod one_shot;
mod pace;
mod popularity;
mod queue;
mod read_depth;
mod readers;
mod replies;
mod request;
mod runs;
mod saved_state;
mod shard;
mod sizing;
mod stats;
mod stream;
mod streams;
mod unread_pieces;

pub use command::{
    Command, Event, Failure, FlashCommand, FlashOutcome, FlashRead, FlashRecord, ReadCommand,
    ReadOutcome, Refusal,
};
pub use config::{
    Admission, ConfigError, Control, ControlConfig, EngineConfig, Order, PIECE_BYTES_WITH_FLASH,
    Policy, Prefetch, Retention, SizingConfig,
};
pub use control::{
    ControlView, DriveTimes, EndedChain, SizeChange, SizeReason, SteadyLoad, SteadyState,
};
pub use health::DeviceState;
pub use ids::{ChainId, ConnectionId, FlashReadId, ReadId, RequestId, Slot, StreamId, ViewerId};
pub use knobs::{knobs, prefetch};
pub use popularity::read_again_within;
pub use request::{AnnouncedRequest, Hints, ReaderIdentity, Request};
pub use saved_state::{SavedChain, ShardMeasurements};
pub use shard::{ChainView, PartInMemory, PieceBytes, Shard, TransferPiece};
pub use sizing::{ChainGrowth, ChainShape, prefetch_bytes, prefetch_bytes_with};
pub use stats::{MemoryUse, QueueUse, Stats};
pub use stream::{Extent, PartSpec, StreamSpec};
