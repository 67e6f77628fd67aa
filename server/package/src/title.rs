//! The index of a title: its tracks, and where they are cut into segments.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use headlong_media::mp4_boxes;
use headlong_units::Duration;

use crate::cuts::{Boundary, Cut, cut_follower, cut_leader};
use crate::fault::PackageFault;
use crate::fields::{broken, find, require, u32_at};
use crate::resource::Rendition;
use crate::sample_table::{Cursor, SAMPLES_MAX};
use crate::track::{DELAY_MAX_SECONDS, Track, TrackKind};

/// Tracks of a file, with those that are left out; each takes some 400 bytes while they are read.
const TRACKS_MAX: usize = 1000;
/// Audio tracks of a title; more are left out.
pub const AUDIO_TRACKS_MAX: usize = 16;
/// Cursors of all tracks together: 14 MiB.
const CURSORS_MAX: usize = 200_000;
/// Segments of two files begin at the same time if they differ by no more: less than a frame, and
/// more than the rounding of any time scale.
const ALIGNED_WITHIN: Duration = Duration::from_millis(10);

/// The index of one version of a file.
///
/// Memory: the body of `moov`, and a cursor for each segment of each track; `moov` of a film of two
/// hours has some 5 MB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// The body of `moov`.
    pub(crate) moov: Vec<u8>,
    /// The video, if there is one, and then audio.
    pub(crate) tracks: Vec<IndexedTrack>,
    /// Shortest segment that bit rates are measured over.
    pub(crate) measured_min: Duration,
}

/// A track, and its segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedTrack {
    pub(crate) track: Track,
    /// The beginning of each segment and the end of the last one. All tracks have as many.
    pub(crate) cuts: Vec<Cut>,
}

impl Title {
    /// Makes the index from the body of `moov`, for segments of about `target`.
    ///
    /// # Errors
    /// The file cannot be packaged.
    pub(crate) fn new(
        moov: Vec<u8>,
        file_bytes: u64,
        target: Duration,
    ) -> Result<Self, PackageFault> {
        let mvhd = require(&moov, b"mvhd")?.body;
        let is_short = mvhd.first() == Some(&0);
        let movie_timescale = u32_at(mvhd, if is_short { 12 } else { 20 });
        let movie_timescale = movie_timescale.ok_or(broken(b"mvhd"))?;
        let (mut found, mut trak_count) = (Vec::new(), 0);
        for child in mp4_boxes(&moov) {
            let child = child?;
            if child.kind != *b"trak" {
                continue;
            }
            trak_count += 1;
            if trak_count > TRACKS_MAX {
                return Err(PackageFault::TooMany("tracks"));
            }
            let at = child.whole.as_ptr() as usize - moov.as_ptr() as usize;
            let whole = at..at + child.whole.len();
            found.extend(Track::read(&moov, whole, movie_timescale, file_bytes)?);
        }
        let is_empty = found.iter().all(|track| track.table.count == 0);
        if is_empty && find(&moov, b"mvex")?.is_some() {
            return Err(PackageFault::Fragmented);
        }
        found.retain(|track| track.table.count > 0);
        // Further video tracks are other views or pictures, which no player chooses among.
        let video = found
            .iter()
            .position(|track| track.kind == TrackKind::Video);
        let mut tracks: Vec<Track> = video.map(|at| found.remove(at)).into_iter().collect();
        let audio = found
            .into_iter()
            .filter(|track| track.kind == TrackKind::Audio);
        tracks.extend(audio.take(AUDIO_TRACKS_MAX));
        let samples = tracks.iter().map(|track| u64::from(track.table.count));
        if samples.sum::<u64>() > 2 * u64::from(SAMPLES_MAX) {
            return Err(PackageFault::TooMany("samples"));
        }
        present_all(&moov, &mut tracks)?;
        let mut tracks = tracks.into_iter();
        let mut leader = tracks.next().ok_or(PackageFault::NoTrack)?;
        let cuts_max = CURSORS_MAX / (tracks.len() + 1);
        let (cuts, least_composition) = cut_leader(&moov, &leader, target, cuts_max)?;
        leader.composition_shift = least_composition.unsigned_abs();
        let boundaries: Vec<Boundary> = cuts[..cuts.len() - 1]
            .iter()
            .map(|cut| Boundary::new(cut.presented, leader.timescale))
            .collect();
        let mut indexed = Vec::with_capacity(tracks.len() + 1);
        indexed.push(IndexedTrack {
            track: leader,
            cuts,
        });
        for track in tracks {
            let cuts = cut_follower(&moov, &track, &boundaries)?;
            indexed.push(IndexedTrack { track, cuts });
        }
        Ok(Self {
            moov,
            tracks: indexed,
            measured_min: Duration(target.0 / 2),
        })
    }

    /// The body of `moov`, by which versions of a file can be told apart.
    pub fn moov(&self) -> &[u8] {
        &self.moov
    }

    /// Bytes of memory that the index takes.
    pub fn memory_bytes(&self) -> usize {
        let cuts = self.tracks.iter().map(|of| of.cuts.capacity());
        size_of::<Self>()
            + self.moov.capacity()
            + self.tracks.capacity() * size_of::<IndexedTrack>()
            + cuts.sum::<usize>() * size_of::<Cut>()
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.tracks.first().map_or(0, |of| of.cuts.len() - 1)
    }

    /// The time at which the last track ends.
    pub(crate) fn length(&self) -> Duration {
        let ends = self.tracks.iter();
        let ends = ends.map(|of| of.duration(of.whole_time().end));
        ends.max().unwrap_or_default()
    }

    /// Whether its segments begin at the same times as those of another title.
    pub(crate) fn is_aligned_with(&self, other: &Self) -> bool {
        let mut pairs = self.begins().zip(other.begins());
        self.segments() == other.segments()
            && pairs.all(|(here, there)| here.0.abs_diff(there.0) <= ALIGNED_WITHIN.0)
    }

    fn begins(&self) -> impl Iterator<Item = Duration> + '_ {
        let first = self.tracks.first().into_iter();
        first.flat_map(|of| {
            let begins = of.cuts.split_last().map_or(&[][..], |(_, begins)| begins);
            begins.iter().map(move |cut| of.duration(cut.presented))
        })
    }

    /// The video, as a track that is sent alone.
    pub(crate) fn video(&self) -> Option<Rendition> {
        let first = self.tracks.first()?;
        (first.track.kind == TrackKind::Video).then_some(Rendition::VIDEO)
    }

    /// Each audio track, as one that is sent alone.
    pub(crate) fn audio(&self) -> impl Iterator<Item = Rendition> + '_ {
        let is_audio = |of: &&IndexedTrack| of.track.kind == TrackKind::Audio;
        let count = self.tracks.iter().filter(is_audio).count();
        (0..count).map(|index| Rendition::audio(index as u8))
    }

    /// Whether the title has several audio tracks, which players choose among.
    pub(crate) fn is_demuxed(&self) -> bool {
        self.video().is_some() && self.audio().nth(1).is_some()
    }

    /// The tracks of a rendition; `None` if the title has not all of them.
    pub(crate) fn tracks_of(&self, rendition: Rendition) -> Option<Vec<&IndexedTrack>> {
        let has_video = self.video().is_some();
        if rendition.video && !has_video {
            return None;
        }
        let mut tracks = Vec::new();
        tracks.extend(self.tracks.first().filter(|_| rendition.video));
        if let Some(audio) = rendition.audio {
            let at = usize::from(audio) + usize::from(has_video);
            tracks.push(self.tracks.get(at)?);
        }
        (!tracks.is_empty()).then_some(tracks)
    }

    /// The segments of a rendition that have samples: their numbers, from zero.
    pub(crate) fn numbers<'a>(
        &self,
        tracks: &'a [&IndexedTrack],
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.segments()).filter(|number| tracks.iter().any(|of| of.has_samples(*number)))
    }
}

/// An edit list may leave out the beginning of the video, which decoders still need. Players that
/// drop it drop everything up to the next key frame, so it is presented: all tracks begin later.
fn present_all(moov: &[u8], tracks: &mut [Track]) -> Result<(), PackageFault> {
    let Some(video) = tracks
        .first()
        .filter(|track| track.kind == TrackKind::Video)
    else {
        return Ok(());
    };
    let first = video.table.next(moov, &mut Cursor::default()).transpose()?;
    let first = first.map_or(0, |sample| video.title_time(sample.presented()));
    let Ok(left_out @ 1..) = u64::try_from(-first) else {
        return Ok(());
    };
    let timescale = u128::from(video.timescale);
    for track in tracks {
        let ticks = u128::from(left_out) * u128::from(track.timescale) / timescale;
        let ticks = u64::try_from(ticks).ok();
        track.delay = ticks
            .and_then(|ticks| track.delay.checked_add(ticks))
            .filter(|delay| *delay <= u64::from(track.timescale) * DELAY_MAX_SECONDS)
            .ok_or(PackageFault::Edits)?;
    }
    Ok(())
}

impl IndexedTrack {
    /// Whether the segment of a number has samples.
    pub(crate) fn has_samples(&self, number: usize) -> bool {
        match self.cuts.get(number..number + 2) {
            Some([here, next]) => here.cursor.sample < next.cursor.sample,
            _ => false,
        }
    }

    /// Bytes of the samples of a segment.
    pub(crate) fn sample_bytes(&self, number: usize) -> u64 {
        match self.cuts.get(number..number + 2) {
            Some([here, next]) => next.cursor.bytes - here.cursor.bytes,
            _ => 0,
        }
    }

    /// Beginning and end of a segment in the title, in ticks.
    pub(crate) fn time(&self, number: usize) -> Range<i64> {
        match self.cuts.get(number..number + 2) {
            Some([here, next]) => here.presented..next.presented.max(here.presented),
            _ => 0..0,
        }
    }

    /// Time of the whole track in the title, in ticks.
    pub(crate) fn whole_time(&self) -> Range<i64> {
        match &self.cuts[..] {
            [first, .., last] => first.presented..last.presented.max(first.presented),
            _ => 0..0,
        }
    }

    /// A number of ticks as a duration.
    pub(crate) fn duration(&self, ticks: i64) -> Duration {
        let ns = i128::from(ticks.max(0)) * 1_000_000_000 / i128::from(self.track.timescale);
        Duration(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Its language, for players.
    pub(crate) fn language(&self) -> Option<&String> {
        self.track.language.as_ref()
    }

    /// Lengths of the segments of these numbers: each lasts until the next one.
    pub(crate) fn lengths<'a>(
        &'a self,
        numbers: &'a [usize],
    ) -> impl Iterator<Item = Duration> + 'a {
        (0..numbers.len()).map(|at| self.duration(self.ticks(numbers, at)))
    }

    /// Length of the segment at an index of `numbers`, in ticks: until the next one.
    pub(crate) fn ticks(&self, numbers: &[usize], at: usize) -> i64 {
        let start = self.time(numbers[at]).start;
        let end = match numbers.get(at + 1) {
            Some(next) => self.time(*next).start,
            None => self.whole_time().end,
        };
        end.saturating_sub(start).max(0)
    }

    /// Frames in a thousand seconds; `None` if there is no time between them.
    pub(crate) fn frame_rate_thousandths(&self) -> Option<u64> {
        let last = self.cuts.last()?.cursor;
        let ticks = u128::from(last.sample) * u128::from(self.track.timescale) * 1000;
        let rate = (ticks + u128::from(last.time) / 2).checked_div(u128::from(last.time))?;
        u64::try_from(rate).ok()
    }
}
