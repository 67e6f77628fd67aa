//! Commands for a running disk, over a Unix socket: one JSON object a line each way.
//!
//! docs/lab/disk.md is what both ends keep to.

mod client;
mod protocol;
mod server;
mod stop;

pub use client::request;
pub use protocol::{Command, FaultCommand};
pub(crate) use server::ControlServer;
pub use stop::StopSignal;
