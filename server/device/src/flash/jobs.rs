//! What an SSD is told to do. A job travels to the thread that carries it out; its answer is a
//! [`FlashEnd`], or [`SsdJob::failure`] where it is not carried out.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use headlong_engine::{FlashOutcome, FlashReadId};
use headlong_flash::format::{RecordName, Summary, decode_record, padded_bytes};
use headlong_flash::{BlockId, Checkpoints, SsdId};

use super::end::FlashEnd;
use super::medium::FlashMedium;
use super::probe::PROBE_FAILED;
use super::wanted::WantedRecord;
use crate::resources::Resources;

/// Most records in one call: each takes two runs of memory, and the kernel takes 1,024.
const RECORDS_MAX: usize = 256;

/// Something that an SSD is to do.
pub enum SsdJob<R: Resources> {
    /// Write records; in order with [`SsdJob::Block`].
    Write(WriteJob<R::Record>),
    /// Change what a block is; in order with [`SsdJob::Write`].
    Block(BlockJob),
    /// Read records.
    Read(RecordsJob<R::Memory>),
    /// See whether it is well: [`super::probe`].
    Probe(SsdId),
}

impl<R: Resources> SsdJob<R> {
    /// The answer to a job that is not carried out.
    pub fn failure(&self) -> Option<FlashEnd> {
        match self {
            Self::Write(job) => Some(job.told(false)),
            Self::Block(BlockJob::Seal(job)) => Some(job.end(false)),
            Self::Block(_) => None,
            Self::Read(job) => Some(FlashEnd::failed_read(job.id, job.wanted.len())),
            Self::Probe(ssd) => Some(FlashEnd::Probed {
                ssd: *ssd,
                probed: PROBE_FAILED,
            }),
        }
    }
}

/// Writes records of a block.
#[derive(Debug)]
pub struct WriteJob<R> {
    /// The block, as the engine counts.
    pub of: BlockId,
    /// The same, as the SSD counts.
    pub block: u32,
    /// First byte within the block.
    pub from: u32,
    /// One past the last byte.
    pub to: u32,
    /// Each with its offset in the block.
    pub records: Vec<(u32, R)>,
    pub(crate) is_broken: Arc<AtomicBool>,
}

impl<R> WriteJob<R> {
    /// Writes them, and answers once their memory is free.
    pub fn run<M: FlashMedium<Record = R>>(mut self, medium: &mut M) -> FlashEnd {
        let records = core::mem::take(&mut self.records);
        let start = medium.tier().layout.block_start(self.block);
        let written = start.is_some_and(|start| medium.write_records(start, records).is_ok());
        self.end(written)
    }

    /// The answer, if the records were written or not. A block of which one failed is not sealed.
    pub fn end(&self, is_written: bool) -> FlashEnd {
        if !is_written && !mutated!(WriteErrorSwallowed) {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        self.told(!self.is_broken.load(Ordering::Relaxed))
    }

    fn told(&self, ok: bool) -> FlashEnd {
        FlashEnd::Written {
            block: self.of,
            to: self.to,
            ok,
        }
    }
}

/// Changes what a block is.
#[derive(Debug)]
pub enum BlockJob {
    /// It is to hold something else.
    Empty {
        /// As the SSD counts.
        block: u32,
    },
    /// Its filling is given up.
    GiveUp {
        /// As the SSD counts.
        block: u32,
    },
    /// All of its records are written.
    Seal(SealJob),
}

/// Makes a block durable with its summary.
#[derive(Debug)]
pub struct SealJob {
    /// The block, as the engine counts.
    pub of: BlockId,
    /// Where its records end.
    pub from: u32,
    /// What it holds.
    pub summary: Summary,
    is_broken: Arc<AtomicBool>,
}

impl BlockJob {
    /// Does it, with the SSD's checkpoints.
    pub fn run<M: FlashMedium>(
        self,
        checkpoints: &mut Checkpoints,
        medium: &mut M,
    ) -> Option<FlashEnd> {
        match self {
            Self::Empty { block } => {
                // A summary that stays leads to records that are not what it says: misses.
                if checkpoints.begin(medium, block).is_ok() {
                    let layout = medium.tier().layout;
                    if let Some(start) = layout.block_start(block) {
                        medium.discard(start, layout.block_bytes().into());
                    }
                }
                None
            }
            Self::GiveUp { block } => {
                checkpoints.end(block, None);
                None
            }
            Self::Seal(seal) => {
                let is_whole = !seal.is_broken.load(Ordering::Relaxed);
                let is_sealed = is_whole && seal.run(checkpoints, medium).is_ok();
                let is_sealed = is_sealed || mutated!(WriteErrorSwallowed);
                Some(seal.end(is_sealed))
            }
        }
    }
}

impl SealJob {
    pub(crate) fn new(
        of: BlockId,
        from: u32,
        summary: Summary,
        is_broken: Arc<AtomicBool>,
    ) -> Self {
        Self {
            of,
            from,
            summary,
            is_broken,
        }
    }

    /// The answer, if the block was sealed or not.
    pub fn end(&self, is_sealed: bool) -> FlashEnd {
        FlashEnd::Sealed {
            block: self.of,
            ok: is_sealed,
        }
    }

    fn run<M: FlashMedium>(
        &self,
        checkpoints: &mut Checkpoints,
        medium: &mut M,
    ) -> Result<(), Option<M::Error>> {
        let tier = medium.tier();
        let block = self.summary.head.block;
        let start = tier.layout.block_start(block).ok_or(None)?;
        checkpoints.void(medium, block).map_err(Some)?;
        // The records must be there before anything says that they are.
        if !mutated!(FlushLeftOut) {
            medium.flush().map_err(Some)?;
        }
        let (from, bytes) = self.summary.encode_tail(tier.device, &tier.layout);
        medium
            .write(start + u64::from(from), &bytes)
            .map_err(Some)?;
        if !mutated!(FlushLeftOut) {
            medium.flush().map_err(Some)?;
        }
        let known = (!mutated!(CheckpointStale)).then(|| self.summary.clone());
        checkpoints.end(block, known);
        Ok(())
    }
}

/// Reads records of one block, and checks each.
#[derive(Debug)]
pub struct RecordsJob<M> {
    /// Which read.
    pub id: FlashReadId,
    /// The block, as the SSD counts.
    pub block: u32,
    /// The records, in order of place.
    pub wanted: Vec<WantedRecord<M>>,
}

impl<M> RecordsJob<M> {
    /// How each record came back. Its memory is free when this job is dropped.
    pub fn run<F: FlashMedium<Memory = M>>(&mut self, medium: &mut F) -> Vec<FlashOutcome> {
        let Some(start) = medium.tier().layout.block_start(self.block) else {
            return vec![FlashOutcome::Error; self.wanted.len()];
        };
        let mut outcomes = Vec::with_capacity(self.wanted.len());
        let mut rest = &mut self.wanted[..];
        while !rest.is_empty() {
            let (run, others) = rest.split_at_mut(run_length(rest));
            rest = others;
            outcomes.extend(read_run(medium, start, run));
        }
        outcomes
    }
}

/// How many of the first records lie one behind the other.
fn run_length<M>(wanted: &[WantedRecord<M>]) -> usize {
    let end = |wanted: &WantedRecord<M>| {
        u64::from(wanted.record.place.offset) + padded_bytes(wanted.record.length)
    };
    let pairs = wanted.iter().zip(&wanted[1..]);
    let followers = pairs.take_while(|(one, next)| end(one) == u64::from(next.record.place.offset));
    (1 + followers.count()).min(RECORDS_MAX)
}

fn read_run<F: FlashMedium>(
    medium: &mut F,
    block_start: u64,
    run: &mut [WantedRecord<F::Memory>],
) -> Vec<FlashOutcome> {
    let at = block_start
        + run
            .first()
            .map_or(0, |of| u64::from(of.record.place.offset));
    let names: Vec<RecordName> = run.iter().map(|of| of.name).collect();
    let mut outcomes = vec![FlashOutcome::Error; run.len()];
    let read = medium.read_run(at, run, &mut |index, header, bytes| {
        if let Some((outcome, name)) = outcomes.get_mut(index).zip(names.get(index)) {
            *outcome = check(name, header, bytes);
        }
    });
    match read {
        Ok(()) => outcomes,
        Err(_) => vec![FlashOutcome::Error; run.len()],
    }
}

fn check(name: &RecordName, header: &[u8], bytes: &[u8]) -> FlashOutcome {
    match decode_record(name, header, bytes) {
        true => FlashOutcome::Done,
        false => FlashOutcome::Wrong,
    }
}
