//! Threads that answer the kernel: they must not wait for what they themselves hold up, and wake on
//! time.

use std::cell::Cell;
use std::num::NonZeroU64;

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
    // Of the calling thread, whatever the name says.
    let _ = rustix::process::setpriority_process(None, -20);
    // The kernel rounds a sleeper's time up by 50 microseconds otherwise.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
