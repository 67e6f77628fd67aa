//! Threads that serve the kernel: they must not wait for memory that they would have to write out
//! themselves, and must wake on time.

use std::cell::Cell;
use std::num::NonZeroU64;

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

thread_local! {
    static IS_RAISED: Cell<bool> = const { Cell::new(false) };
}

/// Prepares the calling thread, once. Failures only cost accuracy.
pub(crate) fn raise() {
    if IS_RAISED.replace(true) {
        return;
    }
    // A thread that serves a disk must not wait for writes to that disk: neither when it allocates
    // memory nor when it writes to a file.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // Ahead of ordinary work: its tasks are short, and a late answer is a wrong one. On a busy
    // machine a thread of ordinary priority wakes milliseconds late.
    let _ = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
    // Otherwise the kernel rounds up the time of a sleep by 50 microseconds.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
