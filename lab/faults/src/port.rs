//! One device's way to the tier: what `serve::flash::port` and `serve::flash::tier` do between the
//! engine and the threads of the SSDs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use headlong_engine::{FlashCommand, FlashRead, Slot};
use headlong_flash::format::{RecordName, Summary, SummaryHead, encode_record, padded_bytes};
use headlong_flash::{
    BlockId, FlashSpec, PieceId, Place, RECORD_ALIGN_BYTES, RecordEntry, RecoveredBlock, SsdId,
    SsdSpec,
};

use crate::around::Around;
use crate::check::Check;
use crate::plant::Plant;
use crate::pool::Pool;
use crate::recover::Search;
use crate::ssd::{Doing, Job, ReadJob, Ssd, Told};

/// Longer than this ago is another day, in seconds.
const DAY_S: u64 = 24 * 3600;

/// A block that is being filled.
#[derive(Debug)]
struct Collecting {
    filling: u64,
    entries: Vec<RecordEntry>,
    staged: Vec<Staged>,
    is_broken: Rc<Cell<bool>>,
}

#[derive(Debug)]
struct Staged {
    name: RecordName,
    slot: Slot,
    bytes: Vec<u8>,
}

/// A device's part of one SSD.
#[derive(Debug, Clone)]
struct Share {
    ssd: usize,
    /// The number of the SSD's first block in the row of all.
    first: u32,
    /// This disk's blocks, as the SSD counts.
    own: Range<u32>,
}

/// One device's way to the tier.
#[derive(Debug, Default)]
pub(crate) struct Port {
    disk: usize,
    owner: u64,
    shares: Vec<Share>,
    /// Which filling each block has that can be read.
    fillings: BTreeMap<BlockId, u64>,
    collecting: BTreeMap<BlockId, Collecting>,
    /// Blocks that were made ready for something else, and are filled next.
    emptied: BTreeSet<BlockId>,
    next_filling: u64,
    /// The last sequence number of each SSD.
    sequences: BTreeMap<usize, u64>,
    /// How many SSDs have been looked at, and the one that is.
    searched: usize,
    search: Option<Search>,
    /// SSDs that were never filled.
    pub(crate) fresh: Vec<SsdId>,
    /// Bytes written within a day before, and those of first fillings, which come on top.
    pub(crate) written_bytes: u64,
    pub(crate) first_fillings: u64,
    /// Bytes of a block, and most that are written elsewhere to fill one.
    block_bytes: u32,
    seal_bytes: u32,
}

impl Port {
    /// A port to these SSDs, in this order.
    pub(crate) fn new(
        disk: usize,
        owner: u64,
        order: &[usize],
        ssds: &[Ssd],
        filling: u64,
    ) -> Self {
        let mut first = 0;
        let layout = ssds[order[0]].drive.tier.layout;
        let seal_bytes = layout.checkpoint_bytes() + u64::from(RECORD_ALIGN_BYTES);
        let mut shares = Vec::new();
        for &ssd in order {
            let blocks = ssds[ssd].drive.tier.layout.block_count();
            // As if there were more disks than are simulated, so that blocks go round soon.
            let plan = ssds[ssd].plan;
            let start = plan.first_block + disk as u32 * plan.disk_blocks;
            let end = start + plan.disk_blocks;
            shares.push(Share {
                ssd,
                first,
                own: start.min(blocks)..end.min(blocks),
            });
            first += blocks;
        }
        Self {
            disk,
            owner,
            shares,
            next_filling: filling,
            block_bytes: layout.block_bytes(),
            seal_bytes: seal_bytes as u32,
            ..Self::default()
        }
    }

    /// Most bytes that are written to seal a block whose records end here.
    pub(crate) fn bytes_of_seal(&self, from: u32) -> u32 {
        self.block_bytes - from + self.seal_bytes
    }

    pub(crate) fn uses(&self, ssds: &[Ssd]) -> bool {
        self.shares
            .iter()
            .all(|share| !ssds[share.ssd].drive.hangs())
    }

    /// What this disk has of all SSDs, as `TierPart::spec` says.
    pub(crate) fn spec(&self, ssds: &[Ssd]) -> FlashSpec {
        let layout = ssds[self.shares[0].ssd].drive.tier.layout;
        let share = |(number, share): (usize, &Share)| SsdSpec {
            ssd: SsdId(number as u16),
            blocks: BlockId(share.first + share.own.start)..BlockId(share.first + share.own.end),
            is_fresh: false,
        };
        FlashSpec {
            block_bytes: layout.block_bytes(),
            summary_bytes: layout.summary_bytes(),
            records_max: layout.records_max(),
            seal_bytes: self.seal_bytes,
            written_bytes: 0,
            is_recovering: true,
            ssds: self.shares.iter().enumerate().map(share).collect(),
        }
    }

    /// Looks at some more of this disk's blocks and judges what is found; `None` if that was all.
    pub(crate) fn recover(&mut self, around: &mut Around<'_>) -> Option<Vec<RecoveredBlock>> {
        let Some(share) = self.shares.get(self.searched).cloned() else {
            self.search = None;
            return None;
        };
        let (own, owner) = (share.own.clone(), self.owner);
        let search = self
            .search
            .get_or_insert_with(|| Search::new(share.ssd, own, owner));
        let Some(found) = search.next(around) else {
            self.written_bytes += search.saved_bytes;
            let layout = around.ssds[share.ssd].drive.tier.layout;
            if !search.is_used {
                self.fresh.push(SsdId(self.searched as u16));
                let blocks = u64::from(share.own.end - share.own.start);
                self.first_fillings += blocks * u64::from(layout.block_bytes() + self.seal_bytes);
            }
            self.search = None;
            self.searched += 1;
            return self.recover(around);
        };
        let layout = around.ssds[share.ssd].drive.tier.layout;
        let day_before = around.wall_s().saturating_sub(DAY_S);
        let lately = found.iter().filter(|of| of.head.sealed_s >= day_before);
        self.written_bytes += lately.count() as u64 * u64::from(layout.block_bytes());
        let block = |Summary { head, entries }: Summary| {
            let block = BlockId(share.first + head.block);
            self.fillings.insert(block, head.filling);
            let last = self.sequences.entry(share.ssd).or_insert(0);
            *last = head.sequence.max(*last);
            RecoveredBlock {
                block,
                sequence: head.sequence,
                records: entries,
            }
        };
        Some(found.into_iter().map(block).collect())
    }

    fn share_of(&self, block: BlockId) -> Option<(&Share, u32)> {
        self.shares.iter().find_map(|share| {
            let local = block.0.checked_sub(share.first)?;
            share.own.contains(&local).then_some((share, local))
        })
    }

    fn place(&self, block: BlockId, ssds: &[Ssd]) -> Option<(usize, u32, u64)> {
        let (share, local) = self.share_of(block)?;
        let start = ssds[share.ssd].drive.tier.layout.block_start(local)?;
        Some((share.ssd, local, start))
    }

    /// Does what the engine says, or sees to it.
    pub(crate) fn command(
        &mut self,
        around: &mut Around<'_>,
        pool: &mut Pool,
        command: FlashCommand,
    ) {
        match command {
            FlashCommand::Stage {
                place,
                piece,
                length,
                slot,
            } => {
                self.stage(around, pool, place, piece, (length, slot));
            }
            FlashCommand::Write { block, from, to } => self.write(around, pool, block, from, to),
            FlashCommand::Seal {
                block, sequence, ..
            } => self.seal(around, block, sequence),
            FlashCommand::Drop(block) => self.drop_block(around, block),
            FlashCommand::Read(read) => self.read(around, pool, read),
            FlashCommand::Probe(id) => {
                if let Some(share) = self.shares.get(usize::from(id.0)) {
                    around.ssds[share.ssd].begin_probe(around.now, (self.disk, id));
                }
            }
        }
    }

    fn stage(
        &mut self,
        around: &mut Around<'_>,
        pool: &Pool,
        place: Place,
        piece: PieceId,
        (length, slot): (u32, Slot),
    ) {
        if !self.collecting.contains_key(&place.block) {
            self.begin(around, place.block);
        }
        let Some(filling) = self.fillings.get(&place.block).copied() else {
            return;
        };
        let Some((ssd, local, _)) = self.place(place.block, around.ssds) else {
            return;
        };
        let name = RecordName {
            device: around.ssds[ssd].drive.tier.device,
            block: local,
            filling,
            offset: place.offset,
            piece,
            length,
        };
        around
            .oracle
            .expect(!pool.is_leased(slot), Check::Budget, around.now, || {
                format!("{slot:?} is staged while it is read into")
            });
        let mut bytes = vec![0; padded_bytes(length) as usize];
        let encoded = encode_record(&name, &pool.slot(slot)[..length as usize], &mut bytes);
        let Some(collecting) = self.collecting.get_mut(&place.block) else {
            return;
        };
        if encoded.is_none() {
            collecting.is_broken.set(true);
            return;
        }
        let entry = RecordEntry {
            piece,
            offset: place.offset,
            length,
        };
        collecting.entries.push(entry);
        around.ssds[ssd].drive.ledger.stage(local, filling, entry);
        collecting.staged.push(Staged { name, slot, bytes });
    }

    fn begin(&mut self, around: &mut Around<'_>, block: BlockId) {
        self.next_filling = self.next_filling.wrapping_add(1);
        let filling = self.next_filling;
        self.fillings.insert(block, filling);
        let collecting = Collecting {
            filling,
            entries: Vec::new(),
            staged: Vec::new(),
            is_broken: Rc::default(),
        };
        self.collecting.insert(block, collecting);
        if !self.emptied.remove(&block) {
            self.on_writer(around, block, Doing::Empty);
        }
    }

    fn drop_block(&mut self, around: &mut Around<'_>, block: BlockId) {
        let was_filled = self.collecting.remove(&block).is_some();
        if self.fillings.remove(&block).is_some() {
            self.on_writer(around, block, Doing::Empty);
            if was_filled {
                self.on_writer(around, block, Doing::GiveUp);
            } else {
                self.emptied.insert(block);
            }
        }
    }

    /// Nothing of a block is wanted any more.
    fn on_writer(&self, around: &mut Around<'_>, block: BlockId, doing: fn(u32) -> Doing) {
        let Some((ssd, local, _)) = self.place(block, around.ssds) else {
            return;
        };
        let ssd = &mut around.ssds[ssd];
        ssd.drive.ledger.give_up(local);
        let job = Job {
            disk: self.disk,
            doing: vec![doing(local)],
            told: Told::Nothing,
            is_broken: Rc::default(),
        };
        ssd.write(around.now, job);
    }

    fn write(&mut self, around: &mut Around<'_>, pool: &Pool, block: BlockId, from: u32, to: u32) {
        let place = self.place(block, around.ssds);
        let Some((collecting, (ssd, _, start))) = self.collecting.get_mut(&block).zip(place) else {
            return around.tell_written(block, to, false);
        };
        let staged = std::mem::take(&mut collecting.staged);
        let (now, later) = staged
            .into_iter()
            .partition(|of| (from..to).contains(&of.name.offset));
        collecting.staged = later;
        let mut now: Vec<Staged> = now;
        if around.plant == Some(Plant::StagedLate) {
            for of in &mut now {
                let content = pool.slot(of.slot)[..of.name.length as usize].to_vec();
                let _ = encode_record(&of.name, &content, &mut of.bytes);
            }
        }
        let doing = now
            .into_iter()
            .map(|of| Doing::Records(start + u64::from(of.name.offset), of.bytes));
        let job = Job {
            disk: self.disk,
            doing: doing.collect(),
            told: Told::Written { block, to },
            is_broken: Rc::clone(&collecting.is_broken),
        };
        around.ssds[ssd].write(around.now, job);
    }

    fn seal(&mut self, around: &mut Around<'_>, block: BlockId, mut sequence: u64) {
        let place = self.place(block, around.ssds);
        let Some((collecting, (ssd, local, start))) = self.collecting.remove(&block).zip(place)
        else {
            return around.tell_sealed(block, false);
        };
        let last = self.sequences.entry(ssd).or_insert(0);
        if around.plant == Some(Plant::SequenceStale) {
            sequence = sequence.saturating_sub(1);
        }
        around
            .oracle
            .expect(sequence > *last, Check::Sequence, around.now, || {
                format!("{block:?} is sealed with {sequence} after {last}")
            });
        *last = sequence;
        let Collecting {
            filling,
            mut entries,
            is_broken,
            ..
        } = collecting;
        entries.sort_by_key(|entry| entry.offset);
        let head = SummaryHead {
            block: local,
            count: entries.len() as u32,
            filling,
            sequence,
            owner: self.owner,
            sealed_s: around.wall_s(),
        };
        let summary = Summary { head, entries };
        let ssd = &mut around.ssds[ssd];
        let is_new = ssd.drive.ledger.give(&summary);
        around
            .oracle
            .expect(is_new, Check::RecordIdentity, around.now, || {
                format!("{block:?} has filling {filling} for the second time")
            });
        let summary = Box::new(summary);
        let mut doing = vec![
            Doing::Void(local),
            Doing::Flush,
            Doing::Summary(summary.clone(), start),
            Doing::Flush,
            Doing::Sealed(summary),
        ];
        if around.plant == Some(Plant::FlushLeftOut) {
            doing.retain(|doing| !matches!(doing, Doing::Flush));
        }
        let told = Told::Sealed {
            block,
            local,
            filling,
        };
        ssd.write(
            around.now,
            Job {
                disk: self.disk,
                doing,
                told,
                is_broken,
            },
        );
    }

    fn read(&mut self, around: &mut Around<'_>, pool: &mut Pool, read: FlashRead) {
        let FlashRead { id, records } = read;
        let block = records.first().map(|record| record.place.block);
        let place = block.and_then(|block| Some((block, self.place(block, around.ssds)?)));
        let slots: Vec<Slot> = records.iter().map(|record| record.slot).collect();
        let Some((block, (ssd, local, start))) = place else {
            return around.tell_read(id, records.len());
        };
        let leased = pool.lease(&slots).is_some();
        around.oracle.expect(leased, Check::Budget, around.now, || {
            format!("flash is read into slots that are in use: {slots:?}")
        });
        let filling = self.fillings.get(&block).copied().unwrap_or(0);
        let device = around.ssds[ssd].drive.tier.device;
        let wanted = records.into_iter().map(|record| {
            let name = RecordName {
                device,
                block: local,
                filling,
                offset: record.place.offset,
                piece: record.piece,
                length: record.length,
            };
            (record, name)
        });
        let wanted = wanted.collect();
        let job = ReadJob {
            disk: self.disk,
            id,
            block_start: start,
            wanted,
        };
        around.ssds[ssd].read(around.now, job);
    }
}
