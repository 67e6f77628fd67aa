//! One device's way to the tier: what `serve::flash::port` and `serve::flash::tier` do between the
//! engine and the threads of the SSDs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use headlong_engine::{FlashCommand, FlashRead, Slot};
use headlong_flash::format::{
    Entry, RecordName, Summary, SummaryHead, encode_record, padded_bytes,
};
use headlong_flash::{
    BlockId, FlashSpec, PieceId, Place, RecordEntry, RecoveredBlock, SsdId, SsdSpec,
};

use crate::around::Around;
use crate::check::Check;
use crate::plant::Plant;
use crate::pool::Pool;
use crate::ssd::{Doing, Job, ReadJob, Ssd, Told};

/// Longer than this ago is another day, in seconds.
const DAY_S: u64 = 24 * 3600;

/// A block that is being filled.
#[derive(Debug)]
struct Collecting {
    filling: u64,
    entries: Vec<Entry>,
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
#[derive(Debug)]
pub(crate) struct Port {
    disk: usize,
    owner: u64,
    shares: Vec<Share>,
    /// Which filling each block has that can be read.
    fillings: BTreeMap<BlockId, u64>,
    collecting: BTreeMap<BlockId, Collecting>,
    next_filling: u64,
    /// The last sequence number of each SSD.
    sequences: BTreeMap<usize, u64>,
    pub(crate) is_attached: bool,
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
        let mut shares = Vec::new();
        for &ssd in order {
            let blocks = ssds[ssd].tier.layout.block_count();
            // As if there were more disks than are simulated, so that blocks go round soon.
            let count = blocks / ssds[ssd].plan.disk_blocks;
            let cut = |index: u32| (u64::from(blocks) * u64::from(index) / u64::from(count)) as u32;
            let index = disk as u32;
            shares.push(Share {
                ssd,
                first,
                own: cut(index)..cut(index + 1),
            });
            first += blocks;
        }
        Self {
            disk,
            owner,
            shares,
            fillings: BTreeMap::new(),
            collecting: BTreeMap::new(),
            next_filling: filling,
            sequences: BTreeMap::new(),
            is_attached: false,
        }
    }

    pub(crate) fn uses(&self, ssds: &[Ssd]) -> bool {
        self.shares.iter().all(|share| !ssds[share.ssd].hangs())
    }

    /// Looks at this disk's blocks of all SSDs, twice, and judges what is found.
    pub(crate) fn recover(&mut self, around: &mut Around<'_>) -> (FlashSpec, Vec<RecoveredBlock>) {
        let layout = around.ssds[self.shares[0].ssd].tier.layout;
        let mut spec = FlashSpec {
            block_bytes: layout.block_bytes(),
            summary_bytes: layout.summary_bytes(),
            records_max: layout.records_max(),
            written_bytes: 0,
            ssds: Vec::new(),
        };
        let mut blocks = Vec::new();
        for (number, share) in self.shares.clone().into_iter().enumerate() {
            let mut found = look(around, &share);
            judge(around, &share, &found);
            found.retain(|summary| summary.head.owner == self.owner);
            let day_before = around.wall_s().saturating_sub(DAY_S);
            let lately = found
                .iter()
                .filter(|of| of.head.sealed_s >= day_before)
                .count();
            spec.written_bytes += lately as u64 * u64::from(layout.block_bytes());
            spec.ssds.push(SsdSpec {
                ssd: SsdId(number as u16),
                blocks: BlockId(share.first + share.own.start)
                    ..BlockId(share.first + share.own.end),
                is_fresh: found.is_empty(),
            });
            for Summary { head, entries } in found {
                let block = BlockId(share.first + head.block);
                self.fillings.insert(block, head.filling);
                let last = self.sequences.entry(share.ssd).or_insert(0);
                *last = head.sequence.max(*last);
                let record = |entry: &Entry| RecordEntry {
                    offset: entry.offset,
                    piece: entry.piece,
                    length: entry.length,
                };
                let records = entries.iter().map(record).collect();
                blocks.push(RecoveredBlock {
                    block,
                    sequence: head.sequence,
                    records,
                });
            }
        }
        (spec, blocks)
    }

    fn share_of(&self, block: BlockId) -> Option<(&Share, u32)> {
        self.shares.iter().find_map(|share| {
            let local = block.0.checked_sub(share.first)?;
            share.own.contains(&local).then_some((share, local))
        })
    }

    fn place(&self, block: BlockId, ssds: &[Ssd]) -> Option<(usize, u32, u64)> {
        let (share, local) = self.share_of(block)?;
        let start = ssds[share.ssd].tier.layout.block_start(local)?;
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
            FlashCommand::Seal { block, sequence } => self.seal(around, block, sequence),
            FlashCommand::Drop(block) => {
                self.collecting.remove(&block);
                if self.fillings.remove(&block).is_some() {
                    self.erase(around, block);
                }
            }
            FlashCommand::Read(read) => self.read(around, pool, read),
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
            device: around.ssds[ssd].tier.device,
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
        collecting.entries.push(Entry {
            piece,
            offset: place.offset,
            length,
        });
        collecting.staged.push(Staged { name, slot, bytes });
    }

    fn begin(&mut self, around: &mut Around<'_>, block: BlockId) {
        self.next_filling = self.next_filling.wrapping_add(1);
        let filling = self.next_filling;
        let was = self.fillings.insert(block, filling);
        let collecting = Collecting {
            filling,
            entries: Vec::new(),
            staged: Vec::new(),
            is_broken: Rc::default(),
        };
        self.collecting.insert(block, collecting);
        if was.is_some() {
            self.erase(around, block);
        }
    }

    fn erase(&self, around: &mut Around<'_>, block: BlockId) {
        let Some((ssd, local, start)) = self.place(block, around.ssds) else {
            return;
        };
        let ssd = &mut around.ssds[ssd];
        ssd.forget_index();
        ssd.ledger.give_up(local);
        let doing = match around.plant {
            Some(Plant::EraseLeftOut) => {
                // The model is told all the same.
                ssd.ledger.erase(local);
                vec![]
            }
            _ => vec![Doing::Erase(local, start)],
        };
        let (disk, is_broken) = (self.disk, Rc::default());
        ssd.write(
            around.now,
            Job {
                disk,
                doing,
                told: Told::Nothing,
                is_broken,
            },
        );
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
        around.ssds[ssd].forget_index();
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
        let is_new = ssd.ledger.give(&summary);
        around
            .oracle
            .expect(is_new, Check::RecordIdentity, around.now, || {
                format!("{block:?} has filling {filling} for the second time")
            });
        let mut doing = vec![
            Doing::Flush,
            Doing::Summary(Box::new(summary), start),
            Doing::Flush,
        ];
        if around.plant == Some(Plant::FlushLeftOut) {
            doing.pop();
            doing.remove(0);
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
        let device = around.ssds[ssd].tier.device;
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

/// What is found on an SSD, the same each time that it is looked for.
fn look(around: &mut Around<'_>, share: &Share) -> Vec<Summary> {
    let ssd = &around.ssds[share.ssd];
    let found = ssd.summaries(share.own.clone(), around.plant);
    // The other way round, and block by block.
    let mut again: Vec<Summary> = (share.own.clone().rev())
        .flat_map(|block| ssd.summaries(block..block + 1, around.plant))
        .collect();
    again.reverse();
    around
        .oracle
        .expect(found == again, Check::RecoveryDiffers, around.now, || {
            format!(
                "SSD {}: {} blocks are found, and {} another time",
                share.ssd,
                found.len(),
                again.len()
            )
        });
    found
}

fn judge(around: &mut Around<'_>, share: &Share, found: &[Summary]) {
    use crate::ledger::Wrong;
    let ssd = &around.ssds[share.ssd];
    for block in share.own.clone() {
        let summary = found.iter().find(|of| of.head.block == block);
        let text = |what: &str| format!("SSD {} block {block}: {what}", share.ssd);
        match ssd.ledger.judge(block, summary) {
            None => {}
            Some(Wrong::Unknown) => around.oracle.fail(Check::FoundUnknown, around.now, || {
                text(&format!("was never sealed so: {summary:?}"))
            }),
            Some(Wrong::GivenUp) => around.oracle.fail(Check::FoundGivenUp, around.now, || {
                text("was given up, and is found")
            }),
            Some(Wrong::Lost(filling)) => {
                around.oracle.fail(Check::LostDurable, around.now, || {
                    text(&format!("filling {filling} was durable, and is not found"))
                })
            }
        }
        if let Some(summary) = summary
            && ssd.ledger.must_be_whole(block)
        {
            let verified =
                headlong_flash::format::verify_block(&ssd.tier, summary, ssd.medium.reader());
            around
                .oracle
                .expect(verified.1 == 0, Check::LostDurable, around.now, || {
                    text(&format!(
                        "{} records of a durable block are wrong",
                        verified.1
                    ))
                });
        }
    }
}
