//! Writer thread of the access log, the session log and the log of slow replies.
//!
//! Lines are batched while more records wait, and written when the queue is empty or the batch is
//! full: under load one write carries hundreds of lines, and a single request's line is written
//! immediately.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headlong_kernel::time_scale::TimeScale;
use headlong_units::Instant as EngineInstant;

use super::format::LogFormat;
use super::json;
use super::record::{RequestRecord, SessionKey};
use super::session::{SessionLimits, SessionLog, SessionSummary};
use super::sink::{LogTarget, Sink, SinkError};
use super::slow;
use crate::degraded_parts::{DegradedPartKind, DegradedParts};

const BATCH_BYTES: usize = 64 * 1024;
const TICK: Duration = Duration::from_secs(1);
/// Time for the last lines when the server stops.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// Lost session ends that are stored individually.
const LOST_ENDS_MAX: usize = 4096;
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Targets and formats of the logs.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Access log: one line for each request.
    pub access: LogTarget,
    /// Format of the access log.
    pub format: LogFormat,
    /// Session log: one line of JSON for each viewing session. May be the same file.
    pub sessions: LogTarget,
    /// Slow log: one line for each slow reply, in the same format. May be the same file.
    pub slow: LogTarget,
    /// When a session ends.
    pub session_limits: SessionLimits,
    /// Capacity of the writer's queue; further records are dropped and counted.
    pub queue_max: usize,
    /// Scale of the clock by which sessions end.
    pub time_scale: TimeScale,
    /// Receives logs that cannot be written.
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

/// Counts of lost records and failed writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCounts {
    /// Records lost because the queue was full or a write failed.
    pub dropped: u64,
    /// Writes that failed.
    pub write_errors: u64,
}

enum LogMessage {
    Record(Box<RequestRecord>),
    Begun(SessionKey),
    Wake,
}

#[derive(Debug, Default)]
struct AccessLogState {
    dropped: AtomicU64,
    write_errors: AtomicU64,
    reopen: AtomicBool,
    finish: AtomicBool,
    lost_ends: Mutex<LostSessionEnds>,
}

/// Sessions of requests whose end records were lost. The writer must learn of these ends, or a
/// session would stay open indefinitely.
#[derive(Debug, Default)]
struct LostSessionEnds {
    keys: Vec<SessionKey>,
    /// There were too many to store individually.
    are_many: bool,
}

impl LostSessionEnds {
    fn add(&mut self, key: SessionKey) {
        self.are_many |= self.keys.len() >= LOST_ENDS_MAX;
        if !self.are_many {
            self.keys.push(key);
        }
    }
}

impl AccessLogState {
    fn lost_ends(&self) -> MutexGuard<'_, LostSessionEnds> {
        // Every change under the lock is complete even if a panic follows.
        self.lost_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sending end of the logs; share it in an `Arc`.
#[derive(Debug)]
pub struct AccessLog {
    /// `None` when all logs are off; there is no thread then.
    sender: Option<SyncSender<LogMessage>>,
    /// Signals that the writer has ended.
    ended: Mutex<Option<Receiver<()>>>,
    has_access: bool,
    has_sessions: bool,
    shared: Arc<AccessLogState>,
}

impl AccessLog {
    /// Opens the files and starts the writer. A file that cannot be opened is retried later.
    ///
    /// # Errors
    /// The system provides no thread.
    pub fn open(config: &LogConfig) -> Result<Self, SinkError> {
        let open = |target: &LogTarget| {
            let (sink, error) = Sink::open(target);
            if let (Some(path), Some(error)) = (sink.path(), error) {
                let error = format!("{}; {}", error.source, SinkError::REMEDY);
                config
                    .degraded
                    .lose(DegradedPartKind::Log, path.display(), error);
            }
            sink
        };
        let [access, sessions, slow] = [&config.access, &config.sessions, &config.slow].map(open);
        let shared = Arc::new(AccessLogState::default());
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
        let writer = LogWriter {
            format: config.format,
            access: LogOutput::new("log.access", access),
            sessions: LogOutput::new("log.sessions", sessions),
            slow: LogOutput::new("log.slow", slow),
            session_log: SessionLog::new(config.session_limits),
            shared: Arc::clone(&shared),
            degraded: Arc::clone(&config.degraded),
            started: Instant::now(),
            time_scale: config.time_scale,
            warned: None,
            is_drained: true,
            lost_ends: LostSessionEnds::default(),
        };
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                writer.run(&receiver);
                let _ = say.send(());
            });
        thread.map_err(|source| SinkError {
            path: "(writer thread)".into(),
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

    /// Whether records of all requests are needed.
    pub fn is_on(&self) -> bool {
        self.has_access || self.has_sessions
    }

    /// Whether the access log is on.
    pub fn has_access(&self) -> bool {
        self.has_access
    }

    /// Queues a record; never blocks.
    pub fn record(&self, record: RequestRecord) {
        let Some(sender) = &self.sender else { return };
        let sent = sender.try_send(LogMessage::Record(Box::new(record)));
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) = sent {
            self.shared.dropped.fetch_add(1, Relaxed);
            if let LogMessage::Record(record) = lost
                && let Some(key) = record.session
            {
                self.shared.lost_ends().add(key);
            }
        }
    }

    /// A request of a viewer began: its session stays open until the request ends.
    pub fn request_started(&self, session: &Option<SessionKey>) {
        if let (true, Some(sender), Some(key)) = (self.has_sessions, &self.sender, session) {
            // A lost message at worst splits a session.
            let _ = sender.try_send(LogMessage::Begun(key.clone()));
        }
    }

    /// Reopens the files after a rotation (SIGUSR1).
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        if let Some(sender) = &self.sender {
            // If the queue is full, the writer is awake.
            let _ = sender.try_send(LogMessage::Wake);
        }
    }

    /// Counts of lost records and failed writes so far.
    pub fn counts(&self) -> LogCounts {
        LogCounts {
            dropped: self.shared.dropped.load(Relaxed),
            write_errors: self.shared.write_errors.load(Relaxed),
        }
    }

    /// Writes queued records and open sessions, then stops. Blocks until that is done, or for a few
    /// seconds if a pipe is not read; later records are dropped.
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
        // If the queue is full, the writer is awake or stuck.
        let _ = sender.try_send(LogMessage::Wake);
        if ended.recv_timeout(FINISH_TIME).is_err() {
            tracing::error!("access log not finished in time; its last lines are lost");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A sink and its buffered lines.
struct LogOutput {
    /// Its setting.
    name: &'static str,
    sink: Sink,
    lines: Vec<u8>,
    /// Whether the last write failed.
    is_failing: bool,
}

impl LogOutput {
    fn new(name: &'static str, sink: Sink) -> Self {
        Self {
            name,
            sink,
            lines: Vec::new(),
            is_failing: false,
        }
    }

    /// Writes the lines; lines that cannot be written are lost and counted.
    fn flush(&mut self, shared: &AccessLogState, degraded: &DegradedParts) -> io::Result<()> {
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
            tracing::info!(log = self.name, "log is writable again");
        }
        self.is_failing = outcome.is_err();
        match &outcome {
            Ok(()) => self.recover(degraded),
            // A pipe without a reader is a normal state.
            Err(error) if is_of_pipe(error) => {}
            Err(error) => {
                if let Some(path) = self.sink.path() {
                    let error = format!("{error}; {}", SinkError::REMEDY);
                    degraded.lose(DegradedPartKind::Log, path.display(), error);
                }
            }
        }
        self.lines = lines;
        self.lines.clear();
        outcome
    }

    fn recover(&self, degraded: &DegradedParts) {
        if let Some(path) = self.sink.path() {
            degraded.recover(DegradedPartKind::Log, path.display());
        }
    }
}

fn is_of_pipe(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, WouldBlock};
    matches!(error.kind(), BrokenPipe | WouldBlock)
}

struct LogWriter {
    format: LogFormat,
    access: LogOutput,
    sessions: LogOutput,
    slow: LogOutput,
    session_log: SessionLog,
    shared: Arc<AccessLogState>,
    degraded: Arc<DegradedParts>,
    started: Instant,
    time_scale: TimeScale,
    warned: Option<Instant>,
    /// Whether the queue was empty at the last receive.
    is_drained: bool,
    lost_ends: LostSessionEnds,
}

impl LogWriter {
    fn run(mut self, receiver: &Receiver<LogMessage>) {
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
            // All begin messages sent before the lost ends have been processed by now.
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
            // All records queued before the stop request have been processed.
            if is_last && self.is_drained {
                break;
            }
        }
        while let Some(summary) = self.session_log.finish() {
            self.put_session(&summary);
        }
        self.flush();
    }

    /// Processes this message and queued ones, up to a batch.
    fn take(&mut self, first: Option<LogMessage>, receiver: &Receiver<LogMessage>) {
        let mut next = first;
        while let Some(message) = next {
            match message {
                LogMessage::Record(record) => self.put(&record),
                LogMessage::Begun(key) => self.session_log.begin(key),
                LogMessage::Wake => {}
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
        for output in outputs {
            let Err(error) = output.flush(shared, &self.degraded) else {
                continue;
            };
            self.shared.write_errors.fetch_add(1, Relaxed);
            if self
                .warned
                .is_none_or(|last| last.elapsed() >= WARN_INTERVAL)
            {
                self.warned = Some(Instant::now());
                let path = output
                    .sink
                    .path()
                    .map_or("standard output".into(), Path::to_string_lossy);
                tracing::warn!(
                    log = output.name, %path, %error,
                    "cannot write a log, lines are lost; check its disk"
                );
            }
        }
    }

    fn reopen(&mut self) {
        for output in [&mut self.access, &mut self.sessions, &mut self.slow] {
            if let Err(error) = output.sink.reopen() {
                tracing::error!(%error, "cannot reopen log; still writing to the old file");
            }
        }
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
