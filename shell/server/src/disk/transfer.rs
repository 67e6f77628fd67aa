//! One read on its way: what to ask of the kernel next, and what came of it.
//!
//! Both ways of reading share these rules. A short read is continued; a direct one at the last
//! whole block, for it cannot start elsewhere. A file that ends too early is [`Changed`] if it is
//! shorter now, else the device's fault. Bytes count only if the file is still the same version
//! after they were read.
//!
//! [`Changed`]: ReadOutcome::Changed

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use headlong_engine::{ReadId, ReadOutcome, StreamId};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::StreamSource;
use super::files::{Files, OpenFile, is};
use super::mailbox::Mailbox;
use crate::raw::{Lease, Span, Target};

/// Direct reads begin and end at multiples of this: the largest logical block in use.
const BLOCK_BYTES: u64 = 4096;

/// Calls without progress (interrupted, or out of memory for a moment) that one read may take.
const IDLE_CALLS_MAX: u32 = 100;

/// The end of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) id: ReadId,
    pub(crate) outcome: ReadOutcome,
}

/// The duty to say how a read ended. Dropped without that (a job panicked, the device stops), it
/// says [`ReadOutcome::Error`].
pub(crate) struct Ticket {
    id: ReadId,
    outcome: ReadOutcome,
    completions: Arc<Mailbox<Completion>>,
}

impl Ticket {
    pub(crate) fn new(id: ReadId, completions: &Arc<Mailbox<Completion>>) -> Self {
        Self {
            id,
            outcome: ReadOutcome::Error,
            completions: Arc::clone(completions),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (id, outcome) = (self.id, self.outcome);
        self.completions.post(Completion { id, outcome });
    }
}

/// What is to be read, and whom to tell.
pub(crate) struct Plan {
    pub(crate) source: Arc<dyn StreamSource>,
    pub(crate) stream: StreamId,
    pub(crate) part: u32,
    /// First byte within the file.
    pub(crate) offset: u64,
    /// Bytes wanted.
    pub(crate) length: u64,
    pub(crate) ticket: Ticket,
}

/// A read before its file is open. The memory comes first, so that it is free when the ticket
/// tells.
pub(crate) struct Read {
    pub(crate) lease: Lease,
    pub(crate) plan: Plan,
}

/// A read of an open file.
pub(crate) struct Transfer {
    pub(crate) target: Target,
    pub(crate) rest: Rest,
}

/// What a transfer knows beside its memory and its file.
pub(crate) struct Rest {
    direct: bool,
    done: u64,
    idle_calls: u32,
    plan: Plan,
}

/// What to do after a call.
#[derive(Debug)]
pub(crate) enum Next {
    /// Call again.
    Again,
    /// Open the file for buffered reads, then call again.
    Reopen,
    /// All bytes are there.
    Whole,
    /// The file ends too early.
    Short,
    /// The call failed.
    Failed(io::Error),
}

impl Read {
    /// Opens the file, unless it is open. May block. `None`: the read has ended.
    pub(crate) fn open(self, files: &Files) -> Option<Transfer> {
        let plan = &self.plan;
        match files.open(&*plan.source, plan.stream, plan.part) {
            Ok(file) => Some(self.with(file)),
            Err(error) => {
                let Self { lease, plan } = self;
                drop(lease);
                let outcome = failure(files, &plan, &error);
                plan.end(outcome);
                None
            }
        }
    }

    /// The transfer from an open file.
    pub(crate) fn with(self, file: OpenFile) -> Transfer {
        Transfer {
            target: Target {
                lease: self.lease,
                file: file.file,
            },
            rest: Rest {
                direct: file.direct,
                done: 0,
                idle_calls: 0,
                plan: self.plan,
            },
        }
    }
}

impl Transfer {
    /// What to ask for.
    pub(crate) fn span(&self) -> Span {
        let Rest {
            direct, done, plan, ..
        } = &self.rest;
        let length = match direct {
            true => plan.length.next_multiple_of(BLOCK_BYTES),
            false => plan.length,
        };
        Span {
            offset: plan.offset + done,
            skip: *done,
            length: length - done,
        }
    }

    /// Takes in what a call returned.
    pub(crate) fn advance(&mut self, result: io::Result<u64>, files: &Files) -> Next {
        let rest = &mut self.rest;
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) if is(&error, Errno::INVAL) && rest.direct => return Next::Reopen,
            Err(error) if is(&error, Errno::INTR) || is(&error, Errno::AGAIN) => {
                rest.idle_calls += 1;
                return match rest.idle_calls < IDLE_CALLS_MAX {
                    true => Next::Again,
                    false => Next::Failed(error),
                };
            }
            Err(error) => return Next::Failed(error),
        };
        if rest.direct {
            files.direct_worked();
        }
        let reached = rest.done + bytes;
        if reached >= rest.plan.length {
            return Next::Whole;
        }
        let block = if rest.direct { BLOCK_BYTES } else { 1 };
        let reached = reached - reached % block;
        if reached <= rest.done {
            return Next::Short;
        }
        rest.done = reached;
        Next::Again
    }

    /// The same for buffered reads. May block. `None`: the read has ended.
    pub(crate) fn reopen(mut self, files: &Files) -> Option<Self> {
        let plan = &self.rest.plan;
        match files.open_buffered(&*plan.source, plan.stream, plan.part) {
            Ok(file) => {
                self.target.file = file.file;
                self.rest.direct = file.direct;
                Some(self)
            }
            Err(error) => {
                self.end(Next::Failed(error), files);
                None
            }
        }
    }

    /// Judges the read and tells. May block.
    pub(crate) fn end(self, next: Next, files: &Files) {
        let Rest { direct, plan, .. } = self.rest;
        // Bound last: if the source panics, the memory is free before the ticket tells.
        let target = self.target;
        let outcome = match next {
            Next::Failed(error) => failure(files, &plan, &error),
            Next::Whole if plan.source.unchanged(plan.part, &target.file) => ReadOutcome::Done,
            Next::Whole => ReadOutcome::Changed,
            _ => early_end(files, &plan, &target),
        };
        if !direct {
            // The pool holds the bytes: a second copy would only push others out of the cache.
            let length = NonZeroU64::new(plan.length.next_multiple_of(BLOCK_BYTES));
            let _ = fadvise(&target.file, plan.offset, length, Advice::DontNeed);
        }
        drop(target);
        plan.end(outcome);
    }
}

impl Plan {
    fn end(mut self, outcome: ReadOutcome) {
        self.ticket.outcome = outcome;
    }
}

/// What an error of the system says about the read. Only the device's own are logged here: the
/// others are news about the file, which is its watcher's business.
fn failure(files: &Files, plan: &Plan, error: &io::Error) -> ReadOutcome {
    let about_the_file = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::STALE,
        Errno::LOOP,
        Errno::XDEV,
        Errno::ACCESS,
        Errno::PERM,
    ];
    if about_the_file.iter().any(|errno| is(error, *errno)) {
        return ReadOutcome::Changed;
    }
    let Plan {
        stream,
        part,
        offset,
        length,
        ..
    } = plan;
    let (device, stream) = (files.device(), stream.0);
    tracing::warn!(device, stream, part, offset, length, %error, "read failed");
    ReadOutcome::Error
}

fn early_end(files: &Files, plan: &Plan, target: &Target) -> ReadOutcome {
    let end = plan.offset.saturating_add(plan.length);
    match target.file.metadata() {
        Ok(metadata) if metadata.len() < end => ReadOutcome::Changed,
        // Cut and extended again.
        Ok(_) if !plan.source.unchanged(plan.part, &target.file) => ReadOutcome::Changed,
        Ok(_) => failure(files, plan, &io::ErrorKind::UnexpectedEof.into()),
        Err(error) => failure(files, plan, &error),
    }
}
