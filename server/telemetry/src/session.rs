//! Groups requests into viewing sessions: one line for each session when it ends.
//!
//! A CDN's log shows a thousand unrelated requests where a viewer watched one film. Requests with
//! the same session id and gaps shorter than `idle` become one [`SessionSummary`].
//!
//! Pure code without a clock: time is an argument, and sessions end in [`SessionLog::expire`]. At
//! most `sessions_max` are open; beyond that, the one that has been quiet for longest ends early
//! with [`SessionEnd::Evicted`].

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use headlong_units::{BitRate, Duration, Instant};
use serde::Serialize;

use super::record::{RequestRecord, SessionKey};

/// Limit on distinct paths counted in one session: enough to tell a film from a crawl, small enough
/// for thousands of sessions.
const PATHS_MAX: usize = 256;

/// Longest stored prefix of a session's first path.
const PATH_CHARS_MAX: usize = 512;

/// Limits of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// A session ends after this time in which no request ended.
    pub idle: Duration,
    /// Most open sessions.
    pub sessions_max: usize,
}

impl Default for SessionLimits {
    /// 40 s, the longest gap within one chain of requests (thesis 5.3).
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(40),
            sessions_max: 16_384,
        }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionEnd {
    /// No request for `idle`.
    Idle,
    /// Too many sessions were open.
    Evicted,
    /// The server stopped.
    Shutdown,
}

/// Summary of a viewing session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Session id.
    pub session: String,
    /// Source of the id.
    pub session_from: &'static str,
    /// Start of its first request.
    pub start_unix_ms: u64,
    /// End of its last request.
    pub end_unix_ms: u64,
    /// Why it ended.
    pub ended: SessionEnd,
    /// Address of its first request.
    pub remote: String,
    /// User agent of its first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Number of requests.
    pub requests: u64,
    /// Requests that failed or got a 4xx or 5xx.
    pub failures: u64,
    /// Path of the first request, up to 512 characters.
    pub first_path: String,
    /// Distinct paths; counting stops at 256.
    pub paths: usize,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Of those, from memory.
    pub bytes_from_ram: u64,
    /// Of those, from the device.
    pub bytes_from_disk: u64,
    /// Bytes sent divided by the service time: the average rate of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<u64>,
    /// The last bit rate announced by the player (CMCD `br`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bit_rate_bps: Option<u64>,
}

/// The open sessions.
#[derive(Debug)]
pub struct SessionLog {
    limits: SessionLimits,
    open: HashMap<SessionKey, OpenSession>,
    /// The open sessions by the time of their last request; the number makes equal times distinct.
    by_age: BTreeMap<(Instant, u64), SessionKey>,
    /// Requests in progress per session.
    running: HashMap<SessionKey, u32>,
    sequence: u64,
}

#[derive(Debug)]
struct OpenSession {
    age: (Instant, u64),
    paths: HashSet<u64>,
    service_time: Duration,
    summary: SessionSummary,
}

impl SessionLog {
    /// An empty log.
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            by_age: BTreeMap::new(),
            running: HashMap::new(),
            sequence: 0,
        }
    }

    /// Number of open sessions.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// A request begins: its session stays open until [`SessionLog::record`] or
    /// [`SessionLog::end`].
    pub fn begin(&mut self, key: SessionKey) {
        *self.running.entry(key).or_insert(0) += 1;
    }

    /// A request ended. Returns a session that was evicted for it, if any. Requests without a
    /// session id are ignored.
    pub fn record(&mut self, now: Instant, record: &RequestRecord) -> Option<SessionSummary> {
        let key = record.session.as_ref()?;
        self.end(key);
        self.sequence += 1;
        let age = (now, self.sequence);
        let is_full = self.open.len() >= self.limits.sessions_max.max(1);
        let evicted = if is_full && !self.open.contains_key(key) {
            self.end_oldest(SessionEnd::Evicted)
        } else {
            None
        };
        let open = match self.open.entry(key.clone()) {
            Entry::Occupied(known) => {
                let open = known.into_mut();
                self.by_age.remove(&open.age);
                open.age = age;
                open
            }
            Entry::Vacant(free) => free.insert(OpenSession::new(age, key, record)),
        };
        open.add(record);
        self.by_age.insert(age, key.clone());
        evicted
    }

    /// A request ended without a record.
    pub fn end(&mut self, key: &SessionKey) {
        if let Some(count) = self.running.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.running.remove(key);
            }
        }
    }

    /// Drops the counts of requests in progress; this may split a session.
    pub fn forget_running(&mut self) {
        self.running.clear();
    }

    /// Ends the next session that has been quiet for `idle`; call until `None`.
    pub fn expire(&mut self, now: Instant) -> Option<SessionSummary> {
        loop {
            let (&(last, _), key) = self.by_age.first_key_value()?;
            if now.since(last) < self.limits.idle {
                return None;
            }
            if !self.running.contains_key(key) {
                return self.end_oldest(SessionEnd::Idle);
            }
            // A reply is in progress: the gap has not begun.
            self.sequence += 1;
            let age = (now, self.sequence);
            let (_, key) = self.by_age.pop_first()?;
            if let Some(open) = self.open.get_mut(&key) {
                open.age = age;
                self.by_age.insert(age, key);
            }
        }
    }

    /// Ends the next open session at shutdown; call until `None`.
    pub fn finish(&mut self) -> Option<SessionSummary> {
        self.end_oldest(SessionEnd::Shutdown)
    }

    fn end_oldest(&mut self, ended: SessionEnd) -> Option<SessionSummary> {
        let (_, key) = self.by_age.pop_first()?;
        let open = self.open.remove(&key)?;
        Some(open.into_summary(ended))
    }
}

impl OpenSession {
    fn new(age: (Instant, u64), key: &SessionKey, first: &RequestRecord) -> Self {
        Self {
            age,
            paths: HashSet::new(),
            service_time: Duration::ZERO,
            summary: SessionSummary {
                session: key.id.clone(),
                session_from: key.source.name(),
                start_unix_ms: first.start_unix_ms,
                end_unix_ms: first.start_unix_ms,
                ended: SessionEnd::Idle,
                remote: first.remote.to_string(),
                user_agent: first.user_agent.clone(),
                requests: 0,
                failures: 0,
                first_path: first.path().chars().take(PATH_CHARS_MAX).collect(),
                paths: 0,
                bytes_sent: 0,
                bytes_from_ram: 0,
                bytes_from_disk: 0,
                throughput_bps: None,
                last_bit_rate_bps: None,
            },
        }
    }

    fn add(&mut self, record: &RequestRecord) {
        if self.paths.len() < PATHS_MAX {
            let mut hasher = DefaultHasher::new();
            record.path().hash(&mut hasher);
            self.paths.insert(hasher.finish());
        }
        let end = record
            .start_unix_ms
            .saturating_add(record.service_time.as_millis());
        let summary = &mut self.summary;
        if record.start_unix_ms < summary.start_unix_ms {
            // Requests are recorded when they end, so the earliest may be recorded later.
            summary.start_unix_ms = record.start_unix_ms;
            record.path().clone_into(&mut summary.first_path);
        }
        summary.end_unix_ms = summary.end_unix_ms.max(end);
        summary.requests += 1;
        summary.failures += u64::from(record.failure.is_some() || record.status >= 400);
        summary.bytes_sent += record.bytes_sent;
        summary.bytes_from_ram += record.bytes_from_ram;
        summary.bytes_from_disk += record.bytes_from_disk;
        let named = record.bit_rate.map(|rate| rate.0);
        summary.last_bit_rate_bps = named.or(summary.last_bit_rate_bps);
        self.service_time += record.service_time;
    }

    fn into_summary(self, ended: SessionEnd) -> SessionSummary {
        let rate = BitRate::from_transfer(self.summary.bytes_sent, self.service_time);
        SessionSummary {
            ended,
            paths: self.paths.len(),
            throughput_bps: rate.map(|rate| rate.0),
            ..self.summary
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
