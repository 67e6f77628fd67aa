//! The host that a request is for.

use headlong_http::is_host;
use http::{Version, header};

/// The host of a request, with its port: of the target if it names one, else of the `Host` field.
/// Empty for a request of HTTP/1.0 without one; `None` if it does not name exactly one (RFC 9112
/// 3.2). HTTP/2 uses `:authority`.
pub(super) fn requested_host(head: &http::request::Parts) -> Option<&str> {
    let of_target = head.uri.authority().map(|authority| authority.as_str());
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let of_field = match (head.version, hosts.next(), hosts.next()) {
        (Version::HTTP_2, host, _) => host.map_or("", |host| host.to_str().unwrap_or_default()),
        (version, None, _) if version < Version::HTTP_11 => "",
        (_, Some(host), None) if is_host(host.as_bytes()) => host.to_str().ok()?,
        _ => return None,
    };
    Some(of_target.unwrap_or(of_field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(version: Version, target: &str, hosts: &[&str]) -> Option<String> {
        let mut request = http::Request::get(target).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        requested_host(&head).map(str::to_owned)
    }

    #[test]
    fn host_is_that_of_target_or_of_one_field() {
        let (new, old) = (Version::HTTP_11, Version::HTTP_10);
        let is = |host: &str| Some(host.to_owned());
        assert_eq!(host(new, "/a", &["x.example:80"]), is("x.example:80"));
        assert_eq!(host(new, "http://y/a", &["x"]), is("y"));
        assert_eq!(host(Version::HTTP_2, "https://y:1/a", &[]), is("y:1"));
        assert_eq!(host(old, "/a", &[]), is(""));
        assert_eq!(host(new, "/a", &[]), None);
        assert_eq!(host(new, "/a", &["x", "x"]), None);
        assert_eq!(host(old, "/a", &["x", "y"]), None);
        assert_eq!(host(new, "/a", &["a b"]), None);
    }
}
