//! Finds out which title a file belongs to, and its extents on the disk.
//!
//! Only the chunk files that a reader reaches soon are inspected. Each inspection may cost a seek,
//! and a title has hundreds of chunks; when many titles start at once, inspecting all of them would
//! be most of the disk's work.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use headlong_engine::{Extent, StreamId};
use headlong_library::Places;
use headlong_walk::{Chunks, RunHistory, run_of_file};

use crate::file::{OpenFile, Version};

/// Chunk files inspected together: consecutive files of a folder mostly have their inodes in one
/// block or in neighbouring blocks.
const LOOKED_AT_ONCE: usize = 16;

/// Chunk files of a run that have not been inspected yet.
#[derive(Debug)]
pub(crate) struct Rest {
    chunks: Arc<Chunks>,
    next: usize,
}

/// A file and its extents.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) open: Arc<OpenFile>,
    pub(crate) extents: Vec<Extent>,
}

/// A request to inspect files.
#[derive(Debug)]
pub(crate) enum Question {
    /// Which title does this file belong to? The flag says whether it is read from its start.
    File(Arc<OpenFile>, bool),
    /// Which files follow in a stream?
    Rest(StreamId, Rest),
}

/// The result: files that form a title, and the part of the run still to be inspected.
#[derive(Debug)]
pub(crate) enum Found {
    /// The title, or part of it, that starts with this file.
    File(Version, Vec<Part>, Option<Rest>),
    /// The files that follow in a stream.
    Rest(StreamId, Vec<Part>, Option<Rest>),
}

impl Question {
    /// Queries the file system. Blocks on the disk.
    pub(crate) fn answer(self, places: &Places, follows: Option<&RunHistory>) -> Found {
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

/// Whether earlier reads suggest that a file is a chunk of a title.
fn is_chunk(open: &OpenFile, from_start: bool, follows: &RunHistory) -> bool {
    let run = open.file().ok().and_then(run_of_file);
    run.is_some_and(|(run, number)| match from_start {
        true => follows.begins(&run, number, Instant::now()),
        false => follows.is_title(&run),
    })
}

/// The file alone, or with the files that follow it in its run, as far as they are inspected now.
fn describe(places: &Places, open: Arc<OpenFile>, is_chunk: bool) -> (Vec<Part>, Option<Rest>) {
    let file = open.file().ok().filter(|_| is_chunk);
    if let Some(chunks) = file.and_then(|file| Chunks::around(file, Path::new("/"))) {
        let chunks = Arc::new(chunks);
        let next = chunks.asked();
        let rest = Rest { chunks, next };
        let (parts, rest) = look(places, rest, Some(&open));
        // The file may have left its folder meanwhile.
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

/// Inspects the next files of a run; returns them and the rest. One of them may already be open.
fn look(places: &Places, rest: Rest, passed: Option<&Arc<OpenFile>>) -> (Vec<Part>, Option<Rest>) {
    let Rest { chunks, next } = rest;
    let end = chunks.len().min(next + LOOKED_AT_ONCE);
    let parts = (next..end).filter_map(|index| {
        let version = Version::of(&chunks.look(index)?);
        if let Some(passed) = passed.filter(|passed| passed.version == version) {
            let open = Arc::clone(passed);
            let extents = lies(places, open.file().ok()?);
            return Some(Part { open, extents });
        }
        // Closed again: a title may have as many chunks as a process may have open files.
        let extents = lies(places, &chunks.open(index).ok()?);
        let open = Arc::new(OpenFile::named(&chunks, index, version));
        Some(Part { open, extents })
    });
    let parts = parts.collect();
    let is_more = end < chunks.len();
    (parts, is_more.then_some(Rest { chunks, next: end }))
}

/// A file system that reports no extents has no physical order.
fn lies(places: &Places, file: &File) -> Vec<Extent> {
    let place = places.of(file);
    place.map_or_else(|_| Vec::new(), |place| place.extents)
}
