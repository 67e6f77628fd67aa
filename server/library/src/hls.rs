//! Parses HLS playlists with `m3u8-rs` into the structures of `headlong-media`.
//!
//! The parser only gets the relevant lines, one per line and terminated. This keeps its output
//! small, and avoids its weak spots: it stops at an unterminated last line, and rescans the text
//! for attributes without a value.

use headlong_media::{
    HlsAlternative, HlsByteRange, HlsMap, HlsMaster, HlsMedia, HlsSegment, HlsVariant, MediaType,
    SEGMENTS_PER_RENDITION_MAX,
};
use headlong_units::{BitRate, Duration};
use m3u8_rs::{AlternativeMediaType, MasterPlaylist, MediaPlaylist};

/// A playlist of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HlsPlaylist {
    /// It lists playlists.
    Master(HlsMaster),
    /// It lists segments.
    Media(HlsMedia),
}

const PLAIN_TAGS: [&str; 5] = [
    "#EXTINF:",
    "#EXT-X-BYTERANGE:",
    "#EXT-X-TARGETDURATION:",
    "#EXT-X-I-FRAMES-ONLY",
    "#EXT-X-ENDLIST",
];
/// Tags with attributes; without any `=` they have no content.
const ATTRIBUTE_TAGS: [&str; 4] = [
    "#EXT-X-MAP:",
    "#EXT-X-MEDIA:",
    "#EXT-X-STREAM-INF:",
    "#EXT-X-I-FRAME-STREAM-INF:",
];

/// Parses a playlist; the error describes the problem.
pub fn parse_hls(text: &str) -> Result<HlsPlaylist, String> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.starts_with("#EXTM3U") {
        return Err("it does not begin with #EXTM3U".to_string());
    }
    let mut essence = RelevantLines::new(text);
    let first = essence.next().unwrap_or_default();
    let none = || "it is not a playlist".to_string();
    if m3u8_rs::is_master_playlist(first.as_bytes()) {
        let whole = first
            + &essence
                .map(|batch| batch[HEAD.len()..].to_owned())
                .collect::<String>();
        let master = m3u8_rs::parse_master_playlist_res(whole.as_bytes()).map_err(|_| none())?;
        return Ok(HlsPlaylist::Master(neutral_master(master)));
    }
    let mut media = HlsMedia::default();
    for batch in std::iter::once(first).chain(essence) {
        let parsed = m3u8_rs::parse_media_playlist_res(batch.as_bytes()).map_err(|_| none())?;
        let more = neutral_media(parsed);
        media.i_frames_only |= more.i_frames_only;
        media.segments.extend(more.segments);
    }
    if media.segments.is_empty() {
        return Err("it names no segment and no playlist".to_string());
    }
    media.segments.shrink_to_fit();
    Ok(HlsPlaylist::Media(media))
}

/// First line of each batch.
const HEAD: &str = "#EXTM3U\n";
/// Most names in a batch: the parser's output for a line takes a hundred times its bytes.
const BATCH_URIS: usize = 4096;

/// The relevant lines, in batches that are playlists themselves.
struct RelevantLines<'a> {
    lines: std::iter::Skip<std::str::Lines<'a>>,
    uri_count: usize,
    is_over: bool,
}

impl<'a> RelevantLines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().skip(1),
            uri_count: 0,
            is_over: false,
        }
    }
}

impl Iterator for RelevantLines<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        let mut out = String::from(HEAD);
        let start = self.uri_count;
        for line in self.lines.by_ref().map(str::trim) {
            let attributes = ATTRIBUTE_TAGS.iter().any(|tag| line.starts_with(tag));
            let wanted = match line.starts_with('#') {
                true if attributes => line.contains('='),
                true => PLAIN_TAGS.iter().any(|tag| line.starts_with(tag)),
                false => !line.is_empty(),
            };
            if wanted {
                // The parser would take a comma in a segment's title for the end of the line.
                match line.split_once(',') {
                    Some((duration, _)) if line.starts_with("#EXTINF:") => {
                        out.push_str(duration);
                        out.push(',');
                    }
                    _ => out.push_str(line),
                }
                out.push('\n');
                self.uri_count += usize::from(!line.starts_with('#'));
            }
            // One more than the limit, so that the excess is detected and reported.
            self.is_over = self.uri_count > SEGMENTS_PER_RENDITION_MAX;
            if self.is_over || self.uri_count - start == BATCH_URIS {
                return Some(out);
            }
        }
        self.is_over = true;
        (out.len() > HEAD.len() || start == 0).then_some(out)
    }
}

fn neutral_master(master: MasterPlaylist) -> HlsMaster {
    let variants = master.variants.into_iter().map(|variant| HlsVariant {
        uri: variant.uri,
        peak: Some(BitRate(variant.bandwidth)),
        average: variant.average_bandwidth.map(BitRate),
        i_frame: variant.is_i_frame,
    });
    let alternatives = master.alternatives.into_iter().filter_map(|other| {
        Some(HlsAlternative {
            uri: other.uri?,
            media: match other.media_type {
                AlternativeMediaType::Video => MediaType::Video,
                AlternativeMediaType::Audio => MediaType::Audio,
                _ => MediaType::Other,
            },
            name: other.name,
        })
    });
    HlsMaster {
        // A variant without a URI line names no playlist.
        variants: variants.filter(|variant| !variant.uri.is_empty()).collect(),
        alternatives: alternatives.collect(),
    }
}

fn neutral_media(media: MediaPlaylist) -> HlsMedia {
    let segments = media.segments.into_iter().map(|segment| HlsSegment {
        // Copied, so that the parser's memory is freed as a whole.
        uri: segment.uri.as_str().to_owned(),
        duration: seconds(segment.duration),
        byte_range: segment.byte_range.map(neutral_range),
        map: segment.map.map(|map| HlsMap {
            uri: map.uri,
            byte_range: map.byte_range.map(neutral_range),
        }),
    });
    HlsMedia {
        segments: segments.collect(),
        i_frames_only: media.i_frames_only,
    }
}

fn neutral_range(range: m3u8_rs::ByteRange) -> HlsByteRange {
    HlsByteRange {
        length: range.length,
        offset: range.offset,
    }
}

/// Seconds as a duration; zero if it is not a valid length of time.
fn seconds(seconds: f32) -> Duration {
    // The cast saturates, and returns zero for NaN.
    Duration((f64::from(seconds) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unterminated_last_line_counts() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n1.ts\n#EXTINF:2.5,\n2.ts";
        let Ok(HlsPlaylist::Media(media)) = parse_hls(text) else {
            panic!("a media playlist");
        };
        let uris: Vec<&str> = media.segments.iter().map(|s| s.uri.as_str()).collect();
        assert_eq!(uris, ["1.ts", "2.ts"]);
        assert_eq!(media.segments[1].duration, Duration::from_millis(2500));
    }

    #[test]
    fn comments_and_unknown_tags_are_ignored() {
        let text = "\u{feff}#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n# two\r\n#EXT-X-KEY:METHOD\r\n\
                    #EXT-X-MAP:URI=\"i.mp4\",BYTERANGE=\"10@5\"\r\n#EXTINF:4\r\n\r\n1.m4s\r\n#EXT-X-FOO";
        let Ok(HlsPlaylist::Media(media)) = parse_hls(text) else {
            panic!("a media playlist");
        };
        assert_eq!(media.segments.len(), 1);
        let map = media.segments[0].map.as_ref().expect("a map");
        let range = HlsByteRange {
            length: 10,
            offset: Some(5),
        };
        assert_eq!((map.uri.as_str(), map.byte_range), ("i.mp4", Some(range)));
    }

    #[test]
    fn playlist_of_several_batches_is_read_in_order() {
        let count = 3 * BATCH_URIS + 1;
        let lines = (0..count).map(|n| format!("#EXTINF:2,\n{n}.ts\n"));
        let text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n{}",
            lines.collect::<String>()
        );
        let Ok(HlsPlaylist::Media(media)) = parse_hls(&text) else {
            panic!("a media playlist");
        };
        assert_eq!(media.segments.len(), count);
        let is_right = |(n, segment): (usize, &HlsSegment)| segment.uri == format!("{n}.ts");
        assert!(media.segments.iter().enumerate().all(is_right));
    }

    #[test]
    fn reason_is_given_for_invalid_playlist() {
        for text in [
            "",
            "hello",
            "#EXTM3U",
            "#EXTM3U\n#EXT-X-TARGETDURATION:5\n",
            "EXTM3U\n1.ts",
        ] {
            assert!(parse_hls(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics_on_any_playlist(
            text in "#EXTM3U\n((#EXTINF:|#EXT-X-(MAP|MEDIA|STREAM-INF|BYTERANGE|KEY):|URI=|BANDWIDTH=|TYPE=|\"|,|@|=|\n|[0-9.]{1,22}|a|é|-){0,30}\n){0,6}",
        ) {
            let _ = parse_hls(&text);
        }
    }
}
