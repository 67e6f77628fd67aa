//! Files whose samples are in fragments (ISO/IEC 14496-12, 8.8): from the `moof` boxes of all of them,
//! sample tables as of a file without fragments, so that all else is the same.
//!
//! Samples keep their decoding and composition times; the last one before a gap lasts until its end.
//! A fragment that the end of the file cuts off is left out with all after it, as in a recording that
//! was interrupted.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_media::mp4_boxes;

use crate::fault::PackageFault;
use crate::fields::{broken, find, require, u32_at, versioned_at};
use crate::sample_table::{Cursor, Sample, SampleTable, TableParts};
use crate::track::{TRACKS_MAX, Track, TrackKind};

/// Most bytes of the tables of all tracks of a file.
pub(crate) const TABLE_BYTES_MAX: usize = 8 << 20;

/// Most samples of a segment of a track; a minute at 1,000 a second.
pub(crate) const SEGMENT_SAMPLES_MAX: u32 = 60_000;

/// Flags of `tfhd`: which fields follow, and that offsets count from `moof`.
const TFHD_BASE: u32 = 0x01;
const TFHD_DESCRIPTION: u32 = 0x02;
const TFHD_DURATION: u32 = 0x08;
const TFHD_SIZE: u32 = 0x10;
const TFHD_FLAGS: u32 = 0x20;
const TFHD_FROM_MOOF: u32 = 0x02_0000;
/// Flags of `trun`: which fields follow, once and for each sample.
const TRUN_OFFSET: u32 = 0x01;
const TRUN_FIRST_FLAGS: u32 = 0x04;
const TRUN_DURATION: u32 = 0x100;
const TRUN_SIZE: u32 = 0x200;
const TRUN_SAMPLE_FLAGS: u32 = 0x400;
const TRUN_COMPOSITION: u32 = 0x800;
/// A sample that depends on others.
const NOT_SYNC: u32 = 0x01_0000;
/// Most bytes that a sample adds to the tables: a run of durations and one of composition times, a
/// chunk, its offset, a size and a sync sample.
const SAMPLE_BYTES_MAX: usize = 8 + 8 + 12 + 8 + 4 + 4;
/// The `moof` boxes grow by so many bytes at a time, so that little memory is taken that is not used.
const HEADS_STEP: usize = 1 << 20;

/// The `moof` boxes of a file.
#[derive(Debug, Default)]
pub(crate) struct FragmentHeads {
    /// Whole boxes, one after another.
    pub(crate) bytes: Vec<u8>,
    /// Where each begins in the file.
    pub(crate) in_file: Vec<u64>,
}

impl FragmentHeads {
    /// Adds a box that begins at this place in the file.
    pub(crate) fn push(&mut self, moof: &[u8], place: u64) {
        if self.bytes.capacity() - self.bytes.len() < moof.len() {
            self.bytes.reserve_exact(moof.len().max(HEADS_STEP));
        }
        self.bytes.extend_from_slice(moof);
        self.in_file.push(place);
    }

    /// Adds boxes that lie after these.
    pub(crate) fn append(&mut self, others: Self) {
        self.bytes.extend_from_slice(&others.bytes);
        self.in_file.extend(others.in_file);
    }

    /// Those of the fragment that begins at a place, if there are any.
    pub(crate) fn at(&self, place: u64) -> Option<Self> {
        let index = self.in_file.binary_search(&place).ok()?;
        let moof = mp4_boxes(&self.bytes).nth(index)?.ok()?;
        Some(Self {
            bytes: moof.whole.to_vec(),
            in_file: Vec::from([place]),
        })
    }
}

/// The body of `moov` and the `moof` boxes of a file.
#[derive(Clone, Copy)]
pub(crate) struct Fragments<'a> {
    pub(crate) moov: &'a [u8],
    pub(crate) heads: &'a FragmentHeads,
    pub(crate) file_bytes: u64,
    /// Most bytes of the tables of all tracks together. Each sample takes at least the four bytes of
    /// its size, so this also bounds the number of samples.
    pub(crate) table_bytes_max: usize,
}

/// The defaults of tracks by their number, from `mvex`.
pub(crate) type DefaultsById = BTreeMap<u32, SampleDefaults>;

/// Properties of a sample unless its fragment states others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleDefaults {
    description: u32,
    duration: u32,
    size: u32,
    flags: u32,
}

/// The tables of a track so far.
struct GrowingTrack {
    kind: TrackKind,
    id: u32,
    defaults: SampleDefaults,
    parts: TableParts,
    /// The last sample, whose duration depends on the next one.
    last: Option<Sample>,
    /// Decoding time after it.
    next_time: u64,
    /// Decoding time of the first sample.
    start: u64,
    is_ended: bool,
}

/// The tables of a track, and the decoding time of its first sample, in ticks.
pub(crate) struct FragmentedTable {
    pub(crate) parts: TableParts,
    pub(crate) start: u64,
}

impl FragmentedTable {
    /// Its samples, whose times count from its start; no more than those of a segment.
    pub(crate) fn samples(&self, file_bytes: u64) -> Result<Vec<Sample>, PackageFault> {
        if self.parts.count() > SEGMENT_SAMPLES_MAX {
            return Err(PackageFault::TooMany("samples in a segment"));
        }
        let mut bytes = Vec::new();
        let table = SampleTable::append(&mut bytes, &self.parts, file_bytes);
        let mut cursor = Cursor::default();
        let samples = (0..table.count).map_while(|_| table.next(&bytes, &mut cursor));
        samples.collect()
    }
}

/// The tables of all tracks so far.
struct GrowingTables {
    tracks: Vec<GrowingTrack>,
    /// The first track of each number.
    by_id: BTreeMap<u32, usize>,
    /// Of the tables of all tracks.
    bytes: usize,
    bytes_max: usize,
}

impl GrowingTables {
    fn new(bytes_max: usize) -> Self {
        Self {
            tracks: Vec::new(),
            by_id: BTreeMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    fn add(&mut self, track: GrowingTrack) {
        self.by_id.entry(track.id).or_insert(self.tracks.len());
        self.bytes += track.parts.bytes();
        self.tracks.push(track);
    }

    /// Lets a track read more samples, whose tables may take the bytes that the others leave.
    fn grow<T>(
        &mut self,
        id: u32,
        read: impl FnOnce(&mut GrowingTrack, usize) -> Result<T, PackageFault>,
    ) -> Option<Result<T, PackageFault>> {
        let track = self.tracks.get_mut(*self.by_id.get(&id)?)?;
        let of_others = self.bytes - track.parts.bytes();
        let outcome = read(track, self.bytes_max - of_others);
        self.bytes = of_others + track.parts.bytes();
        Some(outcome)
    }
}

impl<'a> Fragments<'a> {
    /// All fragments of a file, or some that tell as much.
    pub(crate) fn of(moov: &'a [u8], heads: &'a FragmentHeads, file_bytes: u64) -> Self {
        Self {
            moov,
            heads,
            file_bytes,
            table_bytes_max: TABLE_BYTES_MAX,
        }
    }

    /// The tables of these tracks, with the samples that are in `moov` in front.
    pub(crate) fn tables(&self, tracks: &[Track]) -> Result<Vec<FragmentedTable>, PackageFault> {
        self.tables_with(&self.defaults()?, tracks)
    }

    /// The same by defaults that are known: `mvex` may be long.
    pub(crate) fn tables_with(
        &self,
        defaults: &DefaultsById,
        tracks: &[Track],
    ) -> Result<Vec<FragmentedTable>, PackageFault> {
        let mut growing = GrowingTables::new(self.table_bytes_max);
        for track in tracks {
            let of_track = defaults_of(defaults, track.id);
            let begun = self.begin(track, of_track, growing.bytes_max - growing.bytes)?;
            growing.add(begun);
        }
        for (moof, place) in mp4_boxes(&self.heads.bytes).zip(&self.heads.in_file) {
            self.read_moof(moof?.body, *place, defaults, &mut growing)?;
        }
        let finish = |mut track: GrowingTrack| {
            track.parts.extend(track.last.take());
            FragmentedTable {
                parts: track.parts,
                start: track.start,
            }
        };
        Ok(growing.tracks.into_iter().map(finish).collect())
    }

    fn begin(
        &self,
        track: &Track,
        defaults: SampleDefaults,
        bytes_max: usize,
    ) -> Result<GrowingTrack, PackageFault> {
        let mut growing = GrowingTrack {
            kind: track.kind,
            is_ended: false,
            ..GrowingTrack::skipped(track.id, defaults)
        };
        growing.parts.description = match track.table.count {
            0 => 0,
            _ => track.table.description,
        };
        let mut cursor = Cursor::default();
        while let Some(sample) = track.table.next(self.moov, &mut cursor).transpose()? {
            growing.push(sample, bytes_max)?;
        }
        Ok(growing)
    }

    /// The defaults of tracks in `trex`.
    pub(crate) fn defaults(&self) -> Result<DefaultsById, PackageFault> {
        let mut by_id = DefaultsById::new();
        for child in mp4_boxes(require(self.moov, b"mvex")?.body) {
            let child = child?;
            if child.kind != *b"trex" {
                continue;
            }
            let field = |at| u32_at(child.body, at).ok_or(broken(b"trex"));
            let defaults = SampleDefaults {
                description: field(8)?,
                duration: field(12)?,
                size: field(16)?,
                flags: field(20)?,
            };
            by_id.entry(field(4)?).or_insert(defaults);
            if by_id.len() > TRACKS_MAX {
                return Err(PackageFault::TooMany("tracks"));
            }
        }
        Ok(by_id)
    }

    fn read_moof(
        &self,
        moof: &[u8],
        place: u64,
        defaults: &DefaultsById,
        tracks: &mut GrowingTables,
    ) -> Result<(), PackageFault> {
        let mut end_before = place;
        for traf in mp4_boxes(moof) {
            let traf = traf?;
            if traf.kind != *b"traf" {
                continue;
            }
            let tfhd = require(traf.body, b"tfhd")?.body;
            let id = u32_at(tfhd, 4).ok_or(broken(b"tfhd"))?;
            let read = |track: &mut GrowingTrack, bytes_max: usize| {
                let of_file = RunLimits {
                    file_bytes: self.file_bytes,
                    bytes_max,
                };
                track.read(traf.body, tfhd, (place, end_before), of_file)
            };
            end_before = match tracks.grow(id, read) {
                Some(end) => end?,
                None => read(&mut GrowingTrack::skipped(id, defaults_of(defaults, id)), 0)?,
            };
        }
        Ok(())
    }
}

/// The defaults of a track; those of a track without `trex` are usual.
fn defaults_of(by_id: &DefaultsById, id: u32) -> SampleDefaults {
    let usual = SampleDefaults {
        description: 1,
        ..SampleDefaults::default()
    };
    by_id.get(&id).copied().unwrap_or(usual)
}

/// Limits of the samples of a track.
#[derive(Debug, Clone, Copy)]
struct RunLimits {
    /// Samples beyond the end of the file are left out.
    file_bytes: u64,
    /// Of the tables of the track.
    bytes_max: usize,
}

/// Fields that follow each other.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    kind: [u8; 4],
}

impl Fields<'_> {
    fn next(&mut self) -> Result<u32, PackageFault> {
        let number = u32_at(self.bytes, self.at).ok_or(broken(&self.kind))?;
        self.at += 4;
        Ok(number)
    }

    fn next_if(&mut self, is_there: bool) -> Result<Option<u32>, PackageFault> {
        is_there.then(|| self.next()).transpose()
    }
}

impl GrowingTrack {
    /// A track that is not packaged: the samples of the next one may begin at the end of its own.
    fn skipped(id: u32, defaults: SampleDefaults) -> Self {
        Self {
            kind: TrackKind::Audio,
            id,
            defaults,
            parts: TableParts::default(),
            last: None,
            next_time: 0,
            start: 0,
            is_ended: true,
        }
    }

    /// Reads a `traf`, whose `moof` and the samples of the one before it are at these places; returns
    /// where its own samples end.
    fn read(
        &mut self,
        traf: &[u8],
        tfhd: &[u8],
        (moof, end_before): (u64, u64),
        limits: RunLimits,
    ) -> Result<u64, PackageFault> {
        let flags = u32_at(tfhd, 0).ok_or(broken(b"tfhd"))?;
        let mut fields = Fields {
            bytes: tfhd,
            at: 8,
            kind: *b"tfhd",
        };
        let base = match flags & TFHD_BASE {
            0 if flags & TFHD_FROM_MOOF != 0 => moof,
            0 => end_before,
            _ => u64::from(fields.next()?) << 32 | u64::from(fields.next()?),
        };
        let description = fields.next_if(flags & TFHD_DESCRIPTION != 0)?;
        let duration = fields.next_if(flags & TFHD_DURATION != 0)?;
        let size = fields.next_if(flags & TFHD_SIZE != 0)?;
        let sample_flags = fields.next_if(flags & TFHD_FLAGS != 0)?;
        let defaults = SampleDefaults {
            description: description.unwrap_or(self.defaults.description),
            duration: duration.unwrap_or(self.defaults.duration),
            size: size.unwrap_or(self.defaults.size),
            flags: sample_flags.unwrap_or(self.defaults.flags),
        };
        if let Some(tfdt) = find(traf, b"tfdt")? {
            let version = *tfdt.body.first().ok_or(broken(b"tfdt"))?;
            self.go_to(versioned_at(tfdt.body, version, 4).ok_or(broken(b"tfdt"))?)?;
        }
        let mut end = base;
        for trun in mp4_boxes(traf) {
            let trun = trun?;
            if trun.kind == *b"trun" {
                end = self.read_run(trun.body, defaults, (base, end), limits)?;
            }
        }
        Ok(end)
    }

    /// The next sample is decoded at this time.
    fn go_to(&mut self, time: u64) -> Result<(), PackageFault> {
        let fault = PackageFault::Table(*b"tfdt");
        match &mut self.last {
            _ if self.is_ended => {}
            None => self.start = time,
            Some(last) => {
                let since = time.checked_sub(self.start + last.time).ok_or(fault)?;
                last.duration = u32::try_from(since).map_err(|_| fault)?;
            }
        }
        self.next_time = time;
        Ok(())
    }

    /// Reads a `trun`, whose offset counts from `base` and which else begins at `here`; returns where
    /// its samples end.
    fn read_run(
        &mut self,
        trun: &[u8],
        defaults: SampleDefaults,
        (base, here): (u64, u64),
        limits: RunLimits,
    ) -> Result<u64, PackageFault> {
        let fault = PackageFault::Table(*b"trun");
        let flags = u32_at(trun, 0).ok_or(broken(b"trun"))?;
        let mut fields = Fields {
            bytes: trun,
            at: 4,
            kind: *b"trun",
        };
        let count = fields.next()?;
        let mut offset = match fields.next_if(flags & TRUN_OFFSET != 0)? {
            Some(from_base) => base.checked_add_signed((from_base as i32).into()),
            None => Some(here),
        };
        let first_flags = fields.next_if(flags & TRUN_FIRST_FLAGS != 0)?;
        for index in 0..count {
            let duration = fields.next_if(flags & TRUN_DURATION != 0)?;
            let size = fields.next_if(flags & TRUN_SIZE != 0)?;
            let own_flags = fields.next_if(flags & TRUN_SAMPLE_FLAGS != 0)?;
            let composition = fields.next_if(flags & TRUN_COMPOSITION != 0)?;
            let first_flags = first_flags.filter(|_| index == 0);
            let sample_flags = first_flags.or(own_flags).unwrap_or(defaults.flags);
            let sample = Sample {
                offset: offset.ok_or(fault)?,
                bytes: size.unwrap_or(defaults.size),
                time: self.next_time.saturating_sub(self.start),
                duration: duration.unwrap_or(defaults.duration),
                // Version 0 has no negative ones, and no real file has ones of 32 bits.
                composition: composition.unwrap_or(0) as i32,
                is_sync: self.kind == TrackKind::Audio || sample_flags & NOT_SYNC == 0,
            };
            let end = sample
                .offset
                .checked_add(sample.bytes.into())
                .ok_or(fault)?;
            offset = Some(end);
            self.is_ended |= end > limits.file_bytes;
            if self.is_ended {
                // Bytes are only counted; runs without fields of samples may be of any length.
                let left = u64::from(count - index - 1).checked_mul(defaults.size.into());
                let rest = left.filter(|_| flags & TRUN_SIZE == 0);
                if let Some(rest) = rest {
                    return end.checked_add(rest).ok_or(fault);
                }
                continue;
            }
            let described = &mut self.parts.description;
            if *described != 0 && *described != defaults.description {
                return Err(PackageFault::SeveralDescriptions);
            }
            *described = defaults.description;
            self.push(sample, limits.bytes_max)?;
        }
        offset.ok_or(fault)
    }

    /// Adds a sample; the one before it has its final duration. The tables may take so many bytes.
    fn push(&mut self, sample: Sample, bytes_max: usize) -> Result<(), PackageFault> {
        if self.parts.bytes() + SAMPLE_BYTES_MAX > bytes_max {
            return Err(PackageFault::TooMany("samples"));
        }
        let time = self.start.checked_add(sample.time);
        let next = time.and_then(|time| time.checked_add(sample.duration.into()));
        self.next_time = next.ok_or(PackageFault::Table(*b"tfdt"))?;
        self.parts.extend(self.last.replace(sample));
        Ok(())
    }
}

/// Whole seconds that all tracks begin later than at zero: a recording may count from any time.
pub(crate) fn common_start(tables: &[FragmentedTable], tracks: &[Track]) -> u64 {
    let pairs = tables.iter().zip(tracks);
    let with_samples = pairs.filter(|(table, _)| !table.parts.is_empty());
    let seconds = with_samples.map(|(table, track)| table.start / u64::from(track.timescale));
    seconds.min().unwrap_or(0)
}

/// Appends the tables to the body of `moov`, as one box that is skipped, and lets the tracks have them.
pub(crate) fn replace_tables(
    moov: &mut Vec<u8>,
    tracks: &mut [Track],
    tables: Vec<FragmentedTable>,
    file_bytes: u64,
) -> Result<(), PackageFault> {
    let start = common_start(&tables, tracks);
    let bytes: usize = tables.iter().map(|table| table.parts.bytes()).sum();
    moov.reserve_exact(bytes + 8);
    let at = moov.len();
    moov.extend_from_slice(b"\0\0\0\0free");
    for (track, FragmentedTable { parts, start: own }) in tracks.iter_mut().zip(tables) {
        let late = own.saturating_sub(start.saturating_mul(track.timescale.into()));
        track.delay_by(late)?;
        track.fragments_start = own;
        track.table = SampleTable::append(moov, &parts, file_bytes);
    }
    // Known only now: composition times that are all zero are left out.
    let length = u32::try_from(moov.len() - at).map_err(|_| PackageFault::TooMany("samples"))?;
    moov[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn boxed(kind: &[u8; 4], numbers: &[u32]) -> Vec<u8> {
        let body: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
        let length = (body.len() as u32 + 8).to_be_bytes();
        [&length[..], &kind[..], &body[..]].concat()
    }

    /// A `traf` with samples that have the defaults of the track.
    fn traf(id: u32, count: u32) -> Vec<u8> {
        let boxes = [boxed(b"tfhd", &[0, id]), boxed(b"trun", &[0, count])].concat();
        let length = (boxes.len() as u32 + 8).to_be_bytes();
        [&length[..], &b"traf"[..], &boxes[..]].concat()
    }

    fn track(id: u32) -> GrowingTrack {
        GrowingTrack {
            is_ended: false,
            ..GrowingTrack::skipped(id, SampleDefaults::default())
        }
    }

    #[test]
    fn tables_of_many_tracks_have_one_budget() {
        let heads = FragmentHeads::default();
        let fragments = Fragments::of(&[], &heads, 1 << 20);
        let mut growing = GrowingTables::new(TABLE_BYTES_MAX);
        (1..=1000).for_each(|id| growing.add(track(id)));
        let moof: Vec<u8> = (1..=1000).flat_map(|id| traf(id, 500_000)).collect();
        let outcome = fragments.read_moof(&moof, 0, &DefaultsById::new(), &mut growing);
        assert_eq!(outcome, Err(PackageFault::TooMany("samples")));
        let bytes: usize = growing.tracks.iter().map(|of| of.parts.bytes()).sum();
        assert_eq!(bytes, growing.bytes);
        assert!(bytes <= TABLE_BYTES_MAX, "{bytes}");
        let used = growing.tracks.iter().filter(|of| !of.parts.is_empty());
        assert!(used.count() < 10);
    }

    #[test]
    fn push_beyond_budget_is_refused() {
        let mut track = track(1);
        let sample = Sample {
            offset: 0,
            bytes: 0,
            time: 0,
            duration: 1,
            composition: 0,
            is_sync: true,
        };
        let too_many = Err(PackageFault::TooMany("samples"));
        assert_eq!(track.push(sample, SAMPLE_BYTES_MAX - 1), too_many);
        assert_eq!(track.push(sample, SAMPLE_BYTES_MAX), Ok(()));
        assert_eq!(track.push(sample, SAMPLE_BYTES_MAX), Ok(()));
        // Only now the tables have a sample: the last one waits for its duration.
        assert_eq!(track.push(sample, SAMPLE_BYTES_MAX), too_many);
    }

    #[test]
    fn heads_take_little_memory_besides_their_bytes() {
        let mut heads = FragmentHeads::default();
        let moof = vec![0; 300 << 10];
        for place in 0..20 {
            heads.push(&moof, place);
            let unused = heads.bytes.capacity() - heads.bytes.len();
            assert!(unused <= HEADS_STEP, "{unused}");
        }
        assert_eq!(heads.in_file.len(), 20);
    }
}
