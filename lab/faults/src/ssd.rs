//! An SSD with one writer and many readers, a model of `headlong_storage::flash::Ssd` in virtual time. Jobs of
//! device cores run the production code.

use std::collections::{BTreeMap, VecDeque};

use headlong_device::flash::{
    BlockJob, EachRecord, FlashMedium, FlashResult, ProbedMedium, RecordRead, RecordsJob, SsdJob,
    WriteJob, probe,
};
use headlong_flash::format::{ReadFailed, SuperError, SuperRecord, padded_bytes};
use headlong_flash::{CheckpointDevice, Checkpoints, RECORD_ALIGN_BYTES, SsdId};
use headlong_random::Generator;
use headlong_units::Instant;

use crate::drive::{DriveFailure, SsdDrive, TIER_BYTES};
use crate::fault::{CrashPoint, RestartKind, SsdFault};
use crate::machine::SsdPlan;
use crate::resources::{SimulatedResources, SlotLease};

/// A job of the writer.
#[derive(Debug)]
enum WriterJob {
    Write(WriteJob<Vec<u8>>),
    Block(BlockJob),
}

/// An SSD as a medium of jobs.
pub(crate) struct SsdMedium<'d> {
    drive: &'d mut SsdDrive,
    /// Whether reads bypass faults.
    is_sound: bool,
}

impl<'d> SsdMedium<'d> {
    pub(crate) fn new(drive: &'d mut SsdDrive) -> Self {
        let is_sound = false;
        Self { drive, is_sound }
    }

    /// A medium without faults of reads.
    pub(crate) fn sound(drive: &'d mut SsdDrive) -> Self {
        let is_sound = true;
        Self { drive, is_sound }
    }
}

impl CheckpointDevice for SsdMedium<'_> {
    type Error = DriveFailure;

    fn tier(&self) -> SuperRecord {
        self.drive.tier
    }

    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        |at, into| match self.is_sound {
            true => {
                self.drive.medium.read(at, into);
                Ok(())
            }
            false => self.drive.read(at, into),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), DriveFailure> {
        self.drive.put(at, bytes)
    }
}

impl FlashMedium for SsdMedium<'_> {
    type Record = Vec<u8>;
    type Memory = SlotLease;

    fn flush(&mut self) -> Result<(), DriveFailure> {
        self.drive.flush()
    }

    fn discard(&mut self, _: u64, _: u64) {}

    fn write_records(
        &mut self,
        block_start: u64,
        records: Vec<(u32, Vec<u8>)>,
    ) -> Result<(), DriveFailure> {
        for (offset, bytes) in records {
            let at = block_start + u64::from(offset);
            self.drive.put(at, &bytes)?;
            self.drive.note_front(at);
        }
        Ok(())
    }

    fn read_run(
        &mut self,
        mut at: u64,
        run: &mut [RecordRead<SlotLease>],
        each: &mut EachRecord<'_>,
    ) -> Result<(), DriveFailure> {
        if self.drive.fails_reads() {
            return Err(DriveFailure);
        }
        for (index, wanted) in run.iter().enumerate() {
            let length = padded_bytes(wanted.record.length);
            let bytes = self.drive.read_record(at, length as usize);
            let (header, payload) = bytes.split_at(RECORD_ALIGN_BYTES as usize);
            let count = payload.len() as u64;
            wanted.memory.fill(0, count, |slot| {
                slot.copy_from_slice(&payload[..slot.len()])
            });
            each(index, header, payload);
            at += length;
        }
        Ok(())
    }
}

impl ProbedMedium for SsdMedium<'_> {
    fn bytes(&self) -> u64 {
        TIER_BYTES
    }

    fn reopen(&mut self) -> bool {
        self.drive.is_there()
    }
}

/// One SSD; it survives restarts of the server.
#[derive(Debug)]
pub(crate) struct SimulatedSsd {
    pub(crate) drive: SsdDrive,
    pub(crate) plan: SsdPlan,
    pub(crate) checkpoints: Checkpoints,
    /// Jobs of the writer, each with its disk.
    writer: VecDeque<(usize, WriterJob)>,
    writing_until: Option<Instant>,
    reads: BTreeMap<(Instant, u64), (usize, RecordsJob<SlotLease>)>,
    /// Probes: the disk, and the disk's id of the SSD.
    probes: BTreeMap<(Instant, u64), (usize, SsdId)>,
    next: u64,
    /// Whether the running server has opened it.
    is_open: bool,
}

impl SimulatedSsd {
    /// A formatted SSD that is not in use.
    pub(crate) fn formatted(plan: SsdPlan, piece_bytes: u64, chance: Generator) -> Self {
        Self {
            drive: SsdDrive::formatted(piece_bytes, chance),
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

    /// The server opens the SSD.
    ///
    /// # Errors
    /// Why it holds no usable tier; `None` if it does not answer or has another piece size.
    pub(crate) fn open(&mut self, piece_bytes: u64) -> Result<(), Option<SuperError>> {
        if self.drive.is_away() {
            return Err(None);
        }
        let [one, other] = self.drive.super_copies();
        let tier = SuperRecord::of_copies([&one, &other], TIER_BYTES).map_err(Some)?;
        if u64::from(tier.layout.piece_bytes()) != piece_bytes {
            return Err(None);
        }
        self.drive.tier = tier;
        self.is_open = true;
        Ok(())
    }

    pub(crate) fn submit(&mut self, now: Instant, disk: usize, job: SsdJob<SimulatedResources>) {
        let (read_us, write_us) = (self.plan.read_us, self.plan.write_us);
        self.next += 1;
        match job {
            SsdJob::Write(job) => self.writer.push_back((disk, WriterJob::Write(job))),
            SsdJob::Block(job) => self.writer.push_back((disk, WriterJob::Block(job))),
            SsdJob::Read(job) => {
                let at = now + self.drive.time(read_us);
                self.reads.insert((at, self.next), (disk, job));
            }
            SsdJob::Probe(id) => {
                let at = now + self.drive.time(read_us + write_us);
                self.probes.insert((at, self.next), (disk, id));
            }
        }
        self.begin_job(now);
    }

    fn begin_job(&mut self, now: Instant) {
        if self.writing_until.is_none() && !self.writer.is_empty() {
            let time = self.drive.time(self.plan.write_us);
            self.writing_until = Some(now + time);
        }
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

    /// The next completion by `now`: its disk, and the event for it.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(usize, Option<FlashResult>)> {
        if let Some(entry) = self.reads.first_entry().filter(|of| of.key().0 <= now) {
            let (disk, mut job) = entry.remove();
            let outcomes = job.run(&mut SsdMedium::new(&mut self.drive));
            let (id, took) = (job.id, None);
            return Some((disk, Some(FlashResult::Read { id, outcomes, took })));
        }
        if let Some(entry) = self.probes.first_entry().filter(|of| of.key().0 <= now) {
            let (disk, ssd) = entry.remove();
            let number = self.drive.chance.0.bits();
            let (probed, _) = probe(&mut SsdMedium::new(&mut self.drive), number);
            return Some((disk, Some(FlashResult::Probed { ssd, probed })));
        }
        self.writing_until.filter(|at| *at <= now)?;
        self.writing_until = None;
        let (disk, job) = self.writer.pop_front()?;
        let sealing = match &job {
            WriterJob::Block(BlockJob::Seal(seal)) => Some(seal.summary.head),
            _ => None,
        };
        let end = self.carry_out(job);
        if let (Some(head), Some(FlashResult::Sealed { ok: true, .. })) = (sealing, &end) {
            self.drive.ledger.seal(head.block, head.filling);
        }
        self.begin_job(now);
        Some((disk, end))
    }

    /// Whether a read or a probe is done by `now`.
    pub(crate) fn has_other(&self, now: Instant) -> bool {
        let read = self.reads.keys().next().map(|(at, _)| *at);
        let probe = self.probes.keys().next().map(|(at, _)| *at);
        [read, probe].into_iter().flatten().any(|at| at <= now)
    }

    /// Whether a write of this kind is in progress.
    pub(crate) fn is_writing(&self, moment: CrashPoint) -> bool {
        let job = self.writer.front().filter(|_| self.writing_until.is_some());
        job.is_some_and(|(_, job)| match moment {
            CrashPoint::Any => true,
            CrashPoint::Checkpoint => {
                matches!(
                    job,
                    WriterJob::Block(BlockJob::Empty { .. } | BlockJob::GiveUp { .. })
                )
            }
            CrashPoint::Records => matches!(job, WriterJob::Write(_)),
            CrashPoint::Seal => matches!(job, WriterJob::Block(BlockJob::Seal(_))),
        })
    }

    fn carry_out(&mut self, job: WriterJob) -> Option<FlashResult> {
        let medium = &mut SsdMedium::new(&mut self.drive);
        match job {
            WriterJob::Write(job) => Some(job.run(medium)),
            WriterJob::Block(job) => job.run(&mut self.checkpoints, medium),
        }
    }

    /// The server ends: the job in progress may be half done, waiting jobs are lost.
    pub(crate) fn end(&mut self, (restart, moment): (RestartKind, CrashPoint)) {
        self.reads.clear();
        self.probes.clear();
        let jobs = std::mem::take(&mut self.writer);
        let is_clean = restart == RestartKind::Clean && !self.drive.hangs() && self.is_open;
        let is_writing = self.writing_until.take().is_some();
        // A graceful shutdown may be followed by a kill.
        let is_cut = moment == CrashPoint::Checkpoint;
        if !is_clean || is_cut || self.drive.chance.percent(10) {
            self.drive.writes_left = Some(self.drive.chance.0.below(5));
        }
        if is_clean {
            for (_, job) in jobs {
                self.carry_out(job);
            }
            self.checkpoints
                .finish(&mut SsdMedium::new(&mut self.drive));
            let _ = self.drive.flush();
        } else if let Some((_, job)) = jobs.into_iter().next().filter(|_| is_writing) {
            self.carry_out(job);
        }
        self.drive.writes_left = None;
        self.checkpoints = Checkpoints::default();
        self.is_open = false;
        if restart == RestartKind::PowerCut {
            self.drive.cut_power();
        }
        self.drive.restore_older();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_empty() && self.reads.is_empty()
    }
}
