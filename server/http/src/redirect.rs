//! Redirects to the same URL over TLS, as nginx's `return 301 https://$host$request_uri`.

use alloc::borrow::Cow;
use alloc::{format, vec};

use crate::fields::host_name;
use crate::reply::{PlannedBody, ReplyPlan};
use crate::status::Status;

/// The redirect of a request for `target` (path and query) at `host`, the value of that field. The
/// new URL has the default port. `None` without a host name.
pub fn redirect_to_https(host: &str, target: &str) -> Option<ReplyPlan> {
    let name = host_name(host);
    (!name.is_empty()).then(|| ReplyPlan {
        status: Status::MovedPermanently,
        fields: vec![
            ("location", Cow::Owned(format!("https://{name}{target}"))),
            ("content-length", Cow::Borrowed("0")),
        ],
        body: PlannedBody::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_keeps_name_path_and_query_but_not_port() {
        for (host, location) in [
            ("tv.example", "https://tv.example/a%20b?c=d"),
            ("tv.example.:8080", "https://tv.example/a%20b?c=d"),
            ("[2001:db8::1]:80", "https://[2001:db8::1]/a%20b?c=d"),
        ] {
            let reply = redirect_to_https(host, "/a%20b?c=d").unwrap();
            assert_eq!(reply.field("location"), Some(location));
            assert_eq!(reply.status.code(), 301);
        }
        assert_eq!(redirect_to_https("", "/"), None);
        assert_eq!(redirect_to_https(":80", "/"), None);
    }
}
