//! What the engine reads as one: a file, or a run of chunk files.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_engine::StreamId;

use crate::describe::Rest;
use crate::file::Open;

/// A file of which stream.
pub(crate) type InStream = (StreamId, u32);

/// What is read for programs as one: a file, or a run of chunk files.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) parts: Vec<Arc<Open>>,
    /// What follows them, unless that is being looked at.
    pub(crate) rest: Option<Rest>,
    pub(crate) last_asked: Clock,
    /// Users that passed a descriptor of it, whose notes are believed.
    pub(crate) users: HashSet<u32>,
}
