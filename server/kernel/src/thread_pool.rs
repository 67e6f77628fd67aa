//! Thread pool for blocking calls, one per disk, so that a hang affects only that disk.
//!
//! A thread is started when a job finds all others busy, up to a limit; beyond it, jobs wait in a
//! queue. The queue is bounded by the caller ([`ThreadPool::run`]) or by the pool
//! ([`ThreadPool::offer`]).

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads for blocking jobs. After it is dropped, queued jobs are still completed.
pub struct ThreadPool {
    shared: Arc<ThreadPoolShared>,
}

struct ThreadPoolShared {
    name: String,
    threads_max: usize,
    jobs_max: usize,
    state: Mutex<JobQueue>,
    jobs_came: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    workers: usize,
    idle: usize,
    closed: bool,
}

impl ThreadPool {
    /// Creates a pool of at most `threads_max` threads and `jobs_max` queued offers. The first
    /// thread is started now, so that there is always one.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(name: &str, threads_max: usize, jobs_max: usize) -> io::Result<Self> {
        let shared = Arc::new(ThreadPoolShared {
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

    /// Queues a job. A panic ends only that job. For jobs whose number is bounded by the caller,
    /// such as outstanding reads or open files.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.add(self.shared.lock(), Box::new(job));
    }

    /// Queues a job unless the queue is full; returns whether it was queued.
    pub fn offer(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let state = self.shared.lock();
        let has_room = state.jobs.len() < self.shared.jobs_max;
        if has_room {
            self.add(state, Box::new(job));
        }
        has_room
    }

    fn add(&self, mut state: MutexGuard<'_, JobQueue>, job: Job) {
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

impl ThreadPoolShared {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        // No code under this lock can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_worker(shared: &Arc<ThreadPoolShared>) -> io::Result<()> {
    let worker = Arc::clone(shared);
    std::thread::Builder::new()
        .name(shared.name.clone())
        .spawn(move || work(&worker))
        .map(drop)
}

fn work(shared: &ThreadPoolShared) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(pool = shared.name, "job panicked");
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
    use std::sync::mpsc::channel;

    use super::*;

    const THREADS: usize = 32;

    #[test]
    fn hanging_jobs_do_not_block_others() {
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
    fn panicking_job_does_not_affect_others() {
        let pool = ThreadPool::new("test", THREADS, 0).expect("starts");
        for _ in 0..2 * THREADS {
            pool.run(|| std::panic::resume_unwind(Box::new("on purpose")));
        }
        let (done, is_done) = channel();
        pool.run(move || done.send(()).expect("received"));
        is_done.recv().expect("done");
    }

    #[test]
    fn queued_jobs_complete_after_drop() {
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
    fn full_queue_refuses_offers_until_there_is_room() {
        let pool = ThreadPool::new("test", 1, 2).expect("starts");
        let (release, hang) = channel::<()>();
        let (began, has_begun) = channel();
        pool.run(move || {
            began.send(()).expect("received");
            let _ = hang.recv();
        });
        has_begun.recv().expect("the job runs");
        assert!(pool.offer(|| ()) && pool.offer(|| ()));
        assert!(!pool.offer(|| ()), "the queue is full");
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
