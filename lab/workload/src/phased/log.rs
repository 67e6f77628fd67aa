//! Merges sessions into a log, in the order of completion.
//!
//! A session completes nothing before its arrival. So once the arrival of the next session is
//! known, all earlier completions can be written; only future completions of active sessions are
//! kept in memory.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_random::{Empirical, Generator};

use super::catalogue::PhasedCatalogue;
use super::requests::PhasedRequest;
use super::session::{PhasedSession, SessionContext};
use super::specification::PhasedSpecification;

/// One line of a request log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// Number of its session.
    pub session: u64,
    /// Device of its session: an index into [`PhasedSpecification::devices`].
    pub device: u16,
    /// The request.
    pub request: PhasedRequest,
}

/// Header of a log as CSV, without a line end.
pub const LOG_HEADER: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk";
/// Header of a files table as CSV.
pub const FILES_HEADER: &str = "file,title,kind,kbps,size,disk,duration_s";

impl LogEntry {
    /// Time of completion as in logs: in whole seconds, rounded down.
    pub const fn ts(&self) -> i64 {
        self.request.completed_ms.div_euclid(1000)
    }

    /// Service time, ms.
    pub const fn service_ms(&self) -> i64 {
        self.request.completed_ms - self.request.received_ms
    }

    /// Appends it as a line of CSV (see [`LOG_HEADER`]): sessions and devices count from 1, `size`
    /// is empty for an open-ended request.
    pub fn write_csv(&self, catalogue: &PhasedCatalogue, line: &mut Vec<u8>) {
        let request = &self.request;
        let disk = catalogue
            .files
            .get(request.file as usize)
            .map_or(0, |file| file.disk);
        put(line, self.ts().max(0).unsigned_abs(), b',');
        put(line, self.service_ms().max(0).unsigned_abs(), b',');
        put(line, self.session + 1, b',');
        put(line, u64::from(self.device) + 1, b',');
        put(line, u64::from(request.file), b',');
        put(line, request.offset, b',');
        match request.asked_bytes {
            Some(bytes) => put(line, bytes, b','),
            None => line.push(b','),
        }
        put(line, request.sent_bytes, b',');
        put(line, u64::from(disk), b'\n');
    }
}

impl PhasedCatalogue {
    /// Appends the file's line of the files table as CSV (see [`FILES_HEADER`]).
    pub fn write_file_csv(&self, number: u32, line: &mut Vec<u8>) {
        let Some(file) = self.files.get(number as usize) else {
            return;
        };
        put(line, u64::from(number), b',');
        put(line, u64::from(file.title), b',');
        put(line, u64::from(file.kind.number()), b',');
        put(line, u64::from(file.kbps), b',');
        put(line, file.size, b',');
        put(line, u64::from(file.disk), b',');
        let ms = libm::round(self.titles[file.title as usize].duration_s * 1000.0) as u64;
        put(line, ms / 1000, b'.');
        line.extend([100, 10, 1].map(|unit| b'0' + (ms % 1000 / unit % 10) as u8));
        line.push(b'\n');
    }
}

fn put(line: &mut Vec<u8>, mut number: u64, end: u8) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
    line.push(end);
}

/// Sorted arrivals: order statistics of a density that is constant within each part.
pub(crate) struct ArrivalTimes {
    generator: Generator,
    left: u64,
    sum: f64,
    total: f64,
    law: Option<Empirical>,
}

impl ArrivalTimes {
    pub(crate) fn new(specification: &PhasedSpecification, seed: u64) -> Self {
        let visits = &specification.sessions;
        let generator = Generator::new(seed).fork("phased arrivals");
        let weight: f64 = visits.arrivals.iter().sum();
        let part = visits.length_s / visits.arrivals.len().max(1) as f64;
        let (mut points, mut sum) = (Vec::from([(0.0, 0.0)]), 0.0);
        for (index, share) in visits.arrivals.iter().enumerate() {
            sum += share / weight;
            points.push(((index + 1) as f64 * part, libm::fmin(sum, 1.0)));
        }
        if let Some(last) = points.last_mut() {
            last.1 = 1.0;
        }
        // Gaps of a Poisson process divided by their sum are distributed like gaps of sorted
        // uniform draws.
        let mut all = generator.clone();
        let total = (0..=visits.count).map(|_| all.exponential(1.0)).sum();
        Self {
            generator,
            left: visits.count,
            sum: 0.0,
            total,
            law: Empirical::new(points).ok(),
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.left = self.left.checked_sub(1)?;
        self.sum += self.generator.exponential(1.0);
        let share = self.sum / self.total;
        Some(self.law.as_ref().map_or(0.0, |law| law.quantile(share)))
    }
}

/// Sessions in order of arrival, generated one at a time.
pub struct PhasedSessions<'a> {
    director: SessionContext<'a>,
    arrivals: ArrivalTimes,
    next: u64,
    end_ms: i64,
    spare: Vec<PhasedRequest>,
}

impl<'a> PhasedSessions<'a> {
    /// The sessions of a specification and a seed; `catalogue` belongs to the specification.
    pub fn new(
        specification: &'a PhasedSpecification,
        catalogue: &'a PhasedCatalogue,
        seed: u64,
    ) -> Self {
        Self {
            director: SessionContext::new(specification, catalogue, seed),
            arrivals: ArrivalTimes::new(specification, seed),
            next: 0,
            end_ms: specification.sessions.end_ms(),
            spare: Vec::new(),
        }
    }

    /// Takes back a finished session to reuse its memory.
    pub fn recycle(&mut self, session: PhasedSession) {
        self.spare = session.requests;
    }
}

impl Iterator for PhasedSessions<'_> {
    type Item = PhasedSession;

    /// Requests that do not complete before the end of the log are omitted, as in a real log.
    fn next(&mut self) -> Option<PhasedSession> {
        let arrival = self.arrivals.next()?;
        let spare = core::mem::take(&mut self.spare);
        let mut session = self.director.session(self.next, arrival, spare);
        session
            .requests
            .retain(|request| request.completed_ms < self.end_ms);
        self.next += 1;
        Some(session)
    }
}

/// The log: requests of all sessions by completion.
pub struct RequestLog<'a> {
    sessions: PhasedSessions<'a>,
    /// Completions of the second `first_s` and of those after it.
    pending: VecDeque<Vec<LogEntry>>,
    first_s: i64,
    /// Completions of the current second, in reverse order.
    ready: Vec<LogEntry>,
    waiting: Option<PhasedSession>,
    empty: Vec<Vec<LogEntry>>,
}

impl<'a> RequestLog<'a> {
    /// The log of a specification and a seed; `catalogue` belongs to the specification.
    pub fn new(
        specification: &'a PhasedSpecification,
        catalogue: &'a PhasedCatalogue,
        seed: u64,
    ) -> Self {
        Self {
            sessions: PhasedSessions::new(specification, catalogue, seed),
            pending: VecDeque::new(),
            first_s: 0,
            ready: Vec::new(),
            waiting: None,
            empty: Vec::new(),
        }
    }

    fn take_in(&mut self, session: PhasedSession) {
        for request in &session.requests {
            let entry = LogEntry {
                session: session.number,
                device: session.device,
                request: *request,
            };
            let place = (entry.ts() - self.first_s).max(0) as usize;
            while self.pending.len() <= place {
                self.pending.push_back(self.empty.pop().unwrap_or_default());
            }
            self.pending[place].push(entry);
        }
        self.sessions.recycle(session);
    }

    /// Advances to the next second with completions; false at the end.
    fn advance(&mut self) -> bool {
        loop {
            let session = self.waiting.take().or_else(|| self.sessions.next());
            let is_over = session.is_none();
            if let Some(session) = session {
                if libm::floor(session.arrival_s) as i64 <= self.first_s || self.pending.is_empty()
                {
                    self.take_in(session);
                    continue;
                }
                self.waiting = Some(session);
            }
            let Some(mut second) = self.pending.pop_front() else {
                return !is_over;
            };
            self.first_s += 1;
            if second.is_empty() {
                self.empty.push(second);
                continue;
            }
            second.sort_unstable_by_key(|entry| {
                let request = &entry.request;
                let place = (request.received_ms, request.file, request.offset);
                core::cmp::Reverse((request.completed_ms, entry.session, place))
            });
            let mut done = core::mem::replace(&mut self.ready, second);
            done.clear();
            if self.empty.len() < 64 {
                self.empty.push(done);
            }
            return true;
        }
    }
}

impl Iterator for RequestLog<'_> {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        loop {
            if let Some(entry) = self.ready.pop() {
                return Some(entry);
            }
            if !self.advance() {
                return None;
            }
        }
    }
}
