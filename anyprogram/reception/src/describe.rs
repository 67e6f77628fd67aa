//! What a file is one of, and where it lies on the disk.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use headlong_engine::Extent;
use headlong_library::Places;
use headlong_walk::Chunks;

use crate::device::Part;
use crate::file::{Open, Version};

/// The file alone, or the run of chunk files that it is one of.
pub(crate) fn describe(places: &Places, open: Arc<Open>, with_chunks: bool) -> Vec<Part> {
    let chunks = open.file().ok().filter(|_| with_chunks);
    let chunks = chunks.and_then(|file| Chunks::around(file, Path::new("/")));
    let parts = chunks.map(|chunks| run(places, &open, &Arc::new(chunks)));
    // It may have gone from its folder while that was looked at.
    let has_it = |parts: &Vec<Part>| parts.iter().any(|part| part.open.version == open.version);
    parts.filter(has_it).unwrap_or_else(|| {
        let extents = open
            .file()
            .map_or_else(|_| Vec::new(), |file| lies(places, file));
        vec![Part { open, extents }]
    })
}

fn run(places: &Places, passed: &Arc<Open>, chunks: &Arc<Chunks>) -> Vec<Part> {
    let mut parts = Vec::with_capacity(chunks.files.len());
    for chunk in &chunks.files {
        let version = Version::of(&chunk.stat);
        if version == passed.version {
            let extents = passed
                .file()
                .map_or_else(|_| Vec::new(), |file| lies(places, file));
            let open = Arc::clone(passed);
            parts.push(Part { open, extents });
        } else if let Ok(file) = chunks.open(&chunk.name) {
            // Closed again: a title may have as many chunks as a process may have files open.
            let extents = lies(places, &file);
            let open = Arc::new(Open::named(chunks, &chunk.name, version));
            parts.push(Part { open, extents });
        }
    }
    parts
}

/// A file system that does not say is one without an order.
fn lies(places: &Places, file: &File) -> Vec<Extent> {
    let place = places.of(file);
    place.map_or_else(|_| Vec::new(), |place| place.extents)
}
