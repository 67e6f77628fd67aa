//! State machine of one read: the next system call to make, and the outcome.
//!
//! A short read is continued; a direct read continues at the last whole block, since it cannot
//! start elsewhere. If a file ends early, the outcome is [`Changed`] if the file has shrunk,
//! otherwise a device error. Data counts only if the file still has the same version after the
//! read.
//!
//! [`Changed`]: ReadOutcome::Changed

use headlong_engine::{ReadCommand, ReadId, ReadOutcome};

use crate::io_failure::IoFailure;
use crate::open_job::PartId;

/// Direct reads start and end at multiples of this: the largest logical block in use.
pub const BLOCK_BYTES: u64 = 4096;

/// Upper limit of calls without progress (interrupted or temporarily out of memory) for one read.
const IDLE_CALLS_MAX: u32 = 100;

/// A contiguous range of a file and its place in the read's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte within the file.
    pub offset: u64,
    /// First byte within the memory.
    pub skip: u64,
    /// Bytes requested; a call may return fewer.
    pub length: u64,
}

/// A read, independent of the I/O interface.
#[derive(Debug, Clone)]
pub struct ReadJob {
    /// Its id.
    pub id: ReadId,
    /// The file.
    pub file: PartId,
    /// First byte within the file.
    pub offset: u64,
    /// Bytes requested.
    pub length: u64,
    is_direct: bool,
    done: u64,
    idle_calls: u32,
    has_read_direct: bool,
}

/// The step after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextCall {
    /// Make another call for [`ReadJob::span`].
    Again,
    /// Direct reads of the file are refused: return the read with
    /// [`crate::DeviceCore::handle_refused`].
    Reopen,
    /// No further call: determine the outcome ([`ReadJob::judge`]).
    Ended(ReadEnd),
}

/// How the calls of a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// All bytes were read.
    Whole,
    /// The file ended early.
    Short,
    /// A call failed.
    Failed(IoFailure),
}

/// The state of an open file after a read. Its methods may block.
pub trait FileState {
    /// Size of the file in bytes.
    ///
    /// # Errors
    /// If the size cannot be determined.
    fn size(&mut self) -> Result<u64, IoFailure>;

    /// Whether the file still has the version that its stream was registered with.
    fn is_same_version(&mut self) -> bool;
}

impl ReadJob {
    /// Creates the read of a command, before its file is open.
    pub fn new(command: &ReadCommand) -> Self {
        Self {
            id: command.id,
            file: PartId {
                stream: command.stream,
                part: command.part,
            },
            offset: command.offset,
            length: command.length,
            is_direct: false,
            done: 0,
            idle_calls: 0,
            has_read_direct: false,
        }
    }

    /// The file is open, for direct I/O or not.
    pub fn begin(&mut self, is_direct: bool) {
        self.is_direct = is_direct;
    }

    /// Whether the read bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether a direct call returned data, which shows that the device supports direct I/O.
    pub fn has_read_direct(&self) -> bool {
        self.has_read_direct
    }

    /// The range for the next call.
    pub fn span(&self) -> Span {
        let length = match self.is_direct {
            true => self.length.next_multiple_of(BLOCK_BYTES),
            false => self.length,
        };
        Span {
            offset: self.offset + self.done,
            skip: self.done,
            length: length - self.done,
        }
    }

    /// A call for [`ReadJob::span`] has returned.
    pub fn advance(&mut self, result: Result<u64, IoFailure>) -> NextCall {
        let bytes = match result {
            Ok(_) if mutated!(ShortReadTaken) => return NextCall::Ended(ReadEnd::Whole),
            Ok(bytes) => bytes,
            Err(IoFailure::Refused) if self.is_direct && !mutated!(RefusalBlamed) => {
                return NextCall::Reopen;
            }
            Err(IoFailure::Interrupted) => {
                self.idle_calls += 1;
                return match self.idle_calls < IDLE_CALLS_MAX {
                    true => NextCall::Again,
                    false => NextCall::Ended(ReadEnd::Failed(IoFailure::Interrupted)),
                };
            }
            Err(failure) => return NextCall::Ended(ReadEnd::Failed(failure)),
        };
        self.has_read_direct |= self.is_direct;
        let reached = self.done + bytes;
        if reached >= self.length {
            return NextCall::Ended(ReadEnd::Whole);
        }
        let block = if self.is_direct { BLOCK_BYTES } else { 1 };
        let reached = reached - reached % block;
        if reached <= self.done {
            return NextCall::Ended(ReadEnd::Short);
        }
        self.done = reached;
        if mutated!(ContinuedTooFar) && reached + BLOCK_BYTES < self.length {
            self.done += BLOCK_BYTES;
        }
        NextCall::Again
    }

    /// The outcome of the read, given the current state of its file.
    pub fn judge(&self, end: ReadEnd, file: &mut impl FileState) -> ReadOutcome {
        match end {
            ReadEnd::Failed(_) if mutated!(ErrorSwallowed) => ReadOutcome::Done,
            ReadEnd::Failed(failure) => failure.outcome(),
            ReadEnd::Whole if mutated!(VersionUnchecked) => ReadOutcome::Done,
            ReadEnd::Whole if mutated!(ShortReadTaken) => ReadOutcome::Done,
            ReadEnd::Whole if file.is_same_version() => ReadOutcome::Done,
            ReadEnd::Whole => ReadOutcome::Changed,
            ReadEnd::Short => self.judge_short(file),
        }
    }

    fn judge_short(&self, file: &mut impl FileState) -> ReadOutcome {
        match file.size() {
            Ok(size) if size < self.offset.saturating_add(self.length) => ReadOutcome::Changed,
            // The file was truncated and extended again.
            Ok(_) if !file.is_same_version() => ReadOutcome::Changed,
            Ok(_) => ReadOutcome::Error,
            Err(failure) => failure.outcome(),
        }
    }
}

#[cfg(test)]
#[path = "read_job_tests.rs"]
mod tests;
