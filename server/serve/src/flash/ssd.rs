//! One SSD and the threads that wait for it.

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_engine::{FlashOutcome, FlashRecord};
use headlong_flash::format::{ReadFailed, RecordName, Summary, Super, decode_record, padded_bytes};
use headlong_flash::{Checkpoints, Ground, RECORD_ALIGN_BYTES};

use super::aligned::Aligned;
use super::error::FlashError;
use super::medium::{Access, Medium, SsdCounters, counted};
use super::stopwatch::Stopwatch;
use crate::raw::Lease;
use crate::thread_pool::ThreadPool;

/// Reads that an SSD has at once.
const READERS: usize = 32;
/// Most records in one call: each takes two runs of memory, and the kernel takes 1,024.
const RECORDS_MAX: usize = 256;

/// One SSD. Its threads end once what they have begun is done.
pub(crate) struct Ssd {
    pub(super) medium: Arc<Medium>,
    pub(super) tier: Super,
    pub(super) counters: Arc<SsdCounters>,
    /// One thread, so that what is written is written in order.
    pub(super) writer: ThreadPool,
    pub(super) readers: ThreadPool,
    /// For what may hang where the others do not, and the other way round.
    pub(super) prober: ThreadPool,
    /// Whether it was said that something else is on it.
    pub(super) is_other: Arc<AtomicBool>,
    checkpoints: Mutex<Checkpoints>,
}

/// Where checkpoints are written.
pub(super) struct Place<'a>(&'a Ssd);

impl Ground for Place<'_> {
    type Error = io::Error;

    fn tier(&self) -> Super {
        self.0.tier
    }

    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        self.0.medium.reader()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (medium, counters) = (&self.0.medium, &self.0.counters);
        medium.write_counted(counters, at, &Aligned::of(bytes))
    }
}

impl std::fmt::Debug for Ssd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.medium.path;
        f.debug_struct("Ssd")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

/// One record to be read, and where to.
pub(super) struct Wanted {
    pub(super) record: FlashRecord,
    pub(super) name: RecordName,
    /// Memory for its bytes.
    pub(super) lease: Lease,
}

impl Ssd {
    /// Takes an SSD for this process.
    pub(super) fn open(path: &std::path::Path) -> Result<Self, FlashError> {
        let medium = Medium::open(path, Access::Own)?;
        let tier = medium.super_record()?;
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let failed = |error| medium.error(error);
        let writer = ThreadPool::new(&format!("ssd-w-{name}"), 1, usize::MAX).map_err(failed)?;
        let readers =
            ThreadPool::new(&format!("ssd-r-{name}"), READERS, usize::MAX).map_err(failed)?;
        let prober = ThreadPool::new(&format!("ssd-p-{name}"), 1, usize::MAX).map_err(failed)?;
        Ok(Self {
            prober,
            is_other: Arc::default(),
            medium: Arc::new(medium),
            tier,
            counters: Arc::default(),
            writer,
            readers,
            checkpoints: Mutex::default(),
        })
    }

    /// Does something with the checkpoints. They change on the thread that writes.
    pub(super) fn with_checkpoints<T>(
        &self,
        act: impl FnOnce(&mut Checkpoints, &mut Place<'_>) -> T,
    ) -> T {
        let checkpoints = self.checkpoints.lock();
        let mut checkpoints = checkpoints.unwrap_or_else(PoisonError::into_inner);
        act(&mut checkpoints, &mut Place(self))
    }

    /// A block is to hold something else. On the thread that writes.
    pub(super) fn empty_block(&self, block: u32) -> io::Result<()> {
        self.with_checkpoints(|checkpoints, place| checkpoints.begin(place, block))?;
        let layout = &self.tier.layout;
        if let Some(start) = layout.block_start(block) {
            self.medium.discard(start, layout.block_bytes().into());
        }
        Ok(())
    }

    /// Makes a block durable with its summary. On the thread that writes.
    pub(super) fn seal(&self, summary: Summary) -> io::Result<()> {
        let block = summary.head.block;
        let start = self.tier.layout.block_start(block);
        let start = start.ok_or(io::ErrorKind::InvalidInput)?;
        let flush = || {
            let flushed = self.medium.file().sync_data();
            counted(flushed, &self.medium, &self.counters, "flushing flash")
        };
        self.with_checkpoints(|checkpoints, place| {
            checkpoints.void(place, block)?;
            // The records must be there before anything says that they are.
            flush()?;
            let (from, bytes) = summary.encode_tail(self.tier.device, &self.tier.layout);
            let (at, bytes) = (start + u64::from(from), Aligned::of(&bytes));
            self.medium.write_counted(&self.counters, at, &bytes)?;
            flush()?;
            checkpoints.end(block, Some(summary));
            Ok(())
        })
    }

    /// These blocks could not be read.
    pub(super) fn doubt(&self, blocks: impl IntoIterator<Item = u32>) {
        self.with_checkpoints(|checkpoints, _| checkpoints.doubt(blocks));
    }

    /// What was found in a group whose checkpoint was void; answers how many bytes were written.
    pub(super) fn save_found<'s>(
        &self,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> u64 {
        self.with_checkpoints(|checkpoints, place| checkpoints.save_found(place, group, summaries))
    }

    /// Saves the checkpoints once all that was to be written is, and says so; on the thread that
    /// writes.
    pub(super) fn finish(self: &Arc<Self>, done: impl FnOnce() + Send + 'static) {
        let ssd = Arc::clone(self);
        self.writer.run(move || {
            ssd.with_checkpoints(|checkpoints, place| checkpoints.finish(place));
            if let Err(error) = ssd.medium.file().sync_data() {
                let ssd = ssd.medium.path.display();
                tracing::warn!(%ssd, %error, "checkpoints of flash are not saved; the next start looks at more blocks");
            }
            done();
        });
    }
}

/// Reads records of one block and looks at each; how each came back, and how long the SSD took.
pub(super) fn read_records(
    medium: &Medium,
    counters: &SsdCounters,
    block_start: u64,
    wanted: &mut [Wanted],
) -> (Vec<FlashOutcome>, Duration) {
    let mut outcomes = Vec::with_capacity(wanted.len());
    let mut took = Duration::ZERO;
    let mut rest = wanted;
    while !rest.is_empty() {
        let (run, others) = rest.split_at_mut(run_length(rest));
        rest = others;
        outcomes.extend(read_run(medium, counters, block_start, run, &mut took));
    }
    (outcomes, took)
}

/// How many of the first records lie one behind the other.
fn run_length(wanted: &[Wanted]) -> usize {
    let end = |wanted: &Wanted| {
        u64::from(wanted.record.place.offset) + padded_bytes(wanted.record.length)
    };
    let pairs = wanted.iter().zip(&wanted[1..]);
    let followers = pairs.take_while(|(one, next)| end(one) == u64::from(next.record.place.offset));
    (1 + followers.count()).min(RECORDS_MAX)
}

fn read_run(
    medium: &Medium,
    counters: &SsdCounters,
    block_start: u64,
    run: &mut [Wanted],
    took: &mut Duration,
) -> Vec<FlashOutcome> {
    let Some(first) = run.first() else {
        return Vec::new();
    };
    let page = RECORD_ALIGN_BYTES as usize;
    let at = block_start + u64::from(first.record.place.offset);
    let mut headers: Vec<_> = run.iter().map(|_| Aligned::new(page)).collect();
    let mut slices = Vec::with_capacity(2 * run.len());
    let mut total = 0;
    for (wanted, header) in run.iter_mut().zip(&mut headers) {
        let padded = padded_bytes(wanted.record.length);
        total += padded;
        slices.push(IoSliceMut::new(header.as_mut()));
        slices.extend(wanted.lease.slices(0, padded - page as u64, 1));
    }
    let stopwatch = Stopwatch::start();
    let read = read_all(medium, &mut slices, at, total);
    *took += stopwatch.elapsed();
    drop(slices);
    if counted(read, medium, counters, "reading flash").is_err() {
        return vec![FlashOutcome::Error; run.len()];
    }
    counters.bytes_read.fetch_add(total, Ordering::Relaxed);
    run.iter_mut()
        .zip(&headers)
        .map(|(wanted, header)| {
            let padded = padded_bytes(wanted.record.length) - page as u64;
            let slices = wanted.lease.slices(0, padded, 1);
            let bytes: &[u8] = slices.first().map_or(&[], |slice| slice);
            match decode_record(&wanted.name, header.as_ref(), bytes) {
                true => FlashOutcome::Done,
                false => FlashOutcome::Wrong,
            }
        })
        .collect()
}

/// One call, again if it is interrupted; what comes short is an error: no record ends behind the SSD.
fn read_all(medium: &Medium, slices: &mut [IoSliceMut<'_>], at: u64, total: u64) -> io::Result<()> {
    for _ in 0..100 {
        match rustix::io::preadv(medium.file(), slices, at) {
            Ok(bytes) if bytes as u64 == total => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}
