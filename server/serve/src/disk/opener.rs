//! Opening and closing the files of one device, on threads, because both may block.
//!
//! Reads bypass the page cache (`O_DIRECT`) where the device core says so; other files are opened
//! without kernel read-ahead.

use std::fs::File;
use std::io;
use std::sync::Arc;

use headlong_device::{IoFailure, OpenJob, Opened, PartId};
use rustix::fs::{Advice, fadvise};

use super::StreamSource;
use super::completion::Completion;
use super::mailbox::Mailbox;
use crate::thread_pool::ThreadPool;

/// Most threads that open, judge and, without io_uring, read the files of a device.
pub(crate) const THREADS_MAX: usize = 32;

/// The threads of one device that may block.
pub(crate) struct Opener {
    device: String,
    threads: ThreadPool,
}

/// The duty to say how an open ended. Dropped without that (a job panicked), it says that the device
/// failed.
struct Ticket {
    id: PartId,
    opened: Option<Result<Opened<Arc<File>>, IoFailure>>,
    completions: Arc<Mailbox<Completion>>,
}

impl Ticket {
    fn end(mut self, opened: Result<Opened<Arc<File>>, IoFailure>) {
        self.opened = Some(opened);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let opened = self.opened.take().unwrap_or(Err(IoFailure::Device));
        self.completions.post(Completion::Opened(self.id, opened));
    }
}

impl Opener {
    pub(crate) fn new(device: &str) -> io::Result<Arc<Self>> {
        let threads = ThreadPool::new(&format!("io-{device}"), THREADS_MAX, 0)?;
        let device = device.to_owned();
        Ok(Arc::new(Self { device, threads }))
    }

    /// Name of the device, for logs.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Threads that may block.
    pub(crate) fn threads(&self) -> &ThreadPool {
        &self.threads
    }

    /// Opens a file and tells `completions`. Does not block.
    pub(crate) fn open(
        self: &Arc<Self>,
        job: OpenJob<Arc<dyn StreamSource>>,
        completions: &Arc<Mailbox<Completion>>,
    ) {
        let opener = Arc::clone(self);
        let ticket = Ticket {
            id: job.id,
            opened: None,
            completions: Arc::clone(completions),
        };
        self.threads.run(move || {
            let opened = open(&job).map_err(|error| opener.failure(&job, &error));
            ticket.end(opened);
        });
    }

    /// Closes files. Does not block.
    pub(crate) fn close(&self, files: Vec<Arc<File>>) {
        self.threads.run(move || drop(files));
    }

    fn failure(&self, job: &OpenJob<Arc<dyn StreamSource>>, error: &io::Error) -> IoFailure {
        let failure = IoFailure::of_errno(error.raw_os_error());
        // The others are about the file, which is its watcher's business, or are tried again.
        if failure == IoFailure::Device {
            let (device, file) = (&self.device, job.source.file_name(job.id.part));
            tracing::warn!(device, file, %error, "open failed");
        }
        failure
    }
}

fn open(job: &OpenJob<Arc<dyn StreamSource>>) -> io::Result<Opened<Arc<File>>> {
    let OpenJob {
        id,
        source,
        is_direct,
    } = job;
    let file = source.open(id.part, *is_direct)?;
    let is_current = source.unchanged(id.part, &file);
    if !is_direct {
        // Advice only: without it, more is read than was asked for.
        let _ = fadvise(&file, 0, None, Advice::Random);
    }
    Ok(Opened {
        file: Arc::new(file),
        is_current,
    })
}
