//! Synchronisation primitives of the mailbox and the delegation lock: the standard library and an
//! eventfd.
//!
//! `tests/models` compiles those two files with substitutes of the same names, which explore all
//! interleavings of the threads.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU8, Ordering, fence};
pub(super) use std::sync::{Mutex, MutexGuard};

/// Attempts to take a lock before a message is posted.
pub(super) const TRIES: u32 = 64;

/// An event that one thread sleeps on and others signal: a descriptor, so that a ring can wait for
/// it too.
#[derive(Debug)]
pub(super) struct WakeEvent(Arc<OwnedFd>);

impl WakeEvent {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    /// The descriptor that becomes readable when the event is signalled.
    pub(super) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    pub(super) fn signal(&self) {
        // Fails only if the counter is saturated; then the thread is being woken already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for a signal or the timeout (`None`: no timeout). Returns whether a signal came.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut event = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut event, timeout.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Resets the event.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // Fails if the event was not signalled, which is fine.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}
