//! One SSD and its I/O threads.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_device::flash::{EachRecord, FlashMedium, ProbedMedium, RecordRead};
use headlong_flash::format::{ReadFailed, SuperRecord, padded_bytes};
use headlong_flash::{CheckpointDevice, Checkpoints, RECORD_ALIGN_BYTES};
use headlong_kernel::raw::Lease;
use headlong_kernel::thread_pool::ThreadPool;

use super::aligned_bytes::AlignedBytes;
use super::error::FlashError;
use super::medium::{AccessMode, Medium, SsdCounters, counted};
use super::record::RecordBuffer;
use super::stopwatch::Stopwatch;

/// Reads in flight per SSD.
const READERS: usize = 32;
/// Upper limit of buffers in one call.
const BUFFERS_MAX: usize = 1024;

/// One SSD. Its threads finish their queues before they end.
pub(crate) struct Ssd {
    pub(super) medium: Medium,
    pub(super) tier: SuperRecord,
    pub(super) counters: SsdCounters,
    /// A single thread, so that writes stay in order.
    pub(super) writer: ThreadPool,
    pub(super) readers: ThreadPool,
    /// Separate, so that a probe runs while other operations hang, and vice versa.
    pub(super) prober: ThreadPool,
    /// Whether foreign content has been reported.
    is_other: AtomicBool,
    checkpoints: Mutex<Checkpoints>,
}

/// An SSD as seen by the jobs of the device core.
pub(super) struct SsdMedium<'a> {
    ssd: &'a Ssd,
    /// Total latency of reads.
    pub(super) took: Duration,
}

impl<'a> SsdMedium<'a> {
    pub(super) fn new(ssd: &'a Ssd) -> Self {
        let took = Duration::ZERO;
        Self { ssd, took }
    }
}

impl CheckpointDevice for SsdMedium<'_> {
    type Error = io::Error;

    fn tier(&self) -> SuperRecord {
        self.ssd.tier
    }

    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        self.ssd.medium.reader()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (medium, counters) = (&self.ssd.medium, &self.ssd.counters);
        medium.write_counted(counters, at, &AlignedBytes::of(bytes))
    }
}

impl FlashMedium for SsdMedium<'_> {
    type Record = RecordBuffer;
    type Memory = Arc<Lease>;

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.ssd.medium.file().sync_data();
        counted(
            flushed,
            &self.ssd.medium,
            &self.ssd.counters,
            "flushing flash",
        )
    }

    fn discard(&mut self, at: u64, bytes: u64) {
        self.ssd.medium.discard(at, bytes);
    }

    fn write_records(
        &mut self,
        block_start: u64,
        records: Vec<(u32, RecordBuffer)>,
    ) -> io::Result<()> {
        write_records(&self.ssd.medium, &self.ssd.counters, block_start, &records)
    }

    fn read_run(
        &mut self,
        at: u64,
        run: &mut [RecordRead<Arc<Lease>>],
        each: &mut EachRecord<'_>,
    ) -> io::Result<()> {
        let Ssd {
            medium, counters, ..
        } = self.ssd;
        let page = RECORD_ALIGN_BYTES as usize;
        let payload = |wanted: &RecordRead<_>| padded_bytes(wanted.record.length) - page as u64;
        let mut headers: Vec<_> = run.iter().map(|_| AlignedBytes::new(page)).collect();
        let mut slices = Vec::with_capacity(2 * run.len());
        let mut total = 0;
        for (wanted, header) in run.iter_mut().zip(&mut headers) {
            let bytes = payload(wanted);
            total += page as u64 + bytes;
            slices.push(IoSliceMut::new(header.as_mut()));
            // The memory of a record is not shared.
            let lease = Arc::get_mut(&mut wanted.memory).ok_or(io::ErrorKind::ResourceBusy)?;
            slices.extend(lease.slices(0, bytes, 1));
        }
        let stopwatch = Stopwatch::start();
        let read = read_all(medium, &mut slices, at, total);
        self.took += stopwatch.elapsed();
        drop(slices);
        counted(read, medium, counters, "reading flash")?;
        counters.bytes_read.fetch_add(total, Ordering::Relaxed);
        for (index, (wanted, header)) in run.iter_mut().zip(&headers).enumerate() {
            let bytes = payload(wanted);
            let lease = Arc::get_mut(&mut wanted.memory).ok_or(io::ErrorKind::ResourceBusy)?;
            let slices = lease.slices(0, bytes, 1);
            each(
                index,
                header.as_ref(),
                slices.first().map_or(&[], |slice| slice),
            );
        }
        Ok(())
    }
}

impl ProbedMedium for SsdMedium<'_> {
    fn bytes(&self) -> u64 {
        self.ssd.medium.bytes
    }

    fn reopen(&mut self) -> bool {
        self.ssd.medium.reopen(&self.ssd.tier)
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

impl Ssd {
    /// Opens an SSD exclusively for this process.
    pub(super) fn open(path: &std::path::Path) -> Result<Self, FlashError> {
        let medium = Medium::open(path, AccessMode::Own)?;
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
            is_other: AtomicBool::default(),
            medium,
            tier,
            counters: SsdCounters::default(),
            writer,
            readers,
            checkpoints: Mutex::default(),
        })
    }

    /// Accesses the checkpoints, which change on the writer thread.
    pub(super) fn with_checkpoints<T>(
        &self,
        act: impl FnOnce(&mut Checkpoints, &mut SsdMedium<'_>) -> T,
    ) -> T {
        let checkpoints = self.checkpoints.lock();
        let mut checkpoints = checkpoints.unwrap_or_else(PoisonError::into_inner);
        act(&mut checkpoints, &mut SsdMedium::new(self))
    }

    /// Records whether a probe found something other than the tier.
    pub(super) fn note_other(&self, is_other: bool) {
        if !self.is_other.swap(is_other, Ordering::Relaxed) && is_other {
            tracing::error!(
                ssd = %self.medium.path.display(),
                "something else is on the ssd: it is not used until the tier is back; otherwise \
                 format it again and restart the server"
            );
        }
    }

    /// Saves the checkpoints after all pending writes and calls `done`, on the writer thread.
    pub(super) fn finish(self: &Arc<Self>, done: impl FnOnce() + Send + 'static) {
        let ssd = Arc::clone(self);
        self.writer.run(move || {
            ssd.with_checkpoints(|checkpoints, medium| checkpoints.finish(medium));
            if let Err(error) = ssd.medium.file().sync_data() {
                let ssd = ssd.medium.path.display();
                tracing::warn!(%ssd, %error, "flash checkpoints not saved; the next start reads more blocks");
            }
            done();
        });
    }
}

/// One call, retried if interrupted. A short read is an error, because no record extends past the
/// end of the SSD.
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

/// Writes records of a block; contiguous records share a call.
fn write_records(
    medium: &Medium,
    counters: &SsdCounters,
    block_start: u64,
    records: &[(u32, RecordBuffer)],
) -> io::Result<()> {
    let mut rest = records;
    while let Some((first, _)) = rest.first() {
        let mut end = *first;
        let run = rest
            .iter()
            .take(BUFFERS_MAX)
            .take_while(|(offset, RecordBuffer(bytes))| {
                let follows = *offset == end;
                end = offset + bytes.as_ref().len() as u32;
                follows
            })
            .count();
        let (now, later) = rest.split_at(run);
        rest = later;
        let slices: Vec<_> = now
            .iter()
            .map(|(_, RecordBuffer(bytes))| IoSlice::new(bytes.as_ref()))
            .collect();
        let total: usize = now.iter().map(|(_, bytes)| bytes.0.as_ref().len()).sum();
        let at = block_start + u64::from(*first);
        match rustix::io::pwritev(medium.file(), &slices, at) {
            Ok(written) if written == total => {
                let total = total as u64;
                counters.bytes_written.fetch_add(total, Ordering::Relaxed);
            }
            // Interrupted, or a short write: write the records one by one.
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {
                for (offset, RecordBuffer(bytes)) in now {
                    let at = block_start + u64::from(*offset);
                    medium.write_counted(counters, at, bytes)?;
                }
            }
            Err(errno) => {
                return counted(Err(errno.into()), medium, counters, "writing flash");
            }
        }
    }
    Ok(())
}
