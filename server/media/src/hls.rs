//! HLS: the titles that master and media playlists describe (RFC 8216).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};

use crate::note::TitleNotes;
use crate::title::{
    DeliveryKind, MediaType, RENDITIONS_PER_TITLE_MAX, Rendition, SEGMENTS_PER_RENDITION_MAX,
    SEGMENTS_PER_TITLE_MAX, Segments, Title, brief,
};
use crate::title_builder::TitleBuilder;
use crate::uri::{PATH_BYTES_MAX, resolve_file};

/// A master playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsMaster {
    /// `EXT-X-STREAM-INF` and `EXT-X-I-FRAME-STREAM-INF`, in order.
    pub variants: Vec<HlsVariant>,
    /// `EXT-X-MEDIA` with a URI, in order.
    pub alternatives: Vec<HlsAlternative>,
    /// `EXT-X-DEFINE` with a value, for media playlists that import it.
    pub variables: HlsVariables,
    /// Problems of the text.
    pub notes: TitleNotes,
}

/// One variant of a master playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsVariant {
    /// Its media playlist, as written.
    pub uri: String,
    /// `BANDWIDTH`.
    pub peak: Option<BitRate>,
    /// `AVERAGE-BANDWIDTH`.
    pub average: Option<BitRate>,
    /// Whether it only indexes the key frames of another variant, for scrubbing.
    pub i_frame: bool,
}

/// Audio or subtitles delivered beside the variants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsAlternative {
    /// Its media playlist, as written.
    pub uri: String,
    /// Media type.
    pub media: MediaType,
    /// `NAME`.
    pub name: String,
}

/// A media playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsMedia {
    /// Its segments, in order.
    pub segments: Vec<HlsSegment>,
    /// `EXT-X-I-FRAMES-ONLY`: it indexes the files of another playlist.
    pub i_frames_only: bool,
    /// `EXT-X-DEFINE:IMPORT`: variables of the master playlist that are in its URIs.
    pub imports: Vec<String>,
    /// Problems of the text.
    pub notes: TitleNotes,
}

/// One segment of a media playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsSegment {
    /// As written.
    pub uri: String,
    /// `EXTINF`.
    pub duration: Duration,
    /// `EXT-X-GAP`: there is no media for this time, and players do not request the URI.
    pub is_gap: bool,
    /// `EXT-X-BYTERANGE`.
    pub byte_range: Option<HlsByteRange>,
    /// The `EXT-X-MAP` before this segment; it holds for the following ones too.
    pub map: Option<HlsMap>,
}

/// `n[@o]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HlsByteRange {
    /// Length in bytes.
    pub length: u64,
    /// First byte; `None` for the end of the previous segment.
    pub offset: Option<u64>,
}

/// An init segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsMap {
    /// As written.
    pub uri: String,
    /// Its byte range; `None` for the whole file.
    pub byte_range: Option<HlsByteRange>,
}

/// A media playlist that a master playlist names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaylistReference {
    /// Path from the root of the tree.
    pub path: Arc<str>,
    /// Its name in the master playlist.
    pub name: String,
    /// Media type.
    pub media: MediaType,
    /// Declared average bit rate.
    pub average: Option<BitRate>,
    /// Declared peak bit rate.
    pub peak: Option<BitRate>,
    /// Whether it is a rendition, not only an index of key frames.
    pub is_rendition: bool,
}

/// The media playlists that the master playlist at `path` names, each once (variants that differ in
/// their audio name the same one repeatedly; the first counts), variants first.
pub fn playlists(path: &str, master: &HlsMaster, notes: &mut TitleNotes) -> Vec<PlaylistReference> {
    let variants = master.variants.iter().map(|variant| PlaylistReference {
        path: Arc::from(variant.uri.as_str()),
        name: variant.uri.clone(),
        media: MediaType::Video,
        average: variant.average,
        peak: variant.peak,
        is_rendition: !variant.i_frame,
    });
    let alternatives = master.alternatives.iter().map(|other| PlaylistReference {
        path: Arc::from(other.uri.as_str()),
        name: other.name.clone(),
        media: other.media,
        average: None,
        peak: None,
        is_rendition: true,
    });
    let mut found: Vec<PlaylistReference> = Vec::new();
    for mut reference in variants.chain(alternatives) {
        match resolve_file(path, &reference.path) {
            Ok(resolved) => reference.path = Arc::from(resolved),
            Err(reason) => {
                notes.push(format!("playlist `{}` {reason}", brief(&reference.path)));
                continue;
            }
        }
        if found.iter().any(|known| known.path == reference.path) {
            continue;
        }
        if found.len() == RENDITIONS_PER_TITLE_MAX {
            notes.push(format!(
                "it names more than {RENDITIONS_PER_TITLE_MAX} playlists; the others are ignored"
            ));
            break;
        }
        found.push(reference);
    }
    found
}

/// The title that the master playlist at `path` describes; `media` returns the parsed media
/// playlist at a path of the tree. `None` if it exceeds the builder's budget.
pub fn master_title<'a>(
    path: &str,
    master: &HlsMaster,
    media: impl Fn(&str) -> Option<&'a HlsMedia>,
    builder: &mut TitleBuilder<'_>,
) -> Option<Title> {
    builder.begin();
    let mut title = Title::new(path, DeliveryKind::Hls);
    let mut notes = master.notes.clone();
    for reference in playlists(path, master, &mut notes) {
        if !reference.is_rendition {
            continue;
        }
        let Some(playlist) = media(&reference.path) else {
            let missing = brief(&reference.path);
            notes.push(format!("playlist `{missing}` is missing or broken"));
            continue;
        };
        // A second master playlist with other values would share these segments.
        let fill = |builder: &mut TitleBuilder<'_>| {
            let of_playlist = playlist.notes.iter();
            of_playlist.for_each(|note| {
                builder.note(format!("playlist `{}`: {note}", brief(&reference.path)));
            });
            fill(&reference.path, playlist, &master.variables, builder)
        };
        let Some(segments) = builder.playlist(&reference.path, fill) else {
            break;
        };
        let count_max = title.segments_left();
        if segments.list.len() > count_max {
            notes.push(format!(
                "it has more than {SEGMENTS_PER_TITLE_MAX} segments; the others are ignored"
            ));
            continue;
        }
        title.renditions.push(Rendition {
            name: reference.name,
            media: reference.media,
            average: reference.average,
            peak: reference.peak,
            segments,
        });
    }
    notes.add(&builder.end()?);
    title.notes = notes;
    title.measure();
    Some(title)
}

/// The title that a media playlist describes when no master playlist names it. `None` if it exceeds
/// the builder's budget.
pub fn media_title(
    path: &str,
    playlist: &HlsMedia,
    builder: &mut TitleBuilder<'_>,
) -> Option<Title> {
    builder.begin();
    let mut title = Title::new(path, DeliveryKind::Hls);
    let segments = fill(path, playlist, &HlsVariables::default(), builder);
    let mut notes = playlist.notes.clone();
    notes.add(&builder.end()?);
    title.notes = notes;
    title.renditions.push(Rendition {
        name: String::from(path),
        segments: Arc::new(segments),
        ..Rendition::default()
    });
    title.measure();
    Some(title)
}

fn fill(
    path: &str,
    playlist: &HlsMedia,
    of_master: &HlsVariables,
    builder: &mut TitleBuilder<'_>,
) -> Segments {
    let mut segments = Segments::default();
    let mut imported = HlsVariables::default();
    for name in &playlist.imports {
        match of_master.value(name) {
            Some(value) => _ = imported.define(name, value),
            None => builder.note(format!(
                "it imports the variable `{}`, which no master playlist defines for it",
                brief(name)
            )),
        }
    }
    let mut map: Option<&HlsMap> = None;
    // URI and end of the previous segment.
    let mut previous: Option<(&str, u64)> = None;
    for (index, segment) in playlist.segments.iter().enumerate() {
        if builder.is_exhausted() {
            break;
        }
        if index.max(segments.list.len()) + 2 > SEGMENTS_PER_RENDITION_MAX {
            builder.note(format!(
                "it has more than {SEGMENTS_PER_RENDITION_MAX} segments; the others are ignored"
            ));
            break;
        }
        if segment.map.is_some() && segment.map.as_ref() != map {
            map = segment.map.as_ref();
            if let Some(init) = map {
                let range = init.byte_range.map(|range| absolute(range, 0));
                let uri = imported.replace_in(&init.uri, PATH_BYTES_MAX);
                segments.push(path, &uri, range, Duration::ZERO, builder);
            }
        }
        let after = previous.filter(|(uri, _)| *uri == segment.uri);
        let range = segment
            .byte_range
            .map(|range| absolute(range, after.map_or(0, |(_, end)| end)));
        previous = range.map(|range| (segment.uri.as_str(), range.end));
        if segment.is_gap {
            segments.duration += segment.duration;
            continue;
        }
        let uri = imported.replace_in(&segment.uri, PATH_BYTES_MAX);
        segments.push(path, &uri, range, segment.duration, builder);
    }
    segments
}

fn absolute(range: HlsByteRange, offset_default: u64) -> ByteRange {
    let start = range.offset.unwrap_or(offset_default);
    ByteRange::new(start, start.saturating_add(range.length))
}

// Variables of HLS playlists (`EXT-X-DEFINE`, RFC 8216bis 4.4.2.3): `{$name}` in a URI stands for
// the variable's value.

/// Most variables of one playlist.
const VARIABLES_MAX: usize = 256;

/// The variables of one playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsVariables(BTreeMap<String, String>);

impl HlsVariables {
    /// Adds a variable; returns whether there was room for it, and its value can be in a URI of
    /// this tree.
    pub fn define(&mut self, name: &str, value: &str) -> bool {
        let is_valid = value.len() <= PATH_BYTES_MAX && self.0.len() < VARIABLES_MAX;
        if is_valid {
            self.0.insert(name.into(), value.into());
        }
        is_valid
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces the variables in `text`. Undefined ones stay, and so does a text whose result would
    /// be longer than `bytes_max`.
    pub fn replace_in<'t>(&self, text: &'t str, bytes_max: usize) -> Cow<'t, str> {
        if self.0.is_empty() || !text.contains("{$") {
            return Cow::Borrowed(text);
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("{$") {
            out.push_str(before);
            let known = after.split_once('}').and_then(|(name, behind)| {
                let value = self.0.get(name)?;
                Some((value, behind))
            });
            rest = match known {
                Some((value, behind)) => {
                    out.push_str(value);
                    behind
                }
                None => {
                    out.push_str("{$");
                    after
                }
            };
            if out.len() > bytes_max {
                return Cow::Borrowed(text);
            }
        }
        out.push_str(rest);
        match out.len() > bytes_max {
            true => Cow::Borrowed(text),
            false => Cow::Owned(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec;

    use super::*;

    fn segment(uri: &str) -> HlsSegment {
        HlsSegment {
            uri: uri.to_string(),
            duration: Duration::from_secs(4),
            ..HlsSegment::default()
        }
    }

    fn variant(uri: &str, kbps: u64) -> HlsVariant {
        HlsVariant {
            uri: uri.to_string(),
            peak: Some(BitRate::from_kbps(kbps)),
            ..HlsVariant::default()
        }
    }

    use crate::title_builder::tests::{all_there, build_media as media_title};

    fn paths(rendition: &Rendition) -> Vec<&str> {
        rendition.segments.list.iter().map(|s| &*s.path).collect()
    }

    #[test]
    fn segments_keep_order_of_playlist_not_of_names() {
        let playlist = HlsMedia {
            segments: ["s10.ts", "s2.ts", "https://cdn.example/ad.ts", "s1.ts"]
                .map(segment)
                .to_vec(),
            ..HlsMedia::default()
        };
        let title = media_title("t/v.m3u8", &playlist);
        assert_eq!(
            paths(&title.renditions[0]),
            ["t/s10.ts", "t/s2.ts", "t/s1.ts"]
        );
        assert_eq!(title.duration, Some(Duration::from_secs(12)));
        let notes: Vec<&str> = title.notes.iter().collect();
        assert!(
            notes.len() == 1 && notes[0].contains("cdn.example"),
            "{notes:?}"
        );
    }

    #[test]
    fn byte_range_without_offset_begins_at_previous_end() {
        let mut segments = vec![segment("all.ts"), segment("all.ts"), segment("other.ts")];
        segments[0].byte_range = Some(HlsByteRange {
            length: 100,
            offset: Some(50),
        });
        segments[1].byte_range = Some(HlsByteRange {
            length: 30,
            offset: None,
        });
        segments[2].byte_range = Some(HlsByteRange {
            length: 7,
            offset: None,
        });
        let title = media_title(
            "v.m3u8",
            &HlsMedia {
                segments,
                ..HlsMedia::default()
            },
        );
        let ranges: Vec<_> = title.renditions[0]
            .segments
            .list
            .iter()
            .map(|s| s.range)
            .collect();
        assert_eq!(
            ranges,
            [(50, 180), (0, 7)].map(|(a, b)| Some(ByteRange::new(a, b)))
        );
    }

    #[test]
    fn init_segment_precedes_its_segments() {
        let mut segments: Vec<_> = ["1.m4s", "2.m4s", "3.m4s"].map(segment).to_vec();
        let map = HlsMap {
            uri: "init.mp4".to_string(),
            byte_range: None,
        };
        segments[0].map = Some(map.clone());
        segments[1].map = Some(map);
        segments[2].map = Some(HlsMap {
            uri: "init2.mp4".to_string(),
            byte_range: None,
        });
        let title = media_title(
            "v.m3u8",
            &HlsMedia {
                segments,
                ..HlsMedia::default()
            },
        );
        assert_eq!(
            paths(&title.renditions[0]),
            ["init.mp4", "1.m4s", "2.m4s", "init2.mp4", "3.m4s"]
        );
    }

    #[test]
    fn master_names_each_playlist_once_without_iframe_index() {
        let mut frames = variant("iframes.m3u8", 100);
        frames.i_frame = true;
        let master = HlsMaster {
            variants: vec![
                variant("hi/v.m3u8", 3000),
                variant("hi/v.m3u8", 3100),
                variant("gone.m3u8", 500),
                frames,
            ],
            alternatives: vec![HlsAlternative {
                uri: "a.m3u8".to_string(),
                media: MediaType::Audio,
                name: "English".to_string(),
            }],
            ..HlsMaster::default()
        };
        let video = HlsMedia {
            segments: vec![segment("1.ts")],
            ..HlsMedia::default()
        };
        let audio = HlsMedia {
            segments: vec![segment("1.aac")],
            ..HlsMedia::default()
        };
        let media = |path: &str| match path {
            "t/hi/v.m3u8" => Some(&video),
            "t/a.m3u8" => Some(&audio),
            _ => None,
        };
        let title = all_there(|builder| master_title("t/master.m3u8", &master, media, builder));
        assert_eq!(title.renditions.len(), 2);
        assert_eq!(paths(&title.renditions[0]), ["t/hi/1.ts"]);
        assert_eq!(title.renditions[0].peak, Some(BitRate::from_kbps(3000)));
        assert_eq!(title.renditions[1].media, MediaType::Audio);
        assert!(title.notes.iter().any(|note| note.contains("gone.m3u8")));
    }

    #[test]
    fn gap_takes_its_time_and_names_no_file() {
        let mut segments: Vec<_> = ["1.ts", "gone.ts", "3.ts"].map(segment).to_vec();
        segments[1].is_gap = true;
        let playlist = HlsMedia {
            segments,
            ..HlsMedia::default()
        };
        let title = media_title("v.m3u8", &playlist);
        assert_eq!(paths(&title.renditions[0]), ["1.ts", "3.ts"]);
        assert_eq!(title.duration, Some(Duration::from_secs(12)));
        assert!(title.notes.is_empty());
    }

    #[test]
    fn variables_come_from_the_master_playlist() {
        let mut master = HlsMaster {
            variants: vec![variant("v.m3u8", 1000)],
            ..HlsMaster::default()
        };
        master.variables.define("p", "seg");
        let mut notes = TitleNotes::default();
        notes.push("odd".to_string());
        let video = HlsMedia {
            segments: vec![segment("{$p}1.ts"), segment("{$q}2.ts")],
            imports: vec!["p".to_string(), "q".to_string()],
            notes,
            ..HlsMedia::default()
        };
        let media = |_: &str| Some(&video);
        let title = all_there(|builder| master_title("m.m3u8", &master, media, builder));
        assert_eq!(paths(&title.renditions[0]), ["seg1.ts", "{$q}2.ts"]);
        let notes: Vec<&str> = title.notes.iter().collect();
        assert_eq!(notes[0], "playlist `v.m3u8`: odd");
        assert!(notes.len() == 2 && notes[1].contains("`q`"), "{notes:?}");
        let alone = media_title("v.m3u8", &video);
        assert_eq!(paths(&alone.renditions[0]), ["{$p}1.ts", "{$q}2.ts"]);
        assert_eq!(alone.notes.iter().count(), 3);
    }

    #[test]
    fn external_or_excess_playlists_are_left_out_with_note() {
        let mut variants = vec![variant("https://cdn.example/v.m3u8", 1)];
        variants
            .extend((0..RENDITIONS_PER_TITLE_MAX + 5).map(|n| variant(&std::format!("{n}"), 1)));
        let master = HlsMaster {
            variants,
            ..HlsMaster::default()
        };
        let mut notes = TitleNotes::default();
        let found = playlists("t/m.m3u8", &master, &mut notes);
        assert_eq!(found.len(), RENDITIONS_PER_TITLE_MAX);
        let notes: Vec<&str> = notes.iter().collect();
        assert!(notes[0].contains("cdn.example"), "{notes:?}");
        assert!(notes[1].contains("the others are ignored"), "{notes:?}");
    }

    #[test]
    fn playlist_of_too_many_segments_is_cut_with_a_note() {
        let segments = vec![segment("1.ts"); 100_500];
        let title = media_title(
            "v.m3u8",
            &HlsMedia {
                segments,
                ..HlsMedia::default()
            },
        );
        assert!(title.renditions[0].segments.list.len() <= SEGMENTS_PER_RENDITION_MAX);
        assert!(!title.notes.is_empty());
    }

    #[test]
    fn defined_variables_are_replaced_and_others_stay() {
        let mut variables = HlsVariables::default();
        assert!(variables.define("p", "seg") && variables.define("empty", ""));
        for (text, replaced) in [
            ("{$p}1.ts", "seg1.ts"),
            ("a/{$p}/{$p}{$empty}.ts", "a/seg/seg.ts"),
            ("{$q}1.ts", "{$q}1.ts"),
            ("{$p", "{$p"),
            ("{$q{$p}", "{$qseg"),
            ("{p}.ts", "{p}.ts"),
        ] {
            assert_eq!(variables.replace_in(text, 100), replaced, "{text}");
        }
    }

    #[test]
    fn expansion_and_number_of_variables_are_bounded() {
        let mut variables = HlsVariables::default();
        let long = "x".repeat(PATH_BYTES_MAX);
        assert!(variables.define("x", &long) && !variables.define("y", &(long + "x")));
        let text = "{$x}".repeat(100_000);
        assert_eq!(variables.replace_in(&text, 2 * PATH_BYTES_MAX), text);
        let names = (0..1000).map(|n| alloc::format!("{n}"));
        let defined = names.filter(|name| variables.define(name, ""));
        assert_eq!(defined.count(), VARIABLES_MAX - 1);
    }
}
