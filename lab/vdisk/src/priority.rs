//! Threads that answer the kernel: they must not wait for what they themselves hold up, and wake on
//! time.

use std::cell::Cell;
use std::num::NonZeroU64;

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

thread_local! {
    static IS_RAISED: Cell<bool> = const { Cell::new(false) };
}

/// Prepares the calling thread, once. What the system refuses costs accuracy and no more.
pub(crate) fn raise() {
    if IS_RAISED.replace(true) {
        return;
    }
    // A thread that serves a disk must not wait until that disk has written something out: neither
    // for memory nor when it writes to a file of its own.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // Before everything that only computes: what it does is short, and a late answer is a wrong
    // one. On a busy machine a thread of ordinary priority wakes milliseconds late.
    let _ = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
    // The kernel rounds a sleeper's time up by 50 microseconds otherwise.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
