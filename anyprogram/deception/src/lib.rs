//! Preload library (`LD_PRELOAD`), named deception after libception.
//!
//! Before a call that reads a file, it checks whether the bytes are in memory. If not, it asks the
//! read-ahead daemon (the reception), waits for a bounded time, and then makes the original call
//! unchanged, `errno` included: only timing can change. For small files the order is reversed: the
//! duration of the first call shows whether it waited for the disk; if so, the daemon is notified
//! and reads the next files.
//!
//! Invariants: state about a descriptor is a hint, and a wrong hint costs time only. No lock,
//! allocation or open descriptor outlives a call, so signals, threads and forks need no special
//! handling. Without a daemon a program pays one connection attempt in [`memory::PAUSE_MS`]; with a
//! daemon that accepts connections but never answers, it waits at exponentially increasing
//! intervals. The daemon alone decides what to read.
#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "tests do not use the functions that interpose libc's"
    )
)]

mod client;
mod descriptors;
mod memory;
mod raw;
mod resident;
mod settings;
mod timed_calls;
