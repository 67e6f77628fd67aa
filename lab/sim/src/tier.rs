//! The flash tier of all disks in virtual time: SSDs, partitioned between shards as in the server.
//!
//! Every SSD serves every disk; its blocks are divided into one equal range per disk
//! (`server/storage/src/flash/tier.rs`), and each shard manages its own range. Commands of shards
//! become requests of modelled drives. No bytes are stored: nothing is damaged here, and every read
//! range has been written before.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use headlong_device::flash::{
    BlockJob, FlashPort, FlashResult, RecoveredFlashBlock, SsdJob, SsdShare, TierShare,
};
use headlong_engine::FlashOutcome;
use headlong_flash::format::SuperRecord;
use headlong_flash::{BlockId, FlashSpec, ProbeResult, RecoveredBlock, SpecError, SsdId};
use headlong_units::{Duration, Instant, MIB};

use crate::device::QueuedDrive;
use crate::disk::SimulatedResources;
use crate::setup::FlashSetup;
use crate::ssd::{FlashJob, FlashOperation, SimulatedSsd, TierLayout};
use crate::usage::SsdUse;
use crate::warm_flash::recovered;

/// Bytes read by a probe, as in the server.
const PROBE_BYTES: u64 = MIB;

/// The SSDs, with the jobs in progress.
#[derive(Debug)]
pub(crate) struct SimulatedTier {
    ssds: Vec<SimulatedSsd>,
    /// Each disk's partition, and its specification for the shard.
    parts: Vec<(TierShare, FlashSpec)>,
    /// Sealed blocks, for later processes.
    contents: BTreeMap<BlockId, RecoveredFlashBlock>,
    /// Whether the server will be restarted.
    is_restarted: bool,
    /// Blocks being sealed.
    sealing: BTreeMap<BlockId, RecoveredFlashBlock>,
    /// Completed jobs, with their disks.
    done: VecDeque<(u32, FlashOperation)>,
}

impl SimulatedTier {
    /// SSDs for `disks` disks. `is_restarted`: a later process will recover the content.
    ///
    /// # Errors
    /// If the block size is invalid or there are too few blocks for all disks.
    pub(crate) fn new(
        disks: u32,
        piece_bytes: u64,
        setup: &FlashSetup,
        is_restarted: bool,
    ) -> Result<Self, SpecError> {
        let bytes = setup.bytes.min(setup.drive.capacity_bytes());
        let mut ssds: Vec<SimulatedSsd> = Vec::new();
        for _ in 0..setup.ssds.max(1) {
            let (places, blocks) = TierLayout::new(bytes, setup.block_bytes, piece_bytes)?;
            let first = ssds.last().map_or(0, |ssd| ssd.first_block + ssd.blocks);
            let device = QueuedDrive::new(setup.drive.build(), None, Duration::ZERO);
            ssds.push(SimulatedSsd::new(device, places, (first, blocks)));
        }
        // There is at least one SSD.
        let parts = (0..disks).filter_map(|disk| part(&ssds, (disk, disks), setup));
        let parts: Vec<(TierShare, FlashSpec)> = parts.collect();
        let mut contents = BTreeMap::new();
        for (disk, (_, spec)) in (0..).zip(&parts) {
            let kept = setup.content.kept().iter();
            let kept = kept.filter(|kept| kept.disk() == disk);
            for block in recovered(kept, piece_bytes, spec) {
                let filling = block.sequence;
                contents.insert(block.block, RecoveredFlashBlock { filling, block });
            }
        }
        Ok(Self {
            ssds,
            parts,
            contents,
            is_restarted,
            sealing: BTreeMap::new(),
            done: VecDeque::new(),
        })
    }

    /// A port to a disk's partition, and the content that a new process recovers. Reading the
    /// summaries is assumed to happen during the outage: it takes less than two seconds for 4 TB.
    pub(crate) fn attach(&self, disk: u32) -> Option<(FlashPort<SimulatedResources>, FlashResult)> {
        let (share, spec) = self.parts.get(disk as usize)?;
        let is_own = |block: &BlockId| spec.ssds.iter().any(|ssd| ssd.blocks.contains(block));
        let own = self.contents.values();
        let found: Vec<RecoveredFlashBlock> =
            own.filter(|of| is_own(&of.block.block)).cloned().collect();
        let port = FlashPort::new(share.clone(), u64::from(disk) << 48);
        Some((port, FlashResult::Attach(spec.clone(), found)))
    }

    /// Jobs of all SSDs that have not completed.
    pub(crate) fn live(&self) -> usize {
        self.ssds.iter().map(SimulatedSsd::live).sum()
    }

    /// Restarts the counters of the SSDs.
    pub(crate) fn begin_window(&mut self, now: Instant) {
        for ssd in &mut self.ssds {
            ssd.begin_window(now);
        }
    }

    /// Activity of each SSD since then.
    pub(crate) fn used(&self, now: Instant) -> Vec<SsdUse> {
        self.ssds.iter().map(|ssd| ssd.used(now)).collect()
    }

    /// The process ends: all jobs are forgotten and unsealed blocks are lost. `written_bytes` has
    /// the bytes written to each disk's partition within the last day.
    pub(crate) fn kill(&mut self, written_bytes: impl Iterator<Item = u64>) {
        self.ssds.iter_mut().for_each(SimulatedSsd::forget_all);
        self.done.clear();
        self.sealing.clear();
        for ((_, spec), written_bytes) in self.parts.iter_mut().zip(written_bytes) {
            spec.written_bytes = written_bytes;
            for ssd in &mut spec.ssds {
                // Same rule as in the server.
                let mut blocks = self.contents.range(ssd.blocks.clone());
                ssd.is_fresh = blocks.next().is_none();
            }
        }
    }

    /// Submits a job of a disk to an SSD.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        disk: u32,
        id: SsdId,
        job: SsdJob<SimulatedResources>,
    ) {
        let Some(ssd) = self.ssds.get_mut(usize::from(id.0)) else {
            return;
        };
        match job {
            SsdJob::Block(BlockJob::Empty { block }) => {
                self.contents.remove(&BlockId(ssd.first_block + block));
            }
            SsdJob::Block(BlockJob::GiveUp { block }) => ssd.places.end(block),
            // A modelled SSD never fails, but may be so slow that it is taken out of service.
            SsdJob::Probe(id) => {
                let from = ssd.places.block_start(0);
                let job = FlashJob {
                    disk,
                    doing: FlashOperation::Probe(id),
                    span: (from, from + PROBE_BYTES),
                    asides: Vec::new(),
                };
                ssd.submit(now, job, &mut self.done);
            }
            SsdJob::Write(job) => {
                self.begin(
                    now,
                    disk,
                    FlashOperation::Write(job.of, job.to),
                    job.of,
                    job.from..job.to,
                );
            }
            SsdJob::Block(BlockJob::Seal(seal)) => {
                let end = ssd.places.layout().block_bytes();
                if self.is_restarted {
                    let filling = seal.summary.head.filling;
                    let block = RecoveredBlock {
                        block: seal.of,
                        sequence: seal.summary.head.sequence,
                        records: seal.summary.entries,
                    };
                    self.sealing
                        .insert(seal.of, RecoveredFlashBlock { filling, block });
                }
                self.begin(
                    now,
                    disk,
                    FlashOperation::Seal(seal.of),
                    seal.of,
                    seal.from..end,
                );
            }
            SsdJob::Read(job) => {
                let mut records = job.wanted.iter().map(|wanted| wanted.record);
                if let Some(first) = records.next() {
                    let last = records.next_back().unwrap_or(first);
                    let range = first.place.offset..last.place.end(last.length);
                    let doing = FlashOperation::Read(job.id, job.wanted.len());
                    self.begin(now, disk, doing, first.place.block, range);
                }
            }
        }
    }

    /// The SSD of a block, and the block's number on it.
    fn ssd_of(&mut self, block: BlockId) -> Option<(&mut SimulatedSsd, u32)> {
        self.ssds.iter_mut().find_map(|ssd| {
            let local = block.0.checked_sub(ssd.first_block)?;
            (local < ssd.blocks).then_some((ssd, local))
        })
    }

    /// Submits a job on a byte range of a block.
    fn begin(
        &mut self,
        now: Instant,
        disk: u32,
        doing: FlashOperation,
        block: BlockId,
        range: Range<u32>,
    ) {
        let mut done = std::mem::take(&mut self.done);
        if let Some((ssd, local)) = self.ssd_of(block) {
            let base = ssd.places.block_start(local);
            let is_first = range.start == 0 && matches!(doing, FlashOperation::Write(..));
            let asides = is_first.then(|| ssd.places.begin(local));
            let asides = asides.into_iter().flatten();
            let job = FlashJob {
                disk,
                doing,
                span: (base + u64::from(range.start), base + u64::from(range.end)),
                asides: asides.map(|(at, bytes)| (at, at + bytes)).collect(),
            };
            ssd.submit(now, job, &mut done);
        }
        self.done = done;
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for ssd in &mut self.ssds {
            if ssd.poll_timeout().is_some_and(|at| at <= now) {
                ssd.handle_timeout(now, &mut self.done);
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.ssds
            .iter()
            .filter_map(SimulatedSsd::poll_timeout)
            .min()
    }

    /// The disk of the oldest completion that its shard has not received.
    pub(crate) fn ended_of(&self) -> Option<u32> {
        self.done.front().map(|(disk, _)| *disk)
    }

    /// Removes one completion of a disk, if there is one.
    pub(crate) fn take_ended(&mut self, disk: u32) -> Option<FlashResult> {
        let place = self.done.iter().position(|(of, _)| *of == disk)?;
        let (_, doing) = self.done.remove(place)?;
        Some(match doing {
            // Shards are not notified of these.
            FlashOperation::Aside => return self.take_ended(disk),
            FlashOperation::Read(id, records) => FlashResult::Read {
                id,
                outcomes: vec![FlashOutcome::Done; records],
                took: None,
            },
            FlashOperation::Probe(ssd) => FlashResult::Probed {
                ssd,
                probed: ProbeResult {
                    reads: true,
                    writes: true,
                    took: None,
                },
            },
            FlashOperation::Write(block, to) => FlashResult::Written {
                block,
                to,
                ok: true,
            },
            FlashOperation::Seal(block) => {
                if let Some((ssd, local)) = self.ssd_of(block) {
                    ssd.places.end(local);
                }
                if let Some(sealed) = self.sealing.remove(&block) {
                    self.contents.insert(block, sealed);
                }
                FlashResult::Sealed { block, ok: true }
            }
        })
    }
}

/// A disk's partition of the tier: one of `disks` equal ranges of each SSD.
fn part(
    ssds: &[SimulatedSsd],
    (disk, disks): (u32, u32),
    setup: &FlashSetup,
) -> Option<(TierShare, FlashSpec)> {
    let share = |ssd: &SimulatedSsd| SsdShare {
        tier: SuperRecord {
            device: u128::from(ssd.first_block),
            layout: *ssd.places.layout(),
        },
        first: ssd.first_block,
        own: SsdShare::cut(ssd.blocks, disk, disks),
    };
    let share = TierShare::new(ssds.iter().map(share).collect(), disk.into());
    let mut spec = share.spec()?;
    spec.is_recovering = false;
    for ssd in &mut spec.ssds {
        ssd.is_fresh = !setup.is_warm;
    }
    Some((share, spec))
}
