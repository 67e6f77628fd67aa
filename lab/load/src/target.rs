//! The target of requests: the server's address, and the request format.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use headlong_units::{BitRate, ByteRange};
use headlong_workload::ViewerIdentity;

/// Timeout of the test connection before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// User-Agent of this generator.
const USER_AGENT: &str = concat!("headlong-load/", env!("CARGO_PKG_VERSION"));

/// Why a target cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is not a usable URL.
    #[error("`{url}`: {reason}; write it like http://127.0.0.1:8080/")]
    Url {
        /// The text.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The host has no address.
    #[error("`{host}` has no address: {reason}")]
    Unknown {
        /// Its name.
        host: String,
        /// Error of the resolver.
        reason: String,
    },
    /// The connection failed.
    #[error("nothing answers at {url} ({address}): {reason}; is the server running?")]
    Unreachable {
        /// The URL.
        url: String,
        /// Its address.
        address: SocketAddr,
        /// Error of the system.
        reason: String,
    },
}

/// How a player identifies itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlayerIdentity {
    pub(crate) identity: ViewerIdentity,
    pub(crate) session: u64,
    /// Bit rate of the requested object.
    pub(crate) bit_rate: Option<BitRate>,
}

/// A server and the path prefix of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: String,
    /// Host and port for the `Host` field.
    authority: String,
    /// Begins and ends with a slash.
    prefix: String,
    address: SocketAddr,
}

impl Target {
    /// Parses a URL such as `http://127.0.0.1:8080/videos` and resolves the host's address (the
    /// first IPv4 address if there is one).
    pub fn new(url: &str) -> Result<Self, TargetError> {
        let wrong = |reason: &str| TargetError::Url {
            url: url.into(),
            reason: reason.into(),
        };
        let uri: http::Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                let reason = "TLS is not supported: it would cost the generator CPU time, too";
                return Err(wrong(reason));
            }
            _ => return Err(wrong("it must begin with http://")),
        }
        if uri.query().is_some() {
            return Err(wrong("a query belongs to the objects of the trace"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("names and passwords are not supported"));
        }
        let host = authority.host().trim_matches(['[', ']']);
        let address = resolve(host, authority.port_u16().unwrap_or(80))?;
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            url: url.into(),
            authority: authority.as_str().into(),
            prefix: format!("{path}/"),
            address,
        })
    }

    /// The URL that was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where connections go.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens and closes a test connection: one error now is better than thousands later.
    pub fn probe(&self) -> Result<(), TargetError> {
        let tried = TcpStream::connect_timeout(&self.address, PROBE_TIMEOUT);
        tried.map(drop).map_err(|error| TargetError::Unreachable {
            url: self.url.clone(),
            address: self.address,
            reason: error.to_string(),
        })
    }

    /// Whether the server is on this machine, at an IPv4 loopback address.
    pub(crate) fn is_loopback_v4(&self) -> bool {
        matches!(self.address.ip(), IpAddr::V4(ip) if ip.is_loopback())
    }

    /// Request path of an object: its path below the prefix, escaped where necessary.
    pub(crate) fn path_of(&self, object: &str) -> String {
        let mut path = self.prefix.clone();
        for &byte in object.trim_start_matches('/').as_bytes() {
            // Objects of a trace may contain escapes and queries, so `%` and `?` are kept.
            if byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte) {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
        path
    }

    /// Appends a request for `path` to `out`, with the player's identification.
    pub(crate) fn write_request(
        &self,
        path: &str,
        range: Option<ByteRange>,
        told: PlayerIdentity,
        out: &mut Vec<u8>,
    ) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let authority = &self.authority;
        let _ = write!(
            out,
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n"
        );
        if let Some(range) = range {
            let last = range.end.saturating_sub(1);
            // An open end is encoded as the largest value.
            let _ = match range.end {
                u64::MAX => write!(out, "Range: bytes={}-\r\n", range.start),
                _ => write!(out, "Range: bytes={}-{last}\r\n", range.start),
            };
        }
        let _ = match told.identity {
            ViewerIdentity::Sid | ViewerIdentity::Cmcd => {
                // Other processes may play the same trace.
                let (run, session) = (std::process::id(), told.session);
                write!(out, "CMCD-Session: sid=\"{run}-{session}\"\r\n")
            }
            ViewerIdentity::Connection => Ok(()),
            ViewerIdentity::None => write!(out, "Connection: close\r\n"),
        };
        if let (ViewerIdentity::Cmcd, Some(bit_rate)) = (told.identity, told.bit_rate) {
            // In kilobits per second, as the standard specifies.
            let _ = write!(out, "CMCD-Object: br={}\r\n", bit_rate.0.div_ceil(1000));
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, TargetError> {
    let unknown = |reason: String| TargetError::Unknown {
        host: host.into(),
        reason,
    };
    let found = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found.map_err(|error| unknown(error.to_string()))?.collect();
    let v4 = addresses.iter().find(|address| address.is_ipv4());
    let first = v4.or(addresses.first());
    first.copied().ok_or_else(|| unknown("none found".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::new(url).expect("a target")
    }

    #[test]
    fn objects_are_below_path_of_url() {
        for (url, path) in [
            ("http://127.0.0.1:8080", "/vid01/a%20b?x=%41"),
            ("http://127.0.0.1:8080/", "/vid01/a%20b?x=%41"),
            ("http://127.0.0.1/videos/", "/videos/vid01/a%20b?x=%41"),
        ] {
            assert_eq!(target(url).path_of("vid01/a b?x=%41"), path);
        }
    }

    #[test]
    fn request_follows_http() {
        let target = target("http://127.0.0.1:8080/");
        let session = format!("CMCD-Session: sid=\"{}-7\"\r\n", std::process::id());
        let with_bit_rate = format!("{session}CMCD-Object: br=2500\r\n");
        for (identity, told) in [
            (ViewerIdentity::Sid, session.as_str()),
            (ViewerIdentity::Cmcd, with_bit_rate.as_str()),
            (ViewerIdentity::Connection, ""),
            (ViewerIdentity::None, "Connection: close\r\n"),
        ] {
            let mut out = Vec::new();
            let range = Some(ByteRange::new(5, 10));
            let who = PlayerIdentity {
                identity,
                session: 7,
                bit_rate: Some(BitRate::from_kbps(2500)),
            };
            target.write_request("/a", range, who, &mut out);
            let text = String::from_utf8(out).expect("text");
            assert!(text.starts_with("GET /a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"));
            let end = format!("Range: bytes=5-9\r\n{told}\r\n");
            assert!(text.ends_with(&end), "{text}");
        }
    }

    #[test]
    fn reports_unusable_urls_with_remedy() {
        for (url, part) in [
            ("https://127.0.0.1/", "TLS"),
            ("127.0.0.1:80", "must begin with http://"),
            ("http://", "not a URL"),
            ("http://u:p@127.0.0.1/", "passwords"),
            ("ftp://127.0.0.1/", "must begin with http://"),
        ] {
            let error = Target::new(url).expect_err(url).to_string();
            assert!(
                error.contains(part) && error.contains("http://127.0.0.1:8080/"),
                "{error}"
            );
        }
    }
}
