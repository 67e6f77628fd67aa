//! An SSD with one writer and many readers, as `serve::flash::Ssd` has them, in virtual time.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use headlong_engine::{FlashOutcome, FlashReadId, FlashRecord};
use headlong_flash::format::{RecordName, Summary, Super, SuperError, decode_record, padded_bytes};
use headlong_flash::{BlockId, Checkpoints, RECORD_ALIGN_BYTES, SsdId};
use headlong_random::Generator;
use headlong_units::Instant;

use crate::checkpoints::Planted;
use crate::drive::{Drive, Failed, TIER_BYTES};
use crate::fault::{Moment, Restart, SsdFault};
use crate::machine::SsdPlan;
use crate::plant::Plant;
use crate::pool::Pool;

/// One thing that a writing job does.
#[derive(Debug, Clone)]
pub(crate) enum Doing {
    /// Makes ready a block for something else: its checkpoint is void.
    Empty(u32),
    /// A block is given up.
    GiveUp(u32),
    Records(u64, Vec<u8>),
    /// Makes void for sure the checkpoint of a block's group.
    Void(u32),
    Summary(Box<Summary>, u64),
    /// A block is sealed.
    Sealed(Box<Summary>),
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
    pub(crate) drive: Drive,
    pub(crate) plan: SsdPlan,
    pub(crate) checkpoints: Checkpoints,
    writer: VecDeque<Job>,
    writing_until: Option<Instant>,
    reads: BTreeMap<(Instant, u64), ReadJob>,
    /// For which disk, and what that disk calls the SSD.
    probes: BTreeMap<(Instant, u64), (usize, SsdId)>,
    next: u64,
    /// Whether the server that runs has it.
    is_open: bool,
}

impl Ssd {
    /// One that was formatted, and is not in use.
    pub(crate) fn formatted(plan: SsdPlan, piece_bytes: u64, chance: Generator) -> Self {
        Self {
            drive: Drive::formatted(piece_bytes, chance),
            plan,
            checkpoints: Checkpoints::default(),
            writer: VecDeque::new(),
            writing_until: None,
            reads: BTreeMap::new(),
            probes: BTreeMap::new(),
            next: 0,
            is_open: false,
        }
    }

    pub(crate) fn fall_ill(&mut self, fault: SsdFault, until: Instant) {
        self.drive.fall_ill(fault, until);
    }

    /// The server opens it.
    ///
    /// # Errors
    /// What it is instead of a tier; nothing if it does not answer.
    pub(crate) fn open(&mut self, piece_bytes: u64) -> Result<(), Option<SuperError>> {
        if self.drive.is_away() {
            return Err(None);
        }
        let [one, other] = self.drive.super_copies();
        let tier = Super::of_copies([&one, &other], TIER_BYTES).map_err(Some)?;
        if u64::from(tier.layout.piece_bytes()) != piece_bytes {
            return Err(None);
        }
        self.drive.tier = tier;
        self.is_open = true;
        Ok(())
    }

    pub(crate) fn write(&mut self, now: Instant, job: Job) {
        self.writer.push_back(job);
        self.begin_job(now);
    }

    fn begin_job(&mut self, now: Instant) {
        if self.writing_until.is_none() && !self.writer.is_empty() {
            let time = self.drive.time(self.plan.write_us);
            self.writing_until = Some(now + time);
        }
    }

    pub(crate) fn read(&mut self, now: Instant, job: ReadJob) {
        let at = now + self.drive.time(self.plan.read_us);
        self.next += 1;
        self.reads.insert((at, self.next), job);
    }

    /// Sees, for a disk, whether it is well.
    pub(crate) fn begin_probe(&mut self, now: Instant, of: (usize, SsdId)) {
        let at = now + self.drive.time(self.plan.read_us + self.plan.write_us);
        self.next += 1;
        self.probes.insert((at, self.next), of);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.drive.hangs() {
            return None;
        }
        let read = self.reads.keys().next().map(|(at, _)| *at);
        let probe = self.probes.keys().next().map(|(at, _)| *at);
        [read, probe, self.writing_until]
            .into_iter()
            .flatten()
            .min()
    }

    /// The writing job that is done by now, and whether it did well.
    pub(crate) fn pop_write(&mut self, now: Instant, plant: Option<Plant>) -> Option<(Job, bool)> {
        self.writing_until.filter(|at| *at <= now)?;
        self.writing_until = None;
        let job = self.writer.pop_front()?;
        let ended = self.carry_out_job(&job, plant);
        self.begin_job(now);
        let swallows = plant == Some(Plant::WriteErrorSwallowed);
        let is_records = matches!(job.told, Told::Written { .. });
        if ended.is_err() && is_records && !swallows {
            job.is_broken.set(true);
        }
        let ok = (ended.is_ok() && !job.is_broken.get()) || swallows;
        Some((job, ok))
    }

    /// Whether something is being written, of this kind.
    pub(crate) fn is_writing(&self, moment: Moment) -> bool {
        let job = self.writer.front().filter(|_| self.writing_until.is_some());
        job.is_some_and(|job| match moment {
            Moment::Any => true,
            Moment::Checkpoint => matches!(job.told, Told::Nothing),
            Moment::Records => matches!(job.told, Told::Written { .. }),
            Moment::Seal => matches!(job.told, Told::Sealed { .. }),
        })
    }

    fn carry_out_job(&mut self, job: &Job, plant: Option<Plant>) -> Result<(), Failed> {
        let is_seal = matches!(job.told, Told::Sealed { .. });
        if is_seal && job.is_broken.get() {
            return Err(Failed);
        }
        let mut ended = Ok(());
        for doing in &job.doing {
            ended = self.carry_out(doing, plant);
            if ended.is_err() && plant != Some(Plant::WriteErrorSwallowed) {
                break;
            }
        }
        ended
    }

    fn carry_out(&mut self, doing: &Doing, plant: Option<Plant>) -> Result<(), Failed> {
        let (drive, checkpoints) = (&mut self.drive, &mut self.checkpoints);
        match doing {
            Doing::Flush => drive.flush()?,
            // A summary that stays leads to records that are not what it says: misses.
            Doing::Empty(block) => drop(checkpoints.begin(&mut Planted(drive, plant), *block)),
            Doing::GiveUp(block) => checkpoints.end(*block, None),
            Doing::Void(block) => checkpoints.void(&mut Planted(drive, plant), *block)?,
            Doing::Records(at, bytes) => {
                drive.put(*at, bytes)?;
                drive.note_front(*at);
            }
            Doing::Summary(summary, at) => {
                let (from, bytes) = summary.encode_tail(drive.tier.device, &drive.tier.layout);
                drive.put(at + u64::from(from), &bytes)?;
            }
            Doing::Sealed(summary) => {
                let known = (plant != Some(Plant::CheckpointStale)).then(|| (**summary).clone());
                checkpoints.end(summary.head.block, known);
            }
        }
        Ok(())
    }

    pub(crate) fn pop_read(&mut self, now: Instant) -> Option<ReadJob> {
        let entry = self.reads.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }

    /// The probe that is done by now.
    pub(crate) fn pop_probe(&mut self, now: Instant) -> Option<(usize, SsdId)> {
        let entry = self.probes.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }

    /// As `serve::flash::ssd::read_records`.
    pub(crate) fn carry_out_read(
        &mut self,
        job: &ReadJob,
        pool: &mut Pool,
        plant: Option<Plant>,
    ) -> Vec<FlashOutcome> {
        if self.drive.fails_reads() {
            return vec![FlashOutcome::Error; job.wanted.len()];
        }
        let one = |(record, name): &(FlashRecord, RecordName)| {
            let at = job.block_start + u64::from(record.place.offset);
            let bytes = self
                .drive
                .read_record(at, padded_bytes(record.length) as usize);
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

    /// The server ends: what was begun may be half done, what was not is lost.
    pub(crate) fn end(&mut self, (restart, moment): (Restart, Moment), plant: Option<Plant>) {
        self.reads.clear();
        self.probes.clear();
        let jobs = std::mem::take(&mut self.writer);
        let is_clean = restart == Restart::Clean && !self.drive.hangs() && self.is_open;
        let is_writing = self.writing_until.take().is_some();
        // An order to stop may be followed by an end that does not wait.
        let is_cut = moment == Moment::Checkpoint;
        if !is_clean || is_cut || self.drive.chance.percent(10) {
            self.drive.writes_left = Some(self.drive.chance.0.below(5));
        }
        if is_clean {
            for job in &jobs {
                let _ = self.carry_out_job(job, plant);
            }
            self.checkpoints
                .finish(&mut Planted(&mut self.drive, plant));
            let _ = self.drive.flush();
        } else if let Some(job) = jobs.front().filter(|_| is_writing) {
            let _ = self.carry_out_job(job, plant);
        }
        self.drive.writes_left = None;
        self.checkpoints = Checkpoints::default();
        self.is_open = false;
        if restart == Restart::PowerCut {
            self.drive.cut_power();
        }
        self.drive.restore_older();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_empty() && self.reads.is_empty()
    }
}
