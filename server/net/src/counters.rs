//! Connection counters for `/metrics` and `/status`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use headlong_kernel::sharded_counters::Sharded;

/// Counters shared by all connections of a listener, or of several.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicU64,
    requests: Sharded<RequestCounters>,
    pub(super) accept_errors: AtomicU64,
    pub(super) limit_waits: AtomicU64,
    pub(super) header_timeouts: AtomicU64,
    pub(super) idle_timeouts: AtomicU64,
    pub(super) send_timeouts: AtomicU64,
    pub(super) tls_failures: AtomicU64,
    pub(super) proxy_refusals: AtomicU64,
    pub(super) address_refusals: AtomicU64,
    pub(super) heads_refused: AtomicU64,
    pub(super) drain_aborts: AtomicU64,
    pub(super) floods: AtomicU64,
    pub(super) request_memory_refusals: AtomicU64,
}

/// Counters that every request updates, sharded by thread.
#[derive(Debug, Default)]
struct RequestCounters {
    /// Requests begun minus requests ended on this thread; may be negative.
    active: AtomicU64,
    at_hand: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Requests in progress, up to the last byte handed to the socket.
    pub requests_active: u64,
    /// Failed accepts (no file descriptors, no memory).
    pub accept_errors: u64,
    /// Times that accepting waited because `connections_max` connections were open.
    pub limit_waits: u64,
    /// Connections cut because a request's head did not arrive in time.
    pub header_timeouts: u64,
    /// Connections closed after the idle timeout.
    pub idle_timeouts: u64,
    /// Connections cut because the client read too slowly.
    pub send_timeouts: u64,
    /// TLS handshakes that failed or took too long.
    pub tls_failures: u64,
    /// Connections on a PROXY protocol listener that sent no PROXY header, or came from an address
    /// that is not trusted.
    pub proxy_refusals: u64,
    /// Connections closed on accept because their address was at its limit or had flooded.
    pub address_refusals: u64,
    /// Requests over HTTP/1.1 that were malformed or too long. They are not in the access log.
    pub heads_refused: u64,
    /// Replies from the response-head cache.
    pub cached_head_replies: u64,
    /// Connections cut because they had not finished when the drain ended.
    pub drain_aborts: u64,
    /// HTTP/2 connections closed because control frames far outweighed requests, or too many requests
    /// were refused for lack of memory.
    pub floods: u64,
    /// Requests over HTTP/2 refused for lack of memory.
    pub request_memory_refusals: u64,
}

impl ConnectionCounters {
    /// A request begins.
    pub(super) fn begin_request(&self) {
        add(&self.requests.mine().active);
    }

    /// A request ends.
    pub(super) fn end_request(&self) {
        self.requests.mine().active.fetch_sub(1, Relaxed);
    }

    /// A reply came from the response-head cache.
    pub(super) fn note_at_hand(&self) {
        add(&self.requests.mine().at_hand);
    }

    /// A snapshot; each counter is read on its own.
    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            accepted: self.accepted.load(Relaxed),
            open: self.open.load(Relaxed),
            requests_active: self.requests.sum(|part| part.active.load(Relaxed)),
            accept_errors: self.accept_errors.load(Relaxed),
            limit_waits: self.limit_waits.load(Relaxed),
            header_timeouts: self.header_timeouts.load(Relaxed),
            idle_timeouts: self.idle_timeouts.load(Relaxed),
            send_timeouts: self.send_timeouts.load(Relaxed),
            tls_failures: self.tls_failures.load(Relaxed),
            proxy_refusals: self.proxy_refusals.load(Relaxed),
            address_refusals: self.address_refusals.load(Relaxed),
            heads_refused: self.heads_refused.load(Relaxed),
            cached_head_replies: self.requests.sum(|part| part.at_hand.load(Relaxed)),
            drain_aborts: self.drain_aborts.load(Relaxed),
            floods: self.floods.load(Relaxed),
            request_memory_refusals: self.request_memory_refusals.load(Relaxed),
        }
    }
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Increments a gauge until it is dropped.
#[derive(Debug)]
pub(super) struct GaugeGuard<T: AsRef<AtomicU64>>(T);

impl<T: AsRef<AtomicU64>> GaugeGuard<T> {
    pub(super) fn new(gauge: T) -> Self {
        add(gauge.as_ref());
        Self(gauge)
    }
}

impl<T: AsRef<AtomicU64>> Drop for GaugeGuard<T> {
    fn drop(&mut self) {
        self.0.as_ref().fetch_sub(1, Relaxed);
    }
}
