//! Reading by io_uring: the ring reads, the crew opens and judges.
//!
//! A read whose file is open goes straight into the ring. The device's thread never waits for a
//! file: one that hangs holds its own memory and nothing else.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::files::Files;
use super::io::{DiskIo, IoMode, Parts};
use super::mailbox::{Mailbox, Waker};
use super::transfer::{Completion, Next, Read, Rest, Transfer};
use crate::raw::{Ended, Ring};

/// Reads through io_uring.
pub(crate) struct UringIo {
    ring: Ring<Rest>,
    files: Arc<Files>,
    waker: Arc<Waker>,
    opened: Arc<Mailbox<Transfer>>,
    completions: Arc<Mailbox<Completion>>,
    // Scratch for what is taken out of the ring and the mailboxes.
    ended_calls: Vec<Ended<Rest>>,
    opened_now: Vec<Transfer>,
    ended_reads: Vec<Completion>,
}

impl UringIo {
    /// Sets up the ring; the error is why the kernel refuses.
    pub(crate) fn new(reads: u32, parts: &Parts) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(reads, Arc::clone(parts.waker.event()))?,
            files: Arc::clone(&parts.files),
            waker: Arc::clone(&parts.waker),
            opened: Mailbox::new(Arc::clone(&parts.waker)),
            completions: Arc::clone(&parts.completions),
            ended_calls: Vec::new(),
            opened_now: Vec::new(),
            ended_reads: Vec::new(),
        })
    }

    fn read(&mut self, transfer: Transfer) {
        let span = transfer.span();
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
            self.advance(ended);
        }
        self.ended_calls = ended_calls;
        Ok(())
    }

    fn advance(&mut self, ended: Ended<Rest>) {
        let mut transfer = Transfer {
            target: ended.target,
            rest: ended.rest,
        };
        let files = Arc::clone(&self.files);
        match transfer.advance(ended.result, &files) {
            Next::Again => self.read(transfer),
            Next::Reopen => {
                let opened = Arc::clone(&self.opened);
                self.files.crew().run(move || {
                    if let Some(transfer) = transfer.reopen(&files) {
                        opened.post(transfer);
                    }
                });
            }
            next => self.files.crew().run(move || transfer.end(next, &files)),
        }
    }
}

impl DiskIo for UringIo {
    fn submit(&mut self, read: Read) {
        if let Some(file) = self.files.cached(read.plan.stream, read.plan.part) {
            return self.read(read.with(file));
        }
        let (files, opened) = (Arc::clone(&self.files), Arc::clone(&self.opened));
        self.files.crew().run(move || {
            if let Some(transfer) = read.open(&files) {
                opened.post(transfer);
            }
        });
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        // A thread that sleeps in the ring counts as waiting for disks, so it does not when there
        // is nothing to wait for there.
        match self.ring.is_idle() {
            true => self.waker.sleep(timeout)?,
            false => self.wait_for_ring(timeout)?,
        }
        let mut opened_now = std::mem::take(&mut self.opened_now);
        self.opened.take(&mut opened_now);
        for transfer in opened_now.drain(..) {
            self.read(transfer);
        }
        self.opened_now = opened_now;
        self.completions.take(&mut self.ended_reads);
        completions.append(&mut self.ended_reads);
        Ok(())
    }

    fn mode(&self) -> IoMode {
        IoMode::IoUring
    }
}

impl Drop for UringIo {
    fn drop(&mut self) {
        // What the crew still opens is not to be read any more. The ring waits for the rest.
        self.opened.close();
    }
}
