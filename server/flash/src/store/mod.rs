//! The flash store: placement of records, admission, eviction, and scheduling of writes.
//!
//! Of the pieces evicted from memory, those are worth writing that save the most disk time per byte
//! written. The time saved is the expected number of reads, estimated from recent reads of the
//! surrounding pieces. The first megabytes of a title count more, because a start costs a seek for
//! little data; a piece that a following viewer will need counts as read once more. A piece read
//! once by one viewer is worth nothing, unless there is space that was never filled. The admission
//! threshold rises as the write budget is used up, and is never lower than the value of the data
//! evicted in exchange.
//!
//! The owner (the engine's shard) calls [`FlashStore::offer`] before a piece leaves memory and
//! [`FlashStore::locate`] before a disk read, and executes [`FlashStore::poll_command`] on the SSDs.
//!
//! Invariants, besides those of the parts: a record returned by [`FlashStore::locate`] has been written;
//! each SSD has one task at a time; over any 24 hours no more bytes are written than the budget,
//! except for the initial fill of a fresh SSD; all state is bounded by the number of blocks.

mod access_frequency;
mod catalogue;
mod failover;
mod index;
mod recovery;
mod ssd;
mod ssd_health;
mod ssds;
mod victims;
mod wear;
mod window;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use crate::names::{BlockId, FileKey, PieceId, RECORD_ALIGN_BYTES, RecordLocation};
use crate::spec::{FlashPolicy, FlashSpec, FlashView, SpecError, SsdId, SsdView, StoreConfig};
pub use access_frequency::SEGMENT_BYTES;
use access_frequency::{AccessFrequency, ONE_READ};
use catalogue::{Catalogue, record_bytes};
use index::RecordIndex;
use ssd_health::SsdFault;
use ssds::{Ssd, TaskResult, WriteTask};
use wear::{FULL, Wear};

/// Offsets of records fit into 65,536 units of 4 KiB.
const BLOCK_BYTES_MAX: u32 = 256 << 20;
/// Default daily budget, in tenths of the tier's capacity.
const BUDGET_TENTHS: u64 = 3;
/// Counted segments per segment in the tier: segments not on flash must be counted too.
const COUNTED: u64 = 4;
/// Minimum value of an admitted record: it must have been read by more than one viewer, whatever
/// the budget.
const BAR: u64 = ONE_READ as u64 * 3 / 2;
/// With an empty bucket, the admission threshold is multiplied by two to this power.
const BAR_DOUBLINGS: u64 = 4;
/// How long the choice of the next block to evict is cached.
const VICTIM_AGE: Duration = Duration::from_secs(10);

/// A command for an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCommand {
    /// Write a range of a block.
    Write {
        /// The block.
        block: BlockId,
        /// Start of the range.
        from: u32,
        /// End of the range, exclusive.
        to: u32,
    },
    /// Write the summary and make the whole block durable.
    Seal {
        /// The block.
        block: BlockId,
        /// End of its records; the rest of the block is written too, so that it is written in
        /// order.
        from: u32,
        /// Sequence number, growing with every seal of the SSD.
        sequence: u64,
    },
    /// Drop the content of the block.
    Drop(BlockId),
    /// Probe the SSD: answer with [`FlashStore::handle_probed`].
    Probe(SsdId),
}

/// The SSDs of one tier, and their content.
#[derive(Debug)]
pub struct FlashStore {
    config: StoreConfig,
    piece_bytes: u64,
    block_bytes: u32,
    summary_bytes: u32,
    seal_bytes: u32,
    records_max: u32,
    catalogue: Catalogue,
    ssds: Vec<Ssd>,
    heat: AccessFrequency,
    wear: Wear,
    /// The last position given to a block in eviction order.
    turn: u64,
    dropped: VecDeque<BlockId>,
    counts: FlashView,
}

impl FlashStore {
    /// Creates the store of a tier of these SSDs, for pieces of `piece_bytes`.
    ///
    /// # Errors
    /// If the specification is invalid.
    pub fn new(
        now: Instant,
        config: StoreConfig,
        piece_bytes: u64,
        spec: &FlashSpec,
    ) -> Result<Self, SpecError> {
        let summary = spec.summary_bytes;
        let records_from = u64::from(summary) + u64::from(RECORD_ALIGN_BYTES);
        let fits = spec.block_bytes <= BLOCK_BYTES_MAX
            && spec.block_bytes.is_multiple_of(RECORD_ALIGN_BYTES)
            && summary.is_multiple_of(RECORD_ALIGN_BYTES)
            && records_from + piece_bytes <= u64::from(spec.block_bytes)
            && spec.records_max > 0;
        if !fits {
            return Err(SpecError::BlockSize);
        }
        let blocks = |ssd: &crate::spec::SsdSpec| {
            u64::from(ssd.blocks.end.0.saturating_sub(ssd.blocks.start.0))
        };
        let count: u64 = spec.ssds.iter().map(blocks).sum();
        let bytes = count * u64::from(spec.block_bytes);
        let mut room = Self {
            config,
            piece_bytes,
            block_bytes: spec.block_bytes,
            summary_bytes: summary,
            seal_bytes: spec.seal_bytes,
            records_max: spec.records_max.min(u32::from(u16::MAX)),
            catalogue: Catalogue::default(),
            ssds: Vec::new(),
            heat: AccessFrequency::new(bytes / SEGMENT_BYTES * COUNTED, config.horizon),
            wear: Wear::new(0),
            turn: 0,
            dropped: VecDeque::new(),
            counts: FlashView::default(),
        };
        room.attach(now, spec)?;
        Ok(room)
    }

    /// Attaches more SSDs, which are empty so far.
    ///
    /// # Errors
    /// If the specification is invalid; then nothing changes.
    pub fn attach(&mut self, now: Instant, spec: &FlashSpec) -> Result<(), SpecError> {
        if (spec.block_bytes, spec.summary_bytes) != (self.block_bytes, self.summary_bytes) {
            return Err(SpecError::OtherBlockSize);
        }
        for (index, ssd) in spec.ssds.iter().enumerate() {
            let (start, end) = (ssd.blocks.start.0, ssd.blocks.end.0);
            let overlaps = |from: u32, to: u32| from < end && start < to;
            let mut before = spec.ssds[..index].iter();
            let is_used = before.any(|other| {
                other.ssd == ssd.ssd || overlaps(other.blocks.start.0, other.blocks.end.0)
            });
            let mut there = self.ssds.iter();
            let is_there = there
                .any(|other| other.id == ssd.ssd || overlaps(other.first_block, other.end_block));
            if start >= end || is_used || is_there {
                return Err(SpecError::Blocks);
            }
        }
        for ssd in &spec.ssds {
            self.catalogue
                .add_blocks(ssd.blocks.start.0..ssd.blocks.end.0);
            let mut ssd = Ssd::new(ssd, self.block_bytes);
            ssd.is_recovering = spec.is_recovering;
            self.ssds.push(ssd);
        }
        let records = self.capacity_bytes() / (self.piece_bytes + u64::from(RECORD_ALIGN_BYTES));
        self.catalogue.reserve(records);
        let before = self.wear.budget();
        self.set_budget();
        if before == 0 {
            self.wear = Wear::new(self.wear.budget());
        }
        self.wear.record(now, spec.written_bytes);
        self.wear.reserve(now, spec.written_bytes);
        Ok(())
    }

    /// Detaches an SSD. Memory of its unsealed blocks is released by [`StoreCommand::Drop`].
    pub fn detach(&mut self, ssd: SsdId) {
        let Some(index) = self.ssds.iter().position(|of| of.id == ssd) else {
            return;
        };
        let gone = self.ssds.remove(index);
        for filling in &gone.filling {
            self.dropped.push_back(BlockId(filling.block));
        }
        (gone.first_block..gone.end_block).for_each(|of| self.catalogue.remove_block(of));
        self.set_budget();
    }

    /// Applies other settings.
    pub fn set_config(&mut self, config: StoreConfig) {
        self.config = config;
        self.heat.set_horizon(config.horizon);
        self.set_budget();
        self.ssds.iter_mut().for_each(|ssd| ssd.victim = None);
    }

    fn set_budget(&mut self) {
        let bytes = self.capacity_bytes();
        let budget = self.config.write_per_day_bytes;
        self.wear
            .set_budget(budget.unwrap_or(bytes / 10 * BUDGET_TENTHS));
    }

    fn capacity_bytes(&self) -> u64 {
        let blocks = self.ssds.iter().map(|ssd| ssd.end_block - ssd.first_block);
        blocks.map(u64::from).sum::<u64>() * u64::from(self.block_bytes)
    }

    /// Location and length of a piece that can be read now.
    pub fn locate(&self, piece: PieceId) -> Option<(RecordLocation, u32)> {
        let (at, record) = self.catalogue.find(piece)?;
        let ssd = self.ssds.iter().find(|ssd| ssd.has(at.block))?;
        let is_there = ssd.is_written(at.block, record.end()) && ssd.conduct.may_read();
        is_there.then_some((place_of(at, record.offset()), record.length))
    }

    /// Whether another record of this block's SSD may be requested: not if the load of all disks
    /// makes its reads slow.
    pub fn has_room_at(&self, block: BlockId) -> bool {
        let ssd = self.ssds.iter().find(|ssd| ssd.has(block.0));
        ssd.is_some_and(|ssd| ssd.conduct.has_room())
    }

    /// Counts bytes of a piece that were delivered to a viewer, from any source. `of_bytes` is the
    /// size of the piece's segment.
    pub fn record_use(&mut self, now: Instant, piece: PieceId, bytes: u64, of_bytes: u64) {
        let at = access_frequency::segment(piece, self.piece_bytes);
        self.heat.record(now, at, bytes, of_bytes);
    }

    /// Offers a piece that is about to leave memory. Returns the location of its record if it is
    /// admitted: its bytes must then be copied. `is_wanted_soon`: a following viewer will need it.
    pub fn offer(
        &mut self,
        now: Instant,
        piece: PieceId,
        length: u32,
        is_wanted_soon: bool,
    ) -> Option<RecordLocation> {
        if length == 0 || self.catalogue.find(piece).is_some() {
            return None;
        }
        let size = record_bytes(length);
        let bytes = u64::from(length);
        if u64::from(length) > self.piece_bytes {
            self.counts.refused.too_large_bytes += bytes;
            return None;
        }
        let mut able = self.ssds.iter().filter(|ssd| ssd.conduct.may_write());
        if able.clone().all(|ssd| ssd.is_recovering) {
            let refused = &mut self.counts.refused;
            match able.next() {
                Some(_) => refused.recovering_bytes += bytes,
                None => refused.out_of_service_bytes += bytes,
            }
            return None;
        }
        let Some(index) = self.ssd_for(size) else {
            self.counts.refused.busy_bytes += bytes;
            return None;
        };
        let is_first = self.is_first_filling(index);
        if !is_first && !self.is_worth(now, index, piece, is_wanted_soon) {
            self.counts.refused.not_worth_bytes += bytes;
            return None;
        }
        let is_open = self.ssds[index].opened().is_some();
        // A block is written to its end, however few records it has.
        let block = u64::from(self.block_bytes) + u64::from(self.seal_bytes);
        let opened = if is_open { 0 } else { block };
        let ahead: u64 = self.ssds.iter().map(|ssd| ssd.bytes_left(block)).sum();
        if !is_first && ahead + opened > self.wear.budget_left(now) {
            self.counts.refused.budget_bytes += bytes;
            return None;
        }
        if !is_open && !self.open(now, index, is_first) {
            self.counts.refused.busy_bytes += bytes;
            return None;
        }
        let records_max = self.records_max as usize;
        let filling = self.ssds[index].opened()?;
        let (block, offset) = (filling.block, filling.staged);
        if !self.catalogue.add(block, piece, offset, length) {
            return None;
        }
        filling.staged += size;
        let count = self.catalogue.block(block).map_or(0, |of| of.records.len());
        filling.is_closed = count >= records_max;
        if !filling.is_first {
            self.wear.reserve(now, u64::from(size));
        }
        self.counts.admitted_bytes += bytes;
        Some(RecordLocation {
            block: BlockId(block),
            offset,
        })
    }

    /// The SSD with the least pending writes that can take a record; an open block without room for
    /// it is closed.
    fn ssd_for(&mut self, size: u32) -> Option<usize> {
        let records_end = self.block_bytes - self.summary_bytes;
        for ssd in &mut self.ssds {
            if let Some(opened) = ssd.opened()
                && opened.staged + size > records_end
            {
                opened.is_closed = true;
            }
        }
        let left = |ssd: &Ssd| -> u64 {
            let filling = ssd.filling.iter();
            filling.map(|of| of.bytes_waiting()).sum()
        };
        let ssds = self.ssds.iter().enumerate();
        let able = ssds.filter(|(_, ssd)| ssd.conduct.may_write() && ssd.can_take());
        let able = able.map(|(index, ssd)| (left(ssd), index));
        able.min().map(|(_, index)| index)
    }

    /// Whether a record for an SSD goes to space that was never filled.
    fn is_first_filling(&mut self, index: usize) -> bool {
        let (block_bytes, ssd) = (u64::from(self.block_bytes), &mut self.ssds[index]);
        let has_room = ssd.first_left >= block_bytes && !ssd.empty.is_empty();
        ssd.opened().map_or(has_room, |opened| opened.is_first)
    }

    /// Whether the time that a record saves is worth its bytes.
    fn is_worth(&mut self, now: Instant, index: usize, piece: PieceId, is_soon: bool) -> bool {
        if self.config.policy != FlashPolicy::Adaptive {
            return true;
        }
        let level = self.wear.level(now);
        let has_empty = !self.ssds[index].empty.is_empty();
        if has_empty && level > FULL / 2 {
            return true;
        }
        let segment = access_frequency::segment(piece, self.piece_bytes);
        let reads = u64::from(self.heat.reads(now, segment));
        let reads = if segment.1 == 0 { reads * 3 / 2 } else { reads };
        let worth = reads + if is_soon { u64::from(ONE_READ) } else { 0 };
        let scarce = (FULL - level.min(FULL)) * BAR_DOUBLINGS;
        let (doublings, rest) = (scarce / FULL, scarce % FULL);
        let bar = (BAR << doublings) + (BAR << doublings) * rest / FULL;
        worth >= bar && (has_empty || worth >= self.floor(now, index))
    }

    /// Value of a record that would be evicted in exchange.
    fn floor(&mut self, now: Instant, index: usize) -> u64 {
        if let Some((_, worth, at)) = self.ssds[index].victim
            && now.since(at) < VICTIM_AGE
        {
            return worth;
        }
        let (policy, piece_bytes) = (self.config.policy, self.piece_bytes);
        let ssd = &self.ssds[index];
        let chosen = victims::choose(policy, now, ssd, &self.catalogue, &self.heat, piece_bytes);
        self.ssds[index].victim = chosen.map(|(block, worth)| (block, worth, now));
        chosen.map_or(0, |(_, worth)| worth)
    }

    /// Opens a block of an SSD: an empty one, or one that is evicted.
    fn open(&mut self, now: Instant, index: usize, is_first: bool) -> bool {
        let (policy, piece_bytes) = (self.config.policy, self.piece_bytes);
        let block = match self.ssds[index].empty.pop_front() {
            Some(block) => block,
            None => {
                let ssd = &self.ssds[index];
                let known = ssd.victim.map(|(block, ..)| block);
                let is_free = |block: &u32| {
                    let of = self.catalogue.block(*block);
                    ssd.has(*block) && of.is_some_and(|of| of.pins == 0 && of.turn > 0)
                };
                let chosen = known.filter(is_free).or_else(|| {
                    let (catalogue, heat) = (&self.catalogue, &self.heat);
                    let chosen = victims::choose(policy, now, ssd, catalogue, heat, piece_bytes);
                    chosen.map(|(block, _)| block)
                });
                let Some(block) = chosen else {
                    return false;
                };
                self.drop_sealed(index, block);
                block
            }
        };
        let ssd = &mut self.ssds[index];
        ssd.victim = None;
        if is_first {
            ssd.first_left -= u64::from(self.block_bytes).min(ssd.first_left);
        }
        ssd.open(block, is_first);
        true
    }

    fn drop_sealed(&mut self, index: usize, block: u32) {
        let turn = self.catalogue.block(block).map_or(0, |of| of.turn);
        let ssd = &mut self.ssds[index];
        if self.config.policy == FlashPolicy::Adaptive {
            victims::spare_older(ssd, &mut self.catalogue, turn, &mut self.turn);
        }
        ssd.by_turn.remove(&turn);
        self.catalogue.clear(block);
        self.counts.blocks_dropped += 1;
        self.dropped.push_back(BlockId(block));
    }

    /// The next block whose content was dropped. Must be polled after each admitted offer, before
    /// its bytes are copied, because the record may be placed in that block.
    pub fn poll_dropped(&mut self) -> Option<BlockId> {
        self.dropped.pop_front()
    }

    /// The next command for an SSD.
    pub fn poll_command(&mut self, now: Instant) -> Option<StoreCommand> {
        self.give_up_late_writes(now);
        if let Some(block) = self.dropped.pop_front() {
            return Some(StoreCommand::Drop(block));
        }
        let mut probes = self.ssds.iter_mut();
        let probe = probes.find_map(|ssd| ssd.conduct.begin_probe(now).then_some(ssd.id));
        if let Some(ssd) = probe {
            return Some(StoreCommand::Probe(ssd));
        }
        let is_paper = self.config.policy != FlashPolicy::Adaptive;
        for ssd in &mut self.ssds {
            if !ssd.has_task() || !ssd.conduct.may_write() {
                continue;
            }
            let is_calm = match is_paper {
                true => ssd.conduct.is_calm_by_use(now),
                false => ssd.conduct.is_calm(),
            };
            if !is_calm {
                continue;
            }
            let Some((task, is_first)) = ssd.begin_task() else {
                continue;
            };
            ssd.conduct.begin_write(now);
            let (command, bytes) = match task {
                WriteTask::Write { block, from, to } => {
                    let block = BlockId(block);
                    (StoreCommand::Write { block, from, to }, to - from)
                }
                WriteTask::Seal {
                    block,
                    from,
                    sequence,
                } => {
                    let bytes = self.block_bytes - from + self.seal_bytes;
                    let block = BlockId(block);
                    let seal = StoreCommand::Seal {
                        block,
                        from,
                        sequence,
                    };
                    (seal, bytes)
                }
            };
            self.counts.written_bytes += u64::from(bytes);
            if !is_first {
                self.wear.record(now, u64::from(bytes));
            }
            return Some(command);
        }
        None
    }

    /// A write up to `to` has completed.
    pub fn handle_written(&mut self, now: Instant, block: BlockId, to: u32, ok: bool) {
        self.end_task(now, block.0, Some(to), ok);
    }

    /// A seal has completed.
    pub fn handle_sealed(&mut self, now: Instant, block: BlockId, ok: bool) {
        self.end_task(now, block.0, None, ok);
    }

    fn end_task(&mut self, now: Instant, block: u32, to: Option<u32>, ok: bool) {
        let doing = |ssd: &Ssd| ssd.has(block) && ssd.is_doing(block, to);
        let Some(index) = self.ssds.iter().position(doing) else {
            return;
        };
        let ssd = &mut self.ssds[index];
        let is_over = ssd.conduct.end_write(now, ok);
        match (ssd.end_task(), ok) {
            (TaskResult::Nothing, _) | (TaskResult::Written, true) => {}
            (TaskResult::Sealed(block, sequence), true) => self.seal(now, block, sequence),
            // The written part may be intact, but its extent is unknown.
            (TaskResult::Written | TaskResult::Sealed(..), false) => {
                ssd.filling.retain(|filling| filling.block != block);
                self.drop_filling(index, block);
            }
        }
        if is_over {
            self.drop_all_filling(index);
        }
    }

    fn seal(&mut self, now: Instant, block: u32, sequence: u64) {
        self.turn += 1;
        if let Some(of) = self.catalogue.block_mut(block) {
            of.turn = self.turn;
            of.sequence = sequence;
            of.read_at = of.read_at.max(now);
            of.records.shrink_to_fit();
        }
        if let Some(ssd) = self.ssds.iter_mut().find(|ssd| ssd.has(block)) {
            ssd.by_turn.insert(self.turn, block);
        }
    }

    /// Abandons an unsealed block.
    fn drop_filling(&mut self, index: usize, block: u32) {
        self.catalogue.clear(block);
        self.ssds[index].empty.push_back(block);
        self.dropped.push_back(BlockId(block));
    }

    /// Reports that a read of records was submitted. The block is not evicted until
    /// [`Self::end_read`].
    pub fn begin_read(&mut self, now: Instant, block: BlockId, pieces: &[PieceId]) {
        for piece in pieces {
            let found = self.catalogue.find(*piece);
            if let Some((at, _)) = found.filter(|(at, _)| at.block == block.0)
                && let Some(record) = self.catalogue.record_mut(at)
            {
                record.reads = record.reads.saturating_add(1);
            }
        }
        if let Some(of) = self.catalogue.block_mut(block.0) {
            of.pins += 1;
            of.read_at = of.read_at.max(now);
        }
        if let Some(ssd) = self.ssds.iter_mut().find(|ssd| ssd.has(block.0)) {
            ssd.conduct.begin_read(now);
        }
    }

    /// Reports that the read returned that many records. `waited` is the total latency, of which
    /// the SSD took `took`; the rest is delay of this machine.
    pub fn end_read(
        &mut self,
        now: Instant,
        block: BlockId,
        (waited, took): (Duration, Duration),
        records: u64,
    ) {
        if let Some(of) = self.catalogue.block_mut(block.0) {
            of.pins = of.pins.saturating_sub(1);
        }
        if let Some(ssd) = self.ssds.iter_mut().find(|ssd| ssd.has(block.0)) {
            ssd.conduct.end_read(now, waited, took, records);
        }
    }

    /// A record was read intact and in time.
    pub fn handle_right(&mut self, block: BlockId, length: u32) {
        self.counts.reads += 1;
        self.counts.read_bytes += u64::from(length);
        if let Some(ssd) = self.ssds.iter_mut().find(|ssd| ssd.has(block.0)) {
            ssd.conduct.read_right();
        }
    }

    /// The record at a place is not the expected one: removes it from the index.
    pub fn handle_wrong(&mut self, piece: PieceId, place: RecordLocation) {
        self.counts.reads_wrong += 1;
        self.forget_at(piece, place);
    }

    /// The SSD failed to return a record, or was too slow. `is_lost`: the record is removed from
    /// the index.
    pub fn handle_error(&mut self, piece: PieceId, place: RecordLocation, is_lost: bool) {
        self.counts.reads_failed += 1;
        if is_lost {
            self.forget_at(piece, place);
        }
    }

    /// A read of records of this block failed or was too slow. Must be called once per read,
    /// whatever its number of records, because the SSD is judged by consecutive reads.
    pub fn handle_read_failed(&mut self, now: Instant, block: BlockId, is_lost: bool) {
        let fault = if is_lost {
            SsdFault::Failed
        } else {
            SsdFault::Slow
        };
        let index = self.ssds.iter().position(|ssd| ssd.has(block.0));
        if let Some(index) = index
            && self.ssds[index].conduct.read_failed(now, fault)
        {
            self.drop_all_filling(index);
        }
    }

    fn forget_at(&mut self, piece: PieceId, place: RecordLocation) {
        if let Some((at, record)) = self.catalogue.find(piece)
            && place_of(at, record.offset()) == place
        {
            self.catalogue.forget(at);
        }
    }

    /// Removes all records of a file.
    pub fn forget(&mut self, file: FileKey) {
        self.catalogue.forget_file(file);
    }

    /// Statistics of the tier.
    pub fn view(&self, now: Instant) -> FlashView {
        let ssd = |ssd: &Ssd| SsdView {
            ssd: ssd.id,
            state: ssd.conduct.state(),
            read_time: ssd.conduct.read_time(),
        };
        FlashView {
            is_recovering: self.ssds.iter().any(|ssd| ssd.is_recovering),
            capacity_bytes: self.capacity_bytes(),
            filled_bytes: self.catalogue.live_bytes(),
            records: self.catalogue.records(),
            budget_bytes: self.wear.budget(),
            budget_left_bytes: self.wear.budget_left(now),
            ssds: self.ssds.iter().map(ssd).collect(),
            ..self.counts.clone()
        }
    }

    /// Panics if an invariant is violated. For tests and simulations, because it visits every
    /// record.
    pub fn check_invariants(&self) {
        self.catalogue.check_invariants();
        for ssd in &self.ssds {
            let filling = ssd.filling.iter().map(|of| of.block);
            // During recovery, recovered blocks are in the empty list too.
            let has_turn = |of: &catalogue::CatalogueBlock| of.turn > 0;
            let is_found = |block: &u32| {
                ssd.is_recovering && self.catalogue.block(*block).is_some_and(has_turn)
            };
            let empty = || ssd.empty.iter().copied().filter(|block| !is_found(block));
            let mut blocks: Vec<u32> = empty().chain(filling).collect();
            blocks.extend(ssd.by_turn.values());
            blocks.sort_unstable();
            let all: Vec<u32> = (ssd.first_block..ssd.end_block).collect();
            assert_eq!(
                blocks, all,
                "every block of {:?} is in exactly one list",
                ssd.id
            );
            assert!(ssd.filling.len() <= ssds::FILLING_MAX);
            let is_empty = |block: &u32| {
                let of = self.catalogue.block(*block);
                of.is_some_and(|of| of.records.is_empty() && of.turn == 0)
            };
            assert!(
                empty().all(|block| is_empty(&block)),
                "an empty block has records"
            );
            for (turn, block) in &ssd.by_turn {
                assert!(self.catalogue.has_block(*block));
                assert_eq!(self.catalogue.block(*block).map(|of| of.turn), Some(*turn));
            }
        }
    }
}

fn place_of(at: RecordIndex, offset: u32) -> RecordLocation {
    RecordLocation {
        block: BlockId(at.block),
        offset,
    }
}
