//! One shard over virtual time: one program, so that the rig is compiled and linked once.

mod announced_requests;
mod cold_start;
mod drain;
mod flash;
mod golden;
mod isolation;
mod memory;
mod memory_transfer;
mod one_shot;
mod properties;
mod rig;
mod runs;
mod saved_state;
mod scenarios;
mod stream_changes;
mod unnamed_viewers;
