//! The unit that the engine reads: a file, or a run of chunk files.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_engine::StreamId;

use crate::file::OpenFile;
use crate::inspection::RunRemainder;

/// A stream, and the index of a file in it.
pub(crate) type StreamFile = (StreamId, u32);

/// A stream read for programs: a file, or a run of chunk files.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) parts: Vec<Arc<OpenFile>>,
    /// The files after them, unless these are being inspected.
    pub(crate) rest: Option<RunRemainder>,
    pub(crate) last_asked: Clock,
    /// Users that passed a descriptor of it, whose notes are accepted.
    pub(crate) users: HashSet<u32>,
}
