//! Reply deadlines: a call that waits for a disk too long fails with an error.
//!
//! A program that waits for a FUSE reply cannot be killed until it gets one. Therefore the reply is
//! stored where both the disk's thread and a timer thread can take it: the first of them answers,
//! and the result of the other is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use fuser::{
    Errno, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr,
};
use headlong_kernel::thread_pool::ThreadPool;

/// A reply that can carry an error.
pub(crate) trait ErrorReply: Send + 'static {
    /// Replies with the error.
    fn refuse(self, errno: Errno);
}

macro_rules! refusable {
    ($($reply:ty),+) => {
        $(impl ErrorReply for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })+
    };
}

refusable!(
    ReplyAttr,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyXattr
);

/// Converts an error of the kernel to a FUSE error.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// A reply that has not been sent.
struct PendingReply<R>(Mutex<Option<R>>);

impl<R> PendingReply<R> {
    fn take(&self) -> Option<R> {
        let mut reply = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reply.take()
    }
}

/// The timer's view of a pending reply.
trait Expire: Send + Sync {
    fn expire(&self);
}

impl<R: ErrorReply> Expire for PendingReply<R> {
    fn expire(&self) {
        if let Some(reply) = self.take() {
            tracing::warn!("a disk did not answer in time: failing the call with EIO");
            reply.refuse(Errno::EIO);
        }
    }
}

/// The timer.
pub(crate) struct ReplyDeadlines {
    shared: Arc<DeadlineShared>,
}

struct DeadlineShared {
    patience: Duration,
    state: Mutex<DeadlineQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct DeadlineQueue {
    /// All calls have the same timeout, so they are in order of deadline.
    calls: VecDeque<(Instant, Weak<dyn Expire>)>,
    /// Length at which answered calls are removed.
    sweep_at: usize,
    is_over: bool,
}

/// Fewest calls at which answered ones are removed.
const SWEEP_MIN: usize = 1024;

impl ReplyDeadlines {
    /// A timer that gives each call `patience`.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn start(patience: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(DeadlineShared {
            patience,
            state: Mutex::new(DeadlineQueue {
                sweep_at: SWEEP_MIN,
                ..DeadlineQueue::default()
            }),
            changed: Condvar::new(),
        });
        let clock = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("late".to_owned());
        thread.spawn(move || clock.run())?;
        Ok(Self { shared })
    }

    /// Runs `work`, which may block on a disk, on one of its threads, and then `say` with the
    /// result. If the queue of the disk is full or the deadline passes, the reply is an error and a
    /// later result is dropped.
    pub(crate) fn run<R: ErrorReply, T>(
        &self,
        threads: &ThreadPool,
        reply: R,
        work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
        say: impl FnOnce(R, T) + Send + 'static,
    ) {
        let unsaid = Arc::new(PendingReply(Mutex::new(Some(reply))));
        self.shared
            .watch(Arc::<PendingReply<R>>::downgrade(&unsaid));
        let for_work = Arc::clone(&unsaid);
        let is_taken = threads.offer(move || {
            let done = work();
            match (for_work.take(), done) {
                (Some(reply), Ok(done)) => say(reply, done),
                (Some(reply), Err(errno)) => reply.refuse(errno),
                (None, _) => {}
            }
        });
        if !is_taken && let Some(reply) = unsaid.take() {
            reply.refuse(Errno::EIO);
        }
    }
}

impl Drop for ReplyDeadlines {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl DeadlineShared {
    fn lock(&self) -> MutexGuard<'_, DeadlineQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, call: Weak<dyn Expire>) {
        let due = Instant::now() + self.patience;
        let mut state = self.lock();
        let is_answered = |call: &Weak<dyn Expire>| call.strong_count() == 0;
        while state
            .calls
            .front()
            .is_some_and(|(_, call)| is_answered(call))
        {
            state.calls.pop_front();
        }
        if state.calls.len() >= state.sweep_at {
            state.calls.retain(|(_, call)| !is_answered(call));
            state.sweep_at = SWEEP_MIN.max(2 * state.calls.len());
        }
        state.calls.push_back((due, call));
        if state.calls.len() == 1 {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let now = Instant::now();
            let due = state.calls.front().map(|(due, _)| *due);
            if due.is_some_and(|due| due <= now) {
                let call = state.calls.pop_front();
                drop(state);
                if let Some(call) = call.and_then(|(_, call)| call.upgrade()) {
                    call.expire();
                }
                state = self.lock();
                continue;
            }
            let wait = due.map_or(Duration::from_secs(3600), |due| due - now);
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A reply that reports its outcome.
    struct ReportingReply(Sender<Result<u32, i32>>);

    impl ErrorReply for ReportingReply {
        fn refuse(self, errno: Errno) {
            let _ = self.0.send(Err(errno.into()));
        }
    }

    fn say(reply: ReportingReply, value: u32) {
        let _ = reply.0.send(Ok(value));
    }

    const EIO: i32 = 5;

    #[test]
    fn call_is_answered_once_by_disk_or_timer() {
        let late = ReplyDeadlines::start(Duration::from_millis(50)).expect("a thread");
        let threads = ThreadPool::new("test", 2, 8).expect("a thread");
        let (told, answers) = channel();
        late.run(&threads, ReportingReply(told.clone()), || Ok(7), say);
        assert_eq!(answers.recv(), Ok(Ok(7)));
        late.run(
            &threads,
            ReportingReply(told.clone()),
            || Err(Errno::ENOENT),
            say,
        );
        assert_eq!(answers.recv(), Ok(Err(2)));
        let (release, hang) = channel::<()>();
        let work = move || {
            let _ = hang.recv();
            Ok(8)
        };
        late.run(&threads, ReportingReply(told), work, say);
        assert_eq!(answers.recv(), Ok(Err(EIO)), "answered by the timer");
        drop(release);
        assert!(answers.recv().is_err(), "answered once");
    }

    #[test]
    fn call_is_refused_when_the_queue_is_full() {
        let late = ReplyDeadlines::start(Duration::from_secs(3600)).expect("a thread");
        let threads = ThreadPool::new("test", 1, 1).expect("a thread");
        let (release, hang) = channel::<()>();
        let (began, begun) = channel();
        threads.run(move || {
            let _ = began.send(());
            let _ = hang.recv();
        });
        begun.recv().expect("it hangs");
        let (told, answers) = channel();
        late.run(&threads, ReportingReply(told.clone()), || Ok(1), say);
        late.run(&threads, ReportingReply(told), || Ok(2), say);
        assert_eq!(answers.recv(), Ok(Err(EIO)));
        drop(release);
        assert_eq!(answers.recv(), Ok(Ok(1)));
    }

    #[test]
    fn answered_calls_are_removed() {
        let late = ReplyDeadlines::start(Duration::from_secs(3600)).expect("a thread");
        let (told, _answers) = channel();
        // An unanswered call stands in front of all others.
        let hung: Arc<PendingReply<ReportingReply>> =
            Arc::new(PendingReply(Mutex::new(Some(ReportingReply(told)))));
        late.shared
            .watch(Arc::<PendingReply<ReportingReply>>::downgrade(&hung));
        for _ in 0..10 * SWEEP_MIN {
            let answered: Arc<PendingReply<ReportingReply>> =
                Arc::new(PendingReply(Mutex::new(None)));
            late.shared
                .watch(Arc::<PendingReply<ReportingReply>>::downgrade(&answered));
        }
        assert!(late.shared.lock().calls.len() <= SWEEP_MIN);
    }
}
