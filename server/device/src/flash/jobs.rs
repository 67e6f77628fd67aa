//! Jobs for an SSD: write, seal, read, probe. A job is carried out on another thread; its result is
//! a [`FlashResult`], or [`SsdJob::failure`] if the job could not be carried out.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use headlong_engine::{FlashOutcome, FlashReadId};
use headlong_flash::format::{RecordName, Summary, decode_record, padded_bytes};
use headlong_flash::{BlockId, Checkpoints, SsdId};

use super::completion::FlashResult;
use super::medium::FlashMedium;
use super::probe::PROBE_FAILED;
use super::record_read::RecordRead;
use crate::resources::Resources;

/// Upper limit of records in one call: each record takes two I/O vectors, and the kernel accepts
/// 1,024.
const RECORDS_MAX: usize = 256;

/// A job for an SSD.
pub enum SsdJob<R: Resources> {
    /// Writes records; ordered with [`SsdJob::Block`].
    Write(WriteJob<R::Record>),
    /// Changes the state of a block; ordered with [`SsdJob::Write`].
    Block(BlockJob),
    /// Read records.
    Read(RecordsJob<R::Memory>),
    /// Checks the health of the SSD: [`super::probe`].
    Probe(SsdId),
}

impl<R: Resources> SsdJob<R> {
    /// The completion to report if the job is not carried out.
    pub fn failure(&self) -> Option<FlashResult> {
        match self {
            Self::Write(job) => Some(job.result(false)),
            Self::Block(BlockJob::Seal(job)) => Some(job.end(false)),
            Self::Block(_) => None,
            Self::Read(job) => Some(FlashResult::failed_read(job.id, job.wanted.len())),
            Self::Probe(ssd) => Some(FlashResult::Probed {
                ssd: *ssd,
                probed: PROBE_FAILED,
            }),
        }
    }
}

/// Writes records of a block.
#[derive(Debug)]
pub struct WriteJob<R> {
    /// The block, numbered across the tier.
    pub of: BlockId,
    /// The block, numbered within the SSD.
    pub block: u32,
    /// First byte within the block.
    pub from: u32,
    /// End of the range, exclusive.
    pub to: u32,
    /// Records, each with its offset in the block.
    pub records: Vec<(u32, R)>,
    pub(crate) is_broken: Arc<AtomicBool>,
}

impl<R> WriteJob<R> {
    /// Writes the records. They have been dropped when the result is returned.
    pub fn run<M: FlashMedium<Record = R>>(mut self, medium: &mut M) -> FlashResult {
        let records = core::mem::take(&mut self.records);
        let start = medium.tier().layout.block_start(self.block);
        let written = start.is_some_and(|start| medium.write_records(start, records).is_ok());
        self.end(written)
    }

    /// The completion of this write. After a failed write the block is never sealed.
    pub fn end(&self, is_written: bool) -> FlashResult {
        if !is_written && !mutated!(WriteErrorSwallowed) {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        self.result(!self.is_broken.load(Ordering::Relaxed))
    }

    fn result(&self, ok: bool) -> FlashResult {
        FlashResult::Written {
            block: self.of,
            to: self.to,
            ok,
        }
    }
}

/// Changes the state of a block.
#[derive(Debug)]
pub enum BlockJob {
    /// Empties the block for new content.
    Empty {
        /// The block, numbered within the SSD.
        block: u32,
    },
    /// Abandons the block's current generation.
    GiveUp {
        /// The block, numbered within the SSD.
        block: u32,
    },
    /// Seals the block after all its records were written.
    Seal(SealJob),
}

/// Makes a block durable by writing its summary.
#[derive(Debug)]
pub struct SealJob {
    /// The block, numbered across the tier.
    pub of: BlockId,
    /// End of its records.
    pub from: u32,
    /// Content of the block.
    pub summary: Summary,
    is_broken: Arc<AtomicBool>,
}

impl BlockJob {
    /// Carries out the job on the SSD and its checkpoints.
    pub fn run<M: FlashMedium>(
        self,
        checkpoints: &mut Checkpoints,
        medium: &mut M,
    ) -> Option<FlashResult> {
        match self {
            Self::Empty { block } => {
                // A stale summary is harmless: its records fail their check and count as misses.
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

    /// The completion of this seal.
    pub fn end(&self, is_sealed: bool) -> FlashResult {
        FlashResult::Sealed {
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
        // The records must be durable before the summary refers to them.
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

/// Reads records of one block and verifies each.
#[derive(Debug)]
pub struct RecordsJob<M> {
    /// The read.
    pub id: FlashReadId,
    /// The block, numbered within the SSD.
    pub block: u32,
    /// The records, in ascending order of offset.
    pub wanted: Vec<RecordRead<M>>,
}

impl<M> RecordsJob<M> {
    /// Returns the outcome of each record. The memory is released when the job is dropped.
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

/// Number of leading records that are contiguous on the SSD.
fn run_length<M>(wanted: &[RecordRead<M>]) -> usize {
    let end = |wanted: &RecordRead<M>| {
        u64::from(wanted.record.place.offset) + padded_bytes(wanted.record.length)
    };
    let pairs = wanted.iter().zip(&wanted[1..]);
    let followers = pairs.take_while(|(one, next)| end(one) == u64::from(next.record.place.offset));
    (1 + followers.count()).min(RECORDS_MAX)
}

fn read_run<F: FlashMedium>(
    medium: &mut F,
    block_start: u64,
    run: &mut [RecordRead<F::Memory>],
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
