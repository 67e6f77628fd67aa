//! Reading by threads: each read is one job of the thread pool, from opening the file to the verdict.
//!
//! A read that hangs takes its thread with it and nobody else; its memory stays leased until the
//! kernel lets go of the thread, whatever became of the device meanwhile.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::files::Files;
use super::io::{DiskIo, IoMode, Parts};
use super::mailbox::{Mailbox, Waker};
use super::transfer::{Completion, Next, Read, Transfer};
use crate::raw::{QUIESCE_TIME, RUNS_MAX};

/// Reads through the threads of the pool.
pub(crate) struct PreadIo {
    files: Arc<Files>,
    waker: Arc<Waker>,
    completions: Arc<Mailbox<Completion>>,
    ended: Vec<Completion>,
    under_way: usize,
}

impl PreadIo {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            files: parts.files,
            waker: parts.waker,
            completions: parts.completions,
            ended: Vec::new(),
            under_way: 0,
        }
    }
}

impl DiskIo for PreadIo {
    fn submit(&mut self, read: Read) {
        self.under_way += 1;
        self.files.note_opening(read.plan.stream, read.plan.part);
        let files = Arc::clone(&self.files);
        self.files.threads().run(move || {
            if let Some(transfer) = read.open(&files) {
                read_all(transfer, &files);
            }
        });
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        self.waker.sleep(timeout)?;
        self.completions.take(&mut self.ended);
        self.under_way = self.under_way.saturating_sub(self.ended.len());
        completions.append(&mut self.ended);
        Ok(())
    }

    fn mode(&self) -> IoMode {
        IoMode::Pread
    }
}

impl Drop for PreadIo {
    /// Lets the reads end, for a while: files are then closed when the device is gone.
    fn drop(&mut self) {
        let start = Instant::now();
        while self.under_way > 0 {
            let left = QUIESCE_TIME.saturating_sub(start.elapsed());
            if left.is_zero() || self.wait(Some(left), &mut Vec::new()).is_err() {
                let reads = self.under_way;
                tracing::warn!(reads, "reads never ended; their threads are given up");
                return;
            }
        }
    }
}

fn read_all(mut transfer: Transfer, files: &Files) {
    loop {
        let span = transfer.span();
        let target = &mut transfer.target;
        // Only reads through the ring share their memory.
        let result = match Arc::get_mut(&mut target.lease) {
            Some(lease) => {
                let mut slices = lease.slices(span.skip, span.length, RUNS_MAX);
                let result = rustix::io::preadv(&target.file, &mut slices, span.offset);
                result.map(|bytes| bytes as u64).map_err(io::Error::from)
            }
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        match transfer.advance(result, files) {
            Next::Again => {}
            Next::Reopen => match transfer.reopen(files) {
                Some(reopened) => transfer = reopened,
                None => return,
            },
            next => return transfer.end(next, files),
        }
    }
}
