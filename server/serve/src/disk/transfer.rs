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

use headlong_engine::{Opening, ReadId, ReadOutcome, StreamId};
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
    /// How to put it to the device, where that can be chosen.
    pub(crate) opening: Option<Opening>,
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
        let opened = files.open(&*plan.source, plan.stream, plan.part);
        files.opened(plan.stream, plan.part);
        match opened {
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
                lease: Arc::new(self.lease),
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
    /// The read it is.
    pub(crate) fn id(&self) -> ReadId {
        self.rest.plan.ticket.id
    }

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

    /// The spans in which to put a direct read to a drive that may choose, if nothing of it has been
    /// read; the last once the first has come. Of whole blocks, as the kernel refuses others.
    pub(crate) fn opening(&self) -> Option<[Span; 3]> {
        let opening = self.rest.plan.opening?;
        if !self.rest.direct || self.rest.done > 0 {
            return None;
        }
        let whole = self.span();
        let whole_blocks = |at: u64| at.next_multiple_of(BLOCK_BYTES).min(whole.length);
        let parts = opening.parts(whole.length);
        let parts = parts.map(|(from, to)| (whole_blocks(from), whole_blocks(to)));
        Some(parts.map(|(from, to)| Span {
            offset: whole.offset + from,
            skip: from,
            length: to - from,
        }))
    }

    /// What is left of a span of which a call read so many bytes: nothing if that was all of it, or
    /// all that is wanted; an error if it is not to be gone on with in parts.
    pub(crate) fn left_of(&self, span: Span, bytes: u64) -> Result<Option<Span>, ()> {
        if bytes >= span.length || span.skip + bytes >= self.rest.plan.length {
            return Ok(None);
        }
        let bytes = bytes - bytes % BLOCK_BYTES;
        if bytes == 0 {
            return Err(());
        }
        Ok(Some(Span {
            offset: span.offset + bytes,
            skip: span.skip + bytes,
            length: span.length - bytes,
        }))
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
    let file = plan.source.file_name(*part);
    // A disk must not be given up because clients have used up what this process may have.
    let of_this_machine = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    if of_this_machine.iter().any(|errno| is(error, *errno)) {
        tracing::warn!(
            device, file, stream, part, offset, length, %error,
            "a read could not be tried: raise the limit of open files (LimitNOFILE), or lower connections_max"
        );
        return ReadOutcome::NoResources;
    }
    tracing::warn!(device, file, stream, part, offset, length, %error, "read failed");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::mailbox::Waker;
    use crate::disk::rig::{FileSource, Scratch};
    use crate::raw::Pool;
    use headlong_engine::Slot;

    struct Rig {
        files: Arc<Files>,
        completions: Arc<Mailbox<Completion>>,
        transfer: Transfer,
        _scratch: Scratch,
    }

    /// A read of 10,000 bytes from byte 4096 on.
    fn rig(direct: bool) -> Rig {
        let scratch = Scratch::new();
        let path = scratch.file("film", &[0; 20_000]);
        let completions = Mailbox::new(Waker::new().expect("eventfd"));
        let files = Files::new("test", 8).expect("starts");
        let pool = Pool::new(8, 4096).expect("maps");
        let plan = Plan {
            source: Arc::new(FileSource::new(1, [path.clone()])),
            stream: StreamId(1),
            part: 0,
            offset: 4096,
            length: 10_000,
            opening: None,
            ticket: Ticket::new(ReadId(5), &completions),
        };
        let lease = pool.lease(&[Slot(0), Slot(1), Slot(2)]).expect("free");
        let file = Arc::new(std::fs::File::open(path).expect("opens"));
        let transfer = Read { lease, plan }.with(OpenFile { file, direct });
        Rig {
            files,
            completions,
            transfer,
            _scratch: scratch,
        }
    }

    #[test]
    fn a_short_direct_read_goes_on_at_the_last_whole_block() {
        let mut rig = rig(true);
        assert_eq!(rig.transfer.span(), span(4096, 0, 12_288), "whole blocks");
        let next = rig.transfer.advance(Ok(5000), &rig.files);
        assert!(matches!(next, Next::Again), "{next:?}");
        assert_eq!(rig.transfer.span(), span(8192, 4096, 8192));
        let next = rig.transfer.advance(Ok(904), &rig.files);
        assert!(matches!(next, Next::Short), "no whole block more: {next:?}");
        let next = rig.transfer.advance(Ok(5904), &rig.files);
        assert!(matches!(next, Next::Whole), "{next:?}");
    }

    #[test]
    fn a_direct_read_is_put_in_the_parts_that_the_engine_says_and_a_buffered_one_is_not() {
        let mut rig = rig(true);
        assert_eq!(rig.transfer.opening(), None, "none was said");
        rig.transfer.rest.plan.opening = Some(Opening {
            lead_bytes: 4096,
            follower_bytes: 4096,
        });
        let parts = [
            span(4096, 0, 4096),
            span(8192, 4096, 4096),
            span(12_288, 8192, 4096),
        ];
        assert_eq!(rig.transfer.opening(), Some(parts));
        rig.transfer.rest.direct = false;
        assert_eq!(rig.transfer.opening(), None);
    }

    fn span(offset: u64, skip: u64, length: u64) -> Span {
        Span {
            offset,
            skip,
            length,
        }
    }

    #[test]
    fn a_direct_read_is_put_in_whole_blocks_though_its_file_ends_in_the_midst_of_one() {
        let mut rig = rig(true);
        rig.transfer.rest.plan.opening = Some(Opening {
            lead_bytes: 4096,
            follower_bytes: 10_000 - 4096,
        });
        let parts = [
            span(4096, 0, 4096),
            span(8192, 4096, 8192),
            span(16_384, 12_288, 0),
        ];
        assert_eq!(rig.transfer.opening(), Some(parts));
    }

    #[test]
    fn a_part_that_came_short_goes_on_at_the_last_whole_block() {
        let transfer = rig(true).transfer;
        let part = |offset, skip, length| Span {
            offset,
            skip,
            length,
        };
        assert_eq!(transfer.left_of(part(4096, 0, 4096), 4096), Ok(None));
        let last = part(12_288, 8192, 4096);
        assert_eq!(transfer.left_of(last, 1808), Ok(None), "all that is wanted");
        assert_eq!(transfer.left_of(last, 100), Err(()), "no whole block");
        let left = part(8192, 4096, 8192);
        assert_eq!(
            transfer.left_of(part(4096, 0, 12_288), 5000),
            Ok(Some(left))
        );
    }

    #[test]
    fn a_short_buffered_read_goes_on_where_it_ended() {
        let mut rig = rig(false);
        assert_eq!(rig.transfer.span(), span(4096, 0, 10_000));
        let next = rig.transfer.advance(Ok(1), &rig.files);
        assert!(matches!(next, Next::Again), "{next:?}");
        assert_eq!(rig.transfer.span(), span(4097, 1, 9_999));
        let next = rig.transfer.advance(Ok(0), &rig.files);
        assert!(matches!(next, Next::Short), "{next:?}");
    }

    #[test]
    fn a_call_that_is_always_interrupted_ends_some_time() {
        let mut rig = rig(false);
        let calls = (0..1000).take_while(|_| {
            let next = rig.transfer.advance(Err(Errno::INTR.into()), &rig.files);
            matches!(next, Next::Again)
        });
        assert_eq!(calls.count() as u32, IDLE_CALLS_MAX - 1);
    }

    #[test]
    fn a_read_dropped_anywhere_is_told_as_an_error() {
        let rig = rig(true);
        drop(rig.transfer);
        let mut told = Vec::new();
        rig.completions.take(&mut told);
        let (id, outcome) = (ReadId(5), ReadOutcome::Error);
        assert_eq!(told, [Completion { id, outcome }]);
    }

    #[test]
    fn only_errors_of_the_device_count_against_it() {
        for (errno, outcome) in [
            (Errno::NOENT, ReadOutcome::Changed),
            (Errno::STALE, ReadOutcome::Changed),
            (Errno::IO, ReadOutcome::Error),
            (Errno::NODEV, ReadOutcome::Error),
            (Errno::MFILE, ReadOutcome::NoResources),
            (Errno::NFILE, ReadOutcome::NoResources),
            (Errno::NOMEM, ReadOutcome::NoResources),
        ] {
            let rig = rig(true);
            rig.transfer.end(Next::Failed(errno.into()), &rig.files);
            let mut told = Vec::new();
            rig.completions.take(&mut told);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].outcome, outcome, "{errno}");
        }
    }
}
