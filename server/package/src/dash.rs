//! The DASH manifest of a title (ISO/IEC 23009-1): one period, video and audio in sets of their own,
//! because players do not accept them in one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headlong_units::Duration;

use crate::bandwidth::Bandwidth;
use crate::link::Links;
use crate::presentation::{Presentation, TitleFile};
use crate::resource::Rendition;
use crate::title::{IndexedTrack, Title};
use crate::track::TrackKind;

/// Average bit rates that differ by less are those of the same audio in several files; one of them
/// is listed; as of nginx-vod-module.
const SAME_AUDIO_BITS_PER_SECOND: u64 = 4096;

/// The common properties of the tracks of an adaptation set: kind, number among those of its kind in a
/// file, codec without its profile, and language.
type SetKey<'a> = (TrackKind, Option<u8>, &'a str, Option<&'a str>);

/// A track of a file, which is sent alone.
#[derive(Debug, Clone, Copy)]
struct SetMember<'a> {
    file: TitleFile<'a>,
    rendition: Rendition,
    of: &'a IndexedTrack,
}

impl<'a> Presentation<'a> {
    /// The manifest.
    pub fn dash_manifest(&self, links: &Links) -> String {
        let longest = self.files.iter().map(|file| file.title().longest_segment());
        let longest = longest.max().unwrap_or_default();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
             <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" \
             profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" type=\"static\" \
             mediaPresentationDuration=\"{}\" minBufferTime=\"{}\" maxSegmentDuration=\"{}\">\n",
            seconds(self.length()),
            seconds(longest),
            seconds(longest)
        );
        if let Some(steering) = links.steering() {
            steering.write_dash(&mut text, links);
        }
        text.push_str("<Period id=\"0\" start=\"PT0S\">\n");
        for suffix in self.left_out() {
            // Two hyphens end a comment; a suffix has one at its start.
            let _ = writeln!(
                text,
                "<!-- {suffix} is left out: it has key frames at other times -->"
            );
        }
        let sets = self.adaptation_sets();
        for (id, (key, members)) in sets.iter().enumerate() {
            write_set(&mut text, id, *key, members, links);
        }
        for (index, subtitles) in self.subtitles.iter().enumerate() {
            subtitles.write_dash(&mut text, sets.len() + index, links);
        }
        text.push_str("</Period>\n</MPD>\n");
        text
    }

    /// Tracks that a player may switch between at the end of a segment; video first.
    fn adaptation_sets(&self) -> Vec<(SetKey<'a>, Vec<SetMember<'a>>)> {
        let mut sets: Vec<(SetKey<'a>, Vec<SetMember<'a>>)> = Vec::new();
        for file in &self.files {
            let title = file.title();
            for rendition in title.video().into_iter().chain(title.audio()) {
                let Some(&[of]) = title.tracks_of(rendition).as_deref() else {
                    continue;
                };
                let member = SetMember {
                    file: *file,
                    rendition,
                    of,
                };
                let codec = of.track.codec.name.as_str();
                let family = codec.split('.').next().unwrap_or_default();
                let language = of.language().map(String::as_str);
                let key = (of.track.kind, rendition.audio, family, language);
                match sets.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, members)) if !members.iter().any(|one| one.is_same_audio(member)) => {
                        members.push(member);
                    }
                    Some(_) => {}
                    None => sets.push((key, Vec::from([member]))),
                }
            }
        }
        sets.sort_by_key(|((kind, number, ..), _)| (*kind, *number));
        sets
    }
}

impl SetMember<'_> {
    fn bandwidth(self) -> Bandwidth {
        Bandwidth::of(self.file.title(), self.rendition)
    }

    fn is_same_audio(self, other: Self) -> bool {
        let difference = self.bandwidth().average.abs_diff(other.bandwidth().average);
        self.of.track.kind == TrackKind::Audio && difference < SAME_AUDIO_BITS_PER_SECOND
    }
}

impl Title {
    fn longest_segment(&self) -> Duration {
        let lengths = self.tracks.iter().flat_map(|of| {
            (0..self.segments()).map(|number| {
                let time = of.time(number);
                of.duration(time.end.saturating_sub(time.start))
            })
        });
        lengths.max().unwrap_or_default()
    }
}

fn write_set(
    text: &mut String,
    id: usize,
    (kind, _, _, language): SetKey<'_>,
    members: &[SetMember<'_>],
    links: &Links,
) {
    // Types of ISO/IEC 14496-12, annex I: samples that precede the access point may not be decodable.
    let mut tracks = members.iter().map(|member| &member.of.track);
    let access_point = if tracks.any(|track| track.has_leading_samples) {
        3
    } else {
        1
    };
    let kind = match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
    };
    let _ = write!(
        text,
        "<AdaptationSet id=\"{id}\" contentType=\"{kind}\" mimeType=\"{kind}/mp4\" \
         segmentAlignment=\"true\" startWithSAP=\"{access_point}\""
    );
    if let Some(language) = language {
        let _ = write!(text, " lang=\"{language}\"");
    }
    text.push_str(">\n");
    for member in members {
        write_representation(text, *member, links);
    }
    text.push_str("</AdaptationSet>\n");
}

fn write_representation(text: &mut String, member: SetMember<'_>, links: &Links) {
    let SetMember {
        file,
        rendition,
        of,
    } = member;
    let codec = &of.track.codec;
    let _ = write!(
        text,
        "<Representation id=\"{rendition}{}\" bandwidth=\"{}\" codecs=\"{}\"",
        file.suffix,
        member.bandwidth().peak,
        codec.name
    );
    match of.track.kind {
        TrackKind::Video => {
            let (width, height) = codec.size;
            let _ = write!(text, " width=\"{width}\" height=\"{height}\"");
            if let Some(rate) = of.frame_rate_thousandths() {
                let _ = write!(text, " frameRate=\"{rate}/1000\"");
            }
            text.push_str(">\n");
        }
        TrackKind::Audio => {
            let _ = write!(
                text,
                " audioSamplingRate=\"{}\">\n<AudioChannelConfiguration \
                 schemeIdUri=\"urn:mpeg:dash:23003:3:audio_channel_configuration:2011\" \
                 value=\"{}\"/>\n",
                codec.sample_rate,
                codec.channels.max(1)
            );
        }
    }
    let numbers: Vec<usize> = file.title().numbers(&[of]).collect();
    let start_number = numbers.first().map_or(1, |number| number + 1);
    let ((folder, slash), version) = (file.folder(), file.version);
    let query = links.query_in_template();
    let _ = write!(
        text,
        "<SegmentTemplate timescale=\"{}\" startNumber=\"{start_number}\" \
         initialization=\"{folder}{slash}{rendition}-{version}-init.mp4{query}\" \
         media=\"{folder}{slash}{rendition}-{version}-$Number$.m4s{query}\">\n\
         <SegmentTimeline>\n",
        of.track.timescale
    );
    write_timeline(text, of, &numbers);
    text.push_str("</SegmentTimeline>\n</SegmentTemplate>\n</Representation>\n");
}

/// Writes the times of segments, those of equal length together.
fn write_timeline(text: &mut String, of: &IndexedTrack, numbers: &[usize]) {
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
        let end = start + of.ticks(numbers, at);
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
}

/// A duration as of XML Schema.
fn seconds(length: Duration) -> String {
    let millis = length.0.div_ceil(1_000_000);
    format!("PT{}.{:03}S", millis / 1000, millis % 1000)
}
