//! Per-file-system job queues for operations that may block on a file system: closing passed
//! descriptors, and finding the disk below.
//!
//! Closing a file queries its file system, and a network or FUSE file system may never respond.
//! Therefore the listening thread does no such operation. The jobs of one file system run one at a
//! time, so a hung file system blocks one thread only.
//!
//! Invariant: at most about [`JOBS_MAX`] jobs exist: callers check for room before they receive
//! a descriptor. One message may carry several descriptors, and each job may leave one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_kernel::thread_pool::ThreadPool;

use crate::file::file_system;

/// Threads, started on demand: the number of file systems that may hang without delaying others.
const THREADS_MAX: usize = 64;
/// Jobs queued or running.
pub(crate) const JOBS_MAX: usize = 1024;

type QueuedJob = Box<dyn FnOnce() + Send>;

/// The job queues.
pub(crate) struct JobQueues {
    threads: ThreadPool,
    waiting: Arc<Mutex<QueuedJobs>>,
}

#[derive(Default)]
struct QueuedJobs {
    /// Queue by file system; each entry has a thread, or is about to get one.
    queues: HashMap<u64, VecDeque<QueuedJob>>,
    /// All jobs, queued and running.
    count: usize,
}

impl JobQueues {
    /// Empty queues.
    ///
    /// # Errors
    /// If a thread cannot be created.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            // The pool has one task for each file system, and their number is bounded here.
            threads: ThreadPool::new("errands", THREADS_MAX, 0)?,
            waiting: Arc::default(),
        })
    }

    /// Whether further jobs are accepted.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.waiting).count < JOBS_MAX
    }

    /// Queues a job that may block on a file system.
    pub(crate) fn add(&self, file_system: u64, errand: impl FnOnce() + Send + 'static) {
        let mut waiting = lock(&self.waiting);
        waiting.count += 1;
        let errand: QueuedJob = Box::new(errand);
        if let Some(queue) = waiting.queues.get_mut(&file_system) {
            return queue.push_back(errand);
        }
        waiting.queues.insert(file_system, [errand].into());
        drop(waiting);
        let waiting = Arc::clone(&self.waiting);
        self.threads.run(move || work(&waiting, file_system));
    }

    /// Queues the closing of a passed descriptor, followed by `then`.
    pub(crate) fn close(&self, passed: OwnedFd, then: impl FnOnce() + Send + 'static) {
        self.add(file_system(&passed), move || {
            drop(passed);
            then();
        });
    }
}

/// Runs all jobs of a file system.
fn work(waiting: &Mutex<QueuedJobs>, file_system: u64) {
    loop {
        let mut all = lock(waiting);
        let next = all.queues.get_mut(&file_system);
        let Some(errand) = next.and_then(VecDeque::pop_front) else {
            all.queues.remove(&file_system);
            return;
        };
        drop(all);
        // A panicking job must not end the queue: its thread is the only one for this file system.
        let _ = catch_unwind(AssertUnwindSafe(errand));
        lock(waiting).count -= 1;
    }
}

fn lock(waiting: &Mutex<QueuedJobs>) -> MutexGuard<'_, QueuedJobs> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Queues a job that hangs until the returned sender is dropped.
    fn hang(errands: &JobQueues, file_system: u64) -> Sender<()> {
        let (release, hangs) = channel::<()>();
        let (began, has_begun) = channel();
        errands.add(file_system, move || {
            began.send(()).expect("received");
            let _ = hangs.recv();
        });
        has_begun.recv().expect("begun");
        release
    }

    fn done(errands: &JobQueues, file_system: u64) -> Receiver<()> {
        let (done, is_done) = channel();
        errands.add(file_system, move || done.send(()).expect("received"));
        is_done
    }

    #[test]
    fn hung_file_system_delays_only_its_own_jobs() {
        let errands = JobQueues::new().expect("a thread");
        let hung: Vec<_> = (1..40).map(|dev| hang(&errands, dev)).collect();
        let own: Vec<_> = (0..100).map(|_| done(&errands, 1)).collect();
        done(&errands, 77).recv().expect("done");
        assert!(own[0].try_recv().is_err());
        drop(hung);
        own.iter().for_each(|own| own.recv().expect("done"));
    }

    #[test]
    fn full_queue_accepts_no_jobs_until_some_finish() {
        let errands = JobQueues::new().expect("a thread");
        let hung = hang(&errands, 1);
        let rest: Vec<_> = (1..JOBS_MAX).map(|_| done(&errands, 1)).collect();
        assert!(!errands.has_room());
        drop(hung);
        rest.iter().for_each(|rest| rest.recv().expect("done"));
        // The last job has reported, and may not be counted as finished yet.
        done(&errands, 1).recv().expect("done");
        assert!(errands.has_room());
    }

    #[test]
    fn descriptor_is_closed_first_and_panic_ends_one_job() {
        let errands = JobQueues::new().expect("a thread");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let writer = OwnedFd::from(writer);
        errands.add(file_system(&writer), || {
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        let (closed, is_closed) = channel();
        errands.close(writer, move || closed.send(()).expect("received"));
        is_closed.recv().expect("closed");
        let end = io::Read::read(&mut reader, &mut [0]).expect("asked");
        assert_eq!(end, 0);
    }
}
