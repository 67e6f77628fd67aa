//! The index of a title: its tracks, and where they are cut into segments.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use headlong_media::mp4_boxes;
use headlong_units::Duration;

use crate::cuts::{Boundary, Cut, LeaderSamples, cut_follower, cut_leader};
use crate::fault::PackageFault;
use crate::fields::{broken, require, u32_at};
use crate::fragmented::{Fragments, replace_tables};
use crate::reader::SEGMENT_MOOF_BYTES_MAX;
use crate::resource::Rendition;
use crate::sample_table::{Cursor, SAMPLES_MAX};
use crate::title_headers::{FoundIndex, TitleHeaders};
use crate::track::{TRACKS_MAX, Track, TrackKind};

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
    /// The size of the file if it was cut by an index of its fragments: the samples of a segment are
    /// known by their heads, which are read when it is requested.
    pub(crate) by_heads: Option<u64>,
}

/// A track, and its segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedTrack {
    pub(crate) track: Track,
    /// The beginning of each segment and the end of the last one. All tracks have as many.
    pub(crate) cuts: Vec<Cut>,
}

impl TitleHeaders {
    /// Makes the index, for segments of about `target`; takes milliseconds for a film.
    ///
    /// # Errors
    /// The file cannot be packaged; or it can be, if it is read again
    /// [without its own index](crate::HeaderReader::without_index): [`PackageFault::FragmentIndex`].
    pub fn index(self, target: Duration) -> Result<Title, PackageFault> {
        Title::new(self, target)
    }
}

impl Title {
    /// Makes the index from the headers of a file, for segments of about `target`.
    ///
    /// # Errors
    /// The file cannot be packaged.
    pub(crate) fn new(headers: TitleHeaders, target: Duration) -> Result<Self, PackageFault> {
        let by_index = headers.index.is_some();
        let made = Self::make(headers, target);
        // Without its index, it may be packaged.
        made.map_err(|fault| {
            if by_index {
                PackageFault::FragmentIndex
            } else {
                fault
            }
        })
    }

    fn make(headers: TitleHeaders, target: Duration) -> Result<Self, PackageFault> {
        let TitleHeaders {
            kept: mut moov,
            heads,
            size: file_bytes,
            index,
            ..
        } = headers;
        let mut found = read_tracks(&moov, file_bytes)?;
        let has_samples = |track: &Track| track.table.count > 0;
        if index.is_some() && found.iter().any(has_samples) {
            return Err(PackageFault::FragmentIndex);
        }
        if !heads.in_file.is_empty() {
            let tables = Fragments::of(&moov, &heads, file_bytes).tables(&found)?;
            drop(heads);
            replace_tables(&mut moov, &mut found, tables, file_bytes)?;
        }
        // A track may begin in a later fragment.
        if index.is_some() && !found.iter().all(has_samples) {
            return Err(PackageFault::FragmentIndex);
        }
        found.retain(has_samples);
        // Further video tracks are other views or pictures, which no player chooses among.
        let video = found.iter().position(is_video);
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
        let cuts_max = CURSORS_MAX / tracks.len().max(1);
        let (all_cuts, seen) = match index.as_deref() {
            Some(FoundIndex {
                index,
                read_ahead,
                last,
            }) => {
                let of = |heads| Fragments {
                    table_bytes_max: SEGMENT_MOOF_BYTES_MAX,
                    ..Fragments::of(&moov, heads, file_bytes)
                };
                let heads = (&of(read_ahead), &of(last));
                let cut = index.cut(&moov, &tracks, heads, (target, cuts_max))?;
                (cut.by_track, cut.seen)
            }
            None => cut_all(&moov, &tracks, target, cuts_max)?,
        };
        if let Some(leader) = tracks.first_mut() {
            leader.composition_shift = seen.least_composition.unsigned_abs();
            leader.has_leading_samples = seen.has_leading_samples;
        }
        let pairs = tracks.into_iter().zip(all_cuts);
        Ok(Self {
            moov,
            tracks: pairs
                .map(|(track, cuts)| IndexedTrack { track, cuts })
                .collect(),
            measured_min: Duration(target.0 / 2),
            by_heads: index.map(|_| file_bytes),
        })
    }

    /// The body of `moov`, which differs between versions of a file.
    pub fn moov(&self) -> &[u8] {
        &self.moov
    }

    /// Whether it was cut by an index of its fragments that the file has.
    pub fn is_cut_by_own_index(&self) -> bool {
        self.by_heads.is_some()
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

    /// Whether segments may need samples of the one before, as of open groups of pictures.
    pub(crate) fn has_leading_samples(&self) -> bool {
        self.tracks.iter().any(|of| of.track.has_leading_samples)
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

/// The video and audio tracks of supported codecs in the body of `moov`.
fn read_tracks(moov: &[u8], file_bytes: u64) -> Result<Vec<Track>, PackageFault> {
    let mvhd = require(moov, b"mvhd")?.body;
    let is_short = mvhd.first() == Some(&0);
    let movie_timescale = u32_at(mvhd, if is_short { 12 } else { 20 });
    let movie_timescale = movie_timescale.ok_or(broken(b"mvhd"))?;
    let (mut found, mut trak_count) = (Vec::new(), 0);
    for child in mp4_boxes(moov) {
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
        found.extend(Track::read(moov, whole, movie_timescale, file_bytes)?);
    }
    Ok(found)
}

fn is_video(track: &Track) -> bool {
    track.kind == TrackKind::Video
}

/// The number of the track at whose sync samples a file is cut, if all its tracks have samples.
pub(crate) fn leader_id(moov: &[u8], file_bytes: u64) -> Option<u32> {
    let tracks = read_tracks(moov, file_bytes).ok()?;
    let video = tracks.iter().find(|track| is_video(track));
    video.or(tracks.first()).map(|track| track.id)
}

/// Cuts the first track at sync samples, and the others at the same times.
fn cut_all(
    moov: &[u8],
    tracks: &[Track],
    target: Duration,
    cuts_max: usize,
) -> Result<(Vec<Vec<Cut>>, LeaderSamples), PackageFault> {
    let (leader, followers) = tracks.split_first().ok_or(PackageFault::NoTrack)?;
    let (cuts, seen) = cut_leader(moov, leader, target, cuts_max)?;
    let boundaries: Vec<Boundary> = cuts[..cuts.len() - 1]
        .iter()
        .map(|cut| Boundary::new(cut.presented, leader.timescale))
        .collect();
    let mut all = Vec::with_capacity(tracks.len());
    all.push(cuts);
    for track in followers {
        all.push(cut_follower(moov, track, &boundaries)?);
    }
    Ok((all, seen))
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
        track.delay_by(u64::try_from(ticks).unwrap_or(u64::MAX))?;
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
