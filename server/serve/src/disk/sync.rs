//! What the mailbox and the lock with hand-over are made of: the standard library and an eventfd.
//!
//! `tests/models` builds those two files with other things of the same names, under which every
//! order of the threads' steps is tried.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU8, Ordering, fence};
pub(super) use std::sync::{Mutex, MutexGuard};

/// How often a lock is tried for before a message is left.
pub(super) const TRIES: u32 = 64;

/// What one thread sleeps on and others signal: a descriptor, so that a ring can wait for it too.
#[derive(Debug)]
pub(super) struct Event(Arc<OwnedFd>);

impl Event {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    /// What becomes readable when it is signalled.
    pub(super) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    pub(super) fn signal(&self) {
        // Fails only if the counter is full, and then the thread is being woken already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for a signal, or until the time is over (`None`: it never is); whether one came.
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

    /// Makes it as if it had not been signalled.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // Fails if nothing was written, which is what is wanted.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}
