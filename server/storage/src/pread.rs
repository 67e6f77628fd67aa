//! Reads with `preadv` on threads: each read of an open file, with its outcome, is one job of the
//! thread pool.
//!
//! A read that hangs blocks only its own thread. Its memory stays leased until the system call
//! returns, whatever happens to the device meanwhile.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headlong_kernel::raw::{QUIESCE_TIME, RUNS_MAX};

use super::completion::Completion;
use super::disk_read::{DiskRead, DiskReadStep};
use super::io::{DiskIo, IoMode, IoParts};
use super::mailbox::{Mailbox, Waker};
use super::opener::Opener;

/// I/O interface over the threads of the pool.
pub(crate) struct PreadIo {
    opener: Arc<Opener>,
    waker: Arc<Waker>,
    completions: Arc<Mailbox<Completion>>,
    ended: Vec<Completion>,
    under_way: usize,
}

impl PreadIo {
    pub(crate) fn new(parts: IoParts) -> Self {
        Self {
            opener: parts.opener,
            waker: parts.waker,
            completions: parts.completions,
            ended: Vec::new(),
            under_way: 0,
        }
    }
}

impl DiskIo for PreadIo {
    fn submit(&mut self, read: DiskRead) {
        self.under_way += 1;
        let opener = Arc::clone(&self.opener);
        self.opener.threads().run(move || read_all(read, &opener));
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        self.waker.sleep(timeout)?;
        self.completions.take(&mut self.ended);
        let is_read =
            |of: &&Completion| !matches!(of, Completion::Opened(..) | Completion::Located(..));
        let ended = self.ended.iter().filter(is_read).count();
        self.under_way = self.under_way.saturating_sub(ended);
        completions.append(&mut self.ended);
        Ok(())
    }

    fn mode(&self) -> IoMode {
        IoMode::Pread
    }
}

impl Drop for PreadIo {
    /// Waits a limited time for reads in flight, so that their files are closed when the device is
    /// gone.
    fn drop(&mut self) {
        let start = Instant::now();
        while self.under_way > 0 {
            let left = QUIESCE_TIME.saturating_sub(start.elapsed());
            if left.is_zero() || self.wait(Some(left), &mut Vec::new()).is_err() {
                let reads = self.under_way;
                tracing::warn!(
                    reads,
                    "reads did not complete in time; their threads are abandoned"
                );
                return;
            }
        }
    }
}

fn read_all(mut transfer: DiskRead, opener: &Opener) {
    loop {
        let span = transfer.rest.job.span();
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
        match transfer.advance(result) {
            DiskReadStep::Again => {}
            DiskReadStep::Refused => return transfer.refused(),
            DiskReadStep::End(end, error) => return transfer.end(end, error, opener),
        }
    }
}
