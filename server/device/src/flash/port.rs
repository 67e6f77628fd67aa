//! Connection of one device to the flash tier. A staged record is copied, with its checksum, into
//! memory of its own; the engine bounds the bytes staged at a time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use headlong_engine::{FlashCommand, FlashRead, Slot};
use headlong_flash::format::{RecordName, Summary, SummaryHead};
use headlong_flash::{BlockId, PieceId, RecordEntry, RecordLocation, SsdId};

use super::completion::{FlashResult, RecoveredFlashBlock};
use super::jobs::{BlockJob, RecordsJob, SealJob, SsdJob, WriteJob};
use super::record_read::RecordRead;
use super::share::TierShare;
use crate::host::{Host, Notice};
use crate::resources::Resources;

/// A block that is being filled.
#[derive(Debug)]
struct BlockInProgress<T> {
    filling: u64,
    entries: Vec<RecordEntry>,
    /// Records not yet submitted to the SSD, by offset.
    staged: Vec<(u32, T)>,
    /// Set when staging or writing a record failed: the block must not be sealed.
    is_broken: Arc<AtomicBool>,
}

/// Connection of one device to the flash tier.
pub struct FlashPort<R: Resources> {
    share: TierShare,
    /// The generation of each readable block.
    fillings: BTreeMap<BlockId, u64>,
    collecting: BTreeMap<BlockId, BlockInProgress<R::Record>>,
    /// Blocks that were emptied and are filled next.
    emptied: BTreeSet<BlockId>,
    next_filling: u64,
}

impl<R: Resources> FlashPort<R> {
    /// Creates a port to `share`. `first_filling` must be random, so that generation numbers do not
    /// collide with those of another process.
    pub fn new(share: TierShare, first_filling: u64) -> Self {
        Self {
            share,
            fillings: BTreeMap::new(),
            collecting: BTreeMap::new(),
            emptied: BTreeSet::new(),
            next_filling: first_filling,
        }
    }

    /// The SSDs of the tier.
    pub fn ssds(&self) -> impl Iterator<Item = SsdId> + use<R> {
        (0..self.share.ssds().len() as u16).map(SsdId)
    }

    /// The device's share of the SSDs.
    pub fn share(&self) -> &TierShare {
        &self.share
    }

    /// Registers blocks that recovery found.
    pub(crate) fn register_found(&mut self, found: &[RecoveredFlashBlock]) {
        let fillings = found.iter().map(|of| (of.block.block, of.filling));
        self.fillings.extend(fillings);
    }

    /// Executes a command of the engine. Returns a completion if the command failed at once.
    pub(crate) fn command(
        &mut self,
        host: &mut impl Host<R>,
        command: FlashCommand,
    ) -> Option<FlashResult> {
        match command {
            FlashCommand::Stage {
                place,
                piece,
                length,
                slot,
            } => self.stage(host, place, piece, length, slot),
            FlashCommand::Write { block, from, to } => return self.write(host, block, from, to),
            FlashCommand::Seal {
                block,
                from,
                sequence,
            } => return self.seal(host, block, from, sequence),
            FlashCommand::Drop(block) => self.drop_block(host, block),
            FlashCommand::Read(read) => return self.read(host, read),
            FlashCommand::Probe(ssd) => host.submit(ssd, SsdJob::Probe(ssd)),
        }
        None
    }

    fn name(
        &self,
        place: RecordLocation,
        piece: PieceId,
        length: u32,
        filling: u64,
    ) -> Option<RecordName> {
        let (ssd, block) = self.share.locate(place.block)?;
        Some(RecordName {
            device: self.share.get(ssd)?.tier.device,
            block,
            filling,
            offset: place.offset,
            piece,
            length,
        })
    }

    fn stage(
        &mut self,
        host: &mut impl Host<R>,
        place: RecordLocation,
        piece: PieceId,
        length: u32,
        slot: Slot,
    ) {
        if !self.collecting.contains_key(&place.block) {
            self.begin(host, place.block);
        }
        let Some(filling) = self.fillings.get(&place.block).copied() else {
            return;
        };
        let name = self.name(place, piece, length, filling);
        let record = name.and_then(|name| host.stage(&name, slot));
        let Some(collecting) = self.collecting.get_mut(&place.block) else {
            return;
        };
        let Some(record) = record else {
            host.announce(Notice::RecordMissing(slot));
            collecting.is_broken.store(true, Ordering::Relaxed);
            return;
        };
        let offset = place.offset;
        collecting.entries.push(RecordEntry {
            piece,
            offset,
            length,
        });
        if !mutated!(RecordNotWritten) || collecting.staged.is_empty() {
            collecting.staged.push((offset, record));
        }
    }

    /// Starts a new generation of a block.
    fn begin(&mut self, host: &mut impl Host<R>, block: BlockId) {
        if !mutated!(FillingReused) {
            self.next_filling = self.next_filling.wrapping_add(1);
        }
        let filling = self.next_filling;
        self.fillings.insert(block, filling);
        let collecting = BlockInProgress {
            filling,
            entries: Vec::new(),
            staged: Vec::new(),
            is_broken: Arc::default(),
        };
        self.collecting.insert(block, collecting);
        if !self.emptied.remove(&block) && !mutated!(EmptyLeftOut) {
            self.submit(host, block, |block| BlockJob::Empty { block });
        }
    }

    /// Submits a block job, ordered after all earlier jobs of the SSD.
    fn submit(&self, host: &mut impl Host<R>, block: BlockId, job: impl FnOnce(u32) -> BlockJob) {
        if let Some((ssd, local)) = self.share.locate(block) {
            host.submit(ssd, SsdJob::Block(job(local)));
        }
    }

    fn write(
        &mut self,
        host: &mut impl Host<R>,
        of: BlockId,
        from: u32,
        to: u32,
    ) -> Option<FlashResult> {
        let failed = Some(FlashResult::Written {
            block: of,
            to,
            ok: false,
        });
        let Some(collecting) = self.collecting.get_mut(&of) else {
            return failed;
        };
        let staged = core::mem::take(&mut collecting.staged);
        let (records, later) = staged
            .into_iter()
            .partition(|(offset, _)| (from..to).contains(offset));
        collecting.staged = later;
        let is_broken = Arc::clone(&collecting.is_broken);
        let Some((ssd, block)) = self.share.locate(of) else {
            return failed;
        };
        let job = WriteJob {
            of,
            block,
            from,
            to,
            records,
            is_broken,
        };
        host.submit(ssd, SsdJob::Write(job));
        None
    }

    fn seal(
        &mut self,
        host: &mut impl Host<R>,
        of: BlockId,
        from: u32,
        sequence: u64,
    ) -> Option<FlashResult> {
        let place = self.share.locate(of);
        let Some((collecting, (ssd, block))) = self.collecting.remove(&of).zip(place) else {
            return Some(FlashResult::Sealed {
                block: of,
                ok: false,
            });
        };
        let BlockInProgress {
            filling,
            mut entries,
            is_broken,
            ..
        } = collecting;
        entries.sort_by_key(|entry| entry.offset);
        let head = SummaryHead {
            block,
            count: entries.len() as u32,
            filling,
            sequence: match mutated!(SequenceStale) {
                true => sequence.saturating_sub(1),
                false => sequence,
            },
            owner: self.share.owner(),
            sealed_s: host.wall_seconds(),
        };
        let summary = Summary { head, entries };
        let seal = SealJob::new(of, from, summary, is_broken);
        host.submit(ssd, SsdJob::Block(BlockJob::Seal(seal)));
        None
    }

    fn drop_block(&mut self, host: &mut impl Host<R>, block: BlockId) {
        let was_filled = self.collecting.remove(&block).is_some();
        if self.fillings.remove(&block).is_some() {
            self.submit(host, block, |block| BlockJob::Empty { block });
            match was_filled {
                true => self.submit(host, block, |block| BlockJob::GiveUp { block }),
                false => {
                    self.emptied.insert(block);
                }
            }
        }
    }

    fn read(&mut self, host: &mut impl Host<R>, read: FlashRead) -> Option<FlashResult> {
        let FlashRead { id, records } = read;
        let failed = Some(FlashResult::failed_read(id, records.len()));
        let Some(of) = records.first().map(|record| record.place.block) else {
            return failed;
        };
        let filling = self.fillings.get(&of).copied().unwrap_or(0);
        let wanted = records.into_iter().map(|record| {
            let (place, piece) = (record.place, record.piece);
            let name = self.name(place, piece, record.length, filling)?;
            let length = u64::from(record.length);
            let memory = host.lease(None, &[record.slot], length)?;
            (place.block == of).then_some(RecordRead {
                record,
                name,
                memory,
            })
        });
        let Some(wanted) = wanted.collect::<Option<Vec<_>>>() else {
            host.announce(Notice::ImpossibleFlashRead);
            return failed;
        };
        let Some((ssd, block)) = self.share.locate(of) else {
            return failed;
        };
        host.submit(ssd, SsdJob::Read(RecordsJob { id, block, wanted }));
        None
    }
}
