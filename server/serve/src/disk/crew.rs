//! The threads of a device that may block: they open files, and read them where io_uring cannot.
//!
//! A thread is started when a job finds all others busy, so there are as many as jobs that hang
//! at once, plus the busy ones, up to a bound; beyond it jobs wait.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most threads of one crew.
pub(crate) const WORKERS_MAX: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

/// Threads for jobs that block. Dropping it lets them finish the jobs they have.
pub(crate) struct Crew {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
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

impl Crew {
    /// Starts the first thread, so that there always is one.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            name: format!("io-{name}"),
            state: Mutex::default(),
            jobs_came: Condvar::new(),
        });
        shared.lock().workers = 1;
        start_worker(&shared)?;
        Ok(Self { shared })
    }

    /// Has a job done, some time. A panic in it ends the job only.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        state.jobs.push_back(Box::new(job));
        let short_handed = state.jobs.len() > state.idle && state.workers < WORKERS_MAX;
        state.workers += usize::from(short_handed);
        drop(state);
        if !short_handed {
            self.shared.jobs_came.notify_one();
        } else if let Err(error) = start_worker(&self.shared) {
            self.shared.lock().workers -= 1;
            tracing::debug!(crew = self.shared.name, %error, "no more threads; the job waits");
        }
    }
}

impl Drop for Crew {
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
                tracing::error!(crew = shared.name, "a job panicked");
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

    #[test]
    fn jobs_that_hang_do_not_keep_others_waiting() {
        let crew = Crew::new("test").expect("starts");
        let (release, hang) = channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        for _ in 0..WORKERS_MAX - 1 {
            let hang = Arc::clone(&hang);
            crew.run(move || assert!(hang.lock().expect("whole").recv().is_err()));
        }
        let (done, is_done) = channel();
        for job in 0..100 {
            let done = done.clone();
            crew.run(move || done.send(job).expect("received"));
        }
        let mut jobs: Vec<i32> = is_done.iter().take(100).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, (0..100).collect::<Vec<_>>());
        drop(release);
    }

    #[test]
    fn a_panicking_job_takes_nobody_along() {
        let crew = Crew::new("test").expect("starts");
        for _ in 0..2 * WORKERS_MAX {
            crew.run(|| std::panic::resume_unwind(Box::new("on purpose")));
        }
        let (done, is_done) = channel();
        crew.run(move || done.send(()).expect("received"));
        is_done.recv().expect("done");
    }

    #[test]
    fn jobs_given_before_the_end_are_done() {
        let crew = Crew::new("test").expect("starts");
        let (done, is_done) = channel();
        for job in 0..50 {
            let done = done.clone();
            crew.run(move || done.send(job).expect("received"));
        }
        drop((crew, done));
        assert_eq!(is_done.iter().count(), 50);
    }
}
