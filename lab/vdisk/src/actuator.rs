//! Answers each request at the completion time given by the drive model.
//!
//! Requests come from the threads that talk to the kernel; one thread, the arm, sleeps until the
//! next answer is due. Answering takes time itself (the content must be generated and transferred),
//! so the arm starts earlier by the time recent answers took. The round trip to this process takes
//! time as well, unlike a drive's cable: a request that finds the drive idle is dated back by the
//! round-trip time ([`Actuator::set_journey`]), but not to before the completion of the previous
//! request.
//!
//! Invariants: each request is answered exactly once; after [`Actuator::close`] all outstanding and
//! new requests fail with an error at once, so that no process waiting for the disk can block its
//! unmounting. Writes take effect on arrival.

mod pending_request;
mod state;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as WallDuration, Instant as WallInstant};

use headlong_drive::{Direction, Drive};
use headlong_units::Instant;

use crate::answer_time::{AnswerTime, SleepOverrun};
use crate::clock::Clock;
use crate::counters::{CounterTally, Counters};
use crate::fault::{ActiveFaults, Fault};
use crate::priority;
use crate::queue::{DriveQueue, FinishedRequest};
use crate::store::ContentStore;
use crate::trace::TraceRecord;
use headlong_report::say;
use pending_request::{PendingRequest, ReplyHandle};
use state::{ActuatorState, Disposition};

/// Sleep of the arm without outstanding requests; a new request wakes it.
const IDLE: WallDuration = WallDuration::from_secs(3_600);
/// How long before the due time the arm stops sleeping and polls the clock.
const WATCH: WallDuration = WallDuration::from_micros(25);

thread_local! {
    /// Content on its way to the kernel, one buffer per thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) struct Actuator {
    store: Arc<ContentStore>,
    clock: Clock,
    state: Mutex<ActuatorState>,
    changed: Condvar,
    /// Set when the state changes while the arm polls the clock.
    has_news: AtomicBool,
    /// Round-trip time of a request and its answer, wall nanoseconds.
    journey_ns: AtomicU64,
    is_store_failing: AtomicBool,
    is_incomplete: AtomicBool,
}

impl Actuator {
    pub(crate) fn new(
        store: Arc<ContentStore>,
        drive: Box<dyn Drive>,
        queue_depth: Option<usize>,
        time_scale: f64,
    ) -> Self {
        let clock = Clock::new(time_scale);
        Self {
            store,
            clock,
            state: Mutex::new(ActuatorState {
                is_closed: false,
                is_timed: false,
                queue: DriveQueue::new(drive, queue_depth),
                faults: ActiveFaults::default(),
                tally: CounterTally::new(clock.now()),
                records: None,
                trace: None,
                asleep_until: None,
            }),
            changed: Condvar::new(),
            has_news: AtomicBool::new(false),
            journey_ns: AtomicU64::new(0),
            is_store_failing: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn store(&self) -> &ContentStore {
        &self.store
    }

    /// Sets the round-trip time of a request and its answer.
    pub(crate) fn set_journey(&self, way: WallDuration) {
        let ns = u64::try_from(way.as_nanos()).unwrap_or(u64::MAX);
        self.journey_ns.store(ns, Ordering::Relaxed);
    }

    /// When a request that has arrived now was sent, if only the round trip delayed it.
    fn asked_at(&self, here: WallInstant) -> Instant {
        let journey = WallDuration::from_nanos(self.journey_ns.load(Ordering::Relaxed));
        self.clock.model(here.checked_sub(journey).unwrap_or(here))
    }

    fn lock(&self) -> MutexGuard<'_, ActuatorState> {
        // A panic elsewhere must not keep the guards from cleaning up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a read from the kernel.
    pub(crate) fn read(&self, offset: u64, length: u32, reply: fuser::ReplyData) {
        self.submit(None, offset, length, ReplyHandle::Read(reply));
    }

    /// Handles a write from the kernel.
    pub(crate) fn write(&self, offset: u64, data: &[u8], reply: fuser::ReplyWrite) {
        // Storing the data is the emulator's work, not the drive's: the arrival time is taken
        // before.
        let arrived = WallInstant::now();
        if self.lock().must_refuse() {
            self.is_incomplete.store(true, Ordering::Relaxed);
        } else if let Err(error) = self.store.write(offset, data) {
            self.is_incomplete.store(true, Ordering::Relaxed);
            self.say_store_fails(&error);
            return reply.error(fuser::Errno::EIO);
        }
        let length = data.len() as u32;
        self.submit(Some(arrived), offset, length, ReplyHandle::Write(reply));
    }

    /// Zeroes `length` bytes at `offset` without writing them; an error while the timing is on,
    /// because a drive has no such shortcut.
    pub(crate) fn zero(&self, offset: u64, length: u64) -> Result<(), fuser::Errno> {
        let state = self.lock();
        if state.must_fail() {
            return Err(fuser::Errno::EIO);
        }
        if state.is_timed {
            return Err(fuser::Errno::EOPNOTSUPP);
        }
        drop(state);
        self.store.zero(offset, length).map_err(|error| {
            self.say_store_fails(&error);
            fuser::Errno::EIO
        })
    }

    fn submit(&self, arrived: Option<WallInstant>, offset: u64, length: u32, answer: ReplyHandle) {
        priority::raise();
        let mut state = self.lock();
        let here = arrived.unwrap_or_else(WallInstant::now);
        let now = match state.is_timed && state.tally.outstanding() == 0 {
            true => self.asked_at(here),
            false => self.clock.model(here),
        };
        let now = state.queue.arrival(now);
        let job = PendingRequest {
            offset,
            length,
            arrived: now,
            here: self.clock.model(here),
            outstanding: state.tally.outstanding() + 1,
            answer,
        };
        state.tally.handle_arrival(now);
        match state.way_of(&job) {
            Disposition::Fail => {
                state.note_untimed(&job, now, true);
                drop(state);
                job.fail();
            }
            Disposition::AtOnce => {
                state.note_untimed(&job, now, false);
                drop(state);
                BUFFER.with_borrow_mut(|buffer| match self.prepare(&job, buffer) {
                    Ok(()) => job.succeed(buffer),
                    Err(()) => job.fail(),
                });
            }
            Disposition::ToDrive => {
                if state.is_timed {
                    state.queue.handle_request(now, job.request(), job);
                } else {
                    state.queue.hold(job.request(), job);
                }
                let must_wake = state.must_wake(&self.clock);
                self.has_news.store(true, Ordering::Relaxed);
                drop(state);
                if must_wake {
                    self.changed.notify_one();
                }
            }
        }
    }

    /// Generates the content of a read.
    fn prepare(&self, job: &PendingRequest, buffer: &mut Vec<u8>) -> Result<(), ()> {
        if job.direction() == Direction::Write {
            return Ok(());
        }
        buffer.resize(job.length as usize, 0);
        self.store
            .read(job.offset, buffer)
            .map_err(|error| self.say_store_fails(&error))?;
        self.lock().faults.flip(job.offset, buffer);
        Ok(())
    }

    /// The machine's disk has failed, not the emulated one: the message must say which.
    fn say_store_fails(&self, error: &std::io::Error) {
        if !self.is_store_failing.swap(true, Ordering::Relaxed) {
            say!("headlong: cannot store data written to the emulated disk: {error}");
        }
    }

    /// Whether the store lacks any written data.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.load(Ordering::Relaxed)
    }

    pub(crate) fn switch_timing(&self, is_timed: bool) {
        self.change(|state, now| {
            state.is_timed = is_timed;
            match is_timed {
                // Requests held by a hang now go to the drive.
                true => state.queue.admit(now),
                false => state.queue.handle_timeout(now),
            }
        });
    }

    pub(crate) fn add_fault(&self, fault: Fault) {
        self.change(|state, now| {
            let factor = state.queue.pace_factor();
            match fault {
                Fault::Error { bytes, once } => state.faults.add_error(bytes, once),
                Fault::Vanish => state.faults.vanish(),
                Fault::ReadOnly => state.faults.refuse_writes(),
                Fault::Flip(bytes) => state.faults.add_flips(bytes),
                Fault::Hang(length) => {
                    state.faults.hang(length);
                    state.queue.change_pace(now, factor, true);
                }
                Fault::Slow(factor) => {
                    let is_hung = state.faults.is_hung();
                    state.queue.change_pace(now, factor.max(1e-3), is_hung);
                }
            }
        });
    }

    /// Ends a hang.
    pub(crate) fn release(&self) {
        self.change(ActuatorState::release);
    }

    /// Ends all faults.
    pub(crate) fn clear_faults(&self) {
        self.change(|state, now| {
            state.faults = ActiveFaults::default();
            state.queue.change_pace(now, 1.0, false);
        });
    }

    fn change(&self, change: impl FnOnce(&mut ActuatorState, Instant)) {
        let mut state = self.lock();
        change(&mut state, self.clock.now());
        self.has_news.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut state = self.lock();
        let is_timed = state.is_timed;
        let now = self.clock.now();
        state.tally.counters(now, is_timed, self.clock.scale())
    }

    pub(crate) fn reset_counters(&self) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.tally.reset(now);
    }

    pub(crate) fn reset_lateness(&self) {
        self.lock().tally.reset_lateness();
    }

    /// Bytes of outstanding requests.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        let state = self.lock();
        state.queue.jobs().map(|job| u64::from(job.length)).sum()
    }

    /// Starts to record every request in memory, with an empty record; or stops.
    pub(crate) fn keep_records(&self, keep: bool) {
        self.lock().records = keep.then(Vec::new);
    }

    pub(crate) fn records(&self) -> Vec<TraceRecord> {
        self.lock().records.clone().unwrap_or_default()
    }

    /// Sets the receiver of a copy of each record.
    pub(crate) fn trace_to(&self, sender: Option<Sender<TraceRecord>>) {
        self.lock().trace = sender;
    }

    pub(crate) fn close(&self) {
        self.change(|state, _| state.is_closed = true);
    }

    /// Answers requests until closed. Runs on a thread of its own.
    pub(crate) fn run(&self) {
        priority::raise();
        let mut rehearsal = AnswerTime::default();
        let mut buffer = Vec::new();
        let mut state = self.lock();
        loop {
            let wall = WallInstant::now();
            state.handle_wall(wall, &self.clock);
            // The lock is released only before a new iteration, which inspects everything again
            // before the arm sleeps.
            let released = state.released(self.clock.model(wall));
            if !released.is_empty() {
                state = self.answer_released(state, released, &mut buffer);
                continue;
            }
            if state.is_closed {
                return;
            }
            let longest = state.queue.taken().take(64).map(|job| job.length).max();
            let lead = rehearsal.whole(longest.unwrap_or(0)) + WATCH;
            let horizon = self.clock.model(wall + lead);
            if state.is_timed {
                state.queue.handle_timeout(horizon);
            }
            if let Some(outcome) = state.queue.poll_outcome() {
                state = self.answer(state, outcome, &mut rehearsal, &mut buffer);
                continue;
            }
            state = self.sleep(state, lead, &mut rehearsal.oversleep);
        }
    }

    /// Sleeps until `lead` before the next due time, or until the state changes. Polls the clock
    /// for the last part, which a sleep would overrun.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, ActuatorState>,
        lead: WallDuration,
        oversleep: &mut SleepOverrun,
    ) -> MutexGuard<'a, ActuatorState> {
        let wall = WallInstant::now();
        let timeout = state.queue.poll_timeout().filter(|_| state.is_timed);
        let due = timeout.map(|at| self.clock.wall(at));
        let due = due.map(|at| at.checked_sub(lead).unwrap_or(at));
        let wake = [due, state.faults.hang_end()].into_iter().flatten().min();
        let wake = wake.unwrap_or(wall + IDLE);
        let left = wake.saturating_duration_since(wall);
        if left.is_zero() {
            return state;
        }
        let early = oversleep.expect();
        if left <= early {
            self.has_news.store(false, Ordering::Relaxed);
            drop(state);
            while WallInstant::now() < wake && !self.has_news.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            return self.lock();
        }
        state.asleep_until = Some(wake);
        let (mut state, outcome) = self
            .changed
            .wait_timeout(state, left - early)
            .unwrap_or_else(PoisonError::into_inner);
        state.asleep_until = None;
        if outcome.timed_out() {
            oversleep.learn(wall.elapsed().saturating_sub(left - early));
        }
        state
    }

    /// Answers a request that the drive has completed, at its due time.
    fn answer<'a>(
        &'a self,
        mut state: MutexGuard<'a, ActuatorState>,
        outcome: FinishedRequest<PendingRequest>,
        rehearsal: &mut AnswerTime,
        buffer: &mut Vec<u8>,
    ) -> MutexGuard<'a, ActuatorState> {
        let (job, times) = match outcome {
            FinishedRequest::Done(job, times) => (job, times),
            FinishedRequest::Refused(job) => {
                let now = self.clock.now();
                state.note_untimed(&job, now, true);
                drop(state);
                job.fail();
                return self.lock();
            }
        };
        let direction = job.direction();
        let is_struck = state
            .faults
            .strikes(job.offset, u64::from(job.length), direction);
        drop(state);
        let begun = WallInstant::now();
        let is_failed = self.prepare(&job, buffer).is_err() || is_struck;
        let prepared = WallInstant::now();
        let bytes = if direction == Direction::Read && !is_failed {
            job.length
        } else {
            0
        };
        rehearsal.prepare.learn(bytes, prepared - begun);
        // A request that arrived after its due time, because the round trip exceeded the drive's
        // time, is not late.
        let came = self.clock.wall(job.here);
        let due = self.clock.wall(times.ended.max(job.here));
        let start = due.checked_sub(rehearsal.send.expect(bytes)).unwrap_or(due);
        watch_until(start);
        // Recorded before the answer: the woken client must find this request completed.
        let mut state = self.lock();
        let answered = self.clock.now().max(times.ended);
        state.tally.handle_departure(answered);
        state.note(&job.record(&times, answered, is_failed), true);
        drop(state);
        let sent_from = WallInstant::now();
        if is_failed {
            job.fail();
        } else {
            job.succeed(buffer);
        }
        let sent = WallInstant::now();
        rehearsal.send.learn(bytes, sent - sent_from);
        let mut state = self.lock();
        state.tally.add_answer(came, due, sent);
        state
    }

    /// Answers requests released without the drive.
    fn answer_released<'a>(
        &'a self,
        state: MutexGuard<'a, ActuatorState>,
        released: Vec<(PendingRequest, bool)>,
        buffer: &mut Vec<u8>,
    ) -> MutexGuard<'a, ActuatorState> {
        drop(state);
        for (job, is_failed) in released {
            if is_failed || self.prepare(&job, buffer).is_err() {
                job.fail();
            } else {
                job.succeed(buffer);
            }
        }
        self.lock()
    }
}

/// Sleeps until shortly before `end`, then polls the clock: a sleep overruns by tens of
/// microseconds.
fn watch_until(end: WallInstant) {
    let left = end.saturating_duration_since(WallInstant::now());
    if left > 3 * WATCH {
        std::thread::sleep(left - 2 * WATCH);
    }
    while WallInstant::now() < end {
        std::hint::spin_loop();
    }
}
