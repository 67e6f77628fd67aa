//! HLS playlists of a title (RFC 8216bis), with segments in fragmented MP4.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headlong_units::Duration;

use crate::bandwidth::Bandwidth;
use crate::fault::PackageFault;
use crate::link::Links;
use crate::presentation::{Presentation, TitleFile};
use crate::resource::{Rendition, Resource, Version};
use crate::subtitles::Subtitles;
use crate::title::Title;

/// Longest playlist, by an upper estimate: a day in segments of 6 s, with 700 bytes in each link.
const PLAYLIST_BYTES_MAX: usize = 12 << 20;
/// Most bytes of the two lines of a segment, without the query of its link.
const LINES_BYTES_MAX: usize = 80;
/// No segment needs samples of another one.
const INDEPENDENT_SEGMENTS: &str = "#EXT-X-INDEPENDENT-SEGMENTS\n";

impl Presentation<'_> {
    /// The multivariant playlist. A file with one audio track or none is one variant, whose segments
    /// have video and audio as they lie in the file; with several, they are separate.
    pub fn hls_master(&self, links: &Links) -> String {
        let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
        if !self
            .files
            .iter()
            .any(|file| file.title().has_leading_samples())
        {
            text.push_str(INDEPENDENT_SEGMENTS);
        }
        for suffix in self.left_out() {
            let _ = writeln!(
                text,
                "# {suffix} is left out: it has key frames at other times"
            );
        }
        if let Some(steering) = links.steering() {
            steering.write_hls(&mut text, links);
        }
        // Players without steering take the variants of the first server.
        let pathways = links.by_pathway();
        for links in &pathways {
            for subtitles in self.subtitles {
                subtitles.write_hls(&mut text, links);
            }
        }
        let groups: Vec<_> = self
            .files
            .iter()
            .map(|of| of.title().audio_groups())
            .collect();
        for links in &pathways {
            for (file, groups) in self.files.iter().zip(&groups) {
                for (codec, members) in groups {
                    for (index, audio) in members.iter().enumerate() {
                        file.write_audio(&mut text, links, codec, *audio, index == 0);
                    }
                }
            }
        }
        for links in &pathways {
            self.write_variants(&mut text, links, &groups);
        }
        text
    }

    /// Writes the variants of one server.
    fn write_variants(
        &self,
        text: &mut String,
        links: &Links,
        groups: &[Vec<(String, Vec<Rendition>)>],
    ) {
        let has_subtitles = !self.subtitles.is_empty();
        for (file, groups) in self.files.iter().zip(groups) {
            let video = file.title().video().filter(|_| !groups.is_empty());
            let muxed = [(String::new(), Vec::new())];
            let (rendition, groups) = match video {
                Some(video) => (video, &groups[..]),
                None => (file.title().muxed(), &muxed[..]),
            };
            for (codec, members) in groups {
                file.write_variant(text, links, rendition, codec, members);
                if has_subtitles {
                    Subtitles::write_hls_group(text, links);
                }
                if let Some(pathway) = links.pathway() {
                    let _ = write!(text, ",PATHWAY-ID=\"{}\"", pathway.name);
                }
                let (folder, slash) = file.folder();
                let playlist = Resource::Playlist(rendition);
                let uri = links.to(format_args!("{folder}{slash}{playlist}"));
                let _ = writeln!(text, "\n{uri}");
            }
        }
    }
}

impl TitleFile<'_> {
    fn write_audio(
        &self,
        text: &mut String,
        links: &Links,
        codec: &str,
        rendition: Rendition,
        is_default: bool,
    ) {
        let Some(&[of]) = self.title().tracks_of(rendition).as_deref() else {
            return;
        };
        let language = of.language();
        let number = rendition.audio.map_or(1, |audio| u32::from(audio) + 1);
        let name = match language {
            Some(language) => format!("{language} {number}"),
            None => format!("{number}"),
        };
        let default = if is_default { "YES" } else { "NO" };
        let (folder, slash) = self.folder();
        let _ = write!(
            text,
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{codec}{folder}{}\",NAME=\"{name}\",\
             DEFAULT={default},AUTOSELECT=YES",
            links.group_suffix()
        );
        if let Some(language) = language {
            let _ = write!(text, ",LANGUAGE=\"{language}\"");
        }
        if of.track.codec.channels > 0 {
            let _ = write!(text, ",CHANNELS=\"{}\"", of.track.codec.channels);
        }
        let playlist = Resource::Playlist(rendition);
        let uri = links.to(format_args!("{folder}{slash}{playlist}"));
        let _ = writeln!(text, ",URI=\"{uri}\"");
    }

    /// Writes a variant, without its link; with a group of audio tracks unless that is empty.
    fn write_variant(
        &self,
        text: &mut String,
        links: &Links,
        rendition: Rendition,
        codec: &str,
        audio: &[Rendition],
    ) {
        let title = self.title();
        let mut all = Vec::from([rendition]);
        all.extend(audio.first());
        // Players hear one of the audio tracks at a time: the costliest.
        let of_audio = audio.iter().map(|one| Bandwidth::of(title, *one));
        let heard = of_audio.max().unwrap_or_default();
        let bandwidth = Bandwidth::of(title, rendition).plus(heard);
        let _ = write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
            bandwidth.peak,
            bandwidth.average,
            title.codecs(&all)
        );
        let first = title.tracks.first().filter(|_| rendition.video);
        if let Some(of) = first {
            let (width, height) = of.track.codec.size;
            let _ = write!(text, ",RESOLUTION={width}x{height}");
            if let Some(rate) = of.frame_rate_thousandths() {
                let _ = write!(text, ",FRAME-RATE={}.{:03}", rate / 1000, rate % 1000);
            }
        }
        if !audio.is_empty() {
            let (suffix, of_pathway) = (self.suffix, links.group_suffix());
            let _ = write!(text, ",AUDIO=\"{codec}{suffix}{of_pathway}\"");
        }
    }
}

impl Title {
    /// Audio tracks that are sent apart from the video, by codec, so that a player can choose a
    /// variant that it can decode; none if there is one audio track, or no video.
    fn audio_groups(&self) -> Vec<(String, Vec<Rendition>)> {
        let mut groups: Vec<(String, Vec<Rendition>)> = Vec::new();
        for audio in self.audio().filter(|_| self.is_demuxed()) {
            let codec = self.codecs(&[audio]);
            match groups.iter_mut().find(|(name, _)| *name == codec) {
                Some((_, members)) => members.push(audio),
                None => groups.push((codec, Vec::from([audio]))),
            }
        }
        groups
    }

    /// All of a title that has at most one audio track.
    pub(crate) fn muxed(&self) -> Rendition {
        Rendition {
            video: self.video().is_some(),
            audio: self.audio().next().map(|_| 0),
        }
    }

    /// The codecs of renditions, each once.
    pub(crate) fn codecs(&self, renditions: &[Rendition]) -> String {
        let tracks = renditions.iter().filter_map(|one| self.tracks_of(*one));
        let mut names: Vec<&str> = Vec::new();
        for of in tracks.flatten() {
            let name = of.track.codec.name.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(",")
    }

    /// The playlist of a rendition; `None` if there is none.
    ///
    /// # Errors
    /// It would be too long: a client chooses what each of its links carries on.
    pub fn hls_media(
        &self,
        rendition: Rendition,
        version: Version,
        links: &Links,
    ) -> Result<Option<String>, PackageFault> {
        let bytes_max = self
            .segments()
            .saturating_mul(LINES_BYTES_MAX + links.bytes());
        if bytes_max > PLAYLIST_BYTES_MAX {
            return Err(PackageFault::TooMany("segments for links of this length"));
        }
        Ok(self.write_media(rendition, version, links))
    }

    fn write_media(&self, rendition: Rendition, version: Version, links: &Links) -> Option<String> {
        let tracks = self.tracks_of(rendition)?;
        let timed = tracks.first()?;
        let numbers: Vec<usize> = self.numbers(&tracks).collect();
        let lengths: Vec<Duration> = timed.lengths(&numbers).collect();
        let longest = lengths.iter().max()?.0.div_ceil(1_000_000_000).max(1);
        let independent = match self.has_leading_samples() {
            true => "",
            false => INDEPENDENT_SEGMENTS,
        };
        let mut text = format!(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{longest}\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n{independent}#EXT-X-MAP:URI=\"{}\"\n",
            links.to(Resource::Init(rendition, version))
        );
        for (number, length) in numbers.iter().zip(lengths) {
            let micros = length.0.div_ceil(1000);
            let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
            let number = u32::try_from(number + 1).ok()?;
            let uri = links.to(Resource::Segment(rendition, version, number));
            let _ = writeln!(text, "#EXTINF:{seconds}.{part:06},\n{uri}");
        }
        text.push_str("#EXT-X-ENDLIST\n");
        Some(text)
    }
}
