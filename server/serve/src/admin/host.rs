//! Host check: the defence of the operator's listener against DNS rebinding.
//!
//! A foreign page can make its name resolve to 127.0.0.1 and then read this listener as its own
//! origin. The browser still sends that name, so only addresses, `localhost` and configured names
//! are accepted.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::request::Parts;
use http::{Version, header};

/// Why a request's host is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHost {
    /// No host, or more than one.
    NotOne,
    /// An unknown name.
    Foreign,
}

/// Checks all hosts of a request: in its target and in its `Host` field.
pub(super) fn check(request: &Parts, names: &[String]) -> Result<(), BadHost> {
    let mut fields = request.headers.get_all(header::HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(BadHost::NotOne);
    }
    let target = request.uri.authority().map(|authority| authority.as_str());
    let field = match field.map(|value| value.to_str()) {
        None => None,
        Some(Ok(text)) => Some(text),
        Some(Err(_)) => return Err(BadHost::Foreign),
    };
    let is_named = target.is_some() || field.is_some();
    if !is_named && request.version > Version::HTTP_10 {
        return Err(BadHost::NotOne);
    }
    // Only browsers can be tricked, and they always send a host; HTTP/1.0 programs may omit it.
    let mut named = [target, field].into_iter().flatten();
    if named.all(|host| is_ours(host, names)) {
        Ok(())
    } else {
        Err(BadHost::Foreign)
    }
}

fn is_ours(authority: &str, names: &[String]) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_digits);
        return is_port && address.parse::<Ipv6Addr>().is_ok();
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_digits(port) => host,
        Some(_) => return false,
        None => authority,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name = |name: &str| host.eq_ignore_ascii_case(name);
    host.parse::<Ipv4Addr>().is_ok() || is_name("localhost") || names.iter().any(|n| is_name(n))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn verdict(build: http::request::Builder) -> Result<(), BadHost> {
        let (parts, ()) = build.body(()).expect("a request").into_parts();
        check(&parts, &["video.example".to_owned()])
    }

    #[test]
    fn accepts_addresses_localhost_and_configured_names() {
        for host in [
            "127.0.0.1:9090",
            "127.0.0.1",
            "10.0.0.8:1",
            "[::1]:9090",
            "[::1]",
            "localhost",
            "LocalHost:9090",
            "localhost.:9090",
            "Video.Example:9090",
        ] {
            let request = Request::get("/status").header("host", host);
            assert_eq!(verdict(request), Ok(()), "{host}");
        }
    }

    #[test]
    fn refuses_other_names_in_every_spelling() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example:9090",
            "localhost:x",
            "[::1",
            "[::1]x",
            "[evil]",
            "video.example.evil:1",
            "",
            "1.2.3.4@evil.example",
        ] {
            let request = Request::get("/status").header("host", host);
            assert_eq!(verdict(request), Err(BadHost::Foreign), "{host}");
        }
        let hidden = Request::get("http://evil.example/").header("host", "localhost");
        assert_eq!(verdict(hidden), Err(BadHost::Foreign));
        let other_way = Request::get("http://localhost/").header("host", "evil.example");
        assert_eq!(verdict(other_way), Err(BadHost::Foreign));
    }

    #[test]
    fn requires_exactly_one_host_except_in_http_1_0() {
        assert_eq!(verdict(Request::get("/")), Err(BadHost::NotOne));
        let twice = Request::get("/")
            .header("host", "localhost")
            .header("host", "localhost");
        assert_eq!(verdict(twice), Err(BadHost::NotOne));
        assert_eq!(verdict(Request::get("/").version(Version::HTTP_10)), Ok(()));
        let http2 = Request::get("http://localhost:1/").version(Version::HTTP_2);
        assert_eq!(verdict(http2), Ok(()));
    }
}
