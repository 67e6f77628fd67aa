//! A read with all that it takes, and its end.

use headlong_engine::{ReadId, ReadOutcome};

use crate::read_job::ReadJob;
use crate::resources::Resources;

/// A read of an open file, with all that it takes. The memory comes first, so that it is free before
/// the file's last user can be seen to be gone.
#[derive(Debug)]
pub struct Read<R: Resources> {
    /// Where its bytes go.
    pub memory: R::Memory,
    /// What to read.
    pub job: ReadJob,
    /// From where.
    pub file: R::File,
    /// The stream's source, which knows whether the file changes.
    pub source: R::Source,
}

/// A read before its file is open.
#[derive(Debug)]
pub(crate) struct WaitingRead<M, S> {
    pub(crate) memory: M,
    pub(crate) job: ReadJob,
    pub(crate) source: S,
}

/// The end of a read, once its memory is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCompletion {
    /// Which.
    pub id: ReadId,
    /// How it ended.
    pub outcome: ReadOutcome,
    /// Whether a direct call brought bytes ([`ReadJob::has_read_direct`]).
    pub has_read_direct: bool,
}
