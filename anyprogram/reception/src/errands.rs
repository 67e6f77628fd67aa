//! What may wait for a file system and is nobody's business but its own: closing what programs passed,
//! and finding out which disk lies below.
//!
//! The one idea: closing a file asks its file system, and one of a network or of a program (FUSE) may
//! never answer. The thread that listens therefore does nothing of that kind. Each file system has its
//! errands done one after the other, so that one which hangs keeps one thread.
//!
//! Invariant: there are about [`ERRANDS_MAX`] at most: whoever adds some looks whether there is room
//! before a descriptor comes in. One message may have several, and each errand may leave one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_serve::thread_pool::ThreadPool;

use crate::file::file_system;

/// Threads, started as they are needed: file systems that may hang without keeping others waiting.
const THREADS_MAX: usize = 64;
/// Errands that are done or wait.
pub(crate) const ERRANDS_MAX: usize = 1024;

type Errand = Box<dyn FnOnce() + Send>;

/// Those that are to be done.
pub(crate) struct Errands {
    threads: ThreadPool,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// By file system; each that is here has a thread, or will.
    queues: HashMap<u64, VecDeque<Errand>>,
    /// All of them, with those that are being done.
    count: usize,
}

impl Errands {
    /// None yet.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            // It has a job for each file system, and those are bounded here.
            threads: ThreadPool::new("errands", THREADS_MAX, 0)?,
            waiting: Arc::default(),
        })
    }

    /// Whether more may come.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.waiting).count < ERRANDS_MAX
    }

    /// Does something that may wait for a file system, some time.
    pub(crate) fn add(&self, file_system: u64, errand: impl FnOnce() + Send + 'static) {
        let mut waiting = lock(&self.waiting);
        waiting.count += 1;
        let errand: Errand = Box::new(errand);
        if let Some(queue) = waiting.queues.get_mut(&file_system) {
            return queue.push_back(errand);
        }
        waiting.queues.insert(file_system, [errand].into());
        drop(waiting);
        let waiting = Arc::clone(&self.waiting);
        self.threads.run(move || work(&waiting, file_system));
    }

    /// Closes what a program passed, and then does something.
    pub(crate) fn close(&self, passed: OwnedFd, then: impl FnOnce() + Send + 'static) {
        self.add(file_system(&passed), move || {
            drop(passed);
            then();
        });
    }
}

/// Does what there is of a file system.
fn work(waiting: &Mutex<Waiting>, file_system: u64) {
    loop {
        let mut all = lock(waiting);
        let next = all.queues.get_mut(&file_system);
        let Some(errand) = next.and_then(VecDeque::pop_front) else {
            all.queues.remove(&file_system);
            return;
        };
        drop(all);
        // One that panics is over; those behind it have no other thread.
        let _ = catch_unwind(AssertUnwindSafe(errand));
        lock(waiting).count -= 1;
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// One that hangs until what is returned is dropped.
    fn hang(errands: &Errands, file_system: u64) -> Sender<()> {
        let (release, hangs) = channel::<()>();
        let (began, has_begun) = channel();
        errands.add(file_system, move || {
            began.send(()).expect("received");
            let _ = hangs.recv();
        });
        has_begun.recv().expect("begun");
        release
    }

    fn done(errands: &Errands, file_system: u64) -> Receiver<()> {
        let (done, is_done) = channel();
        errands.add(file_system, move || done.send(()).expect("received"));
        is_done
    }

    #[test]
    fn a_file_system_that_hangs_keeps_its_own_waiting_and_nobody_elses() {
        let errands = Errands::new().expect("a thread");
        let hung: Vec<_> = (1..40).map(|dev| hang(&errands, dev)).collect();
        let own: Vec<_> = (0..100).map(|_| done(&errands, 1)).collect();
        done(&errands, 77).recv().expect("done");
        assert!(own[0].try_recv().is_err());
        drop(hung);
        own.iter().for_each(|own| own.recv().expect("done"));
    }

    #[test]
    fn there_is_no_room_for_more_until_some_are_done() {
        let errands = Errands::new().expect("a thread");
        let hung = hang(&errands, 1);
        let rest: Vec<_> = (1..ERRANDS_MAX).map(|_| done(&errands, 1)).collect();
        assert!(!errands.has_room());
        drop(hung);
        rest.iter().for_each(|rest| rest.recv().expect("done"));
        // The last one has said so, and is not counted out yet.
        done(&errands, 1).recv().expect("done");
        assert!(errands.has_room());
    }

    #[test]
    fn what_is_closed_is_closed_before_what_comes_then_and_a_panic_ends_one_errand_only() {
        let errands = Errands::new().expect("a thread");
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
