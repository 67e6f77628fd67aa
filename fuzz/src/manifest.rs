//! Invariants of every title built from a manifest.

use std::collections::BTreeSet;
use std::sync::Arc;

use headlong_media::{
    FileFacts, NOTES_PER_TITLE_MAX, NamedFile, PATH_BYTES_MAX, RENDITIONS_PER_TITLE_MAX,
    SEGMENTS_PER_RENDITION_MAX, SEGMENTS_PER_TITLE_MAX, Title, TitleBuilder, encode_path, plan,
    resolve_file,
};

/// Longest note about a manifest, in bytes; a note quotes at most 80 characters.
const NOTE_BYTES_MAX: usize = 600;

/// Builds a title within a budget; all files exist.
pub(crate) fn built(build: impl FnOnce(&mut TitleBuilder<'_>) -> Option<Title>) -> Option<Title> {
    let mut files = |path: &str| NamedFile::Known(Arc::from(path));
    build(&mut TitleBuilder::new(1_000_000, 1_000_000, &mut files))
}

/// The title is bounded, references nothing outside the tree, and places each file once.
pub(crate) fn check_title(title: Option<&Title>) {
    // A title over the budget is rejected.
    let Some(title) = title else { return };
    assert!(title.renditions.len() <= RENDITIONS_PER_TITLE_MAX);
    assert!(title.notes.iter().count() <= NOTES_PER_TITLE_MAX);
    for note in title.notes.iter() {
        assert!(note.len() <= NOTE_BYTES_MAX, "{note}");
    }
    let mut paths = BTreeSet::new();
    let mut segment_count = 0;
    for rendition in &title.renditions {
        assert!(rendition.segments.list.len() <= SEGMENTS_PER_RENDITION_MAX);
        segment_count += rendition.segments.list.len();
        for segment in &rendition.segments.list {
            if paths.insert(&*segment.path) {
                check_path(&segment.path);
            }
            assert!(segment.range.is_none_or(|range| range.start <= range.end));
        }
    }
    assert!(segment_count <= SEGMENTS_PER_TITLE_MAX);
    check_plan(title, &paths);
}

fn check_path(path: &str) {
    assert!(path.len() <= PATH_BYTES_MAX && !path.contains('\0'));
    assert!(
        !path.split('/').any(|name| ["", ".", ".."].contains(&name)),
        "{path}"
    );
    assert_eq!(resolve_file("", &encode_path(path)).as_deref(), Ok(path));
}

/// Files on two devices; some are missing.
fn facts(path: &str) -> Option<FileFacts> {
    let sum: usize = path.bytes().map(usize::from).sum();
    (!sum.is_multiple_of(5)).then_some(FileFacts {
        device: sum % 2,
        size_bytes: 1000,
    })
}

fn check_plan(title: &Title, paths: &BTreeSet<&str>) {
    let plan = plan(std::slice::from_ref(title), facts);
    let mut placed = 0;
    for (index, stream) in plan.streams.iter().enumerate() {
        assert!(!stream.files.is_empty());
        for (part, path) in (0..).zip(&stream.files) {
            let place = plan.places[path];
            assert_eq!((place.stream, place.part), (index, part));
            assert_eq!(facts(path).map(|file| file.device), Some(stream.device));
            placed += 1;
        }
    }
    let there = paths.iter().filter(|path| facts(path).is_some()).count();
    assert_eq!((placed, plan.places.len()), (there, there));
}
