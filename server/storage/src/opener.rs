//! Opens and closes the files of one device, on threads, because both calls may block.
//!
//! Files are opened with `O_DIRECT` if the device core asks for it; other files are opened without
//! kernel readahead.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_device::{IoFailure, LookupJob, OpenJob, OpenedFile, PartId};
use headlong_engine::{Extent, StreamId};
use headlong_kernel::thread_pool::ThreadPool;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::StreamSource;
use super::completion::Completion;
use super::mailbox::Mailbox;

/// Upper limit of threads that open files, determine outcomes and, without `io_uring`, read.
pub(crate) const THREADS_MAX: usize = 32;

/// Upper limit of files that were opened to describe a stream and wait for their first read.
const OFFERED_MAX: usize = 32;

/// The blocking threads of one device.
pub(crate) struct Opener {
    device: String,
    threads: ThreadPool,
    /// Files that were opened to describe their streams, oldest first.
    offered: Mutex<VecDeque<(PartId, File)>>,
}

/// Completion guard of an open: reports a device failure when dropped without a result (if a job
/// panics).
struct OpenCompletionGuard {
    id: PartId,
    opened: Option<Result<OpenedFile<Arc<File>>, IoFailure>>,
    completions: Arc<Mailbox<Completion>>,
}

impl OpenCompletionGuard {
    fn end(mut self, opened: Result<OpenedFile<Arc<File>>, IoFailure>) {
        self.opened = Some(opened);
    }
}

impl Drop for OpenCompletionGuard {
    fn drop(&mut self) {
        let opened = self.opened.take().unwrap_or(Err(IoFailure::Device));
        self.completions.post(Completion::Opened(self.id, opened));
    }
}

/// Completion guard of a look-up: reports an unknown location when dropped without a result (if a
/// job panics).
struct LookupCompletionGuard {
    id: PartId,
    extents: Option<Vec<Extent>>,
    completions: Arc<Mailbox<Completion>>,
}

impl Drop for LookupCompletionGuard {
    fn drop(&mut self) {
        let located = Completion::Located(self.id, self.extents.take());
        self.completions.post(located);
    }
}

impl Opener {
    pub(crate) fn new(device: &str) -> io::Result<Arc<Self>> {
        let threads = ThreadPool::new(&format!("io-{device}"), THREADS_MAX, 0)?;
        let device = device.to_owned();
        Ok(Arc::new(Self {
            device,
            threads,
            offered: Mutex::default(),
        }))
    }

    /// Name of the device, for logs.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Threads that may block.
    pub(crate) fn threads(&self) -> &ThreadPool {
        &self.threads
    }

    /// Opens a file and posts the result to `completions`. Does not block.
    pub(crate) fn open(
        self: &Arc<Self>,
        job: OpenJob<Arc<dyn StreamSource>>,
        completions: &Arc<Mailbox<Completion>>,
    ) {
        let opener = Arc::clone(self);
        let ticket = OpenCompletionGuard {
            id: job.id,
            opened: None,
            completions: Arc::clone(completions),
        };
        self.threads.run(move || {
            let offered = opener.take_offered(job.id);
            let opened = open(&job, offered).map_err(|error| opener.failure(&job, &error));
            ticket.end(opened);
        });
    }

    /// Looks up the location of a file and posts it to `completions`. Does not block.
    pub(crate) fn look_up(
        &self,
        job: LookupJob<Arc<dyn StreamSource>, Arc<File>>,
        completions: &Arc<Mailbox<Completion>>,
    ) {
        let LookupJob { id, source, file } = job;
        let mut ticket = LookupCompletionGuard {
            id,
            extents: None,
            completions: Arc::clone(completions),
        };
        self.threads.run(move || {
            ticket.extents = source.locate(id.part, &file);
            // Closed before the completion, like the file of a read.
            drop(file);
            drop(ticket);
        });
    }

    /// Keeps a file that was opened to describe its stream, to reuse it for the first read. May
    /// block, because the oldest file is closed if there are too many.
    pub(crate) fn offer(&self, id: PartId, file: File) {
        let mut offered = self.offered();
        offered.push_back((id, file));
        let over = offered.len().saturating_sub(OFFERED_MAX);
        let closed: Vec<_> = offered.drain(..over).collect();
        drop(offered);
        drop(closed);
    }

    /// Closes the files of a stream that was not registered. Does not block.
    pub(crate) fn withdraw(&self, stream: StreamId) {
        let mut offered = self.offered();
        let all = std::mem::take(&mut *offered);
        let (closed, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(id, _)| id.stream == stream);
        *offered = left.into();
        drop(offered);
        if !closed.is_empty() {
            self.threads.run(move || drop(closed));
        }
    }

    fn take_offered(&self, id: PartId) -> Option<File> {
        let mut offered = self.offered();
        let place = offered.iter().position(|(of, _)| *of == id)?;
        offered.remove(place).map(|(_, file)| file)
    }

    fn offered(&self) -> MutexGuard<'_, VecDeque<(PartId, File)>> {
        // No code under the lock can panic in the middle of a change.
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes files. Does not block.
    pub(crate) fn close(&self, files: Vec<Arc<File>>) {
        self.threads.run(move || drop(files));
    }

    fn failure(&self, job: &OpenJob<Arc<dyn StreamSource>>, error: &io::Error) -> IoFailure {
        let failure = IoFailure::of_errno(error.raw_os_error());
        // Other failures concern the file, which the watcher handles, or are retried.
        if failure == IoFailure::Device {
            let (device, file) = (&self.device, job.source.file_name(job.id.part));
            tracing::warn!(device, file, %error, "open failed");
        }
        failure
    }
}

/// Switches an open file to `O_DIRECT`.
fn make_direct(source: &dyn StreamSource, file: &File) -> io::Result<()> {
    if !source.allows_direct() {
        return Err(Errno::INVAL.into());
    }
    let flags = fcntl_getfl(file)?;
    Ok(fcntl_setfl(file, flags | OFlags::DIRECT)?)
}

fn open(
    job: &OpenJob<Arc<dyn StreamSource>>,
    offered: Option<File>,
) -> io::Result<OpenedFile<Arc<File>>> {
    let OpenJob {
        id,
        source,
        is_direct,
    } = job;
    let file = match offered {
        Some(file) => {
            if *is_direct {
                make_direct(&**source, &file)?;
            }
            file
        }
        None => source.open(id.part, *is_direct)?,
    };
    let is_current = source.unchanged(id.part, &file);
    if !is_direct {
        // Best effort: without the hint, the kernel reads more than requested.
        let _ = fadvise(&file, 0, None, Advice::Random);
    }
    Ok(OpenedFile {
        file: Arc::new(file),
        is_current,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Waker;
    use crate::rig::{FileSource, ScratchDir};

    fn part(number: u32) -> PartId {
        PartId {
            stream: StreamId(1),
            part: number,
        }
    }

    fn job(source: &Arc<dyn StreamSource>, is_direct: bool) -> OpenJob<Arc<dyn StreamSource>> {
        OpenJob {
            id: part(0),
            source: Arc::clone(source),
            is_direct,
        }
    }

    #[test]
    fn file_opened_to_describe_stream_is_reused_for_reading() {
        let scratch = ScratchDir::new();
        let path = scratch.file("film", b"bytes");
        let source = FileSource::new(1, [path.clone()]);
        let opener = Opener::new("test").expect("starts");
        opener.offer(part(0), source.open(0, false).expect("opens"));
        // After this the file cannot be opened a second time.
        std::fs::remove_file(path).expect("removed");
        let source: Arc<dyn StreamSource> = Arc::new(source);
        let completions = Mailbox::new(Waker::new().expect("eventfd"));
        opener.open(job(&source, false), &completions);
        let mut told = Vec::new();
        while told.is_empty() {
            std::thread::yield_now();
            completions.take(&mut told);
        }
        let [Completion::Opened(_, Ok(opened))] = &told[..] else {
            panic!("open succeeds");
        };
        assert!(opened.is_current);
        assert!(opener.take_offered(part(0)).is_none());
    }

    #[test]
    fn offered_file_without_direct_io_fails_like_a_direct_open() {
        let scratch = ScratchDir::new();
        let source = FileSource::new(1, [scratch.file("film", b"bytes")]).refusing_direct();
        let file = source.open(0, false).expect("opens");
        let source: Arc<dyn StreamSource> = Arc::new(source);
        let opened = open(&job(&source, true), Some(file));
        let error = opened.expect_err("refused");
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }

    #[test]
    fn closes_files_of_unregistered_streams() {
        let scratch = ScratchDir::new();
        let source = FileSource::new(1, [scratch.file("film", b"bytes")]);
        let opener = Opener::new("test").expect("starts");
        for number in 0..2 * OFFERED_MAX as u32 {
            opener.offer(part(number), source.open(0, false).expect("opens"));
        }
        assert_eq!(opener.offered().len(), OFFERED_MAX);
        opener.withdraw(StreamId(1));
        assert!(opener.offered().is_empty());
    }
}
