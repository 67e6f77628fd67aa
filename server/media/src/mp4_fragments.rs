//! Duration of a fragmented MP4 file without an index, as recorders write it: estimated from the
//! start times and positions of its first fragments.

use alloc::vec::Vec;

use headlong_units::Duration;

use crate::timeline::ticks_to_duration;

/// Fragments of one track after which the estimate is final.
const FRAGMENTS_MAX: u32 = 64;
/// Media after which the estimate is final: more evens out scenes of different rates.
const SPAN_MAX: Duration = Duration::from_secs(60);
/// Tracks whose time scale is kept; a fragment of another one is ignored.
const TRACKS_MAX: usize = 16;

/// Time scales of the tracks, and the fragments seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mp4Fragments {
    /// Id and time scale of each track.
    tracks: Vec<(u32, u32)>,
    /// Track of the header that is being read.
    track: u32,
    first: Option<FragmentStart>,
    last: Option<FragmentStart>,
    count: u32,
}

/// Start of a fragment of one track.
#[derive(Debug, Clone, Copy)]
struct FragmentStart {
    track: u32,
    ticks: u64,
    offset: u64,
}

impl Mp4Fragments {
    /// A `tkhd` or `tfhd` names the track that the following boxes describe.
    pub(crate) fn enter_track(&mut self, track: u32) {
        self.track = track;
    }

    /// The time scale of the current track.
    pub(crate) fn set_timescale(&mut self, timescale: u32) {
        if self.tracks.len() < TRACKS_MAX && timescale > 0 {
            self.tracks.push((self.track, timescale));
        }
    }

    /// A fragment of the current track begins at this time, in the `moof` at `offset`.
    pub(crate) fn add(&mut self, ticks: u64, offset: u64) {
        let start = FragmentStart {
            track: self.track,
            ticks,
            offset,
        };
        let first = *self.first.get_or_insert(start);
        if first.track == start.track {
            self.last = Some(start);
            self.count += 1;
        }
    }

    /// Whether no more fragments are needed.
    pub(crate) fn are_enough(&self) -> bool {
        self.count >= FRAGMENTS_MAX || self.span().is_some_and(|(span, _)| span >= SPAN_MAX)
    }

    /// The duration of a file of `size` bytes, if its other fragments are like the first ones.
    pub(crate) fn duration(&self, size: u64) -> Option<Duration> {
        let (span, bytes) = self.span()?;
        let media_bytes = size.checked_sub(self.first?.offset)?;
        let ns = u128::from(span.0) * u128::from(media_bytes) / u128::from(bytes);
        u64::try_from(ns).ok().map(Duration)
    }

    /// Time and bytes from the first fragment to the last one.
    fn span(&self) -> Option<(Duration, u64)> {
        let (first, last) = (self.first?, self.last?);
        let known = self.tracks.iter().find(|(track, _)| *track == first.track);
        let ticks = last.ticks.checked_sub(first.ticks)?;
        let span = ticks_to_duration(ticks, u64::from(known?.1));
        let bytes = last.offset.checked_sub(first.offset)?;
        (span > Duration::ZERO && bytes > 0).then_some((span, bytes))
    }
}
