//! Vectored reads through `io_uring`, owned by one thread.
//!
//! The ring owns all resources of a read: from [`Ring::read`] until the completion has been reaped,
//! it keeps the file open, the memory leased and the list of addresses in place. If the ring is
//! dropped earlier, it waits for reads in flight, at most [`QUIESCE_TIME`]. Reads that have still
//! not completed are leaked together with the ring: memory is lost, but the kernel never writes to
//! memory that has been reused.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headlong_device::Span;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::pool::{IoVec, Lease};

/// Longest wait for reads in flight when the ring is dropped.
pub const QUIESCE_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

/// The kernel's limit of runs of memory in one call (`UIO_MAXIOV`).
pub const RUNS_MAX: usize = 1024;

/// Marks the completion of the poll on the event descriptor.
const WAKE: u64 = u64::MAX;

/// Source and destination of a read.
#[derive(Debug, Clone)]
pub struct ReadTarget {
    /// Memory. First field, so that it is released before the last reference to the file. Shared by
    /// reads into different parts of it.
    pub lease: Arc<Lease>,
    /// The file.
    pub file: Arc<File>,
}

/// A completed read, with all its resources.
pub struct CompletedRead<T> {
    /// The file and memory of the read.
    pub target: ReadTarget,
    /// Data of the caller.
    pub rest: T,
    /// Bytes read; zero at the end of the file.
    pub result: io::Result<u64>,
}

/// A read in flight.
struct ReadInFlight<T> {
    target: ReadTarget,
    rest: T,
    span: Span,
    runs: Box<[IoVec]>,
}

// SAFETY: the runs point into the pool that `target.lease` keeps alive, which may be sent; only the
// kernel dereferences them.
unsafe impl<T: Send> Send for ReadInFlight<T> {}

/// An `io_uring` with its reads in flight.
pub struct Ring<T> {
    ring: ManuallyDrop<IoUring>,
    operations: ManuallyDrop<Vec<Option<ReadInFlight<T>>>>,
    vacant: Vec<usize>,
    unsent: VecDeque<usize>,
    under_way: usize,
    event: Arc<OwnedFd>,
    polled: bool,
}

impl<T> Ring<T> {
    /// Sets up a ring for about `reads` reads in flight (more are accepted, with more system calls)
    /// that also wakes up when `event` becomes readable. The error is the kernel's reason to
    /// refuse.
    pub fn new(reads: u32, event: Arc<OwnedFd>) -> io::Result<Self> {
        let entries = reads.saturating_add(1).clamp(8, 1024).next_power_of_two();
        let ring = IoUring::new(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let able = ring.params().is_feature_ext_arg()
            && ring.params().is_feature_nodrop()
            && probe.is_supported(opcode::Readv::CODE)
            && probe.is_supported(opcode::PollAdd::CODE);
        if !able {
            let text = "io_uring of this kernel is too old (5.11 is needed)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            operations: ManuallyDrop::default(),
            vacant: Vec::new(),
            unsent: VecDeque::new(),
            under_way: 0,
            event,
            polled: false,
        })
    }

    /// Starts a read, at the latest in the next [`Ring::wait`].
    pub fn read(&mut self, target: ReadTarget, span: Span, rest: T) {
        let runs = target.lease.runs(span.skip, span.length, RUNS_MAX);
        let operation = ReadInFlight {
            runs: runs.into(),
            target,
            rest,
            span,
        };
        let index = self.vacant.pop().unwrap_or(self.operations.len());
        if index == self.operations.len() {
            self.operations.push(Some(operation));
        } else {
            self.operations[index] = Some(operation);
        }
        self.under_way += 1;
        self.unsent.push_back(index);
    }

    /// Whether no read is in flight.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Submits queued reads, waits until a read completes, the event descriptor becomes readable or
    /// the timeout expires (`None`: no timeout), and appends the completions. Returns whether the
    /// event descriptor was readable.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        ended: &mut Vec<CompletedRead<T>>,
    ) -> io::Result<bool> {
        self.push();
        let everything_sent = self.unsent.is_empty();
        let waited = match timeout {
            Some(Duration::ZERO) if self.ring.submission().is_empty() => Ok(0),
            Some(Duration::ZERO) => self.ring.submit(),
            // Submission frees queue entries: do not sleep while reads are unsent.
            _ if !everything_sent => self.ring.submit(),
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                let arguments = SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        match waited.map_err(|error| Errno::from_io_error(&error).ok_or(error)) {
            Ok(_) | Err(Ok(Errno::TIME | Errno::INTR)) => {}
            // Completions must be reaped first, or memory is short temporarily.
            Err(Ok(Errno::BUSY)) => {}
            Err(Ok(Errno::AGAIN)) => std::thread::sleep(Duration::from_millis(1)),
            Err(Ok(errno)) => return Err(errno.into()),
            Err(Err(error)) => return Err(error),
        }
        Ok(self.reap(ended))
    }

    /// Moves unsent reads into the submission queue while it has room.
    fn push(&mut self) {
        let mut queue = self.ring.submission();
        if !self.polled {
            let event = Fd(self.event.as_raw_fd());
            let readable = PollFlags::IN.bits() as u32;
            let entry = opcode::PollAdd::new(event, readable)
                .build()
                .user_data(WAKE);
            // SAFETY: a poll uses no memory of ours, and the ring keeps its descriptor.
            self.polled = unsafe { queue.push(&entry) }.is_ok();
        }
        while let Some(index) = self.unsent.front().copied() {
            let operation = self.operations[index].as_ref();
            let Some(operation) = operation else {
                self.unsent.pop_front();
                continue;
            };
            let file = Fd(operation.target.file.as_raw_fd());
            let runs = operation.runs.as_ptr().cast();
            let entry = opcode::Readv::new(file, runs, operation.runs.len() as u32)
                .offset(operation.span.offset)
                .build()
                .user_data(index as u64);
            // SAFETY: the operation holds the descriptor, the boxed runs and the lease on their
            // memory, and stays in the table until its completion is reaped; a ring that is dropped
            // earlier leaks it.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            self.unsent.pop_front();
        }
    }

    /// Reaps all completions. Returns whether the event descriptor was readable.
    fn reap(&mut self, ended: &mut Vec<CompletedRead<T>>) -> bool {
        let mut woken = false;
        for completion in self.ring.completion() {
            if completion.user_data() == WAKE {
                self.polled = false;
                woken = true;
                continue;
            }
            let index = completion.user_data() as usize;
            let operation = self.operations.get_mut(index).and_then(Option::take);
            let Some(operation) = operation else {
                debug_assert!(false, "completion without an operation");
                continue;
            };
            self.vacant.push(index);
            self.under_way -= 1;
            let result = completion.result();
            ended.push(CompletedRead {
                target: operation.target,
                rest: operation.rest,
                result: u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)),
            });
        }
        woken
    }

    /// Waits for all reads in flight, at most `bound`. Returns whether none is left.
    fn quiesce(&mut self, bound: Duration) -> bool {
        let start = Instant::now();
        let mut ended = Vec::new();
        while self.under_way > 0 {
            let left = bound.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            // Nothing reads the event descriptor any more: polling it again would end every wait.
            self.polled = true;
            if self
                .wait(Some(left.min(Duration::from_millis(100))), &mut ended)
                .is_err()
            {
                return false;
            }
            ended.clear();
        }
        true
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if self.quiesce(QUIESCE_TIME) {
            // SAFETY: both are dropped only here and never used again.
            unsafe {
                ManuallyDrop::drop(&mut self.ring);
                ManuallyDrop::drop(&mut self.operations);
            }
        } else {
            let reads = self.under_way;
            tracing::warn!(
                reads,
                "reads did not complete in time; their memory is leaked"
            );
        }
    }
}
