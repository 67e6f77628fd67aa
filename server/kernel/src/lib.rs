//! What the server asks of the kernel: memory that disks write to and sockets read from, reads by
//! `io_uring`, threads for calls that block, descriptors, and the clock's scale.
//!
//! Entry points: [`raw::Pool`] is the memory of a device; [`raw::Ring`] and
//! [`thread_pool::ThreadPool`] carry out reads.
//!
//! Invariants: `raw` is the only module of the server with unsafe code, and its interface is safe; a
//! blocking call runs on a pool of the disk that it may block on, never on a thread of others.

pub mod descriptors;
pub mod raw;
pub mod sharded_counters;
pub mod thread_pool;
pub mod time_scale;
