//! The choices of a player: the files of a title in several bit rates, and its subtitles.
//!
//! Invariant: all listed files are cut into segments at the same times, so that a player may go on
//! with another file at the end of any segment. Files that are cut elsewhere are left out.

use alloc::vec::Vec;

use headlong_units::Duration;

use crate::bandwidth::Bandwidth;
use crate::resource::Version;
use crate::subtitles::Subtitles;
use crate::title::Title;

/// Most files of a title.
pub const FILES_MAX: usize = 16;

/// The part of a file's index that the playlists of a title need: without sample tables, a tenth of
/// it.
#[derive(Debug, Clone)]
pub struct TitleOutline(Title);

impl Title {
    /// Its outline.
    pub fn outline(&self) -> TitleOutline {
        TitleOutline(Self {
            moov: Vec::new(),
            tracks: self.tracks.clone(),
            measured_min: self.measured_min,
            by_heads: self.by_heads,
        })
    }
}

impl TitleOutline {
    /// Bytes of memory that it takes: 14 MiB at most.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// A file of a title.
#[derive(Debug, Clone, Copy)]
pub struct TitleFile<'a> {
    /// What its name has after that of the title, without the extension; empty for the one file of a
    /// title.
    pub suffix: &'a str,
    /// The outline of its index.
    pub outline: &'a TitleOutline,
    /// Its version.
    pub version: Version,
}

/// The files of a title, and its subtitles.
#[derive(Debug, Clone)]
pub struct Presentation<'a> {
    /// Those that are listed, by bit rate.
    pub(crate) files: Vec<TitleFile<'a>>,
    left_out: Vec<&'a str>,
    pub(crate) subtitles: &'a [Subtitles],
}

impl<'a> TitleFile<'a> {
    pub(crate) fn title(&self) -> &'a Title {
        &self.outline.0
    }

    /// The path of its resources, below that of the title.
    pub(crate) fn folder(&self) -> (&'a str, &'static str) {
        (self.suffix, if self.suffix.is_empty() { "" } else { "/" })
    }

    /// Bit rate of all its video, and one audio track.
    fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(self.title(), self.title().muxed())
    }
}

impl<'a> Presentation<'a> {
    /// The presentation of these files. Of files that do not have their key frames at the same
    /// times, those stay of which most do.
    pub fn new(files: Vec<TitleFile<'a>>, subtitles: &'a [Subtitles]) -> Self {
        let aligned = |with: &Title| {
            let aligned = files
                .iter()
                .filter(|file| file.title().is_aligned_with(with));
            aligned.count()
        };
        let most = files
            .iter()
            .max_by_key(|file| (aligned(file.title()), file.bandwidth()))
            .map(|file| file.title());
        let is_listed =
            |file: &TitleFile<'a>| most.is_some_and(|most| file.title().is_aligned_with(most));
        let (mut files, left_out): (Vec<_>, Vec<_>) = files.into_iter().partition(is_listed);
        files.sort_by_cached_key(|file| file.bandwidth().average);
        Self {
            files,
            left_out: left_out.into_iter().map(|file| file.suffix).collect(),
            subtitles,
        }
    }

    /// Suffixes of the files that are left out, because they are cut into segments at other times.
    pub fn left_out(&self) -> &[&'a str] {
        &self.left_out
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        let lengths = self.files.iter().map(|file| file.title().length());
        lengths.max().unwrap_or_default()
    }
}
