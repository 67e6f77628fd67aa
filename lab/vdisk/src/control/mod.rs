//! Control of a running disk over a Unix socket: one JSON object per line in each direction.
//!
//! Both sides implement docs/lab/disk.md.

mod client;
mod protocol;
mod server;
mod stop;

pub use client::request;
pub use protocol::{ControlCommand, FaultCommand};
pub(crate) use server::ControlServer;
pub use stop::StopSignal;
