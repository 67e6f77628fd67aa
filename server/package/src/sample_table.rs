//! The sample tables of a track (ISO/IEC 14496-12, 8.6 and 8.7), read in place: the bytes of `moov`
//! stay as they are, and a cursor runs over all tables at once.
//!
//! Invariants: a cursor needs the same memory wherever it is; a sample that it returns lies inside
//! the file; no table makes it run longer than it has entries.

use alloc::vec::Vec;
use core::ops::Range;

use crate::fault::PackageFault;
use crate::fields::{find, require, u32_at, u64_at};

/// Most samples of a track. Two hours of video at 60 frames a second have 432,000.
pub(crate) const SAMPLES_MAX: u32 = 8_000_000;

/// Entries of a table in the bytes of `moov`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Entries {
    bytes: Range<usize>,
    count: u32,
}

/// Sizes of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sizes {
    All(u32),
    /// Of 4, 8, 16 or 32 bits each.
    Each(Entries, u32),
}

/// Where the tables of a track are in the bytes of `moov`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampleTable {
    /// Number of samples.
    pub(crate) count: u32,
    /// `stsd` entry of all samples.
    pub(crate) description: u32,
    /// Whether presentation differs from decoding time.
    pub(crate) has_composition: bool,
    durations: Entries,
    compositions: Entries,
    chunks: Entries,
    sizes: Sizes,
    offsets: Entries,
    offsets_are_long: bool,
    /// `None` if all samples are sync samples.
    sync: Option<Entries>,
    file_bytes: u64,
}

/// A position between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Samples before it.
    pub(crate) sample: u32,
    /// Decoding time of the next sample, in ticks.
    pub(crate) time: u64,
    /// Bytes of the samples before it.
    pub(crate) bytes: u64,
    /// Where the next sample of the current chunk begins in the file.
    offset: u64,
    durations: Run,
    compositions: Run,
    /// Entry of `stsc` that the next chunk is compared with.
    chunk_entry: u32,
    per_chunk: u32,
    /// Chunks begun.
    chunk: u32,
    chunk_left: u32,
    sync_entry: u32,
}

impl Cursor {
    /// A position between two fragments of a file whose samples are not known yet.
    pub(crate) fn between_fragments(sample: u32, time: u64, bytes: u64, place: u64) -> Self {
        Self {
            sample,
            time,
            bytes,
            offset: place,
            ..Self::default()
        }
    }

    /// Where the next sample of the current chunk, or the next fragment, begins in the file.
    pub(crate) fn place(&self) -> u64 {
        self.offset
    }
}

/// A position in a table of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Run {
    next_entry: u32,
    left: u32,
    value: u32,
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) time: u64,
    pub(crate) duration: u32,
    /// Presentation time after decoding time.
    pub(crate) composition: i32,
    pub(crate) is_sync: bool,
}

impl Sample {
    /// Presentation time in the media, in ticks.
    pub(crate) fn presented(&self) -> i64 {
        i64::try_from(self.time).unwrap_or(i64::MAX) + i64::from(self.composition)
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// The tables of a track while they are made: numbers of their entries.
#[derive(Debug, Default)]
pub(crate) struct TableParts {
    /// `stsd` entry of all samples.
    pub(crate) description: u32,
    count: u32,
    /// Number and duration, number and composition time.
    durations: Vec<[u32; 2]>,
    compositions: Vec<[u32; 2]>,
    /// First chunk, samples of a chunk, description.
    chunks: Vec<[u32; 3]>,
    sizes: Vec<u32>,
    offsets: Vec<u64>,
    /// Sync samples, counted from one.
    sync: Vec<u32>,
    /// Where the last sample ends in the file.
    end: u64,
}

impl TableParts {
    /// Whether there are no samples.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of samples.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The time of all samples, in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        let runs = self.durations.iter();
        runs.map(|[count, ticks]| u64::from(*count) * u64::from(*ticks))
            .sum()
    }

    /// Bytes of all samples.
    pub(crate) fn sample_bytes(&self) -> u64 {
        self.sizes.iter().map(|bytes| u64::from(*bytes)).sum()
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> usize {
        8 * (self.durations.len() + self.compositions.len() + self.offsets.len())
            + 12 * self.chunks.len()
            + 4 * (self.sizes.len() + self.sync.len())
    }

    fn push(&mut self, sample: Sample) {
        let run = |runs: &mut Vec<[u32; 2]>, value| match runs.last_mut() {
            Some([count, last]) if *last == value => *count += 1,
            _ => runs.push([1, value]),
        };
        run(&mut self.durations, sample.duration);
        run(&mut self.compositions, sample.composition as u32);
        self.sizes.push(sample.bytes);
        self.count += 1;
        if sample.is_sync {
            self.sync.push(self.count);
        }
        match self.chunks.last_mut() {
            Some([_, samples, _]) if sample.offset == self.end => *samples += 1,
            _ => {
                self.offsets.push(sample.offset);
                // Fits, as there are no more chunks than samples.
                self.chunks.push([self.offsets.len() as u32, 1, 1]);
            }
        }
        self.end = sample.end();
    }
}

impl Extend<Sample> for TableParts {
    fn extend<T: IntoIterator<Item = Sample>>(&mut self, samples: T) {
        samples.into_iter().for_each(|sample| self.push(sample));
    }
}

impl SampleTable {
    /// The same without its samples.
    pub(crate) fn without_samples(&self) -> Self {
        Self {
            count: 0,
            ..self.clone()
        }
    }

    /// Appends tables to the bytes of `moov`.
    pub(crate) fn append(moov: &mut Vec<u8>, parts: &TableParts, file_bytes: u64) -> Self {
        let is_composed = parts.compositions.iter().any(|[_, value]| *value != 0);
        let mut entries = |numbers: &mut dyn Iterator<Item = u32>, count: usize| {
            let start = moov.len();
            numbers.for_each(|number| moov.extend_from_slice(&number.to_be_bytes()));
            Entries {
                bytes: start..moov.len(),
                count: count as u32,
            }
        };
        let mut pairs = |of: &[[u32; 2]]| entries(&mut of.iter().flatten().copied(), of.len());
        let durations = pairs(&parts.durations);
        let compositions = match is_composed {
            true => pairs(&parts.compositions),
            false => Entries::default(),
        };
        let of = &parts.chunks;
        let chunks = entries(&mut of.iter().flatten().copied(), of.len());
        let sizes = entries(&mut parts.sizes.iter().copied(), parts.sizes.len());
        let mut halves = parts
            .offsets
            .iter()
            .flat_map(|at| [(at >> 32) as u32, *at as u32]);
        let offsets = entries(&mut halves, parts.offsets.len());
        let is_all_sync = parts.sync.len() == parts.sizes.len();
        let sync = entries(&mut parts.sync.iter().copied(), parts.sync.len());
        Self {
            count: parts.count,
            description: parts.description.max(1),
            has_composition: is_composed,
            durations,
            compositions,
            chunks,
            sizes: Sizes::Each(sizes, 32),
            offsets,
            offsets_are_long: true,
            sync: (!is_all_sync).then_some(sync),
            file_bytes,
        }
    }

    /// Finds the tables in `stbl`, which lies at `stbl_at` in the bytes of `moov`.
    pub(crate) fn read(
        moov: &[u8],
        stbl: Range<usize>,
        file_bytes: u64,
    ) -> Result<Self, PackageFault> {
        let body = moov.get(stbl).ok_or(PackageFault::Table(*b"stbl"))?;
        let place = |entries: &[u8]| {
            // A part of `moov` by construction.
            let start = entries.as_ptr() as usize - moov.as_ptr() as usize;
            start..start + entries.len()
        };
        let entries = |kind: &[u8; 4], body: &[u8], count_at: usize, width: u64| {
            let fault = PackageFault::Table(*kind);
            let count = u32_at(body, count_at).ok_or(fault)?;
            let bytes = u64::from(count) * width;
            let bytes = usize::try_from(bytes.div_ceil(8)).map_err(|_| fault)?;
            let found = body.get(count_at + 4..).and_then(|all| all.get(..bytes));
            Ok::<_, PackageFault>(Entries {
                bytes: place(found.ok_or(fault)?),
                count,
            })
        };
        let (sizes, count) = if let Some(stsz) = find(body, b"stsz")? {
            let fault = PackageFault::Table(*b"stsz");
            match u32_at(stsz.body, 4).ok_or(fault)? {
                0 => {
                    let each = entries(b"stsz", stsz.body, 8, 32)?;
                    let count = each.count;
                    (Sizes::Each(each, 32), count)
                }
                all => (Sizes::All(all), u32_at(stsz.body, 8).ok_or(fault)?),
            }
        } else {
            let stz2 = require(body, b"stz2")?;
            let width = u32::from(*stz2.body.get(7).ok_or(PackageFault::Table(*b"stz2"))?);
            if !matches!(width, 4 | 8 | 16) {
                return Err(PackageFault::Table(*b"stz2"));
            }
            let each = entries(b"stz2", stz2.body, 8, width.into())?;
            let count = each.count;
            (Sizes::Each(each, width), count)
        };
        if count > SAMPLES_MAX {
            return Err(PackageFault::TooMany("samples"));
        }
        let (offsets, offsets_are_long) = match find(body, b"stco")? {
            Some(stco) => (entries(b"stco", stco.body, 4, 32)?, false),
            None => (entries(b"co64", require(body, b"co64")?.body, 4, 64)?, true),
        };
        let compositions = match find(body, b"ctts")? {
            Some(ctts) => entries(b"ctts", ctts.body, 4, 64)?,
            None => Entries::default(),
        };
        let sync = match find(body, b"stss")? {
            Some(stss) => Some(entries(b"stss", stss.body, 4, 32)?),
            None => None,
        };
        let mut table = Self {
            count,
            description: 1,
            has_composition: compositions.count > 0,
            durations: entries(b"stts", require(body, b"stts")?.body, 4, 64)?,
            compositions,
            chunks: entries(b"stsc", require(body, b"stsc")?.body, 4, 96)?,
            sizes,
            offsets,
            offsets_are_long,
            sync,
            file_bytes,
        };
        table.description = table.check_chunks(moov)?;
        Ok(table)
    }

    /// Checks that the runs of chunks ascend from the first one, and returns the one description.
    fn check_chunks(&self, moov: &[u8]) -> Result<u32, PackageFault> {
        let mut last = 0;
        let mut description = None;
        for entry in 0..self.chunks.count {
            let [first, _, of] = self.chunk_run(moov, entry);
            let is_next = first > last && (entry > 0 || first == 1);
            if !is_next {
                return Err(PackageFault::Table(*b"stsc"));
            }
            last = first;
            if *description.get_or_insert(of) != of {
                return Err(PackageFault::SeveralDescriptions);
            }
        }
        Ok(description.unwrap_or(1))
    }

    /// First chunk, samples of a chunk and description of an entry of `stsc`.
    fn chunk_run(&self, moov: &[u8], entry: u32) -> [u32; 3] {
        [0, 4, 8].map(|at| number(moov, &self.chunks, entry, 12, at))
    }

    /// The next sample; `None` after the last one.
    pub(crate) fn next(
        &self,
        moov: &[u8],
        cursor: &mut Cursor,
    ) -> Option<Result<Sample, PackageFault>> {
        (cursor.sample < self.count).then(|| self.step(moov, cursor))
    }

    fn step(&self, moov: &[u8], cursor: &mut Cursor) -> Result<Sample, PackageFault> {
        let no_duration = PackageFault::Table(*b"stts");
        let duration = advance(moov, &self.durations, &mut cursor.durations).ok_or(no_duration)?;
        // Samples after the end of the table are presented when they are decoded.
        let composition = advance(moov, &self.compositions, &mut cursor.compositions).unwrap_or(0);
        if cursor.chunk_left == 0 {
            self.begin_chunk(moov, cursor)?;
        }
        let bytes = self.size(moov, cursor.sample);
        let sample = Sample {
            offset: cursor.offset,
            bytes,
            time: cursor.time,
            duration,
            composition: composition as i32,
            is_sync: self.is_sync(moov, cursor),
        };
        let end = sample.offset.checked_add(bytes.into());
        if end.is_none_or(|end| end > self.file_bytes) {
            let offsets = if self.offsets_are_long {
                b"co64"
            } else {
                b"stco"
            };
            return Err(PackageFault::Table(*offsets));
        }
        cursor.offset = sample.end();
        cursor.chunk_left -= 1;
        cursor.sample += 1;
        // Fits: fewer than 2^23 samples of less than 2^32 ticks or bytes each.
        cursor.time += u64::from(duration);
        cursor.bytes += u64::from(bytes);
        Ok(sample)
    }

    /// Goes to the next chunk that has samples.
    fn begin_chunk(&self, moov: &[u8], cursor: &mut Cursor) -> Result<(), PackageFault> {
        while cursor.chunk_left == 0 {
            if cursor.chunk >= self.offsets.count {
                return Err(PackageFault::Table(*b"stsc"));
            }
            let here = cursor.chunk;
            cursor.chunk += 1;
            if cursor.chunk_entry < self.chunks.count {
                let [first, samples, _] = self.chunk_run(moov, cursor.chunk_entry);
                if first == cursor.chunk {
                    cursor.per_chunk = samples;
                    cursor.chunk_entry += 1;
                }
            }
            cursor.chunk_left = cursor.per_chunk;
            cursor.offset = match self.offsets_are_long {
                false => number(moov, &self.offsets, here, 4, 0).into(),
                true => {
                    let at = self.offsets.bytes.start + here as usize * 8;
                    u64_at(moov, at).unwrap_or(u64::MAX)
                }
            };
        }
        Ok(())
    }

    fn size(&self, moov: &[u8], sample: u32) -> u32 {
        let (entries, width) = match &self.sizes {
            Sizes::All(all) => return *all,
            Sizes::Each(entries, width) => (entries, *width),
        };
        let at = entries.bytes.start + (sample as usize * width as usize) / 8;
        let byte = |at: usize| moov.get(at).copied().unwrap_or_default();
        match width {
            4 if sample.is_multiple_of(2) => u32::from(byte(at) >> 4),
            4 => u32::from(byte(at) & 15),
            8 => byte(at).into(),
            16 => u32::from(byte(at)) << 8 | u32::from(byte(at + 1)),
            _ => u32_at(moov, at).unwrap_or_default(),
        }
    }

    /// Whether the next sample is a sync sample.
    fn is_sync(&self, moov: &[u8], cursor: &mut Cursor) -> bool {
        let Some(sync) = &self.sync else {
            return true;
        };
        let wanted = cursor.sample + 1;
        while cursor.sync_entry < sync.count {
            let at = number(moov, sync, cursor.sync_entry, 4, 0);
            if at > wanted {
                return false;
            }
            cursor.sync_entry += 1;
            if at == wanted {
                return true;
            }
        }
        false
    }
}

/// A number of an entry; entries are inside of `moov`.
fn number(moov: &[u8], table: &Entries, entry: u32, width: usize, at: usize) -> u32 {
    let at = table.bytes.start + entry as usize * width + at;
    u32_at(moov, at).unwrap_or_default()
}

/// The value of the next sample in a table of runs; `None` after its end.
fn advance(moov: &[u8], table: &Entries, run: &mut Run) -> Option<u32> {
    while run.left == 0 {
        if run.next_entry >= table.count {
            return None;
        }
        run.left = number(moov, table, run.next_entry, 8, 0);
        run.value = number(moov, table, run.next_entry, 8, 4);
        run.next_entry += 1;
    }
    run.left -= 1;
    Some(run.value)
}
