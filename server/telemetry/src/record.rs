//! The log record of a request.

use std::sync::Arc;

use headlong_http::Peer;
use headlong_units::{BitRate, Duration};
use http::Version;

use super::request_id::RequestId;
use super::stages::Stages;

/// A request, from its head to the last byte of its reply, or its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Request id.
    pub id: RequestId,
    /// Time when its head was complete, in milliseconds since 1970.
    pub start_unix_ms: u64,
    /// Time from then until the last byte was written to the socket, or the reply failed.
    pub service_time: Duration,
    /// Time from then until the first byte of the reply was sent; `None` if none was.
    pub first_byte_time: Option<Duration>,
    /// The client; its port is 0 if unknown.
    pub remote: Peer,
    /// The proxy that is the peer of the connection, if any.
    pub proxy: Option<Peer>,
    /// Method (`GET`).
    pub method: String,
    /// Path and query as received.
    pub target: String,
    /// HTTP version.
    pub version: Version,
    /// `Range` field as received.
    pub range: Option<String>,
    /// Status of the reply.
    pub status: u16,
    /// Bytes of the body sent.
    pub bytes_sent: u64,
    /// Of those, from memory.
    pub bytes_from_ram: u64,
    /// Of those, from flash.
    pub bytes_from_flash: u64,
    /// Of those, from the device.
    pub bytes_from_disk: u64,
    /// Session of the viewer.
    pub session: Option<SessionKey>,
    /// The device of the file.
    pub device: Option<Arc<str>>,
    /// Number of the chain on that device.
    pub chain: Option<u64>,
    /// Cache state of a title from an origin: `hit`, `miss`, `stale`.
    pub cache: Option<&'static str>,
    /// The `User-Agent` field.
    pub user_agent: Option<String>,
    /// The `Referer` field.
    pub referer: Option<String>,
    /// Request fields that the configuration names, as received.
    pub headers: Vec<LoggedHeader>,
    /// Total time that the reply waited for its reads to begin.
    pub queue_time: Duration,
    /// Total time that the reply waited for its reads to finish.
    pub disk_time: Duration,
    /// Bit rate announced by the player (CMCD `br`).
    pub bit_rate: Option<BitRate>,
    /// Reason code if the reply failed or was refused (`device`, `timed-out`, `client-gone`).
    pub failure: Option<&'static str>,
    /// Stage times, if the server took long and the slow log is on.
    pub stages: Option<Box<Stages>>,
}

/// A request field in the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedHeader {
    /// Its name, in lower case.
    pub name: Arc<str>,
    /// Its value; those of several fields are joined by commas.
    pub value: String,
}

/// Id of a viewing session, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The name.
    pub id: String,
    /// Where the id was found.
    pub source: SessionSource,
}

/// Sources of a session's id, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionSource {
    /// CMCD `sid` (CTA-5004).
    Cmcd,
    /// A configured header field.
    Header,
    /// A configured cookie.
    Cookie,
    /// A configured key of the query.
    Query,
    /// Derived from address and user agent, for lack of a better source.
    Address,
}

impl SessionSource {
    /// Name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cmcd => "cmcd",
            Self::Header => "header",
            Self::Cookie => "cookie",
            Self::Query => "query",
            Self::Address => "address",
        }
    }
}

impl RequestRecord {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// `HTTP/1.1`, as in a request line.
pub(super) const fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
pub(super) fn sample() -> RequestRecord {
    RequestRecord {
        id: RequestId::own(42),
        start_unix_ms: 784_111_777_123,
        service_time: Duration::from_millis(1234),
        first_byte_time: Some(Duration::from_micros(12_500)),
        remote: Peer::At(std::net::SocketAddr::from(([192, 0, 2, 7], 40_000))),
        proxy: None,
        method: "GET".to_owned(),
        target: "/films/a.mp4?token=1".to_owned(),
        version: Version::HTTP_11,
        range: Some("bytes=0-999".to_owned()),
        status: 206,
        bytes_sent: 1000,
        bytes_from_ram: 600,
        bytes_from_flash: 0,
        bytes_from_disk: 400,
        session: Some(SessionKey {
            id: "6e2fb550-c457".to_owned(),
            source: SessionSource::Cmcd,
        }),
        device: Some(Arc::from("sda")),
        chain: Some(17),
        cache: None,
        user_agent: Some("Player/1.0 (a \"b\")".to_owned()),
        referer: None,
        headers: Vec::new(),
        queue_time: Duration::from_millis(3),
        disk_time: Duration::from_micros(8_100),
        bit_rate: Some(BitRate::from_kbps(2_000)),
        failure: None,
        stages: None,
    }
}
