//! State of one connection: peer, age, requests, deadlines.
//!
//! Shared by the protocol layers, the service above them and the task that enforces the timeouts.
//! Times are stored as nanoseconds since the connection opened, so that they fit in atomics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tokio::time::{Duration, Instant};

use super::counters::{ConnectionCounters, add};
use super::limits::ConnectionLimits;
use super::progress::ReplyProgress;
use super::remote::Remote;
use super::turn_budget::TurnBudget;

const NEVER: u64 = u64::MAX;
/// A reply's pace is not judged earlier: its first bytes go as fast as the network takes them.
const SHOWS_PACE_AFTER: Duration = Duration::from_secs(1);

/// A connection, as found by the service in a request's extensions.
#[derive(Debug)]
pub struct ConnectionInfo {
    number: u64,
    remote: Remote,
    opened: Instant,
    limits: Arc<ConnectionLimits>,
    counters: Arc<ConnectionCounters>,
    http2: AtomicBool,
    /// A TLS handshake is awaited; bytes received belong to it.
    shakes_hands: AtomicBool,
    requests: AtomicU64,
    active: AtomicU64,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    /// When the current request's head began.
    head_began: AtomicU64,
    /// Since when a write waits, and the total wait of earlier writes.
    write_waits_since: AtomicU64,
    writes_waited: AtomicU64,
    /// The current reply over HTTP/1.1: when its head was written, its bytes, and its unwritten
    /// bytes.
    reply_began: AtomicU64,
    reply_bytes: AtomicU64,
    reply_left: AtomicU64,
    /// Measured bytes a second (zero if unknown), and whether the service asked for it.
    delivery_rate: AtomicU64,
    delivery_rate_wanted: AtomicBool,
    send_timed_out: AtomicBool,
    drain_aborted: AtomicBool,
    retired: AtomicBool,
    /// The connection was asked to close to free its slot.
    shed: AtomicBool,
    turn: TurnBudget,
    /// When the last bytes arrived.
    heard_at: AtomicU64,
    /// Since when a frame or header block over HTTP/2 is incomplete.
    frame_since: AtomicU64,
    /// Control frames outweigh requests.
    flooded: AtomicBool,
    overseer: Mutex<Option<Waker>>,
    replies: Mutex<Vec<Weak<ReplyProgress>>>,
}

/// Whether a connection has to end, and when to check again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionVerdict {
    /// No limit passed; check again at this time.
    Wait(Instant),
    /// A request's head did not arrive in time.
    HeaderTimeout,
    /// No request for the idle timeout.
    IdleTimeout,
    /// A reply is not being read.
    SendTimeout,
}

impl ConnectionInfo {
    pub(super) fn new(
        number: u64,
        remote: Remote,
        limits: Arc<ConnectionLimits>,
        counters: Arc<ConnectionCounters>,
    ) -> Self {
        Self {
            number,
            remote,
            opened: Instant::now(),
            limits,
            counters,
            http2: AtomicBool::new(false),
            shakes_hands: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            active: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            head_began: AtomicU64::new(NEVER),
            write_waits_since: AtomicU64::new(NEVER),
            writes_waited: AtomicU64::new(0),
            reply_began: AtomicU64::new(0),
            reply_bytes: AtomicU64::new(0),
            reply_left: AtomicU64::new(0),
            delivery_rate: AtomicU64::new(0),
            delivery_rate_wanted: AtomicBool::new(false),
            send_timed_out: AtomicBool::new(false),
            drain_aborted: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            shed: AtomicBool::new(false),
            turn: TurnBudget::new(),
            heard_at: AtomicU64::new(0),
            frame_since: AtomicU64::new(NEVER),
            flooded: AtomicBool::new(false),
            overseer: Mutex::new(None),
            replies: Mutex::new(Vec::new()),
        }
    }

    /// Unique among all connections of this server, open or closed.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The peer.
    pub fn remote(&self) -> Remote {
        self.remote
    }

    /// Requests begun, the current one included.
    pub fn request_count(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// A reply came from the response-head cache.
    pub fn note_at_hand(&self) {
        self.counters.note_at_hand();
    }

    /// Whether it has reached the limit of requests, or its current reply is the last because the
    /// server retires.
    pub fn is_used_up(&self) -> bool {
        self.retired.load(Relaxed)
            || self.request_count() >= self.limits.requests_per_connection_max
    }

    /// Makes the next reply the last, because a new process takes over.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// Requests in progress.
    pub fn active_count(&self) -> u64 {
        self.active.load(Relaxed)
    }

    pub(super) fn limits(&self) -> &ConnectionLimits {
        &self.limits
    }

    pub(super) fn counters(&self) -> &ConnectionCounters {
        &self.counters
    }

    pub(super) fn is_http2(&self) -> bool {
        self.http2.load(Relaxed)
    }

    /// The client reads too slowly; counted once.
    pub(super) fn note_send_timeout(&self) {
        if !self.send_timed_out.swap(true, Relaxed) {
            add(&self.counters.send_timeouts);
        }
    }

    pub(super) fn is_send_timed_out(&self) -> bool {
        self.send_timed_out.load(Relaxed)
    }

    /// The connection was cut because the drain ended.
    pub(super) fn note_drain_aborted(&self) {
        self.drain_aborted.store(true, Relaxed);
    }

    /// Whether it was cut because the drain ended.
    pub fn is_drain_aborted(&self) -> bool {
        self.drain_aborted.load(Relaxed)
    }

    /// Since when the connection is idle; `None` while a request is in progress or its head has
    /// begun, or if the connection was already asked to close.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.is_idle() && !self.shed.load(Relaxed);
        is_idle.then(|| self.at(self.idle_since.load(Relaxed)))
    }

    fn is_idle(&self) -> bool {
        self.active_count() == 0 && self.head_since.load(Relaxed) == NEVER
    }

    /// Whether it was asked to free its slot and is still idle.
    pub(super) fn is_shed(&self) -> bool {
        self.shed.load(Relaxed) && self.is_idle()
    }

    /// Asks the connection to close, if it is still idle when its task runs.
    pub(super) fn shed(&self) {
        self.shed.store(true, Relaxed);
        let overseer = self.overseer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(overseer) = overseer.as_ref() {
            overseer.wake_by_ref();
        }
    }

    /// Registers the task to wake when the connection has to close; returns whether the task
    /// changed.
    pub(super) fn oversee(&self, waker: &Waker) -> bool {
        let mut overseer = self.overseer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = overseer
            .as_ref()
            .is_some_and(|known| known.will_wake(waker));
        if !is_known {
            *overseer = Some(waker.clone());
        }
        !is_known
    }

    fn since_opened(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }

    fn at(&self, since_opened: u64) -> Instant {
        self.opened + Duration::from_nanos(since_opened)
    }

    /// Marks the connection as HTTP/2, where received bytes need not begin a request: pings,
    /// settings, window updates.
    pub(super) fn note_http2(&self) {
        self.http2.store(true, Relaxed);
        self.head_since.store(NEVER, Relaxed);
    }

    /// A TLS handshake is awaited. From its first byte on, the connection is not idle.
    pub(super) fn begin_handshake(&self) {
        self.shakes_hands.store(true, Relaxed);
    }

    /// The handshake is done, and no request has begun.
    pub(super) fn end_handshake(&self) {
        self.shakes_hands.store(false, Relaxed);
        self.idle_since.store(self.since_opened(), Relaxed);
        self.head_since.store(NEVER, Relaxed);
    }

    /// Whether more may be read in this turn; if not, the task is woken for the next turn.
    pub(super) fn poll_turn(&self, cx: &Context<'_>) -> Poll<()> {
        self.turn.poll(cx)
    }

    /// Time since the connection opened.
    pub(super) fn now(&self) -> headlong_units::Instant {
        headlong_units::Instant(self.since_opened())
    }

    /// Records received HTTP/2 frames, and since when the last frame is incomplete.
    pub(super) fn note_frames(
        &self,
        frames: u32,
        incomplete_since: Option<headlong_units::Instant>,
    ) {
        self.turn.note_frames(frames);
        let since = incomplete_since.map_or(NEVER, |since| since.0);
        self.frame_since.store(since, Relaxed);
    }

    /// Control frames outweigh requests; counted once.
    pub(super) fn note_flood(&self) {
        if !self.flooded.swap(true, Relaxed) {
            add(&self.counters.floods);
        }
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.flooded.load(Relaxed)
    }

    /// When the last bytes arrived.
    pub(super) fn last_received_at(&self) -> Instant {
        self.at(self.heard_at.load(Relaxed))
    }

    /// Bytes were received, encrypted or not.
    pub(super) fn note_read(&self, bytes: usize) {
        self.turn.note_bytes(bytes);
        self.heard_at.store(self.since_opened(), Relaxed);
        if self.shakes_hands.load(Relaxed) {
            self.note_head();
        }
    }

    /// The first bytes of a head over HTTP/1.1 arrived. Ignored while a request is in progress.
    pub(super) fn note_head(&self) {
        if self.is_idle() {
            self.head_since.store(self.since_opened(), Relaxed);
        }
    }

    /// Measured delivery rate in bytes a second, from earlier replies that always had more to send.
    /// Measuring starts with the first call.
    pub fn delivery_rate(&self) -> Option<u64> {
        self.delivery_rate_wanted.store(true, Relaxed);
        Some(self.delivery_rate.load(Relaxed)).filter(|rate| *rate > 0)
    }

    pub(super) fn wants_delivery_rate(&self) -> bool {
        self.delivery_rate_wanted.load(Relaxed)
    }

    pub(super) fn note_delivery_rate(&self, bytes_per_second: Option<u64>) {
        let rate = bytes_per_second.unwrap_or(0);
        self.delivery_rate.store(rate, Relaxed);
    }

    /// How long the head of the current request took to arrive over HTTP/1.1, from its first byte
    /// on, encrypted or not. `None` over HTTP/2.
    pub fn head_time(&self, complete: Instant) -> Option<Duration> {
        let began = self.head_began.load(Relaxed);
        (began != NEVER).then(|| complete.saturating_duration_since(self.at(began)))
    }

    /// A write begins to wait for the socket.
    pub(super) fn note_write_waits(&self, since: Instant) {
        let since = since.saturating_duration_since(self.opened).as_nanos();
        let since = u64::try_from(since).unwrap_or(NEVER - 1);
        self.write_waits_since.store(since, Relaxed);
    }

    /// The waiting write continues.
    pub(super) fn note_write_goes(&self, now: Instant) {
        let waited = self.writes_waited(now).as_nanos();
        self.write_waits_since.store(NEVER, Relaxed);
        let waited = u64::try_from(waited).unwrap_or(NEVER);
        self.writes_waited.store(waited, Relaxed);
    }

    /// Total time that writes have waited for the socket.
    pub fn writes_waited(&self, now: Instant) -> Duration {
        let waited = Duration::from_nanos(self.writes_waited.load(Relaxed));
        match self.write_waits_since.load(Relaxed) {
            NEVER => waited,
            since => waited + now.saturating_duration_since(self.at(since)),
        }
    }

    /// A reply of `bytes` bytes begins.
    pub(super) fn begin_reply(&self, bytes: u64) {
        self.reply_began.store(self.since_opened(), Relaxed);
        self.reply_bytes.store(bytes, Relaxed);
        self.reply_left.store(bytes, Relaxed);
    }

    /// Age of the current reply, or of its request.
    pub(super) fn reply_lasted(&self) -> Duration {
        let began = self.at(self.reply_began.load(Relaxed));
        Instant::now().saturating_duration_since(began)
    }

    /// `bytes` of the current reply are not written yet.
    pub(super) fn note_left(&self, bytes: u64) {
        self.reply_left.store(bytes, Relaxed);
    }

    /// Whether the current reply, at its pace so far, will not be complete within that time.
    pub(super) fn is_too_long_for(&self, now: Instant, within: Duration) -> bool {
        let lasted = now.saturating_duration_since(self.at(self.reply_began.load(Relaxed)));
        let left = self.reply_left.load(Relaxed);
        let sent = self.reply_bytes.load(Relaxed).saturating_sub(left);
        let needs = lasted.as_nanos().saturating_mul(left.into());
        lasted >= SHOWS_PACE_AFTER && needs > within.as_nanos().saturating_mul(sent.into())
    }

    /// A head is complete. The guard belongs to the reply and its bytes.
    pub fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Relaxed);
        self.active.fetch_add(1, Relaxed);
        self.begin_reply(0);
        self.shed.store(false, Relaxed);
        self.counters.begin_request();
        let began = self.head_since.swap(NEVER, Relaxed);
        self.head_began.store(began, Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    /// Watches the progress of a reply. Only HTTP/2 needs this: a stream whose window is closed
    /// holds its bytes without a pending write at the socket.
    pub(super) fn watch_reply(&self, reply: &Arc<ReplyProgress>) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.retain(|known| known.strong_count() > 0);
        replies.push(Arc::downgrade(reply));
    }

    fn is_any_reply_stalled(&self, now: Instant) -> bool {
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut living = replies.iter().filter_map(Weak::upgrade);
        living.any(|reply| reply.is_stalled(now, &self.limits))
    }

    /// Which limit is exceeded at `now`, if any.
    pub(super) fn verdict(&self, now: Instant) -> ConnectionVerdict {
        let until = match self.frame_since.load(Relaxed) {
            NEVER => return self.verdict_of_requests(now),
            since => self.at(since) + self.limits.header_timeout,
        };
        match self.verdict_of_requests(now) {
            _ if until <= now => ConnectionVerdict::HeaderTimeout,
            ConnectionVerdict::Wait(other) => ConnectionVerdict::Wait(until.min(other)),
            verdict => verdict,
        }
    }

    fn verdict_of_requests(&self, now: Instant) -> ConnectionVerdict {
        if self.active_count() > 0 {
            // Detects a stall at most a quarter of the timeout late.
            let tick = ConnectionVerdict::Wait(now + self.limits.send_timeout / 4);
            let is_stalled = self.is_http2() && self.is_any_reply_stalled(now);
            return if is_stalled {
                ConnectionVerdict::SendTimeout
            } else {
                tick
            };
        }
        let idle_until = self.at(self.idle_since.load(Relaxed)) + self.limits.idle_timeout;
        let head_since = self.head_since.load(Relaxed);
        let head_until =
            (head_since != NEVER).then(|| self.at(head_since) + self.limits.header_timeout);
        match head_until {
            Some(until) if until <= now => ConnectionVerdict::HeaderTimeout,
            // A connection whose next request has begun is not idle.
            Some(until) => ConnectionVerdict::Wait(until),
            None if idle_until <= now || self.shed.load(Relaxed) => ConnectionVerdict::IdleTimeout,
            None => ConnectionVerdict::Wait(idle_until),
        }
    }
}

/// A request in progress, until it is dropped.
#[derive(Debug)]
pub struct ActiveRequest(Arc<ConnectionInfo>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let info = &self.0;
        info.counters.end_request();
        info.idle_since.store(info.since_opened(), Relaxed);
        info.head_since.store(NEVER, Relaxed);
        info.active.fetch_sub(1, Relaxed);
    }
}
