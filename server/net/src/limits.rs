//! Limits on what a single client, and all clients together, may make the server hold.

use std::time::Duration;

/// Header fields of a request; more get 431. Apache's default, which no player comes near.
pub(super) const FIELDS_MAX: usize = 100;

/// Limits of a listener and its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections open at once. Beyond that, idle ones of the address with the most are closed, or
    /// new ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Connections from one address, or one IPv6 /64 network. Further ones are closed on accept, and
    /// beyond seven eighths of all those of an address, or an IPv6 /48 network, without idle ones.
    pub connections_per_address_max: usize,
    /// Bytes of a request's head. A longer head gets 431, or 414 if its request line alone exceeds
    /// the limit. HTTP/2 announces the limit to the client: a longer head gets 431, and GOAWAY from
    /// four times the limit on. At least 8192.
    pub header_bytes_max: usize,
    /// Time from the first byte of a request's head to its last, and for a TLS handshake.
    pub header_timeout: Duration,
    /// A connection without a request is closed after this time.
    pub idle_timeout: Duration,
    /// A client that takes less than `send_bytes_min` in this time is cut off.
    pub send_timeout: Duration,
    /// See `send_timeout`.
    pub send_bytes_min: u64,
    /// Requests served on one connection before it is closed.
    pub requests_per_connection_max: u64,
    /// Concurrent requests on one HTTP/2 connection.
    pub streams_max: u32,
    /// Bytes that HTTP/2 requests in progress may take beyond the pieces of their replies. One
    /// address may have a quarter of it, an IPv6 /48 network half.
    pub request_bytes_max: u64,
    /// Interval of HTTP/2 keep-alive pings.
    pub keep_alive_interval: Duration,
    /// Time that requests in progress have to finish once the server drains.
    pub drain_timeout: Duration,
}

impl ConnectionLimits {
    /// Connections that one address, and one IPv6 site, may have without closing idle ones of their
    /// own: the others have an eighth of all at least.
    pub(super) fn fair_connections(&self) -> (usize, usize) {
        let of_site = self.connections_max - self.connections_max / 8;
        (self.connections_per_address_max.min(of_site), of_site)
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_address_max: 8_192,
            header_bytes_max: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            send_timeout: Duration::from_secs(30),
            send_bytes_min: 64 * 1024,
            requests_per_connection_max: 10_000,
            streams_max: 100,
            request_bytes_max: 128 << 20,
            keep_alive_interval: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
