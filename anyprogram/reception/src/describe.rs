//! What a file is one of, and where it lies on the disk.
//!
//! The one idea: of a title in chunk files only those are looked at that a reader comes to soon. Each
//! look may cost a seek, and a title has hundreds; where many titles are begun at once, that would be
//! most of what the disk does.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use headlong_engine::{Extent, StreamId};
use headlong_library::Places;
use headlong_walk::{Chunks, Follows, run_of_file};

use crate::file::{Open, Version};

/// Chunk files that are looked at together: what follows one another in a folder mostly has its inodes
/// in one block, or in neighbours.
const LOOKED_AT_ONCE: usize = 16;

/// Chunk files of a run that nobody has looked at.
#[derive(Debug)]
pub(crate) struct Rest {
    chunks: Arc<Chunks>,
    next: usize,
}

/// A file, and where it lies.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) open: Arc<Open>,
    pub(crate) extents: Vec<Extent>,
}

/// What is to be found out.
#[derive(Debug)]
pub(crate) enum Question {
    /// What is this file one of? Whether it is read from its start.
    File(Arc<Open>, bool),
    /// What follows in a stream?
    Rest(StreamId, Rest),
}

/// What was found out: files that are one, and what nobody has looked at yet.
#[derive(Debug)]
pub(crate) enum Found {
    /// What begins with this file.
    File(Version, Vec<Part>, Option<Rest>),
    /// What follows in a stream.
    Rest(StreamId, Vec<Part>, Option<Rest>),
}

impl Question {
    /// Asks the file system, which waits for the disk.
    pub(crate) fn answer(self, places: &Places, follows: Option<&Follows>) -> Found {
        match self {
            Self::File(open, from_start) => {
                let version = open.version;
                let is_chunk = follows.is_some_and(|follows| is_chunk(&open, from_start, follows));
                let (parts, rest) = describe(places, open, is_chunk);
                Found::File(version, parts, rest)
            }
            Self::Rest(stream, rest) => {
                let (parts, rest) = look(places, rest, None);
                Found::Rest(stream, parts, rest)
            }
        }
    }
}

/// Whether a file is a chunk of a title, as far as can be told from what was read before.
fn is_chunk(open: &Open, from_start: bool, follows: &Follows) -> bool {
    let run = open.file().ok().and_then(run_of_file);
    run.is_some_and(|(run, number)| match from_start {
        true => follows.begins(&run, number, Instant::now()),
        false => follows.is_title(&run),
    })
}

/// The file alone, or what follows it in its run, as far as that is looked at now.
fn describe(places: &Places, open: Arc<Open>, is_chunk: bool) -> (Vec<Part>, Option<Rest>) {
    let file = open.file().ok().filter(|_| is_chunk);
    if let Some(chunks) = file.and_then(|file| Chunks::around(file, Path::new("/"))) {
        let chunks = Arc::new(chunks);
        let next = chunks.asked();
        let rest = Rest { chunks, next };
        let (parts, rest) = look(places, rest, Some(&open));
        // It may have gone from its folder meanwhile.
        let first = parts.first().map(|part| part.open.version);
        if first == Some(open.version) {
            return (parts, rest);
        }
    }
    let extents = open
        .file()
        .map_or_else(|_| Vec::new(), |file| lies(places, file));
    (vec![Part { open, extents }], None)
}

/// The next files of a run, and what is left of it. One of them may be open already.
fn look(places: &Places, rest: Rest, passed: Option<&Arc<Open>>) -> (Vec<Part>, Option<Rest>) {
    let Rest { chunks, next } = rest;
    let end = chunks.len().min(next + LOOKED_AT_ONCE);
    let parts = (next..end).filter_map(|index| {
        let version = Version::of(&chunks.look(index)?);
        if let Some(passed) = passed.filter(|passed| passed.version == version) {
            let open = Arc::clone(passed);
            let extents = lies(places, open.file().ok()?);
            return Some(Part { open, extents });
        }
        // Closed again: a title may have as many chunks as a process may have files open.
        let extents = lies(places, &chunks.open(index).ok()?);
        let open = Arc::new(Open::named(&chunks, index, version));
        Some(Part { open, extents })
    });
    let parts = parts.collect();
    let is_more = end < chunks.len();
    (parts, is_more.then_some(Rest { chunks, next: end }))
}

/// A file system that does not say is one without an order.
fn lies(places: &Places, file: &File) -> Vec<Extent> {
    let place = places.of(file);
    place.map_or_else(|_| Vec::new(), |place| place.extents)
}
