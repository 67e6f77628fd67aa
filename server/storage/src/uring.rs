//! I/O interface over `io_uring`: the ring reads, the thread pool determines the outcomes.
//!
//! The device thread never waits for a file: a read that hangs holds only its own memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use headlong_device::ReadEnd;
use headlong_kernel::raw::{CompletedRead, Ring};

use super::completion::Completion;
use super::disk_read::{DiskRead, DiskReadStep, ReadProgress};
use super::io::{DiskIo, IoMode, IoParts};
use super::mailbox::{Mailbox, Waker};
use super::opener::Opener;

/// I/O interface over `io_uring`.
pub(crate) struct UringIo {
    ring: Ring<ReadProgress>,
    opener: Arc<Opener>,
    waker: Arc<Waker>,
    completions: Arc<Mailbox<Completion>>,
    // Buffers for completions of the ring and the mailbox, reused.
    ended_calls: Vec<CompletedRead<ReadProgress>>,
    ended_reads: Vec<Completion>,
}

impl UringIo {
    /// Sets up the ring; fails if the kernel refuses.
    pub(crate) fn new(reads: u32, parts: &IoParts) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(reads, Arc::clone(parts.waker.event().descriptor()))?,
            opener: Arc::clone(&parts.opener),
            waker: Arc::clone(&parts.waker),
            completions: Arc::clone(&parts.completions),
            ended_calls: Vec::new(),
            ended_reads: Vec::new(),
        })
    }

    fn read(&mut self, transfer: DiskRead) {
        let span = transfer.rest.job.span();
        self.ring.read(transfer.target, span, transfer.rest);
    }

    fn wait_for_ring(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = match self.waker.begin_sleep() {
            true => timeout,
            false => Some(Duration::ZERO),
        };
        let mut ended_calls = std::mem::take(&mut self.ended_calls);
        let woken = self.ring.wait(timeout, &mut ended_calls);
        self.waker.end_sleep();
        if woken? {
            self.waker.clear();
        }
        for ended in ended_calls.drain(..) {
            let CompletedRead {
                target,
                rest,
                result,
            } = ended;
            self.advance(DiskRead { target, rest }, result);
        }
        self.ended_calls = ended_calls;
        Ok(())
    }

    fn advance(&mut self, mut transfer: DiskRead, result: io::Result<u64>) {
        match transfer.advance(result) {
            DiskReadStep::Again => self.read(transfer),
            DiskReadStep::Refused => transfer.refused(),
            DiskReadStep::End(end, error) => self.end(transfer, end, error),
        }
    }

    fn end(&self, transfer: DiskRead, end: ReadEnd, error: Option<io::Error>) {
        let opener = Arc::clone(&self.opener);
        let threads = self.opener.threads();
        threads.run(move || transfer.end(end, error, &opener));
    }
}

impl DiskIo for UringIo {
    fn submit(&mut self, read: DiskRead) {
        self.read(read);
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        // A thread that sleeps in the ring is accounted as waiting for I/O, so use the event when
        // the ring is idle.
        match self.ring.is_idle() {
            true => self.waker.sleep(timeout)?,
            false => self.wait_for_ring(timeout)?,
        }
        self.completions.take(&mut self.ended_reads);
        completions.append(&mut self.ended_reads);
        Ok(())
    }

    fn mode(&self) -> IoMode {
        IoMode::IoUring
    }
}
