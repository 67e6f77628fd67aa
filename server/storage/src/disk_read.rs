//! A read of an open file in flight, on the ring or a thread. The decisions are in [`ReadJob`].

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use headlong_device::{
    BLOCK_BYTES, FileRead, FileState, IoFailure, NextCall, ReadCompletion, ReadEnd, ReadJob,
};
use headlong_engine::ReadOutcome;
use headlong_kernel::raw::ReadTarget;
use rustix::fs::{Advice, fadvise};

use super::StreamSource;
use super::completion::Completion;
use super::mailbox::Mailbox;
use super::opener::Opener;
use super::resources::DiskResources;

/// Completion guard of a read: reports [`ReadOutcome::Error`] when dropped without an outcome (if a
/// job panics or the device stops).
struct ReadCompletionGuard {
    /// `None` once the read was returned to the core.
    completion: Option<ReadCompletion>,
    completions: Arc<Mailbox<Completion>>,
}

impl Drop for ReadCompletionGuard {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            self.completions.post(Completion::Ended(completion));
        }
    }
}

/// A read of an open file. `target` comes first, so that the memory is released before the
/// completion is posted.
pub(crate) struct DiskRead {
    pub(crate) target: ReadTarget,
    pub(crate) rest: ReadProgress,
}

/// State of a transfer besides its memory and file.
pub(crate) struct ReadProgress {
    pub(crate) job: ReadJob,
    source: Arc<dyn StreamSource>,
    ticket: ReadCompletionGuard,
}

/// The step after a call.
#[derive(Debug)]
pub(crate) enum DiskReadStep {
    /// Make another call.
    Again,
    /// Return the read: its file must be opened for buffered reads.
    Refused,
    /// Determine the outcome.
    End(ReadEnd, Option<io::Error>),
}

impl DiskRead {
    pub(crate) fn new(
        read: FileRead<DiskResources>,
        completions: &Arc<Mailbox<Completion>>,
    ) -> Self {
        let completion = ReadCompletion {
            id: read.job.id,
            outcome: ReadOutcome::Error,
            has_read_direct: false,
        };
        Self {
            target: ReadTarget {
                lease: read.memory,
                file: read.file,
            },
            rest: ReadProgress {
                job: read.job,
                source: read.source,
                ticket: ReadCompletionGuard {
                    completion: Some(completion),
                    completions: Arc::clone(completions),
                },
            },
        }
    }

    /// Processes the result of a call.
    pub(crate) fn advance(&mut self, result: io::Result<u64>) -> DiskReadStep {
        let known = result.as_ref().copied().map_err(failure_of);
        match self.rest.job.advance(known) {
            NextCall::Again => DiskReadStep::Again,
            NextCall::Reopen => DiskReadStep::Refused,
            NextCall::Ended(end) => DiskReadStep::End(end, result.err()),
        }
    }

    /// Returns the read to the device core.
    pub(crate) fn refused(self) {
        let ReadProgress {
            job,
            source,
            mut ticket,
        } = self.rest;
        ticket.completion = None;
        ticket.completions.post(Completion::Refused(FileRead {
            memory: self.target.lease,
            job,
            file: self.target.file,
            source,
        }));
    }

    /// Determines the outcome and posts the completion. May block.
    pub(crate) fn end(self, end: ReadEnd, error: Option<io::Error>, opener: &Opener) {
        let ReadProgress {
            job,
            source,
            mut ticket,
        } = self.rest;
        // Bound last, so that the memory is released before the completion even if the source
        // panics.
        let target = self.target;
        let mut state = SourceFileState {
            file: &target.file,
            source: &*source,
            part: job.file.part,
        };
        let outcome = job.judge(end, &mut state);
        let error = error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
        log(opener.device(), &*source, &job, outcome, &error);
        if !job.is_direct() {
            // The pool holds the bytes: a second copy would only evict others from the page cache.
            let length = NonZeroU64::new(job.length.next_multiple_of(BLOCK_BYTES));
            let _ = fadvise(&target.file, job.offset, length, Advice::DontNeed);
        }
        drop(target);
        if let Some(completion) = &mut ticket.completion {
            completion.outcome = outcome;
            completion.has_read_direct = job.has_read_direct();
        }
    }
}

/// The state of the file of a read.
struct SourceFileState<'a> {
    file: &'a File,
    source: &'a dyn StreamSource,
    part: u32,
}

impl FileState for SourceFileState<'_> {
    fn size(&mut self) -> Result<u64, IoFailure> {
        let metadata = self.file.metadata();
        metadata
            .map(|of| of.len())
            .map_err(|error| failure_of(&error))
    }

    fn is_same_version(&mut self) -> bool {
        self.source.unchanged(self.part, self.file)
    }
}

pub(crate) fn failure_of(error: &io::Error) -> IoFailure {
    IoFailure::of_errno(error.raw_os_error())
}

/// Logs only errors of the device and of this machine: changes of a file are handled by its
/// watcher.
fn log(
    device: &str,
    source: &dyn StreamSource,
    job: &ReadJob,
    outcome: ReadOutcome,
    error: &io::Error,
) {
    let (part, offset, length) = (job.file.part, job.offset, job.length);
    let (file, stream) = (|| source.file_name(part), job.file.stream.0);
    match outcome {
        ReadOutcome::Done | ReadOutcome::Changed => {}
        ReadOutcome::NoResources => tracing::warn!(
            device, file = file(), stream, part, offset, length, %error,
            "read failed for lack of resources: raise the limit of open files (LimitNOFILE), or lower connections_max"
        ),
        ReadOutcome::Error => tracing::warn!(
            device, file = file(), stream, part, offset, length, %error, "read failed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::{ReadCommand, ReadId, Slot, StreamId};
    use headlong_kernel::raw::Pool;

    use super::*;
    use crate::mailbox::Waker;
    use crate::rig::{FileSource, ScratchDir};

    #[test]
    fn dropped_read_is_reported_as_error() {
        let scratch = ScratchDir::new();
        let path = scratch.file("film", &[0; 20_000]);
        let completions = Mailbox::new(Waker::new().expect("eventfd"));
        let pool = Pool::new(8, 4096).expect("maps");
        let slots = vec![Slot(0)];
        let memory = Arc::new(pool.lease(&slots).expect("free"));
        let job = ReadJob::new(&ReadCommand {
            id: ReadId(5),
            stream: StreamId(1),
            part: 0,
            offset: 0,
            length: 4096,
            slots,
        });
        let file = Arc::new(File::open(&path).expect("opens"));
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
        let read = FileRead {
            memory,
            job,
            file,
            source,
        };
        drop(DiskRead::new(read, &completions));
        let mut told = Vec::new();
        completions.take(&mut told);
        let [Completion::Ended(completion)] = &told[..] else {
            panic!("one end");
        };
        assert_eq!(completion.outcome, ReadOutcome::Error);
    }
}
