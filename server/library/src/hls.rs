//! Parses HLS playlists with `m3u8-rs` into the structures of `headlong-media`.
//!
//! The parser drops a line, or all lines after it, that does not exactly follow the standard. It
//! therefore only gets the lines and attributes that determine files and bit rates, written anew
//! as it expects them ([`RelevantLines`]). Durations and gaps are read here.

use std::borrow::Cow;

use headlong_media::{
    HlsAlternative, HlsByteRange, HlsMap, HlsMaster, HlsMedia, HlsSegment, HlsVariables,
    HlsVariant, MediaType, PATH_BYTES_MAX, SEGMENTS_PER_RENDITION_MAX, TitleNotes,
    without_own_host,
};
use headlong_units::{BitRate, Duration};
use m3u8_rs::{AlternativeMediaType, MasterPlaylist};

/// A playlist of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HlsPlaylist {
    /// It lists playlists.
    Master(HlsMaster),
    /// It lists segments.
    Media(HlsMedia),
}

/// Parses a playlist; the error describes the problem. URLs whose host is one of `own_hosts` are
/// paths of the tree.
pub fn parse_hls(text: &str, own_hosts: &[String]) -> Result<HlsPlaylist, String> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.starts_with("#EXTM3U") {
        return Err("it does not begin with #EXTM3U".to_string());
    }
    let mut essence = RelevantLines::new(text);
    let first = essence.next().unwrap_or_default();
    let none = || "it is not a playlist".to_string();
    let empty = || "it names no segment and no playlist".to_string();
    if m3u8_rs::is_master_playlist(first.as_bytes()) {
        let rest = essence.by_ref().map(|batch| batch[HEAD.len()..].to_owned());
        let whole = first + &rest.collect::<String>();
        let master = m3u8_rs::parse_master_playlist_res(whole.as_bytes()).map_err(|_| none())?;
        let mut master = neutral_master(master, own_hosts);
        if master.variants.is_empty() && master.alternatives.is_empty() {
            return Err(empty());
        }
        (master.variables, master.notes) = (essence.variables, essence.notes);
        return Ok(HlsPlaylist::Master(master));
    }
    let mut media = HlsMedia::default();
    let mut untimed = Vec::new();
    let mut batch = Some(first);
    while let Some(text) = batch {
        let parsed = m3u8_rs::parse_media_playlist_res(text.as_bytes()).map_err(|_| none())?;
        media.i_frames_only |= parsed.i_frames_only;
        let segments = parsed.segments.into_iter().zip(essence.timings.drain(..));
        for (segment, timing) in segments {
            if timing.duration.is_none() {
                untimed.push(media.segments.len());
            }
            media
                .segments
                .push(neutral_segment(segment, timing, own_hosts));
        }
        batch = essence.next();
    }
    if media.segments.is_empty() {
        return Err(empty());
    }
    media.segments.shrink_to_fit();
    (media.imports, media.notes) = (essence.imports, essence.notes);
    fill_durations(&mut media, &untimed, essence.target);
    Ok(HlsPlaylist::Media(media))
}

/// Gives segments without a readable duration the target duration, or else the mean of the others:
/// with none, the bytes of all segments over the time of some would be a wrong bit rate.
fn fill_durations(media: &mut HlsMedia, untimed: &[usize], target: Option<Duration>) {
    if untimed.is_empty() {
        return;
    }
    let timed = media.segments.len() - untimed.len();
    let total: u128 = media
        .segments
        .iter()
        .map(|of| u128::from(of.duration.0))
        .sum();
    let mean = total.checked_div(timed as u128);
    let mean = mean.map(|ns| Duration(u64::try_from(ns).unwrap_or(0)));
    let (duration, consequence) = match (target, mean) {
        (Some(target), _) => (target, "the target duration counts"),
        (None, Some(mean)) => (mean, "the mean of the others counts"),
        (None, None) => (Duration::ZERO, "its duration and bit rate are unknown"),
    };
    for index in untimed {
        media.segments[*index].duration = duration;
    }
    let count = untimed.len();
    media.notes.push(format!(
        "the EXTINF of {count} of its segments is missing or has no valid duration; {consequence}"
    ));
}

/// First line of each batch.
const HEAD: &str = "#EXTM3U\n";
/// Most names in a batch: the parser's output for a line takes a hundred times its bytes.
const BATCH_URIS: usize = 4096;
/// Bytes that variables may add to the text of a playlist: as many as the largest manifest has.
const EXPANSION_BYTES_MAX: usize = 8 << 20;
/// Most variables that a playlist imports, and the longest of their names.
const IMPORTS_MAX: usize = 256;
const IMPORT_BYTES_MAX: usize = 256;

/// The relevant lines, one per line and terminated, in batches that are playlists themselves; and
/// what is read besides.
struct RelevantLines<'a> {
    lines: std::iter::Skip<std::str::Lines<'a>>,
    uri_count: usize,
    is_over: bool,
    /// Of each URI of the current batch.
    timings: Vec<Timing>,
    /// Of the next URI.
    timing: Timing,
    target: Option<Duration>,
    /// Whether an `EXT-X-STREAM-INF` waits for its URI; `None` if there was none yet.
    is_variant_open: Option<bool>,
    variables: HlsVariables,
    expansion_left: usize,
    imports: Vec<String>,
    notes: TitleNotes,
}

/// Time of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct Timing {
    /// `EXTINF`, if it is valid.
    duration: Option<Duration>,
    /// `EXT-X-GAP`.
    is_gap: bool,
}

impl<'a> RelevantLines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().skip(1),
            uri_count: 0,
            is_over: false,
            timings: Vec::new(),
            timing: Timing::default(),
            target: None,
            is_variant_open: None,
            variables: HlsVariables::default(),
            expansion_left: EXPANSION_BYTES_MAX,
            imports: Vec::new(),
            notes: TitleNotes::default(),
        }
    }

    /// A line as the parser gets it, if it does.
    fn relevant(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
        if !line.starts_with('#') {
            return (!line.is_empty()).then(|| self.uri(line)).flatten();
        }
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        match tag {
            "#EXTINF" => self.timing.duration = leading_number(value).and_then(seconds),
            "#EXT-X-GAP" => self.timing.is_gap = true,
            "#EXT-X-TARGETDURATION" => self.target = leading_number(value).and_then(seconds),
            "#EXT-X-DEFINE" => self.define(value),
            "#EXT-X-I-FRAMES-ONLY" => return Some(Cow::Borrowed(line)),
            "#EXT-X-BYTERANGE" => {
                let range = byte_range(value);
                self.note_unless(range.is_some(), "BYTERANGE", value);
                return range.map(|range| Cow::Owned(format!("{tag}:{range}")));
            }
            "#EXT-X-MAP" | "#EXT-X-MEDIA" | "#EXT-X-STREAM-INF" | "#EXT-X-I-FRAME-STREAM-INF" => {
                let value = self.expand(value);
                return self.attributes(tag, &value).map(Cow::Owned);
            }
            _ => {}
        }
        None
    }

    fn uri(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
        match &mut self.is_variant_open {
            // The parser would take it for the URI of the variant before.
            Some(false) => {
                self.notes
                    .push("a URI that follows no EXT-X-STREAM-INF is ignored".to_owned());
                return None;
            }
            Some(open) => *open = false,
            None => {}
        }
        self.uri_count += 1;
        self.timings.push(std::mem::take(&mut self.timing));
        Some(self.expand(line))
    }

    /// Replaces the variables.
    fn expand(&mut self, line: &'a str) -> Cow<'a, str> {
        let bytes_max = (2 * PATH_BYTES_MAX).min(line.len() + self.expansion_left);
        let expanded = self.variables.replace_in(line, bytes_max);
        let added = expanded.len().saturating_sub(line.len());
        self.expansion_left = self.expansion_left.saturating_sub(added);
        expanded
    }

    fn define(&mut self, list: &str) {
        let (mut name, mut value) = (None, None);
        for (key, text) in attributes(list) {
            match key {
                "NAME" => name = Some(text),
                "VALUE" => value = Some(text),
                "IMPORT" if self.imports.len() < IMPORTS_MAX && text.len() <= IMPORT_BYTES_MAX => {
                    self.imports.push(text.to_owned());
                }
                "IMPORT" => self.note_unless(false, "EXT-X-DEFINE", list),
                "QUERYPARAM" => self.notes.push(format!(
                    "the variable `{}` comes from the query of a request (QUERYPARAM), which is \
                     not known before; files whose URIs have it are not found",
                    brief(text)
                )),
                _ => {}
            }
        }
        if let Some(name) = name {
            let is_defined = value.is_some_and(|value| self.variables.define(name, value));
            self.note_unless(is_defined, "EXT-X-DEFINE", list);
        }
    }

    fn note_unless(&mut self, is_valid: bool, what: &str, text: &str) {
        if !is_valid {
            let text = brief(text);
            self.notes
                .push(format!("its {what} `{text}` is not valid and is ignored"));
        }
    }

    /// A tag with the attributes that matter, as the parser expects them.
    fn attributes(&mut self, tag: &str, list: &str) -> Option<String> {
        let get = |key: &str| {
            let mut found = attributes(list).filter(|(name, _)| *name == key);
            found.next().map(|(_, value)| value)
        };
        let uri = get("URI").filter(|uri| !uri.is_empty());
        let mut out = format!("{tag}:");
        match tag {
            "#EXT-X-MAP" => {
                self.note_unless(uri.is_some(), "EXT-X-MAP", list);
                let range = get("BYTERANGE").map(|range| (range, byte_range(range)));
                if let Some((text, range)) = range {
                    self.note_unless(range.is_some(), "BYTERANGE", text);
                    out.extend(range.map(|range| format!("BYTERANGE=\"{range}\",")));
                }
                uri?;
            }
            "#EXT-X-MEDIA" => {
                // Without a URI it is in the variants.
                uri?;
                let mut types = ["AUDIO", "VIDEO"].into_iter();
                let media = types.find(|known| get("TYPE") == Some(known));
                let media = media.unwrap_or("SUBTITLES");
                let name = get("NAME").filter(|name| !name.is_empty());
                let name = name.unwrap_or("without a name");
                out += &format!("TYPE={media},GROUP-ID=\"any\",NAME=\"{name}\",");
            }
            _ => {
                for (key, is_optional) in [("BANDWIDTH", false), ("AVERAGE-BANDWIDTH", true)] {
                    let value = get(key);
                    let rate = value.and_then(leading_number).map(|rate| rate as u64);
                    if rate.is_none() && !(is_optional && value.is_none()) {
                        let given = value.map(|value| format!(" (`{}`)", brief(value)));
                        self.notes.push(format!(
                            "a variant has no valid {key}{}; its bit rate is computed from its \
                             files",
                            given.unwrap_or_default()
                        ));
                    }
                    // The parser requires a bandwidth; zero is unknown.
                    if rate.is_some() || !is_optional {
                        out += &format!("{key}={},", rate.unwrap_or(0));
                    }
                }
                if tag == "#EXT-X-STREAM-INF" && self.is_variant_open.replace(true) == Some(true) {
                    self.notes
                        .push("a variant without a URI is ignored".to_owned());
                }
            }
        }
        out.extend(uri.map(|uri| format!("URI=\"{uri}\"")));
        Some(out)
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
        while let Some(line) = self.lines.next() {
            if let Some(line) = self.relevant(line.trim()) {
                out.push_str(&line);
                out.push('\n');
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

/// The attributes of a list, without blanks and quotes.
fn attributes(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut is_quoted = false;
    let members = list.split(move |c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    members.filter_map(|member| {
        let (name, value) = member.split_once('=')?;
        let value = value.trim();
        let quoted = value.strip_prefix('"');
        let inner = quoted.map(|text| text.split('"').next().unwrap_or_default());
        Some((name.trim(), inner.unwrap_or(value)))
    })
}

/// `n` or `n@o`, without blanks.
fn byte_range(text: &str) -> Option<&str> {
    let range = text.trim();
    let (length, offset) = range.split_once('@').unwrap_or((range, "0"));
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok();
    (is_number(length) && is_number(offset)).then_some(range)
}

/// The number at the beginning of a text, as players read it: of ` 4.0`, `+4`, `.5`, `4.` and the
/// `4` of `4s` and `4,5`; nothing of `-1`.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Seconds as a duration, up to a hundred days.
fn seconds(seconds: f64) -> Option<Duration> {
    const SECONDS_MAX: f64 = 100.0 * 24.0 * 3600.0;
    (seconds <= SECONDS_MAX).then_some(Duration((seconds * 1e9) as u64))
}

/// The beginning of a text from a playlist, for use in a short message.
fn brief(text: &str) -> &str {
    let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn neutral_master(master: MasterPlaylist, own_hosts: &[String]) -> HlsMaster {
    let uri = |uri: &str| without_own_host(uri, own_hosts).to_owned();
    let variants = master.variants.iter().map(|variant| HlsVariant {
        uri: uri(&variant.uri),
        peak: Some(BitRate(variant.bandwidth)),
        average: variant.average_bandwidth.map(BitRate),
        i_frame: variant.is_i_frame,
    });
    let alternatives = master.alternatives.iter().filter_map(|other| {
        Some(HlsAlternative {
            uri: uri(other.uri.as_deref()?),
            media: match other.media_type {
                AlternativeMediaType::Video => MediaType::Video,
                AlternativeMediaType::Audio => MediaType::Audio,
                _ => MediaType::Other,
            },
            name: other.name.clone(),
        })
    });
    HlsMaster {
        // A variant without a URI line names no playlist.
        variants: variants.filter(|variant| !variant.uri.is_empty()).collect(),
        alternatives: alternatives.collect(),
        ..HlsMaster::default()
    }
}

fn neutral_segment(
    segment: m3u8_rs::MediaSegment,
    timing: Timing,
    own_hosts: &[String],
) -> HlsSegment {
    // Copied, so that the parser's memory is freed as a whole.
    let uri = |uri: &str| without_own_host(uri, own_hosts).to_owned();
    HlsSegment {
        uri: uri(&segment.uri),
        duration: timing.duration.unwrap_or(Duration::ZERO),
        is_gap: timing.is_gap,
        byte_range: segment.byte_range.map(neutral_range),
        map: segment.map.map(|map| HlsMap {
            uri: uri(&map.uri),
            byte_range: map.byte_range.map(neutral_range),
        }),
    }
}

fn neutral_range(range: m3u8_rs::ByteRange) -> HlsByteRange {
    HlsByteRange {
        length: range.length,
        offset: range.offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unterminated_last_line_counts() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n1.ts\n#EXTINF:2.5,\n2.ts";
        let Ok(HlsPlaylist::Media(media)) = parse_hls(text, &[]) else {
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
        let Ok(HlsPlaylist::Media(media)) = parse_hls(text, &[]) else {
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
        let Ok(HlsPlaylist::Media(media)) = parse_hls(&text, &[]) else {
            panic!("a media playlist");
        };
        assert_eq!(media.segments.len(), count);
        let is_right = |(n, segment): (usize, &HlsSegment)| segment.uri == format!("{n}.ts");
        assert!(media.segments.iter().enumerate().all(is_right));
    }

    fn media(text: &str) -> HlsMedia {
        match parse_hls(text, &["films.example".to_string()]) {
            Ok(HlsPlaylist::Media(media)) => media,
            other => panic!("{other:?}"),
        }
    }

    fn master(text: &str) -> HlsMaster {
        match parse_hls(text, &["films.example".to_string()]) {
            Ok(HlsPlaylist::Master(master)) => master,
            other => panic!("{other:?}"),
        }
    }

    fn notes(notes: &TitleNotes) -> String {
        notes.iter().collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn durations_are_read_as_players_read_them() {
        for (text, seconds) in [
            (" 4.0,", 4.0),
            ("4", 4.0),
            ("4,title, with a comma", 4.0),
            ("+4,", 4.0),
            (".5,", 0.5),
            ("4.,", 4.0),
            ("4,5,", 4.0),
            ("04.000 ,t", 4.0),
            ("4s", 4.0),
            ("4e0,", 4.0),
        ] {
            let media = media(&format!("#EXTM3U\n#EXTINF:{text}\n1.ts\n"));
            let read = media.segments[0].duration.as_secs_f64();
            assert_eq!(
                (read, notes(&media.notes)),
                (seconds, String::new()),
                "{text}"
            );
        }
        for text in ["-1,", "nan,", "inf", "", "1.2.3,", "99999999999999999999"] {
            let media = media(&format!("#EXTM3U\n#EXTINF:{text}\n1.ts\n"));
            assert_eq!(media.segments[0].duration, Duration::ZERO, "{text}");
            let notes = notes(&media.notes);
            assert!(
                notes.contains("EXTINF of 1 of its segments"),
                "{text}: {notes}"
            );
        }
    }

    #[test]
    fn unreadable_duration_is_target_duration_or_mean() {
        let segments = "#EXTINF:4,\n1.ts\n#EXTINF:x,\n2.ts\n3.ts\n#EXTINF:2,\n4.ts\n";
        for (target, seconds) in [("", 3), ("#EXT-X-TARGETDURATION: 6\n", 6)] {
            let media = media(&format!("#EXTM3U\n{target}{segments}"));
            let durations: Vec<Duration> = media.segments.iter().map(|of| of.duration).collect();
            let expected = [4, seconds, seconds, 2].map(Duration::from_secs);
            assert_eq!(durations, expected);
            assert!(notes(&media.notes).contains("of 2 of its segments"));
        }
    }

    #[test]
    fn variables_are_replaced_and_others_are_named() {
        let media = media(
            "#EXTM3U\n#EXT-X-DEFINE:NAME=\"p\",VALUE=\"seg\"\n#EXT-X-DEFINE:IMPORT=\"q\"\n\
             #EXT-X-DEFINE:QUERYPARAM=\"token\"\n#EXT-X-DEFINE:NAME=\"x\"\n\
             #EXT-X-MAP:URI=\"{$p}.mp4\"\n#EXTINF:4,\n{$p}1.ts\n#EXTINF:4,\n{$q}2.ts\n",
        );
        let uris: Vec<&str> = media.segments.iter().map(|of| of.uri.as_str()).collect();
        assert_eq!(uris, ["seg1.ts", "{$q}2.ts"]);
        let map = media.segments[0].map.as_ref().expect("a map");
        assert_eq!(
            (map.uri.as_str(), &media.imports[..]),
            ("seg.mp4", &["q".to_string()][..])
        );
        let notes = notes(&media.notes);
        assert!(
            notes.contains("`token`") && notes.contains("`NAME=\"x\"`"),
            "{notes}"
        );
        let master = master(
            "#EXTM3U\n#EXT-X-DEFINE:NAME=\"q\",VALUE=\"a,b\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\n\
             {$q}.m3u8\n",
        );
        assert_eq!(master.variants[0].uri, "a,b.m3u8");
        assert_eq!(master.variables.value("q"), Some("a,b"));
    }

    #[test]
    fn text_that_variables_add_is_bounded() {
        let value = "x".repeat(4000);
        let text = format!(
            "#EXTM3U\n#EXT-X-DEFINE:NAME=\"v\",VALUE=\"{value}\"\n{}",
            "#EXTINF:1,\n{$v}\n".repeat(20_000)
        );
        let uris = media(&text).segments.into_iter().map(|of| of.uri.len());
        assert!(uris.sum::<usize>() < EXPANSION_BYTES_MAX + text.len());
    }

    #[test]
    fn no_attribute_loses_a_variant_or_rendition() {
        let master = master(
            "#EXTM3U\n\
             #EXT-X-MEDIA:TYPE=AUDIO,NAME=,URI=a.m3u8,DEFAULT=yes,FORCED=NO\n\
             #EXT-X-STREAM-INF:BANDWIDTH=66406.2,RESOLUTION=640\n1.m3u8\n\
             #EXT-X-STREAM-INF:CODECS=\"avc1.4d001e,mp4a\",FRAME-RATE=25/1\n2.m3u8\n\
             #EXT-X-STREAM-INF: BANDWIDTH = \"3000\", AVERAGE-BANDWIDTH=fast\n3.m3u8\n\
             #EXT-X-STREAM-INF\nhttps://films.example/v/4.m3u8\n\
             stray.m3u8\n\
             #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI=\"i.m3u8\",RESOLUTION=?\n",
        );
        let variants = master.variants.iter();
        let variants = variants.map(|of| (of.uri.as_str(), of.peak.map_or(0, |rate| rate.0)));
        let expected = [
            ("1.m3u8", 66406),
            ("2.m3u8", 0),
            ("3.m3u8", 3000),
            ("/v/4.m3u8", 0),
            ("i.m3u8", 1),
        ];
        assert_eq!(variants.collect::<Vec<_>>(), expected);
        assert_eq!(master.alternatives[0].uri, "a.m3u8");
        let notes = notes(&master.notes);
        assert!(notes.contains("no valid BANDWIDTH;"), "{notes}");
        assert!(
            notes.contains("no valid AVERAGE-BANDWIDTH (`fast`)"),
            "{notes}"
        );
        assert!(notes.contains("follows no EXT-X-STREAM-INF"), "{notes}");
    }

    #[test]
    fn gap_is_of_the_next_segment() {
        let text = "#EXTM3U\n#EXTINF:4,\n#EXT-X-GAP\n1.ts\n#EXTINF:4,\n2.ts\n";
        let gaps = media(text).segments.into_iter().map(|of| of.is_gap);
        assert_eq!(gaps.collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn invalid_byte_range_is_named() {
        let text = "#EXTM3U\n#EXTINF:4,\n#EXT-X-BYTERANGE: 10@5\n1.ts\n#EXTINF:4,\n\
                    #EXT-X-BYTERANGE:+10\n1.ts\n";
        let media = media(text);
        let range = media.segments[0].byte_range.expect("a range");
        assert_eq!((range.length, range.offset), (10, Some(5)));
        assert_eq!(media.segments[1].byte_range, None);
        assert!(notes(&media.notes).contains("BYTERANGE `+10`"));
    }

    #[test]
    fn reason_is_given_for_invalid_playlist() {
        for text in [
            "",
            "hello",
            "#EXTM3U",
            "#EXTM3U\n#EXT-X-TARGETDURATION:5\n",
            "EXTM3U\n1.ts",
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n",
        ] {
            assert!(parse_hls(text, &[]).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics_on_any_playlist(
            text in "#EXTM3U\n((#EXTINF:|#EXT-X-(MAP|MEDIA|STREAM-INF|BYTERANGE|DEFINE|GAP):|NAME=|VALUE=|[{]\\$a[}]|URI=|BANDWIDTH=|TYPE=|\"|,|@|=|\n|[0-9.]{1,22}|a|é|-){0,30}\n){0,6}",
        ) {
            let _ = parse_hls(&text, &[]);
        }
    }
}
