//! Reading, as a device's thread sees it: io_uring, or threads that call `preadv`.
//!
//! Both take reads of open files and wait for their ends without ever blocking on a file; judging
//! what was read is left to the thread pool in either.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use super::mailbox::{Mailbox, Waker};
use super::opener::Opener;
use super::transfer::Transfer;

headlong_units::names! {
    /// How a device is read.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum IoMode {
        /// io_uring where the kernel lets us, else `preadv`.
        #[default]
        Auto => "auto",
        /// io_uring, or the device is not started.
        IoUring => "io_uring",
        /// A thread per outstanding read, at most 32.
        Pread => "pread",
    }
}

/// Reads of one device, as its thread sees them.
pub(crate) trait DiskIo: Send {
    /// Begins a read, at the next wait at the latest. Does not block.
    fn submit(&mut self, read: Transfer);

    /// Sleeps until a read ends, the waker wakes or the time is over (`None`: it never is), and
    /// appends the completions. An error means that nothing can be read any more.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()>;

    /// `io_uring` or `pread`.
    fn mode(&self) -> IoMode;
}

/// What a way of reading works with.
pub(crate) struct Parts {
    pub(crate) opener: Arc<Opener>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) completions: Arc<Mailbox<Completion>>,
}
