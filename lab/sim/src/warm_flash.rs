//! Initial content of a warm flash tier: the segments that an earlier population of viewers, drawn
//! with another seed, read most on each disk, as many as the disk's partition of the tier holds.
//!
//! Drawing that population can take longer than a run. Runs of one experiment that differ only in
//! their rate share it, so the result is cached.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_drive::DriveSpec;
use headlong_flash::{
    BlockId, FileKey, FlashSpec, PieceId, RECORD_ALIGN_BYTES, RecordEntry, RecoveredBlock,
    SEGMENT_BYTES,
};
use headlong_player::ObjectId;
use headlong_units::{ByteRange, Duration};
use headlong_workload::specification::{ArrivalRate, TraceExtent};
use headlong_workload::{Catalogue, SessionStream, Specification};

use crate::layout::{DiskArray, FileLocation, Layout, LayoutFile, Placement, TitlePlacement};

/// Viewers of the earlier population for each segment that the tier holds.
const VIEWERS_PER_SEGMENT: u64 = 20;

/// Combined with the seed of the run to give the seed of the earlier population.
const BEFORE: u64 = 0x5eed_be04_e000_0000;
/// Most cached contents: one for each seed of a search.
const REMEMBERED_MAX: usize = 4;

/// Initial content of a warm tier. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub struct WarmContent {
    kept: Arc<[WarmRange]>,
    found: Arc<Mutex<VecDeque<CachedContent>>>,
}

/// A cached content and its inputs.
#[derive(Debug)]
struct CachedContent {
    before: WarmInputs,
    kept: Arc<[WarmRange]>,
}

/// The inputs of a warm content: the earlier population and the disks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WarmInputs {
    specification: Specification,
    seed: u64,
    disks: DiskArray,
    /// Size of each disk's partition of the tier.
    bytes: u64,
}

impl PartialEq for WarmContent {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl WarmContent {
    pub(crate) fn kept(&self) -> &[WarmRange] {
        &self.kept
    }

    /// The content that many viewers with these calls leave on SSDs of `bytes` in all, for `count`
    /// disks of a kind that hold these files.
    ///
    /// # Errors
    /// The needed and the available bytes, if the files do not fit.
    pub fn of_calls(
        calls: impl IntoIterator<Item = (ObjectId, Option<ByteRange>)>,
        files: &[LayoutFile],
        (count, drive): (u32, &DriveSpec),
        placement: Placement,
        bytes: u64,
    ) -> Result<Self, String> {
        let disks = DiskArray {
            count,
            capacity_bytes: drive.capacity_bytes(),
            placement,
        };
        let layout = Layout::new(files, disks)?;
        let mut read = HashMap::new();
        for (object, range) in calls {
            if let Some(place) = layout.place(object) {
                let range = range.map(|range| (range.start, range.end));
                self::count(&mut read, &place, range);
            }
        }
        let kept = kept_of(read, count, bytes / u64::from(count.max(1)));
        Ok(Self {
            kept: kept.into(),
            ..Self::default()
        })
    }

    /// Computes the content that the earlier population leaves.
    ///
    /// # Errors
    /// The needed and the available bytes, if the titles do not fit.
    pub(crate) fn find(&mut self, before: WarmInputs, catalogue: &Catalogue) -> Result<(), String> {
        // Entries are inserted whole, so a poisoned lock is safe to use.
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.iter().find(|of| of.before == before) {
            self.kept = Arc::clone(&known.kept);
            return Ok(());
        }
        let seed = before.seed ^ BEFORE;
        let sessions = SessionStream::new(&before.specification, catalogue, seed);
        let ground = TitlePlacement::new(catalogue, before.disks)?;
        let kept = most_read(sessions, &ground, before.disks.count, before.bytes);
        self.kept = kept.into();
        if found.len() == REMEMBERED_MAX {
            found.pop_front();
        }
        let kept = Arc::clone(&self.kept);
        found.push_back(CachedContent { before, kept });
        Ok(())
    }
}

impl WarmInputs {
    /// Sizes the population by the bytes of the tier, independently of the length of the run;
    /// arrival times do not matter.
    pub(crate) fn new(
        specification: &Specification,
        seed: u64,
        disks: DiskArray,
        bytes: u64,
    ) -> Self {
        let extent = TraceExtent::Sessions(viewers_before(bytes));
        let specification = specification.clone();
        let mut specification = specification.at_rate(ArrivalRate::Sessions(1.0), extent);
        specification.sessions.resume_time = Duration::ZERO;
        Self {
            specification,
            seed,
            disks,
            bytes: bytes / u64::from(disks.count.max(1)),
        }
    }
}

/// Bytes of a file in the initial content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WarmRange {
    disk: u32,
    file: FileKey,
    from: u64,
    to: u64,
}

impl WarmRange {
    /// The disk of the file.
    pub(crate) fn disk(&self) -> u32 {
        self.disk
    }
}

/// The key of a file on flash: its start address on its disk.
pub(crate) fn key_of(physical: u64) -> FileKey {
    FileKey(u128::from(physical) << 64 | 1)
}

/// Number of viewers that warm a tier of `bytes`.
fn viewers_before(bytes: u64) -> u64 {
    bytes / SEGMENT_BYTES * VIEWERS_PER_SEGMENT
}

/// A segment: its disk, the start address of its file, and its number in the file.
type SegmentKey = (u32, u64, u64);

/// The segments that the earlier population reads most, up to `bytes` for each disk.
fn most_read(
    sessions: SessionStream<'_>,
    ground: &TitlePlacement<'_>,
    disks: u32,
    bytes: u64,
) -> Vec<WarmRange> {
    let mut sessions = sessions;
    let mut read: HashMap<SegmentKey, (u64, u64)> = HashMap::new();
    while let Some(session) = sessions.next() {
        for (object, range) in session.asked() {
            let place = sessions.object(object).and_then(|of| ground.place(of));
            if let Some(place) = place {
                count(
                    &mut read,
                    &place,
                    range.map(|range| (range.start, range.end)),
                );
            }
        }
    }
    kept_of(read, disks, bytes)
}

/// The segments with the most bytes read for each byte of theirs, up to `bytes` for each disk.
fn kept_of(read: HashMap<SegmentKey, (u64, u64)>, disks: u32, bytes: u64) -> Vec<WarmRange> {
    let mut read: Vec<_> = read.into_iter().collect();
    // Sorts by reads per byte of the segment.
    read.sort_unstable_by_key(|(segment, (bytes, of))| {
        (std::cmp::Reverse(bytes * 1024 / of.max(&1)), *segment)
    });
    let mut left = vec![bytes; disks.max(1) as usize];
    let mut kept = Vec::new();
    for ((disk, file, segment), (_, of)) in read {
        let left = &mut left[disk as usize];
        // Stops at the first segment that does not fit; all later ones are read less.
        if of > *left {
            *left = 0;
            continue;
        }
        *left -= of;
        let from = segment * SEGMENT_BYTES;
        kept.push(WarmRange {
            disk,
            file: key_of(file),
            from,
            to: from + of,
        });
    }
    kept
}

fn count(
    read: &mut HashMap<SegmentKey, (u64, u64)>,
    place: &FileLocation,
    range: Option<(u64, u64)>,
) {
    let (start, end) = range.unwrap_or((0, place.size_bytes));
    let end = end.min(place.size_bytes);
    for segment in start / SEGMENT_BYTES..end.div_ceil(SEGMENT_BYTES) {
        let from = segment * SEGMENT_BYTES;
        let to = (from + SEGMENT_BYTES).min(place.size_bytes);
        let part = end.min(to).saturating_sub(start.max(from));
        let name = (place.disk, place.physical, segment);
        let of = read.entry(name).or_default();
        *of = (of.0 + part, to - from);
    }
}

/// Blocks of a disk's partition of the tier with this content, alternating between the SSDs.
pub(crate) fn recovered<'k>(
    kept: impl Iterator<Item = &'k WarmRange>,
    piece_bytes: u64,
    spec: &FlashSpec,
) -> Vec<RecoveredBlock> {
    let records_end = spec.block_bytes - spec.summary_bytes;
    let mut found: Vec<RecoveredBlock> = Vec::new();
    let mut end = records_end;
    for kept in kept {
        for piece in kept.from / piece_bytes..kept.to.div_ceil(piece_bytes) {
            let length = piece_bytes.min(kept.to - piece * piece_bytes) as u32;
            let size = RECORD_ALIGN_BYTES + length.next_multiple_of(RECORD_ALIGN_BYTES);
            if end + size > records_end {
                let Some(block) = next_block(found.len(), spec) else {
                    return found;
                };
                end = 0;
                found.push(block);
            }
            if let Some(last) = found.last_mut() {
                last.records.push(RecordEntry {
                    offset: end,
                    piece: PieceId {
                        file: kept.file,
                        piece: piece as u32,
                    },
                    length,
                });
            }
            end += size;
        }
    }
    found
}

/// The next block, empty; two blocks of each SSD stay free.
fn next_block(count: usize, spec: &FlashSpec) -> Option<RecoveredBlock> {
    let ssd = spec.ssds.get(count % spec.ssds.len().max(1))?;
    let place = (count / spec.ssds.len()) as u32;
    let blocks = ssd.blocks.end.0 - ssd.blocks.start.0;
    (place + 2 < blocks).then(|| RecoveredBlock {
        block: BlockId(ssd.blocks.start.0 + place),
        // The least read block is the oldest.
        sequence: u64::from(blocks - place),
        records: Vec::new(),
    })
}
