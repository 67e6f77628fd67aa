//! Title builder: looks up the named files, and bounds the work and memory spent on missing or
//! repeated ones.
//!
//! A segment whose file exists and was not named by another title is free: its cost is bounded by
//! the files on disk. Every other one is charged to one budget for all titles; when that is used
//! up, a title that needs more than a handful is abandoned.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use headlong_units::{ByteRange, Duration};

use crate::note::TitleNotes;
use crate::title::{Segment, Segments, brief};
use crate::uri::resolve_file;

/// Segments that may be charged to a title after the budget is used up.
const SPARE_MAX: u64 = 64;

/// State of a file that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedFile {
    /// It exists, and no title named it before.
    New(Arc<str>),
    /// It exists, and was named before.
    Known(Arc<str>),
    /// It does not exist.
    Missing,
}

/// Looks up named files, and tracks the budget.
pub struct TitleBuilder<'f> {
    files: &'f mut dyn FnMut(&str) -> NamedFile,
    budget: u64,
    /// Remaining file look-ups, for all titles.
    looks: u64,
    /// Remaining charge of the title that is being built.
    left: u64,
    is_exhausted: bool,
    notes: TitleNotes,
    /// Media playlists that were built, by path; titles that name the same one share its segments.
    playlists: BTreeMap<Arc<str>, Option<(Arc<Segments>, TitleNotes)>>,
}

impl<'f> TitleBuilder<'f> {
    /// A builder with a budget of `budget` missing or repeated segments, and at most `looks` file
    /// look-ups.
    pub fn new(budget: u64, looks: u64, files: &'f mut dyn FnMut(&str) -> NamedFile) -> Self {
        Self {
            files,
            budget,
            looks,
            left: 0,
            is_exhausted: false,
            notes: TitleNotes::default(),
            playlists: BTreeMap::new(),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.left = self.budget.saturating_add(SPARE_MAX);
        self.is_exhausted = false;
        self.notes = TitleNotes::default();
    }

    /// Ends a title: returns its notes, unless it was abandoned.
    pub(crate) fn end(&mut self) -> Option<TitleNotes> {
        self.budget = self.budget.min(self.left);
        (!self.is_exhausted).then(|| core::mem::take(&mut self.notes))
    }

    /// Whether the title must be abandoned.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    pub(crate) fn charge(&mut self, count: u64) {
        self.is_exhausted |= count > self.left;
        self.left = self.left.saturating_sub(count);
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Looks up a file; `None` if it does not exist.
    pub(crate) fn file(&mut self, path: &str) -> Option<Arc<str>> {
        self.is_exhausted |= self.looks == 0;
        if self.is_exhausted {
            return None;
        }
        self.looks -= 1;
        match (self.files)(path) {
            NamedFile::New(path) => Some(path),
            NamedFile::Known(path) => {
                self.charge(1);
                Some(path)
            }
            NamedFile::Missing => {
                self.charge(1);
                None
            }
        }
    }

    /// The segments of the media playlist at a path; `fill` makes them if no title has named it
    /// before.
    pub(crate) fn playlist(
        &mut self,
        path: &Arc<str>,
        fill: impl FnOnce(&mut Self) -> Segments,
    ) -> Option<Arc<Segments>> {
        if let Some(built) = self.playlists.get(path) {
            let built = built.clone();
            self.charge(1);
            let Some((segments, notes)) = built else {
                self.is_exhausted = true;
                return None;
            };
            self.notes.add(&notes);
            return Some(segments);
        }
        let before = core::mem::take(&mut self.notes);
        let segments = fill(self);
        let notes = core::mem::replace(&mut self.notes, before);
        let built = (!self.is_exhausted).then(|| (Arc::new(segments), notes));
        self.playlists.insert(Arc::clone(path), built.clone());
        let (segments, notes) = built?;
        self.notes.add(&notes);
        Some(segments)
    }
}

impl Segments {
    /// Adds the segment that `reference` names relative to `base`, or a note why it cannot be used.
    pub(crate) fn push(
        &mut self,
        base: &str,
        reference: &str,
        range: Option<ByteRange>,
        duration: Duration,
        builder: &mut TitleBuilder<'_>,
    ) {
        let path = match resolve_file(base, reference) {
            Ok(path) => path,
            Err(reason) => {
                builder.note(alloc::format!("segment `{}` {reason}", brief(reference)));
                builder.charge(1);
                return;
            }
        };
        self.duration += duration;
        // Adjoining ranges of one file are joined.
        let last = self.list.last_mut().filter(|last| *last.path == *path);
        let path = match last {
            Some(last) => {
                let joined = last.range.zip(range).filter(|(a, b)| a.end == b.start);
                if let Some((before, more)) = joined {
                    last.range = Some(ByteRange::new(before.start, more.end));
                    last.duration += duration;
                    return;
                }
                builder.charge(1);
                Arc::clone(&last.path)
            }
            None => {
                self.files += 1;
                let Some(known) = builder.file(&path) else {
                    if self.first_missing.as_deref() == Some(path.as_str()) {
                        self.files -= 1;
                        return;
                    }
                    self.missing += 1;
                    self.first_missing.get_or_insert_with(|| Arc::from(path));
                    return;
                };
                known
            }
        };
        self.list.push(Segment {
            path,
            range,
            duration,
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use std::format;

    use super::*;
    use crate::hls::{HlsMaster, HlsMedia, HlsSegment, HlsVariant, master_title, media_title};
    use crate::title::Title;

    /// Builds with all files present and without limits.
    pub(crate) fn all_there(build: impl FnOnce(&mut TitleBuilder<'_>) -> Option<Title>) -> Title {
        let mut files = |path: &str| NamedFile::Known(Arc::from(path));
        let title = build(&mut TitleBuilder::new(u64::MAX, u64::MAX, &mut files));
        title.expect("within the budget")
    }

    pub(crate) fn build_media(path: &str, playlist: &HlsMedia) -> Title {
        all_there(|builder| media_title(path, playlist, builder))
    }

    fn playlist(name: &str, count: u64) -> HlsMedia {
        let segment = |index| HlsSegment {
            uri: format!("{name}-{index}.ts"),
            ..HlsSegment::default()
        };
        HlsMedia {
            segments: (0..count).map(segment).collect(),
            ..HlsMedia::default()
        }
    }

    /// Files exist if their names begin with `here`; each is new once.
    fn files() -> impl FnMut(&str) -> NamedFile {
        let mut named: BTreeSet<String> = BTreeSet::new();
        move |path| match (path.starts_with("here"), named.insert(path.into())) {
            (false, _) => NamedFile::Missing,
            (true, true) => NamedFile::New(Arc::from(path)),
            (true, false) => NamedFile::Known(Arc::from(path)),
        }
    }

    #[test]
    fn titles_share_segments_of_one_playlist_and_pay_once() {
        let missing = playlist("gone", 100);
        let variant = HlsVariant {
            uri: "v.m3u8".into(),
            ..HlsVariant::default()
        };
        let master = HlsMaster {
            variants: Vec::from([variant]),
            ..HlsMaster::default()
        };
        let mut files = files();
        let mut builder = TitleBuilder::new(150, u64::MAX, &mut files);
        let mut build = |n: u64| {
            let media = |_: &str| Some(&missing);
            master_title(&format!("{n}.m3u8"), &master, media, &mut builder)
        };
        let titles: Vec<Title> = (0..20).map_while(&mut build).collect();
        assert_eq!(titles.len(), 20);
        let first = &titles[0].renditions[0].segments;
        assert_eq!(
            (first.files, first.missing, first.list.len()),
            (100, 100, 0)
        );
        let is_shared = |title: &Title| Arc::ptr_eq(&title.renditions[0].segments, first);
        assert!(titles.iter().all(is_shared));
    }

    #[test]
    fn title_of_existing_files_is_built_without_budget() {
        let mut files = files();
        let mut builder = TitleBuilder::new(1000, u64::MAX, &mut files);
        for n in 0..100 {
            let path = format!("hostile-{n}.m3u8");
            let built = media_title(&path, &playlist(&path, 999), &mut builder);
            assert_eq!(built.is_some(), n == 0, "{n}");
        }
        let built = media_title("good.m3u8", &playlist("here", 5000), &mut builder);
        assert_eq!(
            built.expect("built").renditions[0].segments.list.len(),
            5000
        );
        let again = media_title("twin.m3u8", &playlist("here", 5000), &mut builder);
        assert!(again.is_none(), "repeated segments are free");
    }

    #[test]
    fn file_lookups_are_bounded() {
        let mut count = 0;
        let mut files = |path: &str| {
            count += 1;
            NamedFile::New(Arc::from(path))
        };
        let mut builder = TitleBuilder::new(u64::MAX, 1000, &mut files);
        for n in 0..10 {
            media_title(&format!("{n}"), &playlist("here", 300), &mut builder);
        }
        assert_eq!(count, 1000);
    }
}
