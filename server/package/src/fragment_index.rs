//! Where the fragments of a file begin, by an index that the file has: `sidx` in front of them or
//! `mfra` at the end (ISO/IEC 14496-12, 8.16.3 and 8.8.9 to 8.8.11). A title with one is cut between
//! fragments without reading them; the heads of a segment are read when it is requested.
//!
//! An index is a hint. If the file contradicts it, there is a [`PackageFault::FragmentIndex`], and the
//! caller reads the heads of all fragments instead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_media::mp4_boxes;
use headlong_units::{ByteRange, Duration};

use crate::cuts::{Cut, Cutter, LeaderSamples};
use crate::fault::PackageFault;
use crate::fields::{find, u16_at, u32_at, versioned_at};
use crate::fragmented::{DefaultsById, FragmentedTable, Fragments};
use crate::sample_table::{Cursor, Sample};
use crate::track::{TRACKS_MAX, Track};

/// Fragments of a file with an index: five hours, at two seconds each.
const FRAGMENTS_MAX: usize = 10_000;
/// Bytes of `mfro`, at the end of a file with `mfra`.
const MFRO_BYTES: usize = 16;
/// A fragment may begin so much earlier or later than the index says: more than the difference between
/// its decoding and its presentation, and less than a segment.
const START_TOLERANCE: Duration = Duration::from_millis(500);
/// Most heads that are checked of those that were read: the others are checked when their segment
/// is requested.
const CHECKED_MAX: usize = 32;
/// Fields of a reference in `sidx`: to another index; whether and how a sync sample is the first.
const SIDX_OF_INDEX: u32 = 1 << 31;
const SIDX_SYNC: u32 = 1 << 31;

/// A fragment that begins with a sync sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexedFragment {
    /// Where it begins in the file.
    place: u64,
    /// When it is presented, in ticks.
    time: u64,
}

/// Properties that only `sidx` states.
#[derive(Debug, Clone, Copy)]
struct SidxFacts {
    timescale: u32,
    end_time: u64,
    has_leading_samples: bool,
    /// Whether it does not state how some fragment begins, as of ffmpeg.
    has_unknown_access: bool,
}

/// The fragments of a file.
#[derive(Debug)]
pub(crate) struct FragmentIndex {
    /// By the number of the track whose samples and ticks are meant, in ascending order.
    by_track: BTreeMap<u32, Vec<IndexedFragment>>,
    sidx: Option<SidxFacts>,
    /// Where the last one ends in the file.
    pub(crate) end: u64,
}

/// Whether fragments ascend from this place on and lie before the end.
fn is_sound(fragments: &[IndexedFragment], first: u64, end: u64) -> bool {
    let ascends =
        |pair: &[IndexedFragment]| pair[0].place < pair[1].place && pair[0].time < pair[1].time;
    fragments.first().is_some_and(|of| of.place == first)
        && fragments.last().is_some_and(|of| of.place < end)
        && fragments.len() <= FRAGMENTS_MAX
        && fragments.windows(2).all(ascends)
}

impl FragmentIndex {
    /// The index in the body of a `sidx` that ends at `anchor`; `None` if it is unusable, or the first
    /// fragment does not begin at `first`.
    pub(crate) fn of_sidx(sidx: &[u8], anchor: u64, first: u64) -> Option<Self> {
        let version = *sidx.first()?;
        let width = if version == 0 { 4 } else { 8 };
        let timescale = u32_at(sidx, 8).filter(|scale| *scale > 0)?;
        let mut time = versioned_at(sidx, version, 12)?;
        let mut place = anchor.checked_add(versioned_at(sidx, version, 12 + width)?)?;
        let count_at = 12 + 2 * width + 2;
        let (mut has_leading_samples, mut has_unknown_access) = (false, false);
        let mut fragments = Vec::new();
        for entry in 0..usize::from(u16_at(sidx, count_at)?) {
            let field = |index: usize| u32_at(sidx, count_at + 2 + entry * 12 + index * 4);
            let (bytes, ticks, access) = (field(0)?, field(1)?, field(2)?);
            if bytes & SIDX_OF_INDEX != 0 {
                return None;
            }
            if access & SIDX_SYNC != 0 {
                fragments.push(IndexedFragment { place, time });
                // Types 1 and 2 have none.
                let access_type = access >> 28 & 7;
                has_leading_samples |= access_type > 2;
                has_unknown_access |= access_type == 0;
            }
            place = place.checked_add(bytes.into())?;
            time = time.checked_add(ticks.into())?;
        }
        let facts = SidxFacts {
            timescale,
            end_time: time,
            has_leading_samples,
            has_unknown_access,
        };
        is_sound(&fragments, first, place).then(|| Self {
            by_track: BTreeMap::from([(u32_at(sidx, 4).unwrap_or_default(), fragments)]),
            sidx: Some(facts),
            end: place,
        })
    }

    /// The index in the last bytes of a file, which begin at `tail_at`; `None` if there is none, or
    /// the first fragment does not begin at `first`.
    pub(crate) fn of_mfra(tail: &[u8], tail_at: u64, first: u64) -> Option<Self> {
        let mfro = tail.get(tail.len().checked_sub(MFRO_BYTES)?..)?;
        let bytes = u32_at(mfro, 12).filter(|_| mfro.get(4..8) == Some(b"mfro"))?;
        let at = tail.len().checked_sub(usize::try_from(bytes).ok()?)?;
        let end = tail_at + at as u64;
        let mut by_track = BTreeMap::new();
        for tfra in mp4_boxes(find(&tail[at..], b"mfra").ok()??.body) {
            let tfra = tfra.ok()?;
            if tfra.kind != *b"tfra" {
                continue;
            }
            let fragments = read_tfra(tfra.body)?;
            // Subtitles may begin in a later fragment. A track that is packaged and has no usable index
            // is cut by that of the first one.
            if !is_sound(&fragments, first, end) {
                continue;
            }
            if by_track.len() >= TRACKS_MAX {
                return None;
            }
            by_track.insert(u32_at(tfra.body, 4)?, fragments);
        }
        (!by_track.is_empty()).then_some(Self {
            by_track,
            sidx: None,
            end,
        })
    }

    /// The bytes with the last fragments of all tracks, whose heads state when they end.
    pub(crate) fn last(&self) -> ByteRange {
        let lasts = self.by_track.values().filter_map(|of| of.last());
        let last = lasts.map(|of| of.place).min();
        ByteRange::new(last.unwrap_or(self.end), self.end)
    }
}

/// Those entries of a `tfra` at which a fragment begins.
fn read_tfra(tfra: &[u8]) -> Option<Vec<IndexedFragment>> {
    let version = *tfra.first()?;
    let width = if version == 0 { 4 } else { 8 };
    let lengths = u32_at(tfra, 8)?;
    // Numbers of `traf`, `trun` and sample, of one to four bytes each.
    let bytes = [lengths >> 4, lengths >> 2, lengths].map(|length| (length & 3) as usize + 1);
    let entry_bytes = 2 * width + bytes.iter().sum::<usize>();
    let count = u32_at(tfra, 12)? as usize;
    let mut fragments: Vec<IndexedFragment> = Vec::new();
    for entry in tfra.get(16..)?.chunks_exact(entry_bytes).take(count) {
        let fragment = IndexedFragment {
            place: versioned_at(entry, version, width)?,
            time: versioned_at(entry, version, 0)?,
        };
        let (run, sample) = entry[2 * width + bytes[0]..].split_at(bytes[1]);
        let is_first = is_one(run) && is_one(sample);
        let is_known = fragments
            .last()
            .is_some_and(|last| last.place == fragment.place);
        if is_first && !is_known {
            fragments.push(fragment);
        }
    }
    Some(fragments)
}

/// Whether a number of any length is one.
fn is_one(bytes: &[u8]) -> bool {
    let split = bytes.split_last();
    split.is_some_and(|(last, rest)| *last == 1 && rest.iter().all(|byte| *byte == 0))
}

/// The samples of a track in the first fragment, by which those of all others are estimated.
struct FirstFragment {
    samples: Cursor,
    /// When it is presented in the title, in ticks.
    presented: i64,
}

impl FirstFragment {
    fn read(moov: &[u8], track: &Track, seen: &mut LeaderSamples) -> Result<Self, PackageFault> {
        let (mut samples, mut presented) = (Cursor::default(), None);
        while let Some(sample) = track.table.next(moov, &mut samples).transpose()? {
            seen.observe(&sample);
            presented.get_or_insert_with(|| track.title_time(sample.presented()));
        }
        Ok(Self {
            samples,
            presented: presented.ok_or(PackageFault::FragmentIndex)?,
        })
    }

    fn rate(&self) -> TrackRate {
        TrackRate {
            bytes: self.samples.bytes,
            ticks: self.samples.time,
        }
    }

    /// A cut at a place of the file, so many ticks after the first one; its bytes are not known yet.
    fn cut(&self, place: u64, ticks: i64) -> Cut {
        let ticks_of_one = u128::from(self.samples.time.max(1));
        let samples = u128::from(ticks.unsigned_abs()) * u128::from(self.samples.sample);
        let sample = u32::try_from(samples / ticks_of_one).unwrap_or(u32::MAX);
        Cut {
            cursor: Cursor::between_fragments(sample, ticks.unsigned_abs(), 0, place),
            presented: self.presented.saturating_add(ticks),
        }
    }
}

/// The cuts of all tracks, and what was seen of the first one's samples.
pub(crate) struct IndexedCuts {
    pub(crate) by_track: Vec<Vec<Cut>>,
    pub(crate) seen: LeaderSamples,
}

impl FragmentIndex {
    /// Cuts tracks between fragments. Their tables have the samples of the first fragment; `last` has
    /// the heads of the last ones if the index needs them.
    pub(crate) fn cut(
        &self,
        moov: &[u8],
        tracks: &[Track],
        (read_ahead, last): (&Fragments<'_>, &Fragments<'_>),
        (target, cuts_max): (Duration, usize),
    ) -> Result<IndexedCuts, PackageFault> {
        let fault = PackageFault::FragmentIndex;
        let (leader, followers) = tracks.split_first().ok_or(fault)?;
        let fragments = self.by_track.get(&leader.id).ok_or(fault)?;
        let begin = fragments.first().ok_or(fault)?;
        let mut seen = LeaderSamples::default();
        let first = FirstFragment::read(moov, leader, &mut seen)?;
        let mut of_followers = LeaderSamples::default();
        let firsts = followers.iter();
        let firsts = firsts.map(|track| FirstFragment::read(moov, track, &mut of_followers));
        let firsts = firsts.collect::<Result<Vec<_>, _>>()?;
        let scaled = |ticks: u64, from: u32, to: u32| {
            let ticks = u128::from(ticks) * u128::from(to) / u128::from(from);
            i64::try_from(ticks).unwrap_or(i64::MAX)
        };
        let timescale = self.sidx.map_or(leader.timescale, |facts| facts.timescale);
        let since = |time: u64| scaled(time - begin.time, timescale, leader.timescale);
        let mut known = KnownFragments {
            defaults: last.defaults()?,
            tracks: tracks.iter().map(without_samples).collect(),
            rates: firsts.iter().map(FirstFragment::rate).collect(),
            seen,
        };
        let mut checked = 0;
        for heads in [read_ahead, last] {
            let is_read =
                |of: &&IndexedFragment| heads.heads.in_file.binary_search(&of.place).is_ok();
            for of in fragments.iter().filter(is_read).take(CHECKED_MAX) {
                let listed = first.presented.saturating_add(since(of.time));
                known.check(heads, of.place, listed)?;
                checked += 1;
            }
        }
        let ends: Vec<i64> = match self.sidx {
            Some(facts) => {
                let is_unknown = facts.has_unknown_access && checked == 0 && fragments.len() > 1;
                known.seen.has_leading_samples |= facts.has_leading_samples || is_unknown;
                let of =
                    |track: &Track| scaled(facts.end_time - begin.time, timescale, track.timescale);
                tracks.iter().map(of).collect()
            }
            None => known.ends(last)?,
        };
        let mut cutter = Cutter::new(leader, target, cuts_max);
        for of in fragments {
            let cut = first.cut(of.place, since(of.time));
            match of.place == begin.place {
                true => cutter.push(cut)?,
                false => cutter.offer(cut)?,
            }
        }
        let end = first.cut(self.end, ends[0]);
        let mut by_track = Vec::from([cutter.end(end)?]);
        for ((track, first), end) in followers.iter().zip(&firsts).zip(&ends[1..]) {
            let own = self.by_track.get(&track.id);
            let own_time = |place: u64| {
                let own = own?;
                let at = own.binary_search_by_key(&place, |of| of.place).ok()?;
                i64::try_from(own[at].time - own[0].time).ok()
            };
            let cut = |of: &Cut| {
                let place = of.cursor.place();
                let ticks = of.cursor.time;
                let ticks =
                    own_time(place).unwrap_or(scaled(ticks, leader.timescale, track.timescale));
                let ticks = if place == self.end {
                    *end
                } else {
                    ticks.min(*end)
                };
                first.cut(place, ticks)
            };
            let cuts = by_track[0].iter().map(cut).collect();
            by_track.push(cuts);
        }
        by_track.iter_mut().for_each(|cuts| count_samples(cuts));
        divide_bytes(&mut by_track, &known.rates);
        Ok(IndexedCuts {
            by_track,
            seen: known.seen,
        })
    }
}

/// Bytes of a track in some time, by which those of its segments are estimated.
#[derive(Debug, Clone, Copy)]
struct TrackRate {
    bytes: u64,
    ticks: u64,
}

impl TrackRate {
    fn bytes_of(self, ticks: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(ticks) / u128::from(self.ticks.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// What is known by the heads that were read.
struct KnownFragments {
    /// Computed once: `mvex` may be long.
    defaults: DefaultsById,
    /// All tracks, without samples.
    tracks: Vec<Track>,
    /// Of all tracks but the first one.
    rates: Vec<TrackRate>,
    seen: LeaderSamples,
}

impl KnownFragments {
    /// Checks that a fragment begins with a sync sample at the listed time, and observes it.
    fn check(
        &mut self,
        heads: &Fragments<'_>,
        place: u64,
        listed: i64,
    ) -> Result<(), PackageFault> {
        let fault = PackageFault::FragmentIndex;
        let one = Fragments {
            heads: &heads.heads.at(place).ok_or(fault)?,
            ..*heads
        };
        let tables = one.tables_with(&self.defaults, &self.tracks)?;
        for (rate, table) in self.rates.iter_mut().zip(&tables[1..]) {
            rate.bytes = rate.bytes.saturating_add(table.parts.sample_bytes());
            rate.ticks = rate.ticks.saturating_add(table.parts.ticks());
        }
        let samples = tables[0].samples(heads.file_bytes)?;
        let first = samples.first().filter(|first| first.is_sync).ok_or(fault)?;
        let leader = &self.tracks[0];
        check_time(leader, presented(leader, &tables[0], first)?, listed)?;
        self.observe(&samples);
        Ok(())
    }

    /// The ends of all tracks, in ticks since their beginning, by the heads of the last fragments.
    fn ends(&mut self, last: &Fragments<'_>) -> Result<Vec<i64>, PackageFault> {
        let fault = PackageFault::FragmentIndex;
        let tables = last.tables_with(&self.defaults, &self.tracks)?;
        let mut ends = Vec::with_capacity(tables.len());
        for (track, table) in self.tracks.iter().zip(&tables) {
            let start = table.start.checked_sub(track.fragments_start);
            let end = start.and_then(|start| start.checked_add(table.parts.ticks()));
            let end = end.filter(|_| !table.parts.is_empty()).ok_or(fault)?;
            ends.push(i64::try_from(end).map_err(|_| fault)?);
        }
        self.observe(&tables[0].samples(last.file_bytes)?);
        Ok(ends)
    }

    fn observe(&mut self, samples: &[Sample]) {
        self.seen.begin_again();
        samples.iter().for_each(|sample| self.seen.observe(sample));
    }
}

/// Divides the bytes between cuts among the tracks: the first one has those that the others, by their
/// rates, leave. Its own rate varies most; a film may begin with black pictures.
fn divide_bytes(by_track: &mut [Vec<Cut>], rates: &[TrackRate]) {
    let Some((leader, followers)) = by_track.split_first_mut() else {
        return;
    };
    for at in 1..leader.len() {
        let mut left = leader[at].cursor.place() - leader[at - 1].cursor.place();
        for (cuts, rate) in followers.iter_mut().zip(rates) {
            let before = cuts[at - 1].cursor;
            let cursor = &mut cuts[at].cursor;
            let ticks = cursor.time.saturating_sub(before.time);
            let bytes = rate.bytes_of(ticks).min(left);
            left -= bytes;
            cursor.bytes = before.bytes + bytes;
        }
        leader[at].cursor.bytes = leader[at - 1].cursor.bytes + left;
    }
}

/// When a sample of fragments is presented in the title, in ticks.
pub(crate) fn presented(
    track: &Track,
    table: &FragmentedTable,
    sample: &Sample,
) -> Result<i64, PackageFault> {
    let start = table.start.checked_sub(track.fragments_start);
    let start = start.and_then(|start| i64::try_from(start).ok());
    let start = start.ok_or(PackageFault::FragmentIndex)?;
    Ok(track.title_time(start.saturating_add(sample.presented())))
}

/// Every segment with time has samples; how many is an estimate.
fn count_samples(cuts: &mut [Cut]) {
    for at in 1..cuts.len() {
        let before = cuts[at - 1];
        let least = match cuts[at].presented > before.presented {
            true => before.cursor.sample.saturating_add(1),
            false => before.cursor.sample,
        };
        let sample = &mut cuts[at].cursor.sample;
        *sample = least.max(*sample);
    }
}

/// A track that takes the samples of some fragments alone.
pub(crate) fn without_samples(track: &Track) -> Track {
    Track {
        table: track.table.without_samples(),
        ..track.clone()
    }
}

/// Checks that samples begin when the index says, in ticks of the track.
pub(crate) fn check_time(track: &Track, presented: i64, listed: i64) -> Result<(), PackageFault> {
    let max = u128::from(START_TOLERANCE.0) * u128::from(track.timescale) / 1_000_000_000;
    match u128::from(presented.abs_diff(listed)) <= max {
        true => Ok(()),
        false => Err(PackageFault::FragmentIndex),
    }
}
