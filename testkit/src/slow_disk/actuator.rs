//! The one arm: takes queued requests one at a time, lets the time pass that the drive model
//! says, does the real reading or writing, and answers.
//!
//! Invariants: one request is in service at a time; each is answered exactly once; after
//! [`Actuator::close`] everything still queued and everything that comes is answered with an error
//! at once, so that nobody who waits for the disk can keep it from being unmounted.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::fault::Faults;
use super::model::{Drive, DriveModel};
use super::trace::Record;

/// Requests taken in a row because each continued the last, before the oldest has its turn.
const CONTINUED_MAX: u32 = 64;

/// Records kept (72 MB); later requests are only counted.
const RECORDS_MAX: usize = 1 << 20;

/// A queued request: what to do, and whom to tell.
pub(super) struct Job {
    pub(super) offset: u64,
    pub(super) work: Work,
    arrived: Duration,
    outstanding: usize,
}

/// The two kinds of request, each with the reply it owes.
pub(super) enum Work {
    Read {
        length: u32,
        reply: fuser::ReplyData,
    },
    Write {
        data: Vec<u8>,
        reply: fuser::ReplyWrite,
    },
}

impl Work {
    fn length(&self) -> u64 {
        match self {
            Self::Read { length, .. } => u64::from(*length),
            Self::Write { data, .. } => data.len() as u64,
        }
    }

    fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. })
    }

    /// Answers; `buffer` holds what was read.
    fn succeed(self, buffer: &[u8]) {
        match self {
            Self::Read { reply, .. } => reply.data(buffer),
            Self::Write { data, reply } => reply.written(data.len() as u32),
        }
    }

    fn fail(self) {
        match self {
            Self::Read { reply, .. } => reply.error(fuser::Errno::EIO),
            Self::Write { reply, .. } => reply.error(fuser::Errno::EIO),
        }
    }
}

/// A request on its way, in model time.
struct Service {
    job: Job,
    started: Duration,
    service: Duration,
}

/// What happened while a request was in service.
struct Waited {
    struck: bool,
    hung: bool,
}

/// Totals since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Read requests answered.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Write requests answered.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Most requests outstanding at once.
    pub outstanding_max: usize,
    /// Requests that found the trace full.
    pub untraced: u64,
}

struct State {
    queue: VecDeque<Job>,
    in_service: usize,
    in_service_bytes: u64,
    closed: bool,
    timed: bool,
    drive: Drive,
    continued: u32,
    free_at: Duration,
    faults: Faults,
    records: Vec<Record>,
    counters: Counters,
}

pub(super) struct Actuator {
    backing: File,
    origin: Instant,
    compression: f64,
    state: Mutex<State>,
    changed: Condvar,
}

impl Actuator {
    pub(super) fn new(backing: File, model: DriveModel, compression: f64) -> Self {
        Self {
            backing,
            origin: Instant::now(),
            compression,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                in_service: 0,
                in_service_bytes: 0,
                closed: false,
                timed: false,
                drive: Drive::new(model),
                continued: 0,
                free_at: Duration::ZERO,
                faults: Faults::default(),
                records: Vec::new(),
                counters: Counters::default(),
            }),
            changed: Condvar::new(),
        }
    }

    /// Model time since the disk was made.
    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed().mul_f64(self.compression)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not keep the guards from cleaning up.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn submit(&self, offset: u64, work: Work) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return work.fail();
        }
        let outstanding = state.queue.len() + state.in_service + 1;
        state.counters.outstanding_max = state.counters.outstanding_max.max(outstanding);
        let arrived = self.now();
        state.queue.push_back(Job {
            offset,
            work,
            arrived,
            outstanding,
        });
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn with_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
        self.changed.notify_all();
    }

    pub(super) fn switch_timing(&self, timed: bool) {
        let mut state = self.lock();
        state.timed = timed;
        state.free_at = self.now();
    }

    pub(super) fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Bytes of the requests that wait or are in service.
    pub(super) fn outstanding_bytes(&self) -> u64 {
        let state = self.lock();
        state.queue.iter().map(|job| job.work.length()).sum::<u64>() + state.in_service_bytes
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.lock().records.clone()
    }

    pub(super) fn forget_records(&self) {
        self.lock().records.clear();
    }

    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let orphans = std::mem::take(&mut state.queue);
        drop(state);
        self.changed.notify_all();
        for job in orphans {
            job.work.fail();
        }
    }

    /// Serves until closed. Runs on a thread of its own.
    pub(super) fn run(&self) {
        let mut buffer = Vec::new();
        while let Some(Service {
            job,
            started,
            service,
        }) = self.take()
        {
            let waited = self.wait_for_completion(&job, started + service);
            let failed = waited.struck || self.transfer(&job, &mut buffer).is_err();
            let mut state = self.lock();
            (state.in_service, state.in_service_bytes) = (0, 0);
            // An arm that was not held up is free at the moment the model says, however late
            // this thread woke: lateness does not add up.
            let completed = self.now();
            state.free_at = if waited.hung {
                completed
            } else {
                started + service
            };
            state.note(&job, started, completed, service, failed);
            drop(state);
            // The answer comes last: whoever it wakes must find this request gone.
            if failed {
                job.work.fail()
            } else {
                job.work.succeed(&buffer)
            }
        }
    }

    /// The next request; `None` once closed.
    fn take(&self) -> Option<Service> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            match state.faults.hang_left(Instant::now()) {
                Some(left) => state = self.wait(state, left),
                None if state.queue.is_empty() => {
                    state = self.wait(state, Duration::from_secs(3_600));
                }
                None => break,
            }
        }
        let job = state.next_job()?;
        let started = job.arrived.max(state.free_at);
        let length = job.work.length();
        (state.in_service, state.in_service_bytes) = (1, length);
        let service = if state.timed {
            let service = state.drive.serve(job.offset, length);
            state.faults.stretch(service)
        } else {
            state.drive.skip(job.offset, length);
            Duration::ZERO
        };
        // With the timing off there is no queueing either.
        let started = if state.timed { started } else { self.now() };
        Some(Service {
            job,
            started,
            service,
        })
    }

    /// Sleeps until the model says that the request is done and no hang holds it.
    fn wait_for_completion(&self, job: &Job, done: Duration) -> Waited {
        let done = self.origin + done.div_f64(self.compression);
        let mut hung = false;
        let mut state = self.lock();
        loop {
            if state.closed {
                return Waited { struck: true, hung };
            }
            let now = Instant::now();
            let hang = state.faults.hang_left(now);
            hung |= hang.is_some();
            let left = hang
                .unwrap_or_default()
                .max(done.saturating_duration_since(now));
            if left.is_zero() {
                let (offset, length) = (job.offset, job.work.length());
                let struck = state.faults.strikes(offset, length, job.work.is_write());
                return Waited { struck, hung };
            }
            state = self.wait(state, left);
        }
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, length: Duration) -> MutexGuard<'a, State> {
        match self.changed.wait_timeout(state, length) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    /// Reads the backing file into the buffer, or writes it.
    fn transfer(&self, job: &Job, buffer: &mut Vec<u8>) -> std::io::Result<()> {
        match &job.work {
            Work::Read { length, .. } => {
                buffer.resize(*length as usize, 0);
                self.backing.read_exact_at(buffer, job.offset)
            }
            Work::Write { data, .. } => self.backing.write_all_at(data, job.offset),
        }
    }
}

impl State {
    /// The request that continues the last one, if there is one and it has not been so too often;
    /// else the oldest.
    fn next_job(&mut self) -> Option<Job> {
        let head = self.drive.head();
        let index = self.queue.iter().position(|job| job.offset == head);
        match index {
            Some(index) if self.continued < CONTINUED_MAX => {
                self.continued += 1;
                self.queue.remove(index)
            }
            _ => {
                self.continued = 0;
                self.queue.pop_front()
            }
        }
    }

    fn note(
        &mut self,
        job: &Job,
        started: Duration,
        completed: Duration,
        service: Duration,
        failed: bool,
    ) {
        let (length, write) = (job.work.length(), job.work.is_write());
        let counters = &mut self.counters;
        match (failed, write) {
            (true, _) => counters.errors += 1,
            (false, true) => {
                counters.writes += 1;
                counters.written_bytes += length;
            }
            (false, false) => {
                counters.reads += 1;
                counters.read_bytes += length;
            }
        }
        if self.records.len() == RECORDS_MAX {
            counters.untraced += 1;
            return;
        }
        self.records.push(Record {
            offset: job.offset,
            length,
            write,
            arrived: job.arrived,
            started,
            completed,
            service,
            outstanding: job.outstanding,
            failed,
        });
    }
}
