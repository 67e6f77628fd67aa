//! One SSD and the threads that wait for it.

use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_engine::{FlashOutcome, FlashRecord};
use headlong_flash::RECORD_ALIGN_BYTES;
use headlong_flash::format::{RecordName, Summary, Super, decode_record, padded_bytes};

use super::aligned::Aligned;
use super::error::FlashError;
use super::medium::{Access, Medium};
use super::recover;
use crate::raw::Lease;
use crate::thread_pool::ThreadPool;

/// Reads that an SSD has at once.
const READERS: usize = 32;
/// Most records in one call: each takes two runs of memory, and the kernel takes 1,024.
const RECORDS_MAX: usize = 256;

/// Bytes and calls that went to or came from an SSD, since the start.
#[derive(Debug, Default)]
pub(crate) struct SsdCounters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
}

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
    /// What a clean stop saved.
    index: Mutex<Option<Arc<Vec<Summary>>>>,
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
        let index = recover::take_index(&medium, &tier).map_err(|error| medium.error(error))?;
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
            index: Mutex::new(index.map(Arc::new)),
        })
    }

    /// Sealed blocks of a range: as the saved index says, as long as nothing was written.
    pub(super) fn recover(&self, blocks: std::ops::Range<u32>) -> Vec<Summary> {
        let index = self
            .index
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match index {
            Some(index) => {
                let own = index
                    .iter()
                    .filter(|summary| blocks.contains(&summary.head.block));
                own.cloned().collect()
            }
            None => recover::look_at_all(&self.medium, &self.tier, blocks),
        }
    }

    /// What the index said is not so any more.
    pub(super) fn forget_index(&self) {
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Saves the index once all that was to be written is, and says so; on the thread that writes.
    pub(super) fn finish(&self, done: impl FnOnce() + Send + 'static) {
        let (medium, tier) = (Arc::clone(&self.medium), self.tier);
        self.writer.run(move || {
            if let Err(error) = recover::save_index(&medium, &tier) {
                let ssd = medium.path.display();
                tracing::warn!(%ssd, %error, "the index of flash is not saved; the next start looks at every block");
            }
            done();
        });
    }
}

/// Counts, and says what failed.
pub(super) fn counted<T>(
    result: io::Result<T>,
    medium: &Medium,
    counters: &SsdCounters,
    what: &str,
) -> io::Result<T> {
    if let Err(error) = &result {
        // The first of a row says it all.
        if counters
            .errors
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(1000)
        {
            tracing::warn!(ssd = %medium.path.display(), %error, "{what} failed");
        }
    }
    result
}

/// Writes what belongs at `at`, one behind the other.
pub(super) fn write_at(
    medium: &Medium,
    counters: &SsdCounters,
    at: u64,
    bytes: &Aligned,
) -> io::Result<()> {
    let written = medium.file().write_all_at(bytes.as_ref(), at);
    counted(written, medium, counters, "writing flash")?;
    let length = bytes.as_ref().len() as u64;
    counters.bytes_written.fetch_add(length, Ordering::Relaxed);
    Ok(())
}

/// Reads records of one block and looks at each; how each came back.
pub(super) fn read_records(
    medium: &Medium,
    counters: &SsdCounters,
    block_start: u64,
    wanted: &mut [Wanted],
) -> Vec<FlashOutcome> {
    let mut outcomes = Vec::with_capacity(wanted.len());
    let mut rest = wanted;
    while !rest.is_empty() {
        let (run, others) = rest.split_at_mut(run_length(rest));
        rest = others;
        outcomes.extend(read_run(medium, counters, block_start, run));
    }
    outcomes
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
    let read = read_all(medium, &mut slices, at, total);
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
