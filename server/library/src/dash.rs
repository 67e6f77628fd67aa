//! Parses DASH manifests with `quick-xml` and serde into the structures of `headlong-media`.
//!
//! The XML structures hold only what determines the order of files: the published crate for the
//! whole standard depends on an HTTP client, an async runtime and a regex engine. Other elements
//! and attributes are ignored.

use std::sync::Arc;

use headlong_media::{
    AdaptationSet, Addressing, MediaType, Mpd, Period, Representation, SegmentBase, SegmentList,
    SegmentTemplate, TimelineEntry, UrlRange, parse_xs_duration,
};
use headlong_units::{BitRate, ByteRange, Duration};
use serde::Deserialize;

/// Parses an MPD; the error describes the problem.
pub fn parse_dash(text: &str) -> Result<Mpd, String> {
    let text = text.trim_start_matches('\u{feff}');
    // The deserializer accepts any root element.
    let root = root_element(text).ok_or("it has no XML element")?;
    if root != "MPD" {
        return Err(format!("its root element is not MPD but `{root}`"));
    }
    let mpd: XmlMpd = quick_xml::de::from_str(text).map_err(|error| error.to_string())?;
    mpd.neutral()
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
    bandwidth: Option<u64>,
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
    start_number: Option<u64>,
    #[serde(rename = "@endNumber")]
    end_number: Option<u64>,
    #[serde(rename = "@timescale")]
    timescale: Option<u64>,
    #[serde(rename = "@presentationTimeOffset")]
    time_offset: Option<u64>,
    #[serde(rename = "@duration")]
    duration: Option<u64>,
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
    time: Option<u64>,
    #[serde(rename = "@d")]
    duration: u64,
    #[serde(rename = "@r", default)]
    repeat: i64,
}

impl XmlMpd {
    fn neutral(self) -> Result<Mpd, String> {
        if self.periods.is_empty() {
            return Err("it has no Period".to_string());
        }
        let periods = self.periods.into_iter().map(XmlPeriod::neutral);
        Ok(Mpd {
            base_urls: texts(self.base_urls),
            duration: length(self.duration)?,
            periods: periods.collect::<Result<_, _>>()?,
        })
    }
}

impl XmlPeriod {
    fn neutral(self) -> Result<Period, String> {
        let sets = self.sets.into_iter().map(XmlSet::neutral);
        Ok(Period {
            base_urls: texts(self.base_urls),
            start: length(self.start)?,
            duration: length(self.duration)?,
            addressing: addressing(self.template, self.list, self.base)?,
            adaptation_sets: sets.collect::<Result<_, _>>()?,
        })
    }
}

impl XmlSet {
    fn neutral(self) -> Result<AdaptationSet, String> {
        let representations = self.representations.into_iter();
        let media = media(self.content_type.as_deref()).or(media(self.mime_type.as_deref()));
        Ok(AdaptationSet {
            base_urls: texts(self.base_urls),
            media,
            addressing: addressing(self.template, self.list, self.base)?,
            representations: representations
                .map(XmlRepresentation::neutral)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl XmlRepresentation {
    fn neutral(self) -> Result<Representation, String> {
        Ok(Representation {
            id: self.id,
            bandwidth: self.bandwidth.map(BitRate),
            media: media(self.mime_type.as_deref()),
            base_urls: texts(self.base_urls),
            addressing: addressing(self.template, self.list, self.base)?,
        })
    }
}

impl XmlSegments {
    fn timeline(timeline: Option<XmlTimeline>) -> Option<Arc<[TimelineEntry]>> {
        let entries = timeline?.entries.into_iter().map(|entry| TimelineEntry {
            time: entry.time,
            duration: entry.duration,
            repeat: entry.repeat,
        });
        Some(entries.collect())
    }

    fn template(self) -> SegmentTemplate {
        let element = self.initialization_element.and_then(|init| init.url);
        SegmentTemplate {
            media: self.media,
            initialization: self.initialization.or(element),
            start_number: self.start_number,
            end_number: self.end_number,
            timescale: self.timescale,
            time_offset: self.time_offset,
            duration: self.duration,
            timeline: Self::timeline(self.timeline),
        }
    }

    fn list(self) -> Result<SegmentList, String> {
        let urls = self.urls.into_iter().map(XmlSource::neutral);
        Ok(SegmentList {
            initialization: self
                .initialization_element
                .map(XmlSource::neutral)
                .transpose()?,
            timescale: self.timescale,
            time_offset: self.time_offset,
            duration: self.duration,
            timeline: Self::timeline(self.timeline),
            urls: urls.collect::<Result<_, _>>()?,
        })
    }

    fn base(self) -> Result<SegmentBase, String> {
        Ok(SegmentBase {
            initialization: self
                .initialization_element
                .map(XmlSource::neutral)
                .transpose()?,
            index_range: range(self.index_range)?,
        })
    }
}

impl XmlSource {
    fn neutral(self) -> Result<UrlRange, String> {
        Ok(UrlRange {
            url: self.url,
            range: range(self.range)?,
        })
    }
}

fn addressing(
    template: Option<XmlSegments>,
    list: Option<XmlSegments>,
    base: Option<XmlSegments>,
) -> Result<Addressing, String> {
    Ok(Addressing {
        template: template.map(XmlSegments::template),
        list: list.map(XmlSegments::list).transpose()?,
        base: base.map(XmlSegments::base).transpose()?,
    })
}

fn texts(texts: Vec<XmlText>) -> Vec<String> {
    let trimmed = texts.into_iter().map(|text| text.text.trim().to_string());
    trimmed.collect()
}

fn length(text: Option<String>) -> Result<Option<Duration>, String> {
    let parse =
        |text: String| parse_xs_duration(&text).ok_or(format!("`{text}` is not a duration"));
    text.map(parse).transpose()
}

/// `first-last`, both inclusive.
fn range(text: Option<String>) -> Result<Option<ByteRange>, String> {
    let parse = |text: &str| {
        let (first, last) = text.trim().split_once('-')?;
        let last: u64 = last.parse().ok()?;
        Some(ByteRange::new(first.parse().ok()?, last.checked_add(1)?))
    };
    let parse = |text: String| parse(&text).ok_or(format!("`{text}` is not a byte range"));
    text.map(parse).transpose()
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
        for text in [
            "",
            "hello",
            "<html/>",
            "<MPD/>",
            "<MPD><Period duration=\"5\"/></MPD>",
            "<MPD><Period>",
            "<MPD><Period><AdaptationSet><Representation bandwidth=\"x\"/></AdaptationSet></Period></MPD>",
        ] {
            assert!(parse_dash(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_elements_between_known_ones_are_ignored() {
        let text = "<?xml version=\"1.0\"?><!-- c --><m:MPD xmlns:m=\"urn:mpeg:dash:schema:mpd:2011\">\
             <m:Period><m:AdaptationSet mimeType=\"audio/mp4\"><m:Representation id=\"a\"/><m:Role x=\"1\"/>\
             <m:Representation id=\"b\"><m:BaseURL> b.mp4 </m:BaseURL><m:BaseURL/></m:Representation>\
             </m:AdaptationSet></m:Period></m:MPD>";
        let mpd = parse_dash(text).expect("a manifest");
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
            let _ = parse_dash(&text);
        }
    }
}
