//! A simulated SSD for the rig: it stores staged records, takes time, and may fail.

use std::collections::BTreeMap;

use headlong_engine::{FlashCommand, FlashOutcome, FlashRead, Slot};
use headlong_flash::{BlockId, PieceId, ProbeResult, RecordLocation, SsdId};
use headlong_units::{Duration, Instant};

use super::{Content, Rig};

/// Behaviour and content of the SSD.
#[derive(Debug)]
pub struct Ssd {
    pub read_time: Duration,
    pub write_time: Duration,
    /// Time taken by the SSD itself, if the rest of the delay is the machine's.
    pub own_time: Option<Duration>,
    /// Every read and write fails.
    pub fails: bool,
    /// No command ends.
    pub hangs: bool,
    /// Records whose content is damaged.
    pub damaged: Vec<PieceId>,
    pub records: BTreeMap<(u32, u32), (PieceId, Content)>,
    pub reads: Vec<FlashRead>,
    pub written_bytes: u64,
    doing: BTreeMap<(Instant, u64), SsdOperation>,
    given: u64,
}

#[derive(Debug, Clone)]
enum SsdOperation {
    Read(FlashRead),
    Write(BlockId, u32),
    Seal(BlockId),
    Probe(SsdId),
}

impl Default for Ssd {
    fn default() -> Self {
        Self {
            read_time: Duration::from_millis(1),
            write_time: Duration::from_millis(5),
            own_time: None,
            fails: false,
            hangs: false,
            damaged: Vec::new(),
            records: BTreeMap::new(),
            reads: Vec::new(),
            written_bytes: 0,
            doing: BTreeMap::new(),
            given: 0,
        }
    }
}

impl Ssd {
    pub fn next_event(&self) -> Option<Instant> {
        let next = self.doing.keys().next().filter(|_| !self.hangs);
        next.map(|(at, _)| *at)
    }

    pub fn is_reading_into(&self, slot: Slot) -> bool {
        self.doing.values().any(|doing| match doing {
            SsdOperation::Read(read) => read.records.iter().any(|record| record.slot == slot),
            _ => false,
        })
    }

    fn begin(&mut self, now: Instant, time: Duration, doing: SsdOperation) {
        self.given += 1;
        self.doing.insert((now + time, self.given), doing);
    }

    /// Ends the first command in progress, whenever it is due.
    fn pop(&mut self) -> Option<SsdOperation> {
        self.doing.pop_first().map(|(_, doing)| doing)
    }
}

impl Rig {
    pub(super) fn obey_flash(&mut self, command: FlashCommand) {
        let now = self.now;
        match command {
            FlashCommand::Stage {
                place,
                piece,
                length,
                slot,
            } => {
                let content = *self.content.get(&slot).expect("a slot with a piece");
                assert!(!self.held.contains_key(&slot), "{slot:?} is being sent");
                let piece_bytes = self.shard.config().piece_bytes;
                assert_eq!(content.2, u64::from(piece.piece) * piece_bytes);
                assert_eq!(content.3, u64::from(length));
                let key = (place.block.0, place.offset);
                let before = self.ssd.records.insert(key, (piece, content));
                assert!(before.is_none(), "{place:?} is taken");
            }
            FlashCommand::Write { block, from, to } => {
                self.ssd.written_bytes += u64::from(to - from);
                let time = self.ssd.write_time;
                self.ssd.begin(now, time, SsdOperation::Write(block, to));
            }
            FlashCommand::Seal { block, .. } => {
                let time = self.ssd.write_time;
                self.ssd.begin(now, time, SsdOperation::Seal(block));
            }
            FlashCommand::Drop(block) => {
                let is_read = |doing: &SsdOperation| match doing {
                    SsdOperation::Read(read) => {
                        read.records.iter().any(|of| of.place.block == block)
                    }
                    _ => false,
                };
                let is_read = self.ssd.doing.values().any(is_read);
                assert!(
                    !is_read || self.may_drop_under_reads,
                    "{block:?} is being read"
                );
                self.ssd.records.retain(|(of, _), _| *of != block.0);
            }
            FlashCommand::Probe(ssd) => {
                let time = self.ssd.read_time + self.ssd.write_time;
                self.ssd.begin(now, time, SsdOperation::Probe(ssd));
            }
            FlashCommand::Read(read) => {
                for pair in read.records.windows(2) {
                    assert_eq!(pair[0].place.end(pair[0].length), pair[1].place.offset);
                }
                for record in &read.records {
                    assert!(!self.held.contains_key(&record.slot));
                    assert!(!self.ssd.is_reading_into(record.slot));
                    self.content.remove(&record.slot);
                }
                self.ssd.reads.push(read.clone());
                let time = self.ssd.read_time;
                self.ssd.begin(now, time, SsdOperation::Read(read));
            }
        }
    }

    pub(super) fn step_flash(&mut self) {
        let (now, ok) = (self.now, !self.ssd.fails);
        match self.ssd.pop().expect("a command is due") {
            SsdOperation::Write(block, to) => self.shard.handle_flash_written(now, block, to, ok),
            SsdOperation::Seal(block) => self.shard.handle_flash_sealed(now, block, ok),
            SsdOperation::Probe(ssd) => {
                let probed = ProbeResult {
                    reads: ok,
                    writes: ok,
                    took: None,
                };
                self.shard.handle_flash_probed(now, ssd, probed);
            }
            SsdOperation::Read(read) => {
                let outcomes: Vec<FlashOutcome> = (read.records.iter())
                    .map(|record| self.read_record(record.place, record.piece, record.slot))
                    .collect();
                self.shard
                    .handle_flash_read_done(now, read.id, &outcomes, self.ssd.own_time);
            }
        }
    }

    fn read_record(&mut self, place: RecordLocation, piece: PieceId, slot: Slot) -> FlashOutcome {
        let found = self.ssd.records.get(&(place.block.0, place.offset));
        let found = found.filter(|(of, _)| *of == piece);
        let is_right = !self.ssd.damaged.contains(&piece);
        self.content.remove(&slot);
        match (self.ssd.fails, found) {
            (true, _) => FlashOutcome::Error,
            (false, Some((_, content))) if is_right => {
                self.content.insert(slot, *content);
                FlashOutcome::Done
            }
            _ => FlashOutcome::Wrong,
        }
    }
}
