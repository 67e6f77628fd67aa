//! The server's interface to the kernel: memory that disks write to and sockets read from, reads by
//! `io_uring`, threads for blocking calls, descriptors, and the scale of clocks.
//!
//! Entry points: [`raw::Pool`] is the memory of a device; [`raw::Ring`] and
//! [`thread_pool::ThreadPool`] carry out reads.
//!
//! Invariants: `raw` is the only module of the server with unsafe code, and its interface is safe; a
//! blocking call runs on the thread pool of its disk, never on a thread that serves other disks.

pub mod descriptors;
pub mod raw;
pub mod sharded_counters;
pub mod thread_pool;
pub mod time_scale;
