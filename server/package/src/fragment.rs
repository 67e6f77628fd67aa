//! A segment: a generated `moof` and the header of an `mdat`, whose contents are ranges of the file.
//!
//! Samples keep their order and their bytes. A range may hold bytes between samples that belong to
//! other tracks: `mdat` may have bytes that no sample refers to, and fewer ranges are fewer reads.

use alloc::vec::Vec;

use headlong_http::{BodyPart, PlannedBody};
use headlong_units::ByteRange;

use crate::fault::PackageFault;
use crate::fields::BoxWriter;
use crate::fragment_index::{check_time, presented, without_samples};
use crate::fragmented::SEGMENT_SAMPLES_MAX;
use crate::reader::HeaderReader;
use crate::resource::Rendition;
use crate::sample_table::Sample;
use crate::title::{IndexedTrack, Title};
use crate::title_headers::TitleHeaders;
use crate::track::{Track, TrackKind};

/// Bytes of other tracks in a segment, for each byte of its own: one in so many.
const WASTE_RATIO: u64 = 16;
/// Most ranges of a segment: each is a request to the device. Audio alone has one for each of its
/// samples that lies between two frames.
const RANGES_MAX: usize = 2048;
/// Largest segment: offsets within a fragment have 31 bits.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// Flags of samples (ISO/IEC 14496-12, 8.8.3.1): others do, or do not, depend on a sync sample.
const SYNC: u32 = 0x0200_0000;
const NOT_SYNC: u32 = 0x0101_0000;

/// `tfhd`: offsets count from `moof`; description and flags of samples, and their duration if it is
/// always the same.
const TFHD_FLAGS: u32 = 0x02_0000 | 0x02 | 0x20;
const TFHD_DURATION: u32 = 0x08;
/// `trun`: an offset, and the size of each sample.
const TRUN_FLAGS: u32 = 0x01 | 0x200;
const TRUN_FIRST_FLAGS: u32 = 0x04;
const TRUN_DURATION: u32 = 0x100;
const TRUN_SAMPLE_FLAGS: u32 = 0x400;
const TRUN_COMPOSITION: u32 = 0x800;

/// The samples of one track.
struct TrackSamples<'a> {
    of: &'a IndexedTrack,
    number: usize,
    /// Decoding time of the first one in the title, in ticks.
    time: u64,
    /// Whether presentation differs from decoding time.
    has_composition: bool,
    samples: Vec<Sample>,
}

/// A place in `moof` for the offset of a run, and where the run is in the file.
struct RunOffset {
    place: usize,
    in_file: u64,
}

impl Title {
    /// The segment of a rendition, by its number from zero; `None` if there is none. Not of a title
    /// whose heads have to be read first ([`Self::heads_of`]).
    ///
    /// # Errors
    /// The segment cannot be made.
    pub fn segment(
        &self,
        rendition: Rendition,
        number: usize,
    ) -> Result<Option<PlannedBody>, PackageFault> {
        if self.by_heads.is_some() {
            return Err(PackageFault::FragmentIndex);
        }
        let mut all = Vec::new();
        for of in self.tracks_of(rendition).unwrap_or_default() {
            if of.has_samples(number) {
                all.push(TrackSamples {
                    of,
                    number,
                    time: of.cuts[number].cursor.time + of.track.delay,
                    has_composition: of.track.table.has_composition,
                    samples: self.samples(of, number)?,
                });
            }
        }
        assemble(&all)
    }

    /// A reader of the heads of a segment's fragments, with which it can be made; `None` if it can be
    /// made without.
    pub fn heads_of(&self, number: usize) -> Option<HeaderReader> {
        let file_bytes = self.by_heads?;
        let cuts = self.tracks.first()?.cuts.get(number..number + 2)?;
        let range = ByteRange::new(cuts[0].cursor.place(), cuts[1].cursor.place());
        Some(HeaderReader::of_segment(range, file_bytes))
    }

    /// The segment of a rendition, whose heads were read by [`Self::heads_of`].
    ///
    /// # Errors
    /// The segment cannot be made from them: the index of the file is wrong.
    pub fn segment_by_heads(
        &self,
        rendition: Rendition,
        number: usize,
        heads: &TitleHeaders,
    ) -> Result<Option<PlannedBody>, PackageFault> {
        let made = self.by_heads(rendition, number, heads);
        made.map_err(|_| PackageFault::FragmentIndex)
    }

    fn by_heads(
        &self,
        rendition: Rendition,
        number: usize,
        heads: &TitleHeaders,
    ) -> Result<Option<PlannedBody>, PackageFault> {
        let fault = PackageFault::FragmentIndex;
        let of_all = self.tracks_of(rendition).unwrap_or_default();
        let tracks: Vec<Track> = of_all.iter().map(|of| without_samples(&of.track)).collect();
        let fragments = heads.fragments(&self.moov);
        let cut = self.tracks.first().and_then(|of| of.cuts.get(number));
        let place = cut.map(|cut| cut.cursor.place());
        if place.is_none() || fragments.heads.in_file.first().copied() != place {
            return Err(fault);
        }
        let tables = fragments.tables(&tracks)?;
        let mut all = Vec::new();
        for (of, table) in of_all.iter().copied().zip(tables) {
            let samples = table.samples(fragments.file_bytes)?;
            let Some(first) = samples.first() else {
                continue;
            };
            let is_described = table.parts.description == of.track.table.description;
            if !first.is_sync || !is_described {
                return Err(fault);
            }
            let begins = presented(&of.track, &table, first)?;
            if of.track.id == self.tracks[0].track.id {
                check_time(&of.track, begins, of.cuts[number].presented)?;
            }
            all.push(TrackSamples {
                of,
                number,
                time: table.start - of.track.fragments_start + of.track.delay,
                has_composition: samples.iter().any(|sample| sample.composition != 0)
                    || of.track.composition_shift > 0,
                samples,
            });
        }
        // A track may end before the leader: `sidx` has the end of one track only. Playlists list the
        // segment, so they have to be made without the index.
        if all.is_empty() && of_all.iter().any(|of| of.has_samples(number)) {
            return Err(fault);
        }
        assemble(&all)
    }

    /// Where the samples of a segment of a rendition end in the file: the end of its last range, and
    /// zero if it has none.
    pub fn segment_end(&self, rendition: Rendition, number: usize) -> u64 {
        if self.by_heads.is_some() {
            let cut = self.tracks.first().and_then(|of| of.cuts.get(number + 1));
            return cut.map_or(0, |cut| cut.cursor.place());
        }
        let tracks = self.tracks_of(rendition).unwrap_or_default().into_iter();
        let with_samples = tracks.filter(|of| of.has_samples(number));
        let samples = with_samples.flat_map(|of| self.samples(of, number).unwrap_or_default());
        samples.map(|sample| sample.end()).max().unwrap_or(0)
    }

    fn samples(&self, of: &IndexedTrack, number: usize) -> Result<Vec<Sample>, PackageFault> {
        let mut cursor = of.cuts[number].cursor;
        let count = of.cuts[number + 1].cursor.sample - cursor.sample;
        if count > SEGMENT_SAMPLES_MAX {
            return Err(PackageFault::TooMany("samples in a segment"));
        }
        let samples = (0..count).map_while(|_| of.track.table.next(&self.moov, &mut cursor));
        samples.collect()
    }
}

/// The segment with these samples; `None` if there are none.
fn assemble(all: &[TrackSamples<'_>]) -> Result<Option<PlannedBody>, PackageFault> {
    if all.is_empty() {
        return Ok(None);
    }
    let ranges = ranges(all)?;
    let payload: u64 = ranges.iter().map(|range| range.len()).sum();
    let (mut head, runs) = movie_fragment(all);
    let moof_bytes = head.bytes.len() as u64;
    let mdat_bytes = payload + 8;
    if moof_bytes + mdat_bytes > SEGMENT_BYTES_MAX {
        return Err(PackageFault::TooMany("bytes in a segment"));
    }
    for run in runs {
        let offset = moof_bytes + 8 + offset_in(&ranges, run.in_file);
        head.patch(run.place, offset as u32);
    }
    head.u32(mdat_bytes as u32).raw(b"mdat");
    let mut head = Some(head.bytes);
    let part = |range| BodyPart {
        preamble: head.take().unwrap_or_default(),
        range,
        open_ended: false,
    };
    let parts = ranges.into_iter().map(part).collect();
    Ok(Some(PlannedBody {
        parts,
        // Without any bytes of samples, there is only the head.
        closing: head.unwrap_or_default(),
    }))
}

/// Where the samples are, with as few bytes of others as few ranges allow.
fn ranges(all: &[TrackSamples<'_>]) -> Result<Vec<ByteRange>, PackageFault> {
    let samples = all.iter().flat_map(|of| &of.samples);
    let mut extents: Vec<ByteRange> = samples
        .filter(|sample| sample.bytes > 0)
        .map(|sample| ByteRange::new(sample.offset, sample.end()))
        .collect();
    extents.sort_unstable();
    let mut merged: Vec<ByteRange> = Vec::new();
    for extent in extents {
        match merged.last_mut() {
            Some(last) if last.end >= extent.start => last.end = last.end.max(extent.end),
            _ => merged.push(extent),
        }
    }
    let own: u64 = merged.iter().map(|range| range.len()).sum();
    let gap = |pair: &[ByteRange]| pair[1].start - pair[0].end;
    let mut gaps: Vec<u64> = merged.windows(2).map(gap).collect();
    gaps.sort_unstable();
    // The smallest gaps, as many as the waste allows or the number of ranges requires.
    let mut waste = 0_u64;
    let mut bridged = None;
    let ranges_if_none = gaps.len() + 1;
    for (index, gap) in gaps.into_iter().enumerate() {
        waste = waste.saturating_add(gap);
        if waste > own / WASTE_RATIO && ranges_if_none - index <= RANGES_MAX {
            break;
        }
        bridged = Some(gap);
    }
    let mut ranges: Vec<ByteRange> = Vec::new();
    for range in merged {
        match (ranges.last_mut(), bridged) {
            (Some(last), Some(gap_max)) if range.start - last.end <= gap_max => {
                last.end = range.end;
            }
            _ => ranges.push(range),
        }
    }
    let bytes: u64 = ranges.iter().map(|range| range.len()).sum();
    // Equal gaps are bridged together, so this may be somewhat more than the ratio.
    if bytes > own.saturating_mul(2) {
        return Err(PackageFault::Scattered);
    }
    Ok(ranges)
}

/// Offset in the ranges, one after another, of a position in the file; positions of empty samples
/// may be anywhere.
fn offset_in(ranges: &[ByteRange], in_file: u64) -> u64 {
    let mut before = 0;
    for range in ranges {
        if range.contains(in_file) {
            return before + (in_file - range.start);
        }
        before += range.len();
    }
    0
}

/// Writes `moof`; offsets of runs count from it and are filled in later. A `styp` in front of it is
/// left out: no player needs it.
fn movie_fragment(all: &[TrackSamples<'_>]) -> (BoxWriter, Vec<RunOffset>) {
    let mut writer = BoxWriter::default();
    let mut runs = Vec::new();
    let sequence = all.first().map_or(0, |of| of.number + 1);
    writer.boxed(b"moof", |w| {
        w.full(b"mfhd", 0, 0, |w| {
            w.u32(u32::try_from(sequence).unwrap_or(u32::MAX));
        });
        for of in all {
            w.boxed(b"traf", |w| track_fragment(w, of, &mut runs));
        }
    });
    (writer, runs)
}

fn track_fragment(w: &mut BoxWriter, of: &TrackSamples<'_>, runs: &mut Vec<RunOffset>) {
    let track = &of.of.track;
    let samples = &of.samples[..];
    let first = samples.first().map_or(0, |sample| sample.duration);
    let is_even = samples.iter().all(|sample| sample.duration == first);
    let is_usual_first = samples.iter().skip(1).all(|sample| !sample.is_sync);
    let is_all_sync = samples.iter().all(|sample| sample.is_sync);
    let usual_flags = match is_all_sync || track.kind == TrackKind::Audio {
        true => SYNC,
        false => NOT_SYNC,
    };
    let has_flags = usual_flags == NOT_SYNC && !is_usual_first;
    let is_first_sync = samples.first().is_some_and(|sample| sample.is_sync);
    let tfhd_flags = TFHD_FLAGS | if is_even { TFHD_DURATION } else { 0 };
    w.full(b"tfhd", 0, tfhd_flags, |w| {
        w.u32(track.id).u32(track.table.description);
        if is_even {
            w.u32(first);
        }
        w.u32(usual_flags);
    });
    w.full(b"tfdt", 1, 0, |w| {
        w.u64(of.time);
    });
    let mut left = samples;
    while !left.is_empty() {
        let consecutive = |pair: &&[Sample]| pair[0].end() == pair[1].offset;
        let count = 1 + left.windows(2).take_while(consecutive).count();
        let (run, rest) = left.split_at(count);
        let has_first_flags = left.len() == samples.len() && is_first_sync;
        let has_first_flags = has_first_flags && usual_flags == NOT_SYNC && !has_flags;
        left = rest;
        let mut flags = TRUN_FLAGS;
        for (is_set, flag) in [
            (has_first_flags, TRUN_FIRST_FLAGS),
            (!is_even, TRUN_DURATION),
            (has_flags, TRUN_SAMPLE_FLAGS),
            (of.has_composition, TRUN_COMPOSITION),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        // Version 1 has signed composition times.
        w.full(b"trun", 1, flags, |w| {
            w.u32(run.len() as u32);
            runs.push(RunOffset {
                place: w.bytes.len(),
                in_file: run[0].offset,
            });
            w.u32(0);
            if has_first_flags {
                w.u32(SYNC);
            }
            for sample in run {
                if !is_even {
                    w.u32(sample.duration);
                }
                w.u32(sample.bytes);
                if has_flags {
                    w.u32(if sample.is_sync { SYNC } else { NOT_SYNC });
                }
                if of.has_composition {
                    let shift = i64::from(track.composition_shift);
                    w.u32((i64::from(sample.composition) + shift) as u32);
                }
            }
        });
    }
}
