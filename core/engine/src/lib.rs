//! What the server decides: what to read, how much, when, in which order, and what to keep.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod command;
mod config;
mod ids;
mod request;
mod shard;
mod stats;
mod stream;

pub use command::{Command, Event, Failure, ReadCommand, ReadOutcome, Refusal};
pub use config::{Admission, ConfigError, EngineConfig, Order, Policy, Retention, SizingConfig};
pub use ids::{ReadId, RequestId, Slot, StreamId, ViewerId};
pub use request::{Hints, Request};
pub use shard::{ChainView, DeviceState, Shard};
pub use stats::{MemoryUse, QueueUse, Stats};
pub use stream::{Extent, PartSpec, StreamSpec};
