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
use headlong_library::BlockMap;
use headlong_walk::{Chunks, RunHistory, run_of_file};

use crate::file::{FileVersion, OpenFile};

/// Chunk files inspected together: consecutive files of a folder mostly have their inodes in one
/// block or in neighbouring blocks.
const LOOKED_AT_ONCE: usize = 16;

/// Chunk files of a run that have not been inspected yet.
#[derive(Debug)]
pub(crate) struct RunRemainder {
    chunks: Arc<Chunks>,
    next: usize,
}

/// A file and its extents.
#[derive(Debug)]
pub(crate) struct FileExtents {
    pub(crate) open: Arc<OpenFile>,
    pub(crate) extents: Vec<Extent>,
}

/// A request to inspect files.
#[derive(Debug)]
pub(crate) enum InspectionRequest {
    /// Which title does this file belong to? The flag says whether it is read from its start.
    File(Arc<OpenFile>, bool),
    /// Which files follow in a stream?
    Rest(StreamId, RunRemainder),
}

/// The result: files that form a title, and the part of the run still to be inspected.
#[derive(Debug)]
pub(crate) enum InspectionResult {
    /// The title, or part of it, that starts with this file.
    File(FileVersion, Vec<FileExtents>, Option<RunRemainder>),
    /// The files that follow in a stream.
    Rest(StreamId, Vec<FileExtents>, Option<RunRemainder>),
}

impl InspectionRequest {
    /// Queries the file system. Blocks on the disk.
    pub(crate) fn answer(
        self,
        places: &BlockMap,
        follows: Option<&RunHistory>,
    ) -> InspectionResult {
        match self {
            Self::File(open, from_start) => {
                let version = open.version;
                let is_chunk = follows.is_some_and(|follows| is_chunk(&open, from_start, follows));
                let (parts, rest) = describe(places, open, is_chunk);
                InspectionResult::File(version, parts, rest)
            }
            Self::Rest(stream, rest) => {
                let (parts, rest) = inspect(places, rest, None);
                InspectionResult::Rest(stream, parts, rest)
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
fn describe(
    places: &BlockMap,
    open: Arc<OpenFile>,
    is_chunk: bool,
) -> (Vec<FileExtents>, Option<RunRemainder>) {
    let file = open.file().ok().filter(|_| is_chunk);
    if let Some(chunks) = file.and_then(|file| Chunks::around(file, Path::new("/"))) {
        let chunks = Arc::new(chunks);
        let next = chunks.requested();
        let rest = RunRemainder { chunks, next };
        let (parts, rest) = inspect(places, rest, Some(&open));
        // The file may have left its folder meanwhile.
        let first = parts.first().map(|part| part.open.version);
        if first == Some(open.version) {
            return (parts, rest);
        }
    }
    let extents = open
        .file()
        .map_or_else(|_| Vec::new(), |file| lies(places, file));
    (vec![FileExtents { open, extents }], None)
}

/// Inspects the next files of a run; returns them and the rest. One of them may already be open.
fn inspect(
    places: &BlockMap,
    rest: RunRemainder,
    passed: Option<&Arc<OpenFile>>,
) -> (Vec<FileExtents>, Option<RunRemainder>) {
    let RunRemainder { chunks, next } = rest;
    let end = chunks.len().min(next + LOOKED_AT_ONCE);
    let parts = (next..end).filter_map(|index| {
        let version = FileVersion::of(&chunks.inspect(index)?);
        if let Some(passed) = passed.filter(|passed| passed.version == version) {
            let open = Arc::clone(passed);
            let extents = lies(places, open.file().ok()?);
            return Some(FileExtents { open, extents });
        }
        // Closed again: a title may have as many chunks as a process may have open files.
        let extents = lies(places, &chunks.open(index).ok()?);
        let open = Arc::new(OpenFile::named(&chunks, index, version));
        Some(FileExtents { open, extents })
    });
    let parts = parts.collect();
    let is_more = end < chunks.len();
    (parts, is_more.then_some(RunRemainder { chunks, next: end }))
}

/// A file system that reports no extents has no physical order.
fn lies(places: &BlockMap, file: &File) -> Vec<Extent> {
    let place = places.of(file);
    place.map_or_else(|_| Vec::new(), |place| place.extents)
}
