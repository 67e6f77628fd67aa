//! Subtitles of a title: WebVTT and SubRip files beside it, their names below its path, and how
//! playlists refer to them. Each is one segment as long as the title.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use headlong_media::is_language_tag;
use headlong_units::Duration;

use crate::link::Links;

/// Most subtitles of one title: more than the languages of any film.
const SUBTITLES_MAX: usize = 64;
/// What names of subtitles below a title begin with.
const PREFIX: &str = "text.";
/// The group of all subtitles in an HLS playlist.
const GROUP: &str = "subs";
/// Bits per second that a manifest states, as it must; texts have fewer.
const BANDWIDTH: u32 = 256;

/// A file with subtitles beside a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subtitles {
    /// What its name has after that of the title: letters, digits, hyphens, underscores and dots.
    suffix: String,
}

/// A resource made from subtitles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubtitlesForm {
    /// `text.en.srt.m3u8`: an HLS media playlist.
    Playlist,
    /// `text.en.srt.vtt`: the text as WebVTT.
    Text,
}

impl Subtitles {
    /// The subtitles in a file, by what its name has after that of the title and a dot: `vtt` and
    /// `en.srt` of `film.vtt` and `film.en.srt`. `None` if it has no subtitles.
    pub fn of_file(suffix: &str) -> Option<Self> {
        let (language, format) = match suffix.rsplit_once('.') {
            Some((language, format)) => (Some(language), format),
            None => (None, suffix),
        };
        let mut formats = ["vtt", "srt"].into_iter();
        let is_known = formats.any(|known| known.eq_ignore_ascii_case(format))
            && language.is_none_or(is_language_tag);
        is_known.then(|| Self {
            suffix: suffix.to_string(),
        })
    }

    /// Reads a name below the path of a title; `None` if it is not one of subtitles.
    pub fn parse(name: &str) -> Option<(Self, SubtitlesForm)> {
        let (suffix, extension) = name.strip_prefix(PREFIX)?.rsplit_once('.')?;
        let form = match extension {
            "m3u8" => SubtitlesForm::Playlist,
            "vtt" => SubtitlesForm::Text,
            _ => return None,
        };
        Some((Self::of_file(suffix)?, form))
    }

    /// Its name below the path of the title.
    pub fn name(&self, form: SubtitlesForm) -> String {
        let extension = match form {
            SubtitlesForm::Playlist => "m3u8",
            SubtitlesForm::Text => "vtt",
        };
        format!("{PREFIX}{}.{extension}", self.suffix)
    }

    /// The part of the file's name after that of the title and a dot.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// Its language (BCP 47).
    fn language(&self) -> Option<String> {
        let (language, _) = self.suffix.rsplit_once('.')?;
        Some(language.replace('_', "-"))
    }

    /// Those that are listed: first the one without a language, then by language. Of two files of
    /// one language, WebVTT counts.
    pub fn listed(mut found: Vec<Self>) -> Vec<Self> {
        let is_subrip = |of: &Self| of.suffix.to_ascii_lowercase().ends_with("srt");
        found.sort_by_cached_key(|of| (of.language(), is_subrip(of), of.suffix.clone()));
        found.dedup_by_key(|of| of.language());
        found.truncate(SUBTITLES_MAX);
        found
    }

    /// The HLS media playlist, for a title of this length.
    pub fn hls_media(&self, length: Duration, links: &Links) -> String {
        let millis = length.0.div_ceil(1_000_000);
        format!(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{}\n#EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXTINF:{}.{:03},\n{}\n#EXT-X-ENDLIST\n",
            millis.div_ceil(1000).max(1),
            millis / 1000,
            millis % 1000,
            links.to(self.name(SubtitlesForm::Text))
        )
    }

    /// Its line in a multivariant playlist.
    pub(crate) fn write_hls(&self, text: &mut String, links: &Links) {
        let language = self.language();
        let name = language.as_deref().unwrap_or("subtitles");
        let _ = write!(
            text,
            "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"{GROUP}{}\",NAME=\"{name}\",DEFAULT=NO,\
             AUTOSELECT=YES,FORCED=NO",
            links.group_suffix()
        );
        if let Some(language) = &language {
            let _ = write!(text, ",LANGUAGE=\"{language}\"");
        }
        let uri = links.to(self.name(SubtitlesForm::Playlist));
        let _ = writeln!(text, ",URI=\"{uri}\"");
    }

    /// The attribute of variants with subtitles.
    pub(crate) fn write_hls_group(text: &mut String, links: &Links) {
        let _ = write!(text, ",SUBTITLES=\"{GROUP}{}\"", links.group_suffix());
    }

    /// Its adaptation set in a DASH manifest.
    pub(crate) fn write_dash(&self, text: &mut String, id: usize, links: &Links) {
        let _ = write!(
            text,
            "<AdaptationSet id=\"{id}\" contentType=\"text\" mimeType=\"text/vtt\""
        );
        if let Some(language) = self.language() {
            let _ = write!(text, " lang=\"{language}\"");
        }
        let _ = write!(
            text,
            ">\n<Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"subtitle\"/>\n\
             <Representation id=\"{PREFIX}{}\" bandwidth=\"{BANDWIDTH}\">\n\
             <BaseURL>{}</BaseURL>\n</Representation>\n</AdaptationSet>\n",
            self.suffix,
            links.in_xml(self.name(SubtitlesForm::Text))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others() {
        for name in [
            "text.vtt.m3u8",
            "text.srt.vtt",
            "text.en.srt.vtt",
            "text.pt_BR.VTT.m3u8",
            "text.zh-Hant.vtt.vtt",
        ] {
            let (subtitles, form) = Subtitles::parse(name).expect(name);
            assert_eq!(subtitles.name(form), name);
        }
        for name in [
            "text.vtt",
            "text.en.vtt",
            "text.chapters.vtt.vtt",
            "text.en.de.vtt.vtt",
            "text.en.mp4.vtt",
            "text.en.vtt.srt",
            "en.vtt.vtt",
            "text.e\"n.vtt.vtt",
            "text...vtt.vtt",
        ] {
            assert_eq!(Subtitles::parse(name), None, "{name}");
        }
    }

    #[test]
    fn one_file_of_each_language_is_listed() {
        let suffixes = [
            "fr.srt",
            "en.srt",
            "srt",
            "EN-gb.vtt",
            "en.vtt",
            "pt_BR.vtt",
            "pt-BR.srt",
        ];
        let found = suffixes.map(|suffix| Subtitles::of_file(suffix).expect(suffix));
        let listed = Subtitles::listed(found.to_vec());
        let listed: Vec<&str> = listed.iter().map(Subtitles::suffix).collect();
        assert_eq!(
            listed,
            ["srt", "EN-gb.vtt", "en.vtt", "fr.srt", "pt_BR.vtt"]
        );
    }
}
