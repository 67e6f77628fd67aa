//! The flash tier: pieces that leave memory are offered to it, and pieces that it stores are not
//! read from the disk.
//!
//! A reply that reaches a missing piece gets it from flash at once, with the next few pieces that
//! it will send. Pieces on flash count as present when the next job of a chain is planned: the job
//! begins after them, and is due when they will have been sent. A record that is wrong, or does not
//! arrive, becomes a demand on the disk like any other.

use alloc::vec::Vec;

use headlong_flash::{
    BlockId, FlashSpec, FlashStore, FlashView, PieceId, ProbeResult, RecordLocation,
    RecoveredBlock, SEGMENT_BYTES, SpecError, SsdId, SsdState, StoreCommand,
};
use headlong_units::{Duration, Instant, MIB};

use super::state::Shard;
use crate::command::{Command, FlashCommand, FlashOutcome, FlashRead, FlashRecord};
use crate::flash::{Flash, LATE, OutstandingFlashRead, RecordRead};
use crate::ids::{ChainId, FlashReadId, RequestId, Slot, StreamId};
use crate::memory::{EvictedPiece, PieceKey};
use crate::queue::Job;

/// Bytes that are read from flash at a time for one reply.
const AT_ONCE_BYTES: u64 = MIB;
/// A job of the disk ends before at least this many bytes that are on flash. Reading across fewer
/// takes less time than coming back.
const WORTH_A_STOP_BYTES: u64 = MIB;

impl Shard {
    /// Attaches SSDs, with the blocks that were found on them. Also after the first request: a tier
    /// that takes time to scan may be attached later, and further SSDs too.
    ///
    /// # Errors
    /// Why they cannot be attached; then the tier is unchanged.
    pub fn attach_flash(
        &mut self,
        now: Instant,
        spec: &FlashSpec,
        recovered: Vec<RecoveredBlock>,
    ) -> Result<(), SpecError> {
        self.begin(now);
        match &mut self.flash {
            Some(flash) => flash.room.attach(self.now, spec)?,
            None => {
                let (config, piece_bytes) = (self.config.flash, self.config.piece_bytes);
                let room = FlashStore::new(self.now, config, piece_bytes, spec)?;
                self.flash = Some(Flash::new(room));
            }
        }
        if let Some(flash) = &mut self.flash {
            flash.room.recover(self.now, recovered);
        }
        self.finish();
        Ok(())
    }

    /// More blocks were found on attached SSDs. A block that has been overwritten meanwhile is
    /// ignored.
    pub fn handle_flash_recovered(&mut self, now: Instant, recovered: Vec<RecoveredBlock>) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.recover(self.now, recovered);
        }
        self.finish();
    }

    /// The scan of SSDs attached with [`FlashSpec::is_recovering`] is complete; `written_bytes`
    /// were written to them within the last day, and those of `fresh` were never filled.
    pub fn handle_flash_recovery_ended(
        &mut self,
        now: Instant,
        written_bytes: u64,
        fresh: &[SsdId],
    ) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.end_recovery(self.now, written_bytes, fresh);
        }
        self.finish();
    }

    /// Detaches an SSD. Its outstanding reads must still be answered.
    pub fn detach_flash(&mut self, now: Instant, ssd: SsdId) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.detach(ssd);
        }
        self.finish();
    }

    /// A [`FlashCommand::Write`] up to `to` ended. If it failed, the block is abandoned.
    pub fn handle_flash_written(&mut self, now: Instant, block: BlockId, to: u32, ok: bool) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.handle_written(self.now, block, to, ok);
        }
        self.finish();
    }

    /// A [`FlashCommand::Seal`] ended.
    pub fn handle_flash_sealed(&mut self, now: Instant, block: BlockId, ok: bool) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.handle_sealed(self.now, block, ok);
        }
        self.finish();
    }

    /// A read of flash ended; one outcome for each record, in their order. Slots of records that
    /// are not [`FlashOutcome::Done`] may hold anything. `took` is the time that the SSD took, if
    /// it was measured at submission and completion: the rest of the delay is then the machine's.
    /// Otherwise all of it counts for the SSD.
    pub fn handle_flash_read_done(
        &mut self,
        now: Instant,
        id: FlashReadId,
        outcomes: &[FlashOutcome],
        took: Option<Duration>,
    ) {
        self.begin(now);
        let read = self.flash.as_mut().and_then(|flash| flash.end(id));
        if let Some(read) = read {
            let waited = self.now.since(read.issued_at);
            let times = (waited, took.unwrap_or(waited).min(waited));
            for (index, record) in read.records.iter().enumerate() {
                let outcome = outcomes.get(index).copied();
                let outcome = outcome.unwrap_or(FlashOutcome::Error);
                self.flash_record_done(&read, record, outcome, times);
            }
            self.judge_flash_read(&read, outcomes, times.1);
        }
        self.go_on_with_postponed();
        self.finish();
    }

    /// A [`FlashCommand::Probe`] ended.
    pub fn handle_flash_probed(&mut self, now: Instant, ssd: SsdId, probed: ProbeResult) {
        self.begin(now);
        if let Some(flash) = &mut self.flash {
            flash.room.handle_probed(self.now, ssd, probed);
        }
        self.finish();
    }

    /// The next SSD whose state changed, with its state before and now.
    pub fn poll_ssd_change(&mut self) -> Option<(SsdId, SsdState, SsdState)> {
        self.flash.as_mut()?.room.poll_change()
    }

    /// Snapshot of the tier, if one is attached.
    pub fn flash_view(&self) -> Option<FlashView> {
        Some(self.flash.as_ref()?.room.view(self.now))
    }

    fn flash_record_done(
        &mut self,
        read: &OutstandingFlashRead,
        of: &RecordRead,
        outcome: FlashOutcome,
        times: (Duration, Duration),
    ) {
        let now = self.now;
        let Some(flash) = &mut self.flash else {
            return;
        };
        flash.room.end_read(now, of.place.block, times, 1);
        match outcome {
            FlashOutcome::Done if read.is_late || times.1 >= LATE => {}
            FlashOutcome::Done => flash.room.handle_right(of.place.block, of.length),
            FlashOutcome::Wrong => flash.room.handle_wrong(of.piece, of.place),
            FlashOutcome::Error => flash.room.handle_error(of.piece, of.place, true),
        }
        let key = (read.stream, of.number);
        // A late record is still useful unless the disk has begun to read the piece.
        let is_in_time = !read.is_late || self.memory.find(key).is_none();
        let is_wanted = self.streams.contains(read.stream) && is_in_time;
        if outcome == FlashOutcome::Done && is_wanted {
            if read.is_late {
                self.memory.name(of.slot, key);
            }
            self.flash_piece_came(read.chain, key, of.slot);
            return;
        }
        self.memory.unfilled(of.slot);
        if !read.is_late {
            self.demand_again(key.0, key.1, key.1 + 1);
        }
    }

    /// A read counts as one failure, however many of its records failed; all are in one block.
    fn judge_flash_read(
        &mut self,
        read: &OutstandingFlashRead,
        outcomes: &[FlashOutcome],
        took: Duration,
    ) {
        let is_error = |index: usize| {
            let outcome = outcomes.get(index).copied();
            outcome.unwrap_or(FlashOutcome::Error) == FlashOutcome::Error
        };
        let has_failed = (0..read.records.len()).any(is_error);
        let is_slow = took >= LATE && !read.is_lost;
        if let (Some(flash), Some(first), true) =
            (&mut self.flash, read.records.first(), has_failed || is_slow)
        {
            let block = first.place.block;
            flash.room.handle_read_failed(self.now, block, has_failed);
        }
    }

    fn flash_piece_came(&mut self, chain: ChainId, key: PieceKey, slot: Slot) {
        let place = self.streams.layout(key.0).map(|layout| layout.place(key.1));
        let ends_at = place.map_or(0, |place| place.logical + place.length);
        let reader = self.chains.get_mut(chain);
        let reader = reader.filter(|chain| chain.stream == key.0 && chain.position < ends_at);
        self.memory
            .filled_from_flash(self.now, slot, reader.is_some().then_some(chain));
        if let Some(reader) = reader {
            reader.unread.insert(key.1);
        }
        self.wake_waiters(key, slot);
    }

    /// Abandons reads that take too long: their pieces are demanded from the disk too. Whether the
    /// SSD caused the delay is known when they return; reads that never return count as its
    /// failure.
    pub(super) fn give_up_late_flash_reads(&mut self) {
        if let Some(flash) = &mut self.flash {
            while let Some(block) = flash.take_lost(self.now) {
                flash.room.handle_read_failed(self.now, block, false);
            }
        }
        while let Some((stream, records)) =
            (self.flash.as_mut()).and_then(|flash| flash.take_late(self.now))
        {
            for of in records {
                self.memory.unname(of.slot);
                if let Some(flash) = &mut self.flash {
                    flash.room.handle_error(of.piece, of.place, false);
                }
                self.demand_again(stream, of.number, of.number + 1);
            }
        }
        self.go_on_with_postponed();
    }

    /// While the disk is offline, defers a reply for a piece on flash until fewer records are being
    /// read. Returns whether it can be deferred.
    pub(super) fn postpone_for_flash(&mut self, id: RequestId, key: PieceKey) -> bool {
        let is_there = self.is_on_flash(key);
        is_there && (self.flash.as_mut()).is_some_and(|flash| flash.postpone(id))
    }

    /// Each deferred reply is advanced once; it may be deferred again.
    fn go_on_with_postponed(&mut self) {
        let Some(flash) = &mut self.flash else {
            return;
        };
        let mut postponed = core::mem::take(&mut flash.postponed);
        while let Some(id) =
            (self.flash.as_ref()).and_then(|flash| flash.take_postponed(&mut postponed))
        {
            self.advance(id);
        }
        if let Some(flash) = &mut self.flash {
            flash.postponed.append(&mut postponed);
        }
    }

    /// A reply reaches a piece that is not in memory: if it is on flash it is read from there, with
    /// the following pieces that the reply will send. Returns whether the piece is being read.
    pub(super) fn read_from_flash(&mut self, id: RequestId, first: u32) -> bool {
        let Some(reply) = self.replies.get(id).filter(|_| self.flash.is_some()) else {
            return false;
        };
        let (stream, chain) = (reply.stream, reply.chain);
        let Some(layout) = self.streams.layout(stream) else {
            return false;
        };
        let last = layout.piece_at(reply.part, reply.end.saturating_sub(1));
        let at_once = (AT_ONCE_BYTES / self.config.piece_bytes).max(1) as u32;
        let end = last.min(first.saturating_add(at_once - 1)) + 1;
        let mut records: Vec<RecordRead> = Vec::new();
        for number in first..end {
            if self.memory.find((stream, number)).is_some() {
                continue;
            }
            let Some(record) = self.take_flash_record(stream, number, number == first, &records)
            else {
                break;
            };
            records.push(record);
        }
        let is_coming = records.first().is_some_and(|record| record.number == first);
        self.send_flash_reads(stream, chain, records);
        is_coming
    }

    /// Takes memory for a record that can be read now, and pins its block.
    fn take_flash_record(
        &mut self,
        stream: StreamId,
        number: u32,
        is_needed: bool,
        before: &[RecordRead],
    ) -> Option<RecordRead> {
        let key = (stream, number);
        let (piece, place) = self.on_flash(key)?;
        let has_room = (self.flash.as_ref()).is_some_and(|of| {
            of.has_room_for(before.len() + 1) && of.room.has_room_at(place.block)
        });
        let is_short = self.memory.available() < self.memory.slot_count() / 8;
        if !has_room || (is_short && !is_needed) {
            return None;
        }
        let job = Job {
            chain: ChainId(u64::MAX),
            stream,
            from: number,
            to: number + 1,
            deadline: self.now,
            demanded: true,
            startup: false,
            can_wait: false,
            pieces_needed: 1,
            wanted_bytes: 0,
            physical: 0,
        };
        let slot = self.take_memory(&job, number, 1).pop()?;
        // An eviction for it may have replaced its block.
        let flash = self.flash.as_mut()?;
        let Some((place, length)) = flash.room.locate(piece) else {
            self.memory.unfilled(slot);
            return None;
        };
        flash.room.begin_read(self.now, place.block, &[piece]);
        Some(RecordRead {
            number,
            piece,
            place,
            length,
            slot,
        })
    }

    /// Adjoining records are read together.
    fn send_flash_reads(&mut self, stream: StreamId, chain: ChainId, records: Vec<RecordRead>) {
        let Some(flash) = &mut self.flash else {
            return;
        };
        let follows = |a: &RecordRead, b: &RecordRead| {
            a.place.block == b.place.block && a.place.end(a.length) == b.place.offset
        };
        for run in records.chunk_by(follows) {
            let record = |of: &RecordRead| FlashRecord {
                place: of.place,
                piece: of.piece,
                length: of.length,
                slot: of.slot,
            };
            let id = flash.begin(OutstandingFlashRead {
                stream,
                chain,
                records: run.to_vec(),
                issued_at: self.now,
                is_late: false,
                is_lost: false,
            });
            let records = run.iter().map(record).collect();
            let read = FlashCommand::Read(FlashRead { id, records });
            self.commands.push_back(Command::Flash(read));
        }
    }

    /// The identity and place of a piece that can be read from flash now.
    fn on_flash(&self, key: PieceKey) -> Option<(PieceId, RecordLocation)> {
        let flash = self.flash.as_ref()?;
        let (piece, length) = self.streams.layout(key.0)?.flash_piece(key.1)?;
        let (place, known) = flash.room.locate(piece)?;
        (u64::from(known) == length).then_some((piece, place))
    }

    /// Whether a piece can be read from flash now.
    pub(super) fn is_on_flash(&self, key: PieceKey) -> bool {
        self.on_flash(key).is_some()
    }

    /// End of a job of `from..to` of which a part is on flash: before the first run of such pieces
    /// that is long enough to stop for, or that extends to the job's end. The job always keeps its
    /// first piece.
    pub(super) fn end_before_flash(&self, stream: StreamId, from: u32, to: u32) -> u32 {
        if self.flash.is_none() {
            return to;
        }
        let worth = (WORTH_A_STOP_BYTES / self.config.piece_bytes).max(1) as u32;
        let mut run = 0;
        for piece in from + 1..to {
            match self.is_on_flash((stream, piece)) {
                true => run += 1,
                false => run = 0,
            }
            if run == worth {
                return piece + 1 - run;
            }
        }
        to - run
    }

    /// A piece leaves memory: offers it to the tier.
    pub(super) fn offer_to_flash(&mut self, evicted: &EvictedPiece, slot: Slot) {
        if self.flash.is_none() {
            return;
        }
        let is_wanted_soon = self.wanted_at(evicted.key).is_some();
        let layout = self.streams.layout(evicted.key.0);
        let named = layout.and_then(|layout| layout.flash_piece(evicted.key.1));
        let (Some(flash), Some((piece, length))) = (&mut self.flash, named) else {
            return;
        };
        let length = length as u32;
        let place = flash.room.offer(self.now, piece, length, is_wanted_soon);
        // Its target block may have held other records until now.
        while let Some(block) = flash.room.poll_dropped() {
            let drop = FlashCommand::Drop(block);
            self.commands.push_back(Command::Flash(drop));
        }
        if let Some(place) = place {
            let stage = FlashCommand::Stage {
                place,
                piece,
                length,
                slot,
            };
            self.commands.push_back(Command::Flash(stage));
        }
    }

    /// A viewer received bytes of a piece: updates the access frequency for admission to flash.
    pub(super) fn note_use(&mut self, key: PieceKey, bytes: u64) {
        let Some(flash) = &mut self.flash else {
            return;
        };
        let Some(layout) = self.streams.layout(key.0) else {
            return;
        };
        let Some((piece, _)) = layout.flash_piece(key.1) else {
            return;
        };
        let place = layout.place(key.1);
        let part_bytes = layout.part_bytes(place.part).unwrap_or(0);
        let segment = place.offset / SEGMENT_BYTES * SEGMENT_BYTES;
        let of_bytes = SEGMENT_BYTES.min(part_bytes.saturating_sub(segment));
        flash.room.record_use(self.now, piece, bytes, of_bytes);
    }

    /// Forgets the records of a stream that changed, or of one part of it.
    pub(super) fn forget_on_flash(&mut self, stream: StreamId, part: Option<u32>) {
        let (Some(flash), Some(layout)) = (&mut self.flash, self.streams.layout(stream)) else {
            return;
        };
        for (number, key) in (0..).zip(layout.flash_keys()) {
            if part.is_none_or(|part| part == number)
                && let Some(key) = key
            {
                flash.room.forget(key);
            }
        }
    }

    /// Issues writes and other commands to the SSDs.
    pub(super) fn issue_flash_writes(&mut self) {
        let Some(flash) = &mut self.flash else {
            return;
        };
        while let Some(command) = flash.room.poll_command(self.now) {
            let command = match command {
                StoreCommand::Write { block, from, to } => FlashCommand::Write { block, from, to },
                StoreCommand::Seal {
                    block,
                    from,
                    sequence,
                } => FlashCommand::Seal {
                    block,
                    from,
                    sequence,
                },
                StoreCommand::Drop(block) => FlashCommand::Drop(block),
                StoreCommand::Probe(ssd) => FlashCommand::Probe(ssd),
            };
            self.commands.push_back(Command::Flash(command));
        }
    }
}
