//! The flash tier of all disks in virtual time: SSDs, dealt out to shards as the server deals them.
//!
//! The one idea: every SSD serves every disk; its blocks are cut into as many equal ranges as there
//! are disks (`server/serve/src/flash/tier.rs`), and each shard decides about its own. What shards say to
//! SSDs becomes requests of modelled drives. No byte is kept: records are what they should be, for
//! nothing is damaged here, and whatever is read has been written before.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use headlong_engine::{FlashCommand, FlashOutcome, Shard};
use headlong_flash::{
    BlockId, FlashSpec, Probed, RecordEntry, RecoveredBlock, SpecError, SsdId, SsdSpec,
};
use headlong_units::{Duration, Instant, MIB};

use crate::device::Device;
use crate::flash::FlashSetup;
use crate::flash_kept::recovered;
use crate::flash_place::TierPlaces;
use crate::ssd::{Doing, Job, Ssd};
use crate::ssd_use::SsdUse;

/// What a probe reads, as the server's.
const PROBE_BYTES: u64 = MIB;

/// What a block holds: what was copied into it, and with which number it was sealed, once it was.
#[derive(Debug, Default)]
struct Contents {
    records: Vec<RecordEntry>,
    sealed: Option<u64>,
}

/// The SSDs, with what they were asked for.
#[derive(Debug)]
pub(crate) struct Tier {
    ssds: Vec<Ssd>,
    /// What each disk has of them.
    specs: Vec<FlashSpec>,
    /// What a process that comes later finds; nothing is kept if none does.
    contents: Option<BTreeMap<BlockId, Contents>>,
    /// What ended, and whose it was.
    done: VecDeque<(u32, Doing)>,
}

impl Tier {
    /// SSDs that take part in these shards from the beginning, one shard for each disk.
    /// `is_restarted`: other shards will come and find what is on them.
    ///
    /// # Errors
    /// If blocks cannot be, or are too few to go round.
    pub(crate) fn attach(
        shards: &mut [Shard],
        setup: &FlashSetup,
        is_restarted: bool,
    ) -> Result<Self, SpecError> {
        let piece_bytes = shards.first().map_or(0, |shard| shard.config().piece_bytes);
        let bytes = setup.bytes.min(setup.drive.capacity_bytes());
        let mut ssds: Vec<Ssd> = Vec::new();
        for _ in 0..setup.ssds.max(1) {
            let (places, blocks) = TierPlaces::new(bytes, setup.block_bytes, piece_bytes)?;
            let first = ssds.last().map_or(0, |ssd| ssd.first_block + ssd.blocks);
            let device = Device::new(setup.drive.build(), None, Duration::ZERO);
            ssds.push(Ssd::new(device, places, (first, blocks)));
        }
        let count = shards.len() as u32;
        let specs = (0..count).map(|disk| spec(&ssds, (disk, count), setup));
        let specs: Vec<FlashSpec> = specs.collect();
        let mut contents = is_restarted.then(BTreeMap::new);
        for (disk, (shard, spec)) in (0..).zip(shards.iter_mut().zip(&specs)) {
            let kept = setup
                .content
                .kept()
                .iter()
                .filter(|kept| kept.disk() == disk);
            let found = recovered(kept, piece_bytes, spec);
            if let Some(contents) = &mut contents {
                contents.extend(found.iter().map(contents_of));
            }
            shard.attach_flash(Instant::ZERO, spec, found)?;
        }
        Ok(Self {
            ssds,
            specs,
            contents,
            done: VecDeque::new(),
        })
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
        for (spec, written_bytes) in self.specs.iter_mut().zip(written_bytes) {
            spec.written_bytes = written_bytes;
        }
        if let Some(contents) = &mut self.contents {
            contents.retain(|_, of| of.sealed.is_some());
        }
    }

    /// Another shard of a disk takes its part as it finds it. Summaries are taken to have been read
    /// while nobody was there: it takes less than two seconds for 4 TB.
    pub(crate) fn attach_again(&self, now: Instant, disk: u32, shard: &mut Shard) {
        let Some(mut spec) = self.specs.get(disk as usize).cloned() else {
            return;
        };
        let is_own = |block: &BlockId| spec.ssds.iter().any(|ssd| ssd.blocks.contains(block));
        let contents = self.contents.iter().flatten();
        let contents = contents.filter(|(block, _)| is_own(block));
        let found = contents.filter_map(|(block, of)| {
            Some(RecoveredBlock {
                block: *block,
                sequence: of.sealed?,
                records: of.records.clone(),
            })
        });
        let found: Vec<RecoveredBlock> = found.collect();
        for ssd in &mut spec.ssds {
            // As the server says it.
            let is_of_it = |of: &RecoveredBlock| ssd.blocks.contains(&of.block);
            ssd.is_fresh = !found.iter().any(is_of_it);
        }
        // What could be attached once can be again.
        let attached = shard.attach_flash(now, &spec, found);
        debug_assert!(attached.is_ok(), "{attached:?}");
    }

    /// Does what the shard of a disk says.
    pub(crate) fn obey(&mut self, now: Instant, disk: u32, command: FlashCommand) {
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
                if let Some((ssd, local)) = self.ssd_of(block) {
                    ssd.places.end(local);
                }
                self.contents.as_mut().and_then(|of| of.remove(&block));
            }
            // One of a model never fails, but may be so slow that it is passed over.
            FlashCommand::Probe(ssd) => {
                let of = self.ssds.get_mut(usize::from(ssd.0));
                if let Some(of) = of {
                    let from = of.places.block_start(0);
                    let job = Job {
                        disk,
                        doing: Doing::Probe(ssd),
                        span: (from, from + PROBE_BYTES),
                        asides: Vec::new(),
                    };
                    of.submit(now, job, &mut self.done);
                }
            }
            FlashCommand::Write { block, from, to } => {
                self.begin(now, disk, Doing::Write(block, to), block, from..to);
            }
            FlashCommand::Seal {
                block,
                from,
                sequence,
            } => {
                let end = self.specs.first().map_or(from, |spec| spec.block_bytes);
                self.begin(now, disk, Doing::Seal(block, sequence), block, from..end);
            }
            FlashCommand::Read(read) => {
                if let Some((first, last)) = read.records.first().zip(read.records.last()) {
                    let range = first.place.offset..last.place.end(last.length);
                    let doing = Doing::Read(read.id, read.records.len());
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

    /// Tells the shard of a disk of one thing that ended. Answers whether there was one.
    pub(crate) fn tell(&mut self, now: Instant, disk: u32, shard: &mut Shard) -> bool {
        let place = self.done.iter().position(|(of, _)| *of == disk);
        let ended = place.and_then(|place| self.done.remove(place));
        let Some((_, doing)) = ended else {
            return false;
        };
        match doing {
            Doing::Aside => {}
            Doing::Read(id, records) => {
                shard.handle_flash_read_done(now, id, &vec![FlashOutcome::Done; records], None);
            }
            Doing::Probe(ssd) => {
                let probed = Probed {
                    reads: true,
                    writes: true,
                    took: None,
                };
                shard.handle_flash_probed(now, ssd, probed);
            }
            Doing::Write(block, to) => shard.handle_flash_written(now, block, to, true),
            Doing::Seal(block, sequence) => {
                if let Some((ssd, local)) = self.ssd_of(block) {
                    ssd.places.end(local);
                }
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

/// What a disk has of the SSDs: one of so many equal ranges of each.
fn spec(ssds: &[Ssd], (disk, disks): (u32, u32), setup: &FlashSetup) -> FlashSpec {
    let part = |(number, ssd): (usize, &Ssd)| {
        let cut = |index: u32| {
            let place = u64::from(ssd.blocks) * u64::from(index) / u64::from(disks.max(1));
            BlockId(ssd.first_block + place as u32)
        };
        SsdSpec {
            ssd: SsdId(number as u16),
            blocks: cut(disk)..cut(disk + 1),
            is_fresh: !setup.is_warm,
        }
    };
    let places = ssds.first().map(|ssd| &ssd.places);
    FlashSpec {
        block_bytes: setup.block_bytes,
        summary_bytes: places.map_or(0, |places| places.layout().summary_bytes()),
        records_max: places.map_or(0, |places| places.layout().records_max()),
        seal_bytes: places.map_or(0, TierPlaces::seal_bytes),
        written_bytes: 0,
        is_recovering: false,
        ssds: ssds.iter().enumerate().map(part).collect(),
    }
}

fn contents_of(found: &RecoveredBlock) -> (BlockId, Contents) {
    let contents = Contents {
        records: found.records.clone(),
        sealed: Some(found.sequence),
    };
    (found.block, contents)
}
