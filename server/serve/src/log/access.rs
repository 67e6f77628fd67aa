//! The thread that writes the access log, the session log and the log of slow replies.
//!
//! Lines are gathered while more records wait, and written in one go when none does or the batch
//! is large: under load one write carries hundreds of lines, and a single request's line is there
//! at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headlong_units::Instant as EngineInstant;

use super::format::LogFormat;
use super::json;
use super::record::{RequestRecord, SessionKey};
use super::session::{SessionLimits, SessionLog, SessionSummary};
use super::sink::{LogTarget, Sink, SinkError};
use super::slow;
use crate::degraded::{DegradedParts, PartKind};
use crate::time_scale::TimeScale;

const BATCH_BYTES: usize = 64 * 1024;
const TICK: Duration = Duration::from_secs(1);
/// How long the last lines may take when the server stops.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// Lost ends that are remembered one by one.
const LOST_ENDS_MAX: usize = 4096;
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// What to log, and where.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// One line for each request.
    pub access: LogTarget,
    /// How it is written.
    pub format: LogFormat,
    /// One line of JSON for each viewing session; may be the same file.
    pub sessions: LogTarget,
    /// One line for each reply that took long, in the same format; may be the same file.
    pub slow: LogTarget,
    /// When a session is over.
    pub session_limits: SessionLimits,
    /// Records that may wait for the writer; further ones are dropped and counted.
    pub queue_max: usize,
    /// How fast the clock goes by which sessions end.
    pub time_scale: TimeScale,
    /// Where logs are listed that cannot be written.
    pub degraded: Arc<DegradedParts>,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            access: LogTarget::Off,
            format: LogFormat::Json,
            sessions: LogTarget::Off,
            slow: LogTarget::Off,
            session_limits: SessionLimits::default(),
            queue_max: 8192,
            time_scale: TimeScale::ONE,
            degraded: Arc::default(),
        }
    }
}

/// What became of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCounts {
    /// Records that were lost, because the writer was behind or could not write.
    pub dropped: u64,
    /// Writes that failed.
    pub write_errors: u64,
}

enum Message {
    Record(Box<RequestRecord>),
    Begun(SessionKey),
    Wake,
}

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    write_errors: AtomicU64,
    reopen: AtomicBool,
    finish: AtomicBool,
    lost_ends: Mutex<LostEnds>,
}

/// Sessions of requests that have ended, but whose records were lost: the writer is told that they
/// are over, or a session would never end.
#[derive(Debug, Default)]
struct LostEnds {
    keys: Vec<SessionKey>,
    /// There were too many of them to keep.
    are_many: bool,
}

impl LostEnds {
    fn add(&mut self, key: SessionKey) {
        self.are_many |= self.keys.len() >= LOST_ENDS_MAX;
        if !self.are_many {
            self.keys.push(key);
        }
    }
}

impl Shared {
    fn lost_ends(&self) -> MutexGuard<'_, LostEnds> {
        // Nothing under the lock panics half-way through a change.
        self.lost_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The near end of the logs; share it behind an `Arc`.
#[derive(Debug)]
pub struct AccessLog {
    /// `None` when all logs are off, and then there is no thread.
    sender: Option<SyncSender<Message>>,
    /// Says when the writer has ended.
    ended: Mutex<Option<Receiver<()>>>,
    has_access: bool,
    has_sessions: bool,
    shared: Arc<Shared>,
}

impl AccessLog {
    /// Opens the files and starts the writer. A file that cannot be opened is tried again.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn open(config: &LogConfig) -> Result<Self, SinkError> {
        let open = |target: &LogTarget| {
            let (sink, error) = Sink::open(target);
            if let (Some(path), Some(error)) = (sink.path(), error) {
                let error = format!("{}; {}", error.source, SinkError::REMEDY);
                config.degraded.lose(PartKind::Log, path.display(), error);
            }
            sink
        };
        let [access, sessions, slow] = [&config.access, &config.sessions, &config.slow].map(open);
        let shared = Arc::new(Shared::default());
        let (has_access, has_sessions) = (!access.is_off(), !sessions.is_off());
        if !has_access && !has_sessions && slow.is_off() {
            return Ok(Self {
                sender: None,
                ended: Mutex::new(None),
                has_access,
                has_sessions,
                shared,
            });
        }
        let (sender, receiver) = sync_channel(config.queue_max.max(1));
        let (say, ended) = sync_channel(1);
        let writer = Writer {
            format: config.format,
            access: Output::new(access),
            sessions: Output::new(sessions),
            slow: Output::new(slow),
            session_log: SessionLog::new(config.session_limits),
            shared: Arc::clone(&shared),
            degraded: Arc::clone(&config.degraded),
            started: Instant::now(),
            time_scale: config.time_scale,
            warned: None,
            is_drained: true,
            lost_ends: LostEnds::default(),
        };
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                writer.run(&receiver);
                let _ = say.send(());
            });
        thread.map_err(|source| SinkError {
            path: "(its writer thread)".into(),
            source,
        })?;
        Ok(Self {
            sender: Some(sender),
            ended: Mutex::new(Some(ended)),
            has_access,
            has_sessions,
            shared,
        })
    }

    /// Whether records of all requests are worth making.
    pub fn is_on(&self) -> bool {
        self.has_access || self.has_sessions
    }

    /// Whether there is a line for each request.
    pub fn has_access(&self) -> bool {
        self.has_access
    }

    /// Hands a record over; never blocks.
    pub fn record(&self, record: RequestRecord) {
        let Some(sender) = &self.sender else { return };
        let sent = sender.try_send(Message::Record(Box::new(record)));
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) = sent {
            self.shared.dropped.fetch_add(1, Relaxed);
            if let Message::Record(record) = lost
                && let Some(key) = record.session
            {
                self.shared.lost_ends().add(key);
            }
        }
    }

    /// A request of a viewer began: its session goes on until it has ended.
    pub fn begun(&self, session: &Option<SessionKey>) {
        if let (true, Some(sender), Some(key)) = (self.has_sessions, &self.sender, session) {
            // One that is lost costs a session that is split at worst.
            let _ = sender.try_send(Message::Begun(key.clone()));
        }
    }

    /// Opens the files again, after somebody has renamed them (SIGUSR1).
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        if let Some(sender) = &self.sender {
            // If the queue is full, the writer is awake anyway.
            let _ = sender.try_send(Message::Wake);
        }
    }

    /// What became of the records so far.
    pub fn counts(&self) -> LogCounts {
        LogCounts {
            dropped: self.shared.dropped.load(Relaxed),
            write_errors: self.shared.write_errors.load(Relaxed),
        }
    }

    /// Writes what is waiting and the sessions still open, then stops. Blocks until that is done, or
    /// for some seconds if nobody takes what is written; later records are dropped.
    pub fn finish(&self) {
        let ended = self
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (Some(sender), Some(ended)) = (&self.sender, ended) else {
            return;
        };
        self.shared.finish.store(true, Relaxed);
        // If the queue is full, the writer is awake, or never will be.
        let _ = sender.try_send(Message::Wake);
        if ended.recv_timeout(FINISH_TIME).is_err() {
            tracing::error!("the access log cannot be written to its end; its last lines are lost");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A sink and the lines on their way to it.
struct Output {
    sink: Sink,
    lines: Vec<u8>,
    /// Whether the last write failed.
    is_failing: bool,
}

impl Output {
    fn new(sink: Sink) -> Self {
        Self {
            sink,
            lines: Vec::new(),
            is_failing: false,
        }
    }

    /// Writes the lines; those that cannot be written are lost, and counted.
    fn flush(&mut self, shared: &Shared, degraded: &DegradedParts) -> io::Result<()> {
        if self.lines.is_empty() {
            if self.sink.opens_again() {
                self.is_failing = false;
                self.recover(degraded);
            }
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let (written, outcome) = self.sink.write(&lines);
        if outcome.is_err() {
            let lost = lines[written..]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            shared.dropped.fetch_add(lost as u64, Relaxed);
        } else if self.is_failing {
            tracing::info!("a log can be written again");
        }
        self.is_failing = outcome.is_err();
        match &outcome {
            Ok(()) => self.recover(degraded),
            // A pipe without a reader is as it may be.
            Err(error) if is_of_pipe(error) => {}
            Err(error) => {
                if let Some(path) = self.sink.path() {
                    let error = format!("{error}; {}", SinkError::REMEDY);
                    degraded.lose(PartKind::Log, path.display(), error);
                }
            }
        }
        self.lines = lines;
        self.lines.clear();
        outcome
    }

    fn recover(&self, degraded: &DegradedParts) {
        if let Some(path) = self.sink.path() {
            degraded.recover(PartKind::Log, path.display());
        }
    }
}

fn is_of_pipe(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, WouldBlock};
    matches!(error.kind(), BrokenPipe | WouldBlock)
}

struct Writer {
    format: LogFormat,
    access: Output,
    sessions: Output,
    slow: Output,
    session_log: SessionLog,
    shared: Arc<Shared>,
    degraded: Arc<DegradedParts>,
    started: Instant,
    time_scale: TimeScale,
    warned: Option<Instant>,
    /// Whether the last look found no more messages.
    is_drained: bool,
    lost_ends: LostEnds,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            if self.is_drained {
                self.lost_ends = std::mem::take(&mut *self.shared.lost_ends());
            }
            let message = match receiver.recv_timeout(TICK) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let is_last = self.shared.finish.load(Relaxed);
            self.take(message, receiver);
            // Whatever was begun before they were lost has been taken by then.
            if self.is_drained {
                let lost = std::mem::take(&mut self.lost_ends);
                match lost.are_many {
                    true => self.session_log.forget_running(),
                    false => lost.keys.iter().for_each(|key| self.session_log.end(key)),
                }
            }
            while let Some(summary) = self.session_log.expire(self.now()) {
                self.put_session(&summary);
            }
            self.flush();
            if self.shared.reopen.swap(false, Relaxed) {
                self.reopen();
            }
            // All that was there when the end was asked for has been taken.
            if is_last && self.is_drained {
                break;
            }
        }
        while let Some(summary) = self.session_log.finish() {
            self.put_session(&summary);
        }
        self.flush();
    }

    /// Takes this message and those behind it, up to a batch.
    fn take(&mut self, first: Option<Message>, receiver: &Receiver<Message>) {
        let mut next = first;
        while let Some(message) = next {
            match message {
                Message::Record(record) => self.put(&record),
                Message::Begun(key) => self.session_log.begin(key),
                Message::Wake => {}
            }
            let outputs = [&self.access, &self.sessions, &self.slow];
            if outputs
                .iter()
                .any(|output| output.lines.len() >= BATCH_BYTES)
            {
                self.is_drained = false;
                return;
            }
            next = receiver.try_recv().ok();
        }
        self.is_drained = true;
    }

    fn now(&self) -> EngineInstant {
        EngineInstant(self.time_scale.model(self.started.elapsed()).0)
    }

    fn put(&mut self, record: &RequestRecord) {
        if !self.access.sink.is_off() {
            self.format.write(record, &mut self.access.lines);
        }
        if !self.slow.sink.is_off()
            && let Some(stages) = &record.stages
        {
            slow::write(self.format, record, stages, &mut self.slow.lines);
        }
        if !self.sessions.sink.is_off()
            && let Some(evicted) = self.session_log.record(self.now(), record)
        {
            self.put_session(&evicted);
        }
    }

    fn put_session(&mut self, summary: &SessionSummary) {
        json::write_line(summary, &mut self.sessions.lines);
    }

    fn flush(&mut self) {
        let shared = &self.shared;
        let outputs = [&mut self.access, &mut self.sessions, &mut self.slow];
        let outcomes = outputs.map(|output| output.flush(shared, &self.degraded));
        for error in outcomes.into_iter().filter_map(Result::err) {
            self.shared.write_errors.fetch_add(1, Relaxed);
            if self
                .warned
                .is_none_or(|last| last.elapsed() >= WARN_INTERVAL)
            {
                self.warned = Some(Instant::now());
                tracing::warn!(%error, "a log cannot be written and lines are lost; check its disk");
            }
        }
    }

    fn reopen(&mut self) {
        for output in [&mut self.access, &mut self.sessions, &mut self.slow] {
            if let Err(error) = output.sink.reopen() {
                tracing::error!(%error, "still writing to the old file");
            }
        }
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
