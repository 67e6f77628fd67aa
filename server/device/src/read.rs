//! A read with its resources, and its completion.

use headlong_engine::{ReadId, ReadOutcome};

use crate::read_job::ReadJob;
use crate::resources::Resources;

/// A read of an open file with its resources. `memory` is the first field, so that it is released
/// before the last reference to the file.
#[derive(Debug)]
pub struct FileRead<R: Resources> {
    /// Destination of the bytes.
    pub memory: R::Memory,
    /// State of the read.
    pub job: ReadJob,
    /// The open file.
    pub file: R::File,
    /// The stream's source, which detects changes of the file.
    pub source: R::Source,
}

/// A read whose file is not open yet.
#[derive(Debug)]
pub(crate) struct WaitingRead<M, S> {
    pub(crate) memory: M,
    pub(crate) job: ReadJob,
    pub(crate) source: S,
}

/// The completion of a read, after its memory was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCompletion {
    /// The read.
    pub id: ReadId,
    /// The outcome.
    pub outcome: ReadOutcome,
    /// Whether a direct call returned data ([`ReadJob::has_read_direct`]).
    pub has_read_direct: bool,
}
