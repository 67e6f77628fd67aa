//! The flash tier of all disks in virtual time: SSDs, dealt out to shards as the server deals them.
//!
//! The one idea: every SSD serves every disk; its blocks are cut into as many equal ranges as there
//! are disks (`server/serve/src/flash/tier.rs`), and each shard decides about its own. What shards say to
//! SSDs becomes requests of modelled drives. No byte is kept: records are what they should be, for
//! nothing is damaged here, and whatever is read has been written before.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use headlong_device::flash::{
    BlockJob, FlashEnd, FlashPort, FoundBlock, SsdJob, SsdShare, TierShare,
};
use headlong_engine::FlashOutcome;
use headlong_flash::format::Super;
use headlong_flash::{BlockId, FlashSpec, Probed, RecoveredBlock, SpecError, SsdId};
use headlong_units::{Duration, Instant, MIB};

use crate::device::Device;
use crate::flash::FlashSetup;
use crate::flash_kept::recovered;
use crate::flash_place::TierPlaces;
use crate::resources::Virtual;
use crate::ssd::{Doing, Job, Ssd};
use crate::ssd_use::SsdUse;

/// What a probe reads, as the server's.
const PROBE_BYTES: u64 = MIB;

/// The SSDs, with what they were asked for.
#[derive(Debug)]
pub(crate) struct Tier {
    ssds: Vec<Ssd>,
    /// What each disk has of them, and what its shard is told of that.
    parts: Vec<(TierShare, FlashSpec)>,
    /// Sealed blocks, for processes that come later.
    contents: BTreeMap<BlockId, FoundBlock>,
    /// Whether other processes will come.
    is_restarted: bool,
    /// What is being sealed.
    sealing: BTreeMap<BlockId, FoundBlock>,
    /// What ended, and whose it was.
    done: VecDeque<(u32, Doing)>,
}

impl Tier {
    /// SSDs for so many disks. `is_restarted`: other processes will come and find what is on them.
    ///
    /// # Errors
    /// If blocks cannot be, or are too few to go round.
    pub(crate) fn new(
        disks: u32,
        piece_bytes: u64,
        setup: &FlashSetup,
        is_restarted: bool,
    ) -> Result<Self, SpecError> {
        let bytes = setup.bytes.min(setup.drive.capacity_bytes());
        let mut ssds: Vec<Ssd> = Vec::new();
        for _ in 0..setup.ssds.max(1) {
            let (places, blocks) = TierPlaces::new(bytes, setup.block_bytes, piece_bytes)?;
            let first = ssds.last().map_or(0, |ssd| ssd.first_block + ssd.blocks);
            let device = Device::new(setup.drive.build(), None, Duration::ZERO);
            ssds.push(Ssd::new(device, places, (first, blocks)));
        }
        // There is an SSD at least.
        let parts = (0..disks).filter_map(|disk| part(&ssds, (disk, disks), setup));
        let parts: Vec<(TierShare, FlashSpec)> = parts.collect();
        let mut contents = BTreeMap::new();
        for (disk, (_, spec)) in (0..).zip(&parts) {
            let kept = setup.content.kept().iter();
            let kept = kept.filter(|kept| kept.disk() == disk);
            for block in recovered(kept, piece_bytes, spec) {
                let filling = block.sequence;
                contents.insert(block.block, FoundBlock { filling, block });
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

    /// A port to a disk's part, and what a process that begins finds there. Summaries are taken to
    /// have been read while nobody was there: it takes less than two seconds for 4 TB.
    pub(crate) fn attach(&self, disk: u32) -> Option<(FlashPort<Virtual>, FlashEnd)> {
        let (share, spec) = self.parts.get(disk as usize)?;
        let is_own = |block: &BlockId| spec.ssds.iter().any(|ssd| ssd.blocks.contains(block));
        let own = self.contents.values();
        let found: Vec<FoundBlock> = own.filter(|of| is_own(&of.block.block)).cloned().collect();
        let port = FlashPort::new(share.clone(), u64::from(disk) << 48);
        Some((port, FlashEnd::Attach(spec.clone(), found)))
    }

    /// What SSDs were asked for and has not ended.
    pub(crate) fn live(&self) -> usize {
        self.ssds.iter().map(Ssd::live).sum()
    }

    /// From now on what SSDs do is counted anew.
    pub(crate) fn begin_window(&mut self, now: Instant) {
        for ssd in &mut self.ssds {
            ssd.begin_window(now);
        }
    }

    /// What each SSD did since then.
    pub(crate) fn used(&self, now: Instant) -> Vec<SsdUse> {
        self.ssds.iter().map(|ssd| ssd.used(now)).collect()
    }

    /// The process ends: nobody waits for anything any more, and what was not sealed is lost. In the
    /// part of each disk so many bytes were written within the last day.
    pub(crate) fn kill(&mut self, written_bytes: impl Iterator<Item = u64>) {
        self.ssds.iter_mut().for_each(Ssd::forget_all);
        self.done.clear();
        self.sealing.clear();
        for ((_, spec), written_bytes) in self.parts.iter_mut().zip(written_bytes) {
            spec.written_bytes = written_bytes;
            for ssd in &mut spec.ssds {
                // As the server says it.
                let mut blocks = self.contents.range(ssd.blocks.clone());
                ssd.is_fresh = blocks.next().is_none();
            }
        }
    }

    /// Has an SSD do a job for a disk.
    pub(crate) fn submit(&mut self, now: Instant, disk: u32, id: SsdId, job: SsdJob<Virtual>) {
        let Some(ssd) = self.ssds.get_mut(usize::from(id.0)) else {
            return;
        };
        match job {
            SsdJob::Block(BlockJob::Empty { block }) => {
                self.contents.remove(&BlockId(ssd.first_block + block));
            }
            SsdJob::Block(BlockJob::GiveUp { block }) => ssd.places.end(block),
            // One of a model never fails, but may be so slow that it is passed over.
            SsdJob::Probe(id) => {
                let from = ssd.places.block_start(0);
                let job = Job {
                    disk,
                    doing: Doing::Probe(id),
                    span: (from, from + PROBE_BYTES),
                    asides: Vec::new(),
                };
                ssd.submit(now, job, &mut self.done);
            }
            SsdJob::Write(job) => {
                self.begin(
                    now,
                    disk,
                    Doing::Write(job.of, job.to),
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
                    self.sealing.insert(seal.of, FoundBlock { filling, block });
                }
                self.begin(now, disk, Doing::Seal(seal.of), seal.of, seal.from..end);
            }
            SsdJob::Read(job) => {
                let mut records = job.wanted.iter().map(|wanted| wanted.record);
                if let Some(first) = records.next() {
                    let last = records.next_back().unwrap_or(first);
                    let range = first.place.offset..last.place.end(last.length);
                    let doing = Doing::Read(job.id, job.wanted.len());
                    self.begin(now, disk, doing, first.place.block, range);
                }
            }
        }
    }

    /// The SSD of a block, and its own number for it.
    fn ssd_of(&mut self, block: BlockId) -> Option<(&mut Ssd, u32)> {
        self.ssds.iter_mut().find_map(|ssd| {
            let local = block.0.checked_sub(ssd.first_block)?;
            (local < ssd.blocks).then_some((ssd, local))
        })
    }

    /// Something with bytes of a block.
    fn begin(&mut self, now: Instant, disk: u32, doing: Doing, block: BlockId, range: Range<u32>) {
        let mut done = std::mem::take(&mut self.done);
        if let Some((ssd, local)) = self.ssd_of(block) {
            let base = ssd.places.block_start(local);
            let is_first = range.start == 0 && matches!(doing, Doing::Write(..));
            let asides = is_first.then(|| ssd.places.begin(local));
            let asides = asides.into_iter().flatten();
            let job = Job {
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
        self.ssds.iter().filter_map(Ssd::poll_timeout).min()
    }

    /// The disk of which something ended, if its shard was not told yet.
    pub(crate) fn ended_of(&self) -> Option<u32> {
        self.done.front().map(|(disk, _)| *disk)
    }

    /// Takes out one thing that ended and is a disk's, if there is one.
    pub(crate) fn take_ended(&mut self, disk: u32) -> Option<FlashEnd> {
        let place = self.done.iter().position(|(of, _)| *of == disk)?;
        let (_, doing) = self.done.remove(place)?;
        Some(match doing {
            // They are not told.
            Doing::Aside => return self.take_ended(disk),
            Doing::Read(id, records) => FlashEnd::Read {
                id,
                outcomes: vec![FlashOutcome::Done; records],
                took: None,
            },
            Doing::Probe(ssd) => FlashEnd::Probed {
                ssd,
                probed: Probed {
                    reads: true,
                    writes: true,
                    took: None,
                },
            },
            Doing::Write(block, to) => FlashEnd::Written {
                block,
                to,
                ok: true,
            },
            Doing::Seal(block) => {
                if let Some((ssd, local)) = self.ssd_of(block) {
                    ssd.places.end(local);
                }
                if let Some(sealed) = self.sealing.remove(&block) {
                    self.contents.insert(block, sealed);
                }
                FlashEnd::Sealed { block, ok: true }
            }
        })
    }
}

/// What a disk has of the SSDs: one of so many equal ranges of each.
fn part(
    ssds: &[Ssd],
    (disk, disks): (u32, u32),
    setup: &FlashSetup,
) -> Option<(TierShare, FlashSpec)> {
    let share = |ssd: &Ssd| SsdShare {
        tier: Super {
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
