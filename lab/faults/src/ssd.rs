//! An SSD with one writer and many readers, as `serve::flash::Ssd` has them, in virtual time.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use headlong_engine::{FlashOutcome, FlashReadId, FlashRecord};
use headlong_flash::format::{
    INDEX_HEAD_BYTES, IndexHead, Layout, RecordName, SUPER_BYTES, SUPER_COPIES, Summary, Super,
    SuperError, decode_index, decode_record, encode_index, padded_bytes, scan,
};
use headlong_flash::{BlockId, RECORD_ALIGN_BYTES};
use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::draw::Draw;
use crate::fault::{Restart, SsdFault};
use crate::ledger::Ledger;
use crate::machine::SsdPlan;
use crate::medium::Medium;
use crate::plant::Plant;
use crate::pool::Pool;

const TIER_BYTES: u64 = 30 << 20;
const BLOCK_BYTES: u64 = 256 << 10;

/// One thing that a writing job does.
#[derive(Debug, Clone)]
pub(crate) enum Doing {
    /// Takes a block's summary away.
    Erase(u32, u64),
    Records(u64, Vec<u8>),
    Summary(Box<Summary>, u64),
    Flush,
}

/// What is told when a job of the writer has ended.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Nothing,
    Written {
        block: BlockId,
        to: u32,
    },
    Sealed {
        block: BlockId,
        local: u32,
        filling: u64,
    },
}

/// A job of the writer.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) disk: usize,
    pub(crate) doing: Vec<Doing>,
    pub(crate) told: Told,
    pub(crate) is_broken: Rc<Cell<bool>>,
}

/// A read of records that lie in one block.
#[derive(Debug, Clone)]
pub(crate) struct ReadJob {
    pub(crate) disk: usize,
    pub(crate) id: FlashReadId,
    pub(crate) block_start: u64,
    pub(crate) wanted: Vec<(FlashRecord, RecordName)>,
}

/// One SSD; it outlives the server.
#[derive(Debug)]
pub(crate) struct Ssd {
    pub(crate) medium: Medium,
    pub(crate) tier: Super,
    pub(crate) ledger: Ledger,
    pub(crate) plan: SsdPlan,
    chance: Draw,
    ills: Vec<(SsdFault, Instant)>,
    older: Option<Medium>,
    writer: VecDeque<Job>,
    writing_until: Option<Instant>,
    reads: BTreeMap<(Instant, u64), ReadJob>,
    next: u64,
    /// What a clean stop saved, as long as nothing was written since.
    index: Option<Vec<Summary>>,
    /// Whether the server that runs has it.
    pub(crate) is_open: bool,
}

/// It failed.
#[derive(Debug)]
pub(crate) struct Failed;

impl Ssd {
    /// One that was formatted, and is not in use.
    pub(crate) fn formatted(plan: SsdPlan, piece_bytes: u64, chance: Generator) -> Self {
        let mut chance = Draw(chance);
        let layout = Layout::new(TIER_BYTES, BLOCK_BYTES, piece_bytes);
        let Ok(layout) = layout else {
            unreachable!("the sizes fit")
        };
        let device = u128::from(chance.0.bits()) << 64 | u128::from(chance.0.bits());
        let tier = Super { device, layout };
        let mut medium = Medium::default();
        for at in SUPER_COPIES {
            medium.write(at, &tier.encode());
        }
        medium.flush();
        Self {
            medium,
            tier,
            ledger: Ledger::default(),
            plan,
            chance,
            ills: Vec::new(),
            older: None,
            writer: VecDeque::new(),
            writing_until: None,
            reads: BTreeMap::new(),
            next: 0,
            index: None,
            is_open: false,
        }
    }

    pub(crate) fn fall_ill(&mut self, fault: SsdFault, until: Instant) {
        self.ledger.is_dishonest |= fault.is_dishonest();
        match fault {
            SsdFault::FlipsAtRest(count) => {
                (0..count).for_each(|_| self.medium.flip(&mut self.chance));
            }
            SsdFault::Wiped(byte) => self.medium.wipe(byte),
            SsdFault::OlderImage => self.older = Some(self.medium.clone()),
            _ => self.ills.push((fault, until)),
        }
    }

    /// Forgets the illnesses that are over.
    pub(crate) fn recover(&mut self, now: Instant) {
        self.ills.retain(|(_, until)| *until > now);
    }

    pub(crate) fn hangs(&self) -> bool {
        self.ills.iter().any(|(fault, _)| *fault == SsdFault::Hang)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.ills
            .iter()
            .any(|(fault, _)| *fault == SsdFault::Vanish)
    }

    fn strikes(&mut self, share_of: impl Fn(SsdFault) -> Option<u64>) -> bool {
        let shares = self.ills.iter().filter_map(|(fault, _)| share_of(*fault));
        let share = shares.max().unwrap_or(0);
        share > 0 && self.chance.percent(share)
    }

    fn time(&mut self, micros: u64) -> Duration {
        let slow = |(fault, _): &(SsdFault, Instant)| match fault {
            SsdFault::Slow(times) => *times,
            _ => 1,
        };
        let times = self.ills.iter().map(slow).max().unwrap_or(1);
        Duration::from_micros(micros + self.chance.0.below(micros + 1)).times(times)
    }

    /// The server opens it.
    ///
    /// # Errors
    /// What it is instead of a tier; nothing if it does not answer.
    pub(crate) fn open(&mut self, piece_bytes: u64) -> Result<(), Option<SuperError>> {
        if self.is_away() {
            return Err(None);
        }
        let mut copies = [[0; SUPER_BYTES]; 2];
        for (copy, at) in copies.iter_mut().zip(SUPER_COPIES) {
            self.medium.read(at, copy);
        }
        let tier = Super::of_copies([&copies[0], &copies[1]], TIER_BYTES).map_err(Some)?;
        if u64::from(tier.layout.piece_bytes()) != piece_bytes {
            return Err(None);
        }
        self.tier = tier;
        self.index = self.take_index();
        self.is_open = true;
        Ok(())
    }

    /// As `serve::flash::recover::take_index`.
    fn take_index(&mut self) -> Option<Vec<Summary>> {
        let (at, _) = self.tier.layout.index_place();
        let mut head = vec![0; INDEX_HEAD_BYTES];
        self.medium.read(at, &mut head);
        if head.iter().all(|byte| *byte == 0) {
            return None;
        }
        let summaries =
            IndexHead::decode(&head, self.tier.device, &self.tier.layout).and_then(|head| {
                let mut body = vec![0; usize::try_from(head.body_bytes).ok()?];
                self.medium.read(at + INDEX_HEAD_BYTES as u64, &mut body);
                decode_index(&head, &body, self.tier.device, &self.tier.layout)
            });
        self.medium.write(at, &[0; INDEX_HEAD_BYTES]);
        self.medium.flush();
        self.ledger.flush();
        summaries
    }

    /// As `serve::flash::recover::save_index`, cut off by chance.
    fn save_index(&mut self) {
        let all = 0..self.tier.layout.block_count();
        let found = scan(&self.tier, all, self.medium.reader()).summaries;
        let encoded = encode_index(found.iter(), self.tier.device, &self.tier.layout);
        let Some((head, body)) = encoded else {
            return;
        };
        let (at, _) = self.tier.layout.index_place();
        self.medium.write(at + INDEX_HEAD_BYTES as u64, &body);
        if self.chance.percent(10) {
            return;
        }
        self.medium.flush();
        self.ledger.flush();
        self.medium.write(at, &head);
        if self.chance.percent(90) {
            self.medium.flush();
        }
    }

    /// Sealed blocks of a range, as `serve::flash::Ssd::recover` says.
    pub(crate) fn summaries(
        &self,
        blocks: std::ops::Range<u32>,
        plant: Option<Plant>,
    ) -> Vec<Summary> {
        if let Some(index) = &self.index {
            let own = index.iter().filter(|of| blocks.contains(&of.head.block));
            return own.cloned().collect();
        }
        if plant == Some(Plant::TornSummaryTaken) {
            return crate::planted::scan_unchecked(&self.tier, blocks, &self.medium);
        }
        scan(&self.tier, blocks, self.medium.reader()).summaries
    }

    pub(crate) fn forget_index(&mut self) {
        self.index = None;
    }

    pub(crate) fn write(&mut self, now: Instant, job: Job) {
        self.writer.push_back(job);
        self.begin_job(now);
    }

    fn begin_job(&mut self, now: Instant) {
        if self.writing_until.is_none() && !self.writer.is_empty() {
            let time = self.time(self.plan.write_us);
            self.writing_until = Some(now + time);
        }
    }

    pub(crate) fn read(&mut self, now: Instant, job: ReadJob) {
        let at = now + self.time(self.plan.read_us);
        self.next += 1;
        self.reads.insert((at, self.next), job);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.hangs() {
            return None;
        }
        let read = self.reads.keys().next().map(|(at, _)| *at);
        [read, self.writing_until].into_iter().flatten().min()
    }

    /// The writing job that is done by now, and whether it did well.
    pub(crate) fn pop_write(&mut self, now: Instant, plant: Option<Plant>) -> Option<(Job, bool)> {
        self.writing_until.filter(|at| *at <= now)?;
        self.writing_until = None;
        let job = self.writer.pop_front()?;
        let mut ended = Ok(());
        for doing in &job.doing {
            ended = self.carry_out(doing);
            if ended.is_err() && plant != Some(Plant::WriteErrorSwallowed) {
                break;
            }
        }
        self.begin_job(now);
        let swallows = plant == Some(Plant::WriteErrorSwallowed);
        let is_records = matches!(job.told, Told::Written { .. });
        if ended.is_err() && is_records && !swallows {
            job.is_broken.set(true);
        }
        let ok = (ended.is_ok() && !job.is_broken.get()) || swallows;
        Some((job, ok))
    }

    fn carry_out(&mut self, doing: &Doing) -> Result<(), Failed> {
        if self.is_away() {
            return Err(Failed);
        }
        match doing {
            Doing::Flush => {
                let fails = |fault| match fault {
                    SsdFault::FlushErrors(share) => Some(share),
                    _ => None,
                };
                if self.strikes(fails) {
                    self.medium.fail_flush();
                    return Err(Failed);
                }
                self.medium.flush();
                self.ledger.flush();
                Ok(())
            }
            Doing::Erase(block, at) => {
                self.put(*at, &vec![0; RECORD_ALIGN_BYTES as usize])?;
                self.ledger.erase(*block);
                Ok(())
            }
            Doing::Records(at, bytes) => self.put(*at, bytes),
            Doing::Summary(summary, at) => {
                let bytes = summary.encode(self.tier.device);
                self.put(*at, &bytes)
            }
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        let fails = |fault| match fault {
            SsdFault::WriteErrors(share) => Some(share),
            _ => None,
        };
        if self.strikes(fails) {
            // Some of it may have been written.
            if self.chance.percent(50) {
                self.medium.write_torn(&mut self.chance, at, bytes);
            }
            return Err(Failed);
        }
        let is_lost = self.strikes(|fault| match fault {
            SsdFault::LostWrites(share) => Some(share),
            _ => None,
        });
        let is_misdirected = self.strikes(|fault| match fault {
            SsdFault::Misdirected(share) => Some(share),
            _ => None,
        });
        let is_torn = self.strikes(|fault| match fault {
            SsdFault::Torn(share) => Some(share),
            _ => None,
        });
        if is_misdirected {
            let block = self.chance.0.below(12) * BLOCK_BYTES + at % BLOCK_BYTES;
            let page = self.chance.0.below(3) * 8192;
            let elsewhere = self.tier.layout.block_start(0).unwrap_or(0) + block + page;
            self.medium.write(elsewhere, bytes);
        } else if is_torn {
            self.medium.write_torn(&mut self.chance, at, bytes);
        } else if !is_lost {
            self.medium.write(at, bytes);
        }
        Ok(())
    }

    pub(crate) fn pop_read(&mut self, now: Instant) -> Option<ReadJob> {
        let entry = self.reads.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }

    /// As `serve::flash::ssd::read_records`.
    pub(crate) fn carry_out_read(
        &mut self,
        job: &ReadJob,
        pool: &mut Pool,
        plant: Option<Plant>,
    ) -> Vec<FlashOutcome> {
        let fails = |fault| match fault {
            SsdFault::ReadErrors(share) => Some(share),
            _ => None,
        };
        if self.is_away() || self.strikes(fails) {
            return vec![FlashOutcome::Error; job.wanted.len()];
        }
        let one = |(record, name): &(FlashRecord, RecordName)| {
            let at = job.block_start + u64::from(record.place.offset);
            let bytes = self.record_bytes(at, padded_bytes(record.length) as usize);
            let (header, payload) = bytes.split_at(RECORD_ALIGN_BYTES as usize);
            let slot = pool.slot_mut(record.slot);
            let count = payload.len().min(slot.len());
            slot[..count].copy_from_slice(&payload[..count]);
            let is_right = match plant {
                Some(Plant::ChecksumUnchecked) => {
                    RecordName::of_header(header).as_ref() == Some(name)
                }
                Some(Plant::RecordKeyUnchecked) => {
                    RecordName::of_header(header).is_some_and(|found| {
                        let length = name.length;
                        found.length == length && decode_record(&found, header, payload)
                    })
                }
                _ => decode_record(name, header, payload),
            };
            match is_right {
                true => FlashOutcome::Done,
                false => FlashOutcome::Wrong,
            }
        };
        job.wanted.iter().map(one).collect()
    }

    fn record_bytes(&mut self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let is_stale = self.strikes(|fault| match fault {
            SsdFault::StaleReads(share) => Some(share),
            _ => None,
        });
        match is_stale {
            true => self.medium.read_before(at, &mut bytes),
            false => self.medium.read(at, &mut bytes),
        }
        let flips = self.strikes(|fault| match fault {
            SsdFault::FlipsRead(share) => Some(share),
            _ => None,
        });
        if flips {
            let bit = self.chance.0.below(length as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes
    }

    /// The server ends: what was begun may be half done, what was not is lost.
    pub(crate) fn end(&mut self, restart: Restart) {
        self.reads.clear();
        let jobs = std::mem::take(&mut self.writer);
        let is_clean = restart == Restart::Clean && !self.hangs() && self.is_open;
        if is_clean {
            for job in &jobs {
                for doing in &job.doing {
                    if self.carry_out(doing).is_err() {
                        break;
                    }
                }
            }
            if !self.is_away() {
                self.save_index();
            }
        } else if let Some(job) = jobs.front().filter(|_| self.writing_until.is_some()) {
            let done = self.chance.0.below(job.doing.len() as u64 + 1) as usize;
            for doing in job.doing.iter().take(done) {
                if self.carry_out(doing).is_err() {
                    break;
                }
            }
        }
        self.writing_until = None;
        self.index = None;
        self.is_open = false;
        if restart == Restart::PowerCut {
            self.medium.cut_power(&mut self.chance);
            self.ledger.cut_power();
        }
        if let Some(older) = self.older.take() {
            self.medium.restore(&older);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_empty() && self.reads.is_empty()
    }
}
