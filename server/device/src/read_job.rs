//! One read on its way: what to ask of the kernel next, and what came of it.
//!
//! A short read is continued; a direct one at the last whole block, for it cannot start elsewhere. A
//! file that ends too early is [`Changed`] if it is shorter now, else the device's fault. Bytes count
//! only if the file is still the same version after they were read.
//!
//! [`Changed`]: ReadOutcome::Changed

use headlong_engine::{ReadCommand, ReadId, ReadOutcome};

use crate::io_failure::IoFailure;
use crate::open_job::PartId;

/// Direct reads begin and end at multiples of this: the largest logical block in use.
pub const BLOCK_BYTES: u64 = 4096;

/// Calls without progress (interrupted, or out of memory for a moment) that one read may take.
const IDLE_CALLS_MAX: u32 = 100;

/// One run of bytes of a file, for one run of bytes of a read's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte within the file.
    pub offset: u64,
    /// First byte within the memory.
    pub skip: u64,
    /// Bytes wanted; fewer may come.
    pub length: u64,
}

/// A read, wherever it is carried out.
#[derive(Debug, Clone)]
pub struct ReadJob {
    /// Its name.
    pub id: ReadId,
    /// The file.
    pub file: PartId,
    /// First byte within the file.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
    is_direct: bool,
    done: u64,
    idle_calls: u32,
    has_read_direct: bool,
}

/// What to do after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Call again, for [`ReadJob::span`].
    Again,
    /// Direct reads of the file are refused: give the read back with
    /// [`crate::DeviceCore::handle_refused`].
    Reopen,
    /// There is nothing more to call for: judge it ([`ReadJob::judge`]).
    Ended(ReadEnd),
}

/// How the calls of a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// All bytes are there.
    Whole,
    /// The file ends too early.
    Short,
    /// A call failed.
    Failed(IoFailure),
}

/// The state of an open file after a read. Asking for it may block.
pub trait FileState {
    /// Bytes of the file.
    ///
    /// # Errors
    /// If it cannot be found out.
    fn size(&mut self) -> Result<u64, IoFailure>;

    /// Whether it is still the version that its stream was registered with.
    fn is_same_version(&mut self) -> bool;
}

impl ReadJob {
    /// The read of a command; its file is to be opened.
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

    /// Its file is open, for direct reads or not.
    pub fn begin(&mut self, is_direct: bool) {
        self.is_direct = is_direct;
    }

    /// Whether it bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether a direct call brought bytes: then the device takes direct reads.
    pub fn has_read_direct(&self) -> bool {
        self.has_read_direct
    }

    /// What to ask for.
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

    /// A call for [`ReadJob::span`] returned so many bytes, or failed.
    pub fn advance(&mut self, result: Result<u64, IoFailure>) -> Next {
        let bytes = match result {
            Ok(_) if mutated!(ShortReadTaken) => return Next::Ended(ReadEnd::Whole),
            Ok(bytes) => bytes,
            Err(IoFailure::Refused) if self.is_direct && !mutated!(RefusalBlamed) => {
                return Next::Reopen;
            }
            Err(IoFailure::Interrupted) => {
                self.idle_calls += 1;
                return match self.idle_calls < IDLE_CALLS_MAX {
                    true => Next::Again,
                    false => Next::Ended(ReadEnd::Failed(IoFailure::Interrupted)),
                };
            }
            Err(failure) => return Next::Ended(ReadEnd::Failed(failure)),
        };
        self.has_read_direct |= self.is_direct;
        let reached = self.done + bytes;
        if reached >= self.length {
            return Next::Ended(ReadEnd::Whole);
        }
        let block = if self.is_direct { BLOCK_BYTES } else { 1 };
        let reached = reached - reached % block;
        if reached <= self.done {
            return Next::Ended(ReadEnd::Short);
        }
        self.done = reached;
        if mutated!(ContinuedTooFar) && reached + BLOCK_BYTES < self.length {
            self.done += BLOCK_BYTES;
        }
        Next::Again
    }

    /// The outcome of the read, by the state of its file now.
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
            // Truncated and extended again.
            Ok(_) if !file.is_same_version() => ReadOutcome::Changed,
            Ok(_) => ReadOutcome::Error,
            Err(failure) => failure.outcome(),
        }
    }
}

#[cfg(test)]
#[path = "read_job_tests.rs"]
mod tests;
