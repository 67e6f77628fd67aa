//! Subtitles beside a plain file: `film.mp4` has `film.vtt` and `film.en.srt`.
//!
//! Only names are checked; the player page, and `headlong-package` for HLS and DASH, convert SubRip
//! (`.srt`) to WebVTT. Titles with a manifest name their subtitles there.

use std::collections::HashMap;
use std::sync::Arc;

use headlong_media::{encode_path, is_language_tag};
use serde::Serialize;

use crate::kind::split_name;

/// Most subtitles of one title: more than the languages of any film.
const TEXTS_MAX: usize = 64;

/// A WebVTT or SubRip file beside a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubtitlesView {
    /// Its URL path.
    pub path: String,
    /// Its language (BCP 47), if its name contains one.
    pub language: Option<String>,
}

/// One file with subtitles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subtitles {
    pub(crate) path: Arc<str>,
    language: Option<String>,
}

impl Subtitles {
    /// Its view for the library page.
    pub(crate) fn view(&self) -> SubtitlesView {
        SubtitlesView {
            path: encode_path(&self.path),
            language: self.language.clone(),
        }
    }
}

/// All subtitles, by the path of their film without its extension.
#[derive(Debug, Default)]
pub(crate) struct SubtitlesByFilm<'a>(HashMap<&'a str, Vec<Subtitles>>);

impl<'a> SubtitlesByFilm<'a> {
    /// The subtitles among these files.
    pub(crate) fn new(files: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let mut all = Self::default();
        for path in files {
            let (_, extension) = split_name(path);
            let mut formats = ["vtt", "srt"].into_iter();
            if !formats.any(|format| format.eq_ignore_ascii_case(extension)) {
                continue;
            }
            let base = without_extension(path);
            all.add(base, path, None);
            let (stem, language) = split_name(base);
            if !stem.is_empty() && is_language_tag(language) {
                all.add(without_extension(base), path, Some(language));
            }
        }
        all
    }

    fn add(&mut self, base: &'a str, path: &Arc<str>, language: Option<&str>) {
        self.0.entry(base).or_default().push(Subtitles {
            path: Arc::clone(path),
            language: language.map(|language| language.replace('_', "-")),
        });
    }

    /// The subtitles of a title: first the one without a language, then by name. Of two files that
    /// differ in the format only, WebVTT counts.
    pub(crate) fn of(&self, title: &str) -> Vec<Subtitles> {
        let found = self.0.get(without_extension(title));
        let mut found = found.cloned().unwrap_or_default();
        let base = |text: &Subtitles| without_extension(&text.path).to_owned();
        let is_srt = |text: &Subtitles| split_name(&text.path).1.eq_ignore_ascii_case("srt");
        found.sort_by_cached_key(|text| (text.language.clone(), base(text), is_srt(text)));
        found.dedup_by(|later, first| base(later) == base(first));
        found.truncate(TEXTS_MAX);
        found
    }
}

fn without_extension(path: &str) -> &str {
    let (_, extension) = split_name(path);
    let end = path.len() - extension.len();
    path[..end].strip_suffix('.').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_are_found_by_name_and_have_a_language() {
        let files = [
            "a/film.mp4",
            "a/film.vtt",
            "a/film.en.vtt",
            "a/film.en.srt",
            "a/film.fr.srt",
            "a/film.pt_BR.VTT",
            "a/film.chapters.vtt",
            "a/film.part.mp4",
            "a/film.part.vtt",
            "b/film.de.vtt",
            "film.fr.vtt",
            "a.b/film.vtt",
            ".vtt",
        ];
        let files: Vec<Arc<str>> = files.iter().map(|path| Arc::from(*path)).collect();
        let all = SubtitlesByFilm::new(files.iter());
        let of = |title| {
            let texts = all.of(title).into_iter();
            let texts = texts.map(|text| (text.path.to_string(), text.language));
            texts.collect::<Vec<_>>()
        };
        let text =
            |path: &str, language: Option<&str>| (path.to_owned(), language.map(str::to_owned));
        let expected = [
            text("a/film.vtt", None),
            text("a/film.en.vtt", Some("en")),
            text("a/film.fr.srt", Some("fr")),
            text("a/film.pt_BR.VTT", Some("pt-BR")),
        ];
        assert_eq!(of("a/film.mp4"), expected);
        assert_eq!(of("a/film.part.mp4"), [text("a/film.part.vtt", None)]);
        assert_eq!(of("film.webm"), [text("film.fr.vtt", Some("fr"))]);
        assert_eq!(of("other.mp4"), []);
    }
}
