//! A flash tier in virtual time: an SSD below the shard, beside the disk.
//!
//! The one idea: what the shard says to an SSD becomes block requests of a modelled drive. No byte is
//! kept: records are what they should be, for nothing is damaged here, and whatever is read has been
//! written before.
//!
//! A tier begins empty, or as after long running: viewers that are drawn with another seed are taken
//! to have come before, and the segments that they read most are there.

use std::collections::{BTreeMap, VecDeque};

use headlong_drive::{Direction, DriveSpec, Request, RequestId, SECTOR_BYTES};
use headlong_engine::{FlashCommand, FlashOutcome, FlashReadId, Shard};
use headlong_flash::{
    BlockId, FileKey, FlashSpec, PieceId, Probed, RECORD_ALIGN_BYTES, RecordEntry, RecoveredBlock,
    SEGMENT_BYTES, SpecError, SsdId, SsdSpec,
};
use headlong_units::{Duration, Instant, KIB, MIB};
use headlong_workload::SessionStream;

use crate::device::Device;
use crate::flash_place::TierPlaces;
use crate::layout::{Ground, Place};

/// Requests to the SSD are cut to this, as the kernel cuts them.
const REQUEST_BYTES: u64 = 512 * KIB;
/// What a probe reads, as the server's.
const PROBE_BYTES: u64 = MIB;
/// Viewers that are taken to have come before, for each segment that the tier holds.
const VIEWERS_PER_SEGMENT: u64 = 20;

/// A tier to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashSetup {
    /// The SSD.
    pub drive: DriveSpec,
    /// Bytes of it that are used.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Whether it begins as after long running.
    pub is_warm: bool,
    /// What is there from the beginning; an experiment finds it if the tier is warm.
    pub kept: Vec<Kept>,
}

/// Bytes of a file that are there from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    file: FileKey,
    from: u64,
    to: u64,
}

/// The name of a file on flash: where it begins on the disk.
pub(crate) fn key_of(physical: u64) -> FileKey {
    FileKey(u128::from(physical) << 64 | 1)
}

/// Viewers who make a tier of so many bytes warm.
pub(crate) fn viewers_before(bytes: u64) -> u64 {
    bytes / SEGMENT_BYTES * VIEWERS_PER_SEGMENT
}

/// What viewers before the first one read most, up to so many bytes.
pub(crate) fn most_read(sessions: SessionStream<'_>, ground: &Ground<'_>, bytes: u64) -> Vec<Kept> {
    let mut sessions = sessions;
    let mut read: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    while let Some(session) = sessions.next() {
        for call in session.calls() {
            let place = sessions.object(call.object).and_then(|of| ground.place(of));
            if let Some(place) = place {
                count(
                    &mut read,
                    &place,
                    call.range.map(|range| (range.start, range.end)),
                );
            }
        }
    }
    let mut read: Vec<_> = read.into_iter().collect();
    // Reads of each byte of the segment.
    read.sort_by_key(|((file, segment), (bytes, of))| {
        (
            std::cmp::Reverse(bytes * 1024 / of.max(&1)),
            *file,
            *segment,
        )
    });
    let mut left = bytes;
    let mut kept = Vec::new();
    for ((file, segment), (_, of)) in read {
        if of > left {
            break;
        }
        left -= of;
        let from = segment * SEGMENT_BYTES;
        kept.push(Kept {
            file: key_of(file),
            from,
            to: from + of,
        });
    }
    kept
}

fn count(read: &mut BTreeMap<(u64, u64), (u64, u64)>, place: &Place, range: Option<(u64, u64)>) {
    let (start, end) = range.unwrap_or((0, place.size_bytes));
    let end = end.min(place.size_bytes);
    for segment in start / SEGMENT_BYTES..end.div_ceil(SEGMENT_BYTES) {
        let from = segment * SEGMENT_BYTES;
        let to = (from + SEGMENT_BYTES).min(place.size_bytes);
        let part = end.min(to).saturating_sub(start.max(from));
        let of = read.entry((place.physical, segment)).or_default();
        *of = (of.0 + part, to - from);
    }
}

/// What an SSD was asked for.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Read(FlashReadId, usize),
    Write(BlockId, u32),
    Seal(BlockId, u64),
    Probe(SsdId),
    /// A checkpoint, or what makes one void.
    Aside,
}

/// What a block holds: what was copied into it, and with which number it was sealed, once it was.
#[derive(Debug, Default)]
struct Contents {
    records: Vec<RecordEntry>,
    sealed: Option<u64>,
}

/// The SSD, with what it was asked for.
#[derive(Debug)]
pub(crate) struct Tier {
    device: Device,
    places: TierPlaces,
    spec: FlashSpec,
    /// What a process that comes later finds; nothing is kept if none does.
    contents: Option<BTreeMap<BlockId, Contents>>,
    /// What each block request is part of.
    of_request: BTreeMap<u64, u64>,
    /// What was asked for, and how many requests of it are left.
    tasks: BTreeMap<u64, (Doing, u32)>,
    done: VecDeque<Doing>,
    next_id: u64,
}

impl Tier {
    /// An SSD that takes part in a shard from the beginning. `is_restarted`: another shard will come
    /// and find what is on it.
    ///
    /// # Errors
    /// If its blocks cannot be.
    pub(crate) fn attach(
        shard: &mut Shard,
        setup: &FlashSetup,
        is_restarted: bool,
    ) -> Result<Self, SpecError> {
        let bytes = setup.bytes.min(setup.drive.capacity_bytes());
        let piece_bytes = shard.config().piece_bytes;
        let (places, blocks) = TierPlaces::new(bytes, setup.block_bytes, piece_bytes)?;
        let layout = *places.layout();
        let spec = FlashSpec {
            block_bytes: setup.block_bytes,
            summary_bytes: layout.summary_bytes(),
            records_max: layout.records_max(),
            seal_bytes: places.seal_bytes(),
            written_bytes: 0,
            is_recovering: false,
            ssds: vec![SsdSpec {
                ssd: SsdId(0),
                blocks: BlockId(0)..BlockId(blocks),
                is_fresh: !setup.is_warm,
            }],
        };
        let found = recovered(&setup.kept, piece_bytes, layout.records_end(), blocks);
        let contents = is_restarted.then(|| found.iter().map(contents_of).collect());
        shard.attach_flash(Instant::ZERO, &spec, found)?;
        Ok(Self {
            device: Device::new(setup.drive.build(), None, Duration::ZERO),
            places,
            spec,
            contents,
            of_request: BTreeMap::new(),
            tasks: BTreeMap::new(),
            done: VecDeque::new(),
            next_id: 0,
        })
    }

    /// Block requests under way.
    pub(crate) fn live(&self) -> usize {
        self.tasks.len()
    }

    /// The process ends: nobody waits for anything any more, and what was not sealed is lost.
    /// `written_bytes` were written within the last day.
    pub(crate) fn kill(&mut self, written_bytes: u64) {
        self.device.forget_waiting();
        self.of_request.clear();
        self.tasks.clear();
        self.done.clear();
        self.spec.written_bytes = written_bytes;
        if let Some(contents) = &mut self.contents {
            contents.retain(|_, of| of.sealed.is_some());
        }
    }

    /// Another shard takes the SSD as it finds it. Its summaries are taken to have been read while
    /// nobody was there: it takes less than two seconds for 4 TB.
    pub(crate) fn attach_again(&self, now: Instant, shard: &mut Shard) {
        let contents = self.contents.iter().flatten();
        let found = contents.filter_map(|(block, of)| {
            Some(RecoveredBlock {
                block: *block,
                sequence: of.sealed?,
                records: of.records.clone(),
            })
        });
        let found: Vec<RecoveredBlock> = found.collect();
        let mut spec = self.spec.clone();
        for ssd in &mut spec.ssds {
            // As the server says it.
            ssd.is_fresh = found.is_empty();
        }
        // What could be attached once can be again.
        let attached = shard.attach_flash(now, &spec, found);
        debug_assert!(attached.is_ok(), "{attached:?}");
    }

    pub(crate) fn obey(&mut self, now: Instant, command: FlashCommand) {
        match command {
            FlashCommand::Stage {
                place,
                piece,
                length,
                ..
            } => {
                if let Some(contents) = &mut self.contents {
                    let records = &mut contents.entry(place.block).or_default().records;
                    records.push(RecordEntry {
                        offset: place.offset,
                        piece,
                        length,
                    });
                }
            }
            FlashCommand::Drop(block) => {
                self.contents.as_mut().and_then(|of| of.remove(&block));
            }
            // One of a model never fails, but may be so slow that it is passed over.
            FlashCommand::Probe(ssd) => {
                let doing = Doing::Probe(ssd);
                self.begin(now, doing, Direction::Read, BlockId(0), (0, PROBE_BYTES));
            }
            FlashCommand::Write { block, from, to } => {
                if from == 0 {
                    for (at, bytes) in self.places.begin(block.0) {
                        self.begin_at(now, Doing::Aside, Direction::Write, (at, at + bytes));
                    }
                }
                let range = (u64::from(from), u64::from(to));
                self.begin(now, Doing::Write(block, to), Direction::Write, block, range);
            }
            FlashCommand::Seal {
                block,
                from,
                sequence,
            } => {
                let range = (from.into(), self.spec.block_bytes.into());
                let doing = Doing::Seal(block, sequence);
                self.begin(now, doing, Direction::Write, block, range);
            }
            FlashCommand::Read(read) => {
                let ends = read.records.first().zip(read.records.last());
                if let Some((first, last)) = ends {
                    let range = (first.place.offset, last.place.end(last.length));
                    let range = (u64::from(range.0), u64::from(range.1));
                    let doing = Doing::Read(read.id, read.records.len());
                    self.begin(now, doing, Direction::Read, first.place.block, range);
                }
            }
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        doing: Doing,
        direction: Direction,
        block: BlockId,
        (from, to): (u64, u64),
    ) {
        let base = self.places.block_start(block.0);
        self.begin_at(now, doing, direction, (base + from, base + to));
    }

    fn begin_at(
        &mut self,
        now: Instant,
        doing: Doing,
        direction: Direction,
        (mut from, to): (u64, u64),
    ) {
        let task = self.next_id;
        self.next_id += 1;
        let requests = (to - from).div_ceil(REQUEST_BYTES);
        self.tasks.insert(task, (doing, requests as u32));
        while from < to {
            let bytes = REQUEST_BYTES.min(to - from);
            let id = self.next_id;
            self.next_id += 1;
            self.of_request.insert(id, task);
            let request = Request {
                sector: from / SECTOR_BYTES,
                sectors: (bytes / SECTOR_BYTES) as u32,
                direction,
            };
            self.device.submit(now, RequestId(id), request);
            from += bytes;
        }
        self.collect(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.device.handle_timeout(now);
        self.collect(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    fn collect(&mut self, now: Instant) {
        while let Some(RequestId(id)) = self.device.poll_done(now) {
            let Some(task) = self.of_request.remove(&id) else {
                continue;
            };
            let Some((doing, left)) = self.tasks.get_mut(&task) else {
                continue;
            };
            *left -= 1;
            if *left == 0 {
                self.done.push_back(*doing);
                self.tasks.remove(&task);
            }
        }
    }

    /// Tells the shard of one thing that ended. Answers whether there was one.
    pub(crate) fn tell(&mut self, now: Instant, shard: &mut Shard) -> bool {
        match self.done.pop_front() {
            None => return false,
            Some(Doing::Aside) => {}
            Some(Doing::Read(id, records)) => {
                shard.handle_flash_read_done(now, id, &vec![FlashOutcome::Done; records]);
            }
            Some(Doing::Probe(ssd)) => {
                let probed = Probed {
                    reads: true,
                    writes: true,
                };
                shard.handle_flash_probed(now, ssd, probed);
            }
            Some(Doing::Write(block, to)) => shard.handle_flash_written(now, block, to, true),
            Some(Doing::Seal(block, sequence)) => {
                let contents = self.contents.as_mut();
                if let Some(of) = contents.and_then(|contents| contents.get_mut(&block)) {
                    of.sealed = Some(sequence);
                }
                shard.handle_flash_sealed(now, block, true);
            }
        }
        true
    }
}

fn contents_of(found: &RecoveredBlock) -> (BlockId, Contents) {
    let contents = Contents {
        records: found.records.clone(),
        sealed: Some(found.sequence),
    };
    (found.block, contents)
}

/// Blocks that hold what is there from the beginning.
fn recovered(
    kept: &[Kept],
    piece_bytes: u64,
    records_end: u32,
    blocks: u32,
) -> Vec<RecoveredBlock> {
    let mut found: Vec<RecoveredBlock> = Vec::new();
    let mut end = records_end;
    for kept in kept {
        for piece in kept.from / piece_bytes..kept.to.div_ceil(piece_bytes) {
            let length = piece_bytes.min(kept.to - piece * piece_bytes) as u32;
            let size = RECORD_ALIGN_BYTES + length.next_multiple_of(RECORD_ALIGN_BYTES);
            if end + size > records_end {
                let block = found.len() as u32;
                if block + 2 >= blocks {
                    return found;
                }
                end = 0;
                found.push(RecoveredBlock {
                    block: BlockId(block),
                    // What is read least is the oldest.
                    sequence: u64::from(blocks - block),
                    records: Vec::new(),
                });
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

#[cfg(test)]
mod tests {
    use headlong_engine::EngineConfig;

    use super::*;

    #[test]
    fn an_ssd_that_is_probed_answers() {
        let config = EngineConfig::default();
        let mut shard = Shard::new(config).expect("settings that can work");
        let setup = FlashSetup {
            drive: headlong_drive::preset("ssd-ocz-core-v2").expect("known"),
            bytes: 4 << 30,
            block_bytes: 16 << 20,
            is_warm: false,
            kept: Vec::new(),
        };
        let mut tier = Tier::attach(&mut shard, &setup, false).expect("a tier that can be");
        tier.obey(Instant::ZERO, FlashCommand::Probe(SsdId(0)));
        assert!(!tier.tell(Instant::ZERO, &mut shard), "it takes time");
        while let Some(at) = tier.poll_timeout() {
            tier.handle_timeout(at);
            if tier.tell(at, &mut shard) {
                return;
            }
        }
        panic!("no answer");
    }
}
