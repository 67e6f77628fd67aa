//! Threads for calls that block, each pool for one disk: what hangs holds up its own disk only.
//!
//! A thread is started when a job finds all others busy, so there are as many as jobs that hang
//! at once, plus the busy ones, up to a bound; beyond it jobs wait, and as many may wait as whoever
//! gives them is bound to ([`ThreadPool::run`]) or as the pool takes ([`ThreadPool::offer`]).

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for jobs that block. Dropping it lets them finish the jobs they have.
pub struct ThreadPool {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    threads_max: usize,
    jobs_max: usize,
    state: Mutex<State>,
    jobs_came: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    workers: usize,
    idle: usize,
    closed: bool,
}

impl ThreadPool {
    /// At most so many threads, and so many jobs offered that wait for one. The first thread is
    /// started now, so that there always is one.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(name: &str, threads_max: usize, jobs_max: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            threads_max,
            jobs_max,
            state: Mutex::default(),
            jobs_came: Condvar::new(),
        });
        shared.lock().workers = 1;
        start_worker(&shared)?;
        Ok(Self { shared })
    }

    /// Has a job done, some time. A panic in it ends the job only. For jobs of which there cannot
    /// be many: those of reads that are outstanding, or of files that are open.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.add(self.shared.lock(), Box::new(job));
    }

    /// Has a job done unless too many wait already; whether it will be.
    pub fn offer(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let state = self.shared.lock();
        let has_room = state.jobs.len() < self.shared.jobs_max;
        if has_room {
            self.add(state, Box::new(job));
        }
        has_room
    }

    fn add(&self, mut state: MutexGuard<'_, State>, job: Job) {
        state.jobs.push_back(job);
        let short_handed = state.jobs.len() > state.idle && state.workers < self.shared.threads_max;
        state.workers += usize::from(short_handed);
        drop(state);
        if !short_handed {
            self.shared.jobs_came.notify_one();
        } else if let Err(error) = start_worker(&self.shared) {
            self.shared.lock().workers -= 1;
            tracing::debug!(pool = self.shared.name, %error, "no more threads; the job waits");
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.jobs_came.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_worker(shared: &Arc<Shared>) -> io::Result<()> {
    let worker = Arc::clone(shared);
    std::thread::Builder::new()
        .name(shared.name.clone())
        .spawn(move || work(&worker))
        .map(drop)
}

fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(pool = shared.name, "a job panicked");
            }
            state = shared.lock();
        } else if state.closed {
            break;
        } else {
            state.idle += 1;
            state = shared
                .jobs_came
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const THREADS: usize = 32;

    #[test]
    fn jobs_that_hang_do_not_keep_others_waiting() {
        let pool = ThreadPool::new("test", THREADS, 0).expect("starts");
        let (release, hang) = channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        for _ in 0..THREADS - 1 {
            let hang = Arc::clone(&hang);
            pool.run(move || assert!(hang.lock().expect("whole").recv().is_err()));
        }
        let (done, is_done) = channel();
        for job in 0..100 {
            let done = done.clone();
            pool.run(move || done.send(job).expect("received"));
        }
        let mut jobs: Vec<i32> = is_done.iter().take(100).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, (0..100).collect::<Vec<_>>());
        drop(release);
    }

    #[test]
    fn a_panicking_job_takes_nobody_along() {
        let pool = ThreadPool::new("test", THREADS, 0).expect("starts");
        for _ in 0..2 * THREADS {
            pool.run(|| std::panic::resume_unwind(Box::new("on purpose")));
        }
        let (done, is_done) = channel();
        pool.run(move || done.send(()).expect("received"));
        is_done.recv().expect("done");
    }

    #[test]
    fn jobs_given_before_the_end_are_done() {
        let pool = ThreadPool::new("test", THREADS, 0).expect("starts");
        let (done, is_done) = channel();
        for job in 0..50 {
            let done = done.clone();
            pool.run(move || done.send(job).expect("received"));
        }
        drop((pool, done));
        assert_eq!(is_done.iter().count(), 50);
    }

    #[test]
    fn jobs_beyond_those_that_may_wait_are_refused_and_taken_again_when_there_is_room() {
        let pool = ThreadPool::new("test", 1, 2).expect("starts");
        let (release, hang) = channel::<()>();
        let (began, has_begun) = channel();
        pool.run(move || {
            began.send(()).expect("received");
            let _ = hang.recv();
        });
        has_begun.recv().expect("it hangs now");
        assert!(pool.offer(|| ()) && pool.offer(|| ()));
        assert!(!pool.offer(|| ()), "two wait already");
        drop(release);
        let (done, is_done) = channel();
        while !pool.offer({
            let done = done.clone();
            move || {
                let _ = done.send(());
            }
        }) {
            std::thread::yield_now();
        }
        is_done.recv().expect("done");
    }
}
