//! Parses DASH manifests with `quick-xml` and serde into the structures of `headlong-media`.
//!
//! The XML structures hold only what determines the order of files: the published crate for the
//! whole standard depends on an HTTP client, an async runtime and a regex engine. Other elements
//! and attributes are ignored, and so is a value that cannot be read, with a note.

use std::str::FromStr;
use std::sync::Arc;

use headlong_media::{
    AdaptationSet, Addressing, MediaType, Mpd, Period, Representation, SegmentBase, SegmentList,
    SegmentTemplate, TimelineEntry, TitleNotes, UrlRange, parse_xs_duration, without_own_host,
};
use headlong_units::{BitRate, ByteRange, Duration};
use serde::{Deserialize, Deserializer};

/// Parses an MPD; the error describes the problem. URLs whose host is one of `own_hosts` are paths
/// of the tree.
pub fn parse_dash(text: &str, own_hosts: &[String]) -> Result<Mpd, String> {
    let text = text.trim_start_matches('\u{feff}');
    // The deserializer accepts any root element.
    let root = root_element(text).ok_or("it has no XML element")?;
    if root != "MPD" {
        return Err(format!("its root element is not MPD but `{root}`"));
    }
    let mpd: XmlMpd = quick_xml::de::from_str(text).map_err(|error| error.to_string())?;
    if mpd.periods.is_empty() {
        return Err("it has no Period".to_string());
    }
    let mut reader = ValueReader {
        own_hosts,
        notes: TitleNotes::default(),
    };
    let neutral = mpd.neutral(&mut reader);
    Ok(Mpd {
        notes: reader.notes,
        ..neutral
    })
}

/// Reads attributes and URLs, and notes invalid ones.
struct ValueReader<'a> {
    own_hosts: &'a [String],
    notes: TitleNotes,
}

/// A number, or its text if it is none.
enum XmlNumber<T> {
    Read(T),
    Invalid(String),
}

impl<'de, T: FromStr> Deserialize<'de> for XmlNumber<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.trim();
        // Some packagers write whole numbers as decimals.
        let whole = match number.split_once('.') {
            Some((whole, part)) if part.bytes().all(|byte| byte.is_ascii_digit()) => whole,
            _ => number,
        };
        Ok(whole
            .parse()
            .map_or_else(|_| Self::Invalid(text), Self::Read))
    }
}

fn root_element(text: &str) -> Option<String> {
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event().ok()? {
            quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag) => {
                return Some(tag.local_name().as_ref().to_string());
            }
            quick_xml::events::Event::Eof => return None,
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct XmlMpd {
    #[serde(rename = "@mediaPresentationDuration")]
    duration: Option<String>,
    #[serde(rename = "BaseURL", default)]
    base_urls: Vec<XmlText>,
    #[serde(rename = "Period", default)]
    periods: Vec<XmlPeriod>,
}

#[derive(Deserialize)]
struct XmlText {
    #[serde(rename = "$text", default)]
    text: String,
}

#[derive(Deserialize)]
struct XmlPeriod {
    #[serde(rename = "@start")]
    start: Option<String>,
    #[serde(rename = "@duration")]
    duration: Option<String>,
    #[serde(rename = "BaseURL", default)]
    base_urls: Vec<XmlText>,
    #[serde(rename = "SegmentTemplate")]
    template: Option<XmlSegments>,
    #[serde(rename = "SegmentList")]
    list: Option<XmlSegments>,
    #[serde(rename = "SegmentBase")]
    base: Option<XmlSegments>,
    #[serde(rename = "AdaptationSet", default)]
    sets: Vec<XmlSet>,
}

#[derive(Deserialize)]
struct XmlSet {
    #[serde(rename = "@contentType")]
    content_type: Option<String>,
    #[serde(rename = "@mimeType")]
    mime_type: Option<String>,
    #[serde(rename = "BaseURL", default)]
    base_urls: Vec<XmlText>,
    #[serde(rename = "SegmentTemplate")]
    template: Option<XmlSegments>,
    #[serde(rename = "SegmentList")]
    list: Option<XmlSegments>,
    #[serde(rename = "SegmentBase")]
    base: Option<XmlSegments>,
    #[serde(rename = "Representation", default)]
    representations: Vec<XmlRepresentation>,
}

#[derive(Deserialize)]
struct XmlRepresentation {
    #[serde(rename = "@id", default)]
    id: String,
    #[serde(rename = "@bandwidth")]
    bandwidth: Option<XmlNumber<u64>>,
    #[serde(rename = "@mimeType")]
    mime_type: Option<String>,
    #[serde(rename = "BaseURL", default)]
    base_urls: Vec<XmlText>,
    #[serde(rename = "SegmentTemplate")]
    template: Option<XmlSegments>,
    #[serde(rename = "SegmentList")]
    list: Option<XmlSegments>,
    #[serde(rename = "SegmentBase")]
    base: Option<XmlSegments>,
}

/// `SegmentTemplate`, `SegmentList` and `SegmentBase` at once: their attributes do not clash.
#[derive(Deserialize)]
struct XmlSegments {
    #[serde(rename = "@media")]
    media: Option<String>,
    #[serde(rename = "@initialization")]
    initialization: Option<String>,
    #[serde(rename = "@startNumber")]
    start_number: Option<XmlNumber<u64>>,
    #[serde(rename = "@endNumber")]
    end_number: Option<XmlNumber<u64>>,
    #[serde(rename = "@timescale")]
    timescale: Option<XmlNumber<u64>>,
    #[serde(rename = "@presentationTimeOffset")]
    time_offset: Option<XmlNumber<u64>>,
    #[serde(rename = "@duration")]
    duration: Option<XmlNumber<u64>>,
    #[serde(rename = "@indexRange")]
    index_range: Option<String>,
    #[serde(rename = "Initialization")]
    initialization_element: Option<XmlSource>,
    #[serde(rename = "SegmentTimeline")]
    timeline: Option<XmlTimeline>,
    #[serde(rename = "SegmentURL", default)]
    urls: Vec<XmlSource>,
}

/// `Initialization` (`sourceURL`, `range`) or `SegmentURL` (`media`, `mediaRange`).
#[derive(Deserialize)]
struct XmlSource {
    #[serde(rename = "@sourceURL", alias = "@media")]
    url: Option<String>,
    #[serde(rename = "@range", alias = "@mediaRange")]
    range: Option<String>,
}

#[derive(Deserialize)]
struct XmlTimeline {
    #[serde(rename = "S", default)]
    entries: Vec<XmlEntry>,
}

#[derive(Deserialize)]
struct XmlEntry {
    #[serde(rename = "@t")]
    time: Option<XmlNumber<u64>>,
    #[serde(rename = "@d")]
    duration: Option<XmlNumber<u64>>,
    #[serde(rename = "@r")]
    repeat: Option<XmlNumber<i64>>,
}

impl XmlMpd {
    fn neutral(self, reader: &mut ValueReader<'_>) -> Mpd {
        let periods = self.periods.into_iter();
        Mpd {
            base_urls: reader.base_urls(self.base_urls),
            duration: reader.length("mediaPresentationDuration", self.duration),
            periods: periods.map(|period| period.neutral(reader)).collect(),
            notes: TitleNotes::default(),
        }
    }
}

impl XmlPeriod {
    fn neutral(self, reader: &mut ValueReader<'_>) -> Period {
        let sets = self.sets.into_iter();
        Period {
            base_urls: reader.base_urls(self.base_urls),
            start: reader.length("start", self.start),
            duration: reader.length("duration", self.duration),
            addressing: addressing(self.template, self.list, self.base, reader),
            adaptation_sets: sets.map(|set| set.neutral(reader)).collect(),
        }
    }
}

impl XmlSet {
    fn neutral(self, reader: &mut ValueReader<'_>) -> AdaptationSet {
        let representations = self.representations.into_iter();
        let media = media(self.content_type.as_deref()).or(media(self.mime_type.as_deref()));
        AdaptationSet {
            base_urls: reader.base_urls(self.base_urls),
            media,
            addressing: addressing(self.template, self.list, self.base, reader),
            representations: representations.map(|one| one.neutral(reader)).collect(),
        }
    }
}

impl XmlRepresentation {
    fn neutral(self, reader: &mut ValueReader<'_>) -> Representation {
        Representation {
            id: self.id,
            bandwidth: reader.number("bandwidth", self.bandwidth).map(BitRate),
            media: media(self.mime_type.as_deref()),
            base_urls: reader.base_urls(self.base_urls),
            addressing: addressing(self.template, self.list, self.base, reader),
        }
    }
}

impl XmlSegments {
    fn template(self, reader: &mut ValueReader<'_>) -> SegmentTemplate {
        let element = self.initialization_element.and_then(|init| init.url);
        SegmentTemplate {
            media: self.media.map(|url| reader.url(url)),
            initialization: self.initialization.or(element).map(|url| reader.url(url)),
            start_number: reader.number("startNumber", self.start_number),
            end_number: reader.number("endNumber", self.end_number),
            timescale: reader.number("timescale", self.timescale),
            time_offset: reader.number("presentationTimeOffset", self.time_offset),
            duration: reader.number("duration", self.duration),
            timeline: reader.timeline(self.timeline),
        }
    }

    fn list(self, reader: &mut ValueReader<'_>) -> SegmentList {
        let urls = self.urls.into_iter();
        SegmentList {
            initialization: self
                .initialization_element
                .map(|source| source.neutral(reader)),
            timescale: reader.number("timescale", self.timescale),
            time_offset: reader.number("presentationTimeOffset", self.time_offset),
            duration: reader.number("duration", self.duration),
            timeline: reader.timeline(self.timeline),
            urls: urls.map(|source| source.neutral(reader)).collect(),
        }
    }

    fn base(self, reader: &mut ValueReader<'_>) -> SegmentBase {
        SegmentBase {
            initialization: self
                .initialization_element
                .map(|source| source.neutral(reader)),
            index_range: reader.range("indexRange", self.index_range),
        }
    }
}

impl XmlSource {
    fn neutral(self, reader: &mut ValueReader<'_>) -> UrlRange {
        UrlRange {
            url: self.url.map(|url| reader.url(url)),
            range: reader.range("range", self.range),
        }
    }
}

fn addressing(
    template: Option<XmlSegments>,
    list: Option<XmlSegments>,
    base: Option<XmlSegments>,
    reader: &mut ValueReader<'_>,
) -> Addressing {
    Addressing {
        template: template.map(|segments| segments.template(reader)),
        list: list.map(|segments| segments.list(reader)),
        base: base.map(|segments| segments.base(reader)),
    }
}

impl ValueReader<'_> {
    fn base_urls(&self, texts: Vec<XmlText>) -> Vec<String> {
        let trimmed = texts.into_iter().map(|text| text.text.trim().to_string());
        trimmed.map(|url| self.url(url)).collect()
    }

    fn url(&self, url: String) -> String {
        let path = without_own_host(&url, self.own_hosts);
        match path.len() == url.len() {
            true => url,
            false => path.to_owned(),
        }
    }

    fn number<T>(&mut self, name: &str, number: Option<XmlNumber<T>>) -> Option<T> {
        match number? {
            XmlNumber::Read(number) => Some(number),
            XmlNumber::Invalid(text) => self.note(name, &text, "number"),
        }
    }

    fn length(&mut self, name: &str, text: Option<String>) -> Option<Duration> {
        let text = text?;
        parse_xs_duration(&text).or_else(|| self.note(name, &text, "duration"))
    }

    /// `first-last`, both inclusive.
    fn range(&mut self, name: &str, text: Option<String>) -> Option<ByteRange> {
        let text = text?;
        let parse = |text: &str| {
            let (first, last) = text.trim().split_once('-')?;
            let last: u64 = last.parse().ok()?;
            Some(ByteRange::new(first.parse().ok()?, last.checked_add(1)?))
        };
        parse(&text).or_else(|| self.note(name, &text, "byte range"))
    }

    fn timeline(&mut self, timeline: Option<XmlTimeline>) -> Option<Arc<[TimelineEntry]>> {
        let entries = timeline?.entries.into_iter().map(|entry| TimelineEntry {
            time: self.number("t", entry.time),
            // Zero is reported when the timeline is used.
            duration: self.number("d", entry.duration).unwrap_or(0),
            repeat: self.number("r", entry.repeat).unwrap_or(0),
        });
        Some(entries.collect())
    }

    /// Notes an attribute that is ignored.
    fn note<T>(&mut self, name: &str, text: &str, kind: &str) -> Option<T> {
        let text: String = text.chars().take(80).collect();
        let note = format!("its attribute {name}=\"{text}\" is not a {kind} and is ignored");
        self.notes.push(note);
        None
    }
}

fn media(text: Option<&str>) -> Option<MediaType> {
    let kind = text?.split('/').next()?;
    Some(match kind {
        "video" => MediaType::Video,
        "audio" => MediaType::Audio,
        _ => MediaType::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reason_is_given_for_invalid_manifest() {
        for text in ["", "hello", "<html/>", "<MPD/>", "<MPD><Period>"] {
            assert!(parse_dash(text, &[]).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_attribute_loses_nothing_else_and_is_named() {
        let text = "<MPD mediaPresentationDuration=\"5\"><Period start=\"PT0S\"><AdaptationSet>\
             <SegmentTemplate media=\"https://films.example/v/$Number$.m4s\" timescale=\"1000.0\" \
             startNumber=\"one\"><SegmentTimeline><S t=\"0\" d=\"4000.0\" r=\"2\"/><S d=\"?\"/>\
             </SegmentTimeline></SegmentTemplate>\
             <Representation id=\"a\" bandwidth=\"64000.5\"/><Representation id=\"b\" bandwidth=\"x\">\
             <BaseURL>http://films.example:8080/b/</BaseURL><SegmentBase indexRange=\"all\"/>\
             </Representation></AdaptationSet></Period></MPD>";
        let mpd = parse_dash(text, &["films.example".to_string()]).expect("a manifest");
        assert_eq!(mpd.duration, None);
        let set = &mpd.periods[0].adaptation_sets[0];
        let template = set.addressing.template.as_ref().expect("a template");
        assert_eq!(template.media.as_deref(), Some("/v/$Number$.m4s"));
        assert_eq!(
            (template.timescale, template.start_number),
            (Some(1000), None)
        );
        let durations = template.timeline.iter().flat_map(|entries| entries.iter());
        let durations: Vec<u64> = durations.map(|entry| entry.duration).collect();
        assert_eq!(durations, [4000, 0]);
        let rates: Vec<_> = set.representations.iter().map(|of| of.bandwidth).collect();
        assert_eq!(rates, [Some(BitRate(64_000)), None]);
        assert_eq!(set.representations[1].base_urls, ["/b/"]);
        let notes: Vec<&str> = mpd.notes.iter().collect();
        for named in [
            "mediaPresentationDuration=\"5\" is not a duration",
            "startNumber=\"one\" is not a number",
            "d=\"?\" is not a number",
            "bandwidth=\"x\" is not a number",
            "indexRange=\"all\" is not a byte range",
        ] {
            assert!(
                notes.iter().any(|note| note.contains(named)),
                "{named}: {notes:?}"
            );
        }
    }

    #[test]
    fn unknown_elements_between_known_ones_are_ignored() {
        let text = "<?xml version=\"1.0\"?><!-- c --><m:MPD xmlns:m=\"urn:mpeg:dash:schema:mpd:2011\">\
             <m:Period><m:AdaptationSet mimeType=\"audio/mp4\"><m:Representation id=\"a\"/><m:Role x=\"1\"/>\
             <m:Representation id=\"b\"><m:BaseURL> b.mp4 </m:BaseURL><m:BaseURL/></m:Representation>\
             </m:AdaptationSet></m:Period></m:MPD>";
        let mpd = parse_dash(text, &[]).expect("a manifest");
        let set = &mpd.periods[0].adaptation_sets[0];
        assert_eq!(set.media, Some(MediaType::Audio));
        assert_eq!(set.representations.len(), 2);
        assert_eq!(set.representations[1].base_urls, ["b.mp4", ""]);
    }

    proptest! {
        #[test]
        fn parser_never_panics_on_any_mpd(
            text in "<MPD>(<(/)?(Period|AdaptationSet|Representation|SegmentTemplate|SegmentList|BaseURL)( (duration|media|timescale)=\"[0-9$a-zPT-]{0,6}\")?(/)?>|a|é|&amp;|&x;|<!--){0,12}(</MPD>)?",
        ) {
            let _ = parse_dash(&text, &[]);
        }
    }
}
