//! The DASH manifest of a title (ISO/IEC 23009-1): one period, video and audio in sets of their own,
//! because players do not accept them in one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headlong_units::Duration;

use crate::bandwidth::Bandwidth;
use crate::link::Links;
use crate::resource::{Rendition, Version};
use crate::title::Title;
use crate::track::TrackKind;

impl Title {
    /// The manifest.
    pub fn dash_manifest(&self, version: Version, links: &Links) -> String {
        let ends = self
            .tracks
            .iter()
            .map(|of| of.duration(of.whole_time().end));
        let length = ends.max().unwrap_or_default();
        let longest = self.tracks.iter().flat_map(|of| {
            (0..self.segments()).map(|number| {
                let time = of.time(number);
                of.duration(time.end.saturating_sub(time.start))
            })
        });
        let longest = longest.max().unwrap_or_default();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
             <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" \
             profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" type=\"static\" \
             mediaPresentationDuration=\"{}\" minBufferTime=\"{}\" maxSegmentDuration=\"{}\">\n\
             <Period id=\"0\" start=\"PT0S\">\n",
            seconds(length),
            seconds(longest),
            seconds(longest)
        );
        for (index, rendition) in self.video().into_iter().chain(self.audio()).enumerate() {
            self.write_set(&mut text, index, rendition, version, links);
        }
        text.push_str("</Period>\n</MPD>\n");
        text
    }

    fn write_set(
        &self,
        text: &mut String,
        index: usize,
        rendition: Rendition,
        version: Version,
        links: &Links,
    ) {
        let Some(tracks) = self.tracks_of(rendition) else {
            return;
        };
        let [of] = &tracks[..] else {
            return;
        };
        let codec = &of.track.codec;
        let kind = match of.track.kind {
            TrackKind::Video => "video",
            TrackKind::Audio => "audio",
        };
        let _ = write!(
            text,
            "<AdaptationSet id=\"{index}\" contentType=\"{kind}\" mimeType=\"{kind}/mp4\" \
             segmentAlignment=\"true\" startWithSAP=\"1\""
        );
        if let Some(language) = of.language() {
            let _ = write!(text, " lang=\"{language}\"");
        }
        let query = links.query_in_template();
        let numbers: Vec<usize> = self.numbers(&tracks).collect();
        let start_number = numbers.first().map_or(1, |number| number + 1);
        let _ = write!(
            text,
            ">\n<SegmentTemplate timescale=\"{}\" startNumber=\"{start_number}\" \
             initialization=\"{rendition}-{version}-init.mp4{query}\" \
             media=\"{rendition}-{version}-$Number$.m4s{query}\">\n<SegmentTimeline>\n",
            of.track.timescale
        );
        let mut last: Option<(i64, i64)> = None;
        let mut repeats = 0;
        let flush = |text: &mut String, last: Option<(i64, i64)>, repeats: u32| {
            if let Some((start, ticks)) = last {
                let _ = write!(text, "<S t=\"{start}\" d=\"{ticks}\"");
                if repeats > 0 {
                    let _ = write!(text, " r=\"{repeats}\"");
                }
                text.push_str("/>\n");
            }
        };
        for (at, number) in numbers.iter().enumerate() {
            let start = of.time(*number).start;
            let end = start + of.ticks(&numbers, at);
            // Before the title begins, nothing is presented.
            let start = start.max(0);
            let ticks = (end - start).max(1);
            match last {
                Some((_, before)) if before == ticks => repeats += 1,
                _ => {
                    flush(text, last, repeats);
                    last = Some((start, ticks));
                    repeats = 0;
                }
            }
        }
        flush(text, last, repeats);
        let bandwidth = Bandwidth::of(self, rendition);
        let _ = write!(
            text,
            "</SegmentTimeline>\n</SegmentTemplate>\n<Representation id=\"{rendition}\" \
             bandwidth=\"{}\" codecs=\"{}\"",
            bandwidth.peak, codec.name
        );
        match of.track.kind {
            TrackKind::Video => {
                let (width, height) = codec.size;
                let _ = write!(text, " width=\"{width}\" height=\"{height}\"");
                if let Some(rate) = of.frame_rate_thousandths() {
                    let _ = write!(text, " frameRate=\"{rate}/1000\"");
                }
                text.push_str("/>\n");
            }
            TrackKind::Audio => {
                let _ = write!(
                    text,
                    " audioSamplingRate=\"{}\">\n<AudioChannelConfiguration \
                     schemeIdUri=\"urn:mpeg:dash:23003:3:audio_channel_configuration:2011\" \
                     value=\"{}\"/>\n</Representation>\n",
                    codec.sample_rate,
                    codec.channels.max(1)
                );
            }
        }
        text.push_str("</AdaptationSet>\n");
    }
}

/// A duration as of XML Schema.
fn seconds(length: Duration) -> String {
    let millis = length.0.div_ceil(1_000_000);
    format!("PT{}.{:03}S", millis / 1000, millis % 1000)
}
