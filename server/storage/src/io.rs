//! The I/O interface of a device thread: `io_uring`, or threads that call `preadv`.
//!
//! Both accept reads of open files and wait for completions without blocking on a file. The thread
//! pool determines the outcome of each read in both cases.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use super::disk_read::DiskRead;
use super::mailbox::{Mailbox, Waker};
use super::opener::Opener;

headlong_units::names! {
    /// The I/O interface of a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum IoMode {
        /// `io_uring` if the kernel allows it, otherwise `preadv`.
        #[default]
        Auto => "auto",
        /// `io_uring`; if it is refused, the device does not start.
        IoUring => "io_uring",
        /// `preadv` on one thread per outstanding read, at most 32.
        Pread => "pread",
    }
}

/// The I/O interface of one device, used by its thread.
pub(crate) trait DiskIo: Send {
    /// Starts a read, at the latest in the next wait. Does not block.
    fn submit(&mut self, read: DiskRead);

    /// Sleeps until a read completes, the waker is signalled or the timeout expires (`None`: no
    /// timeout), and appends the completions. An error means that the device cannot be read any
    /// more.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()>;

    /// `io_uring` or `pread`.
    fn mode(&self) -> IoMode;
}

/// The parts that an I/O interface works with.
pub(crate) struct IoParts {
    pub(crate) opener: Arc<Opener>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) completions: Arc<Mailbox<Completion>>,
}
