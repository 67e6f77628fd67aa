//! Request ids for logs and metrics, and the traces that requests belong to.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderValue;

/// The header field by which servers pass on a request id.
pub const REQUEST_ID: &str = "x-request-id";
/// Longest accepted id of a proxy: exemplars in metrics have a limited length.
const NAME_BYTES_MAX: usize = 64;

/// The header field that names the servers that a request has passed.
pub const CDN_LOOP: &str = "cdn-loop";
const PASSED_BYTES_MAX: usize = 1024;

/// The header field of W3C Trace Context with the trace and the span of a request.
pub const TRACEPARENT: &str = "traceparent";

/// A request id: that of a trusted proxy, or else a number of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    assigned: AssignedId,
    trace: Option<Box<str>>,
    passed: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AssignedId {
    /// By this server.
    Own(u64),
    /// By a proxy.
    Named(Box<str>),
}

impl RequestId {
    /// A number of this server.
    pub const fn own(number: u64) -> Self {
        Self {
            assigned: AssignedId::Own(number),
            trace: None,
            passed: None,
        }
    }

    /// With the trace in a request's `traceparent`, if it is valid.
    pub fn with_trace(mut self, value: Option<&[u8]>) -> Self {
        let value = value.and_then(|value| str::from_utf8(value).ok());
        self.trace = value.filter(|value| is_traceparent(value)).map(Into::into);
        self
    }

    /// The `traceparent` to log, and to send to an origin.
    pub fn traceparent(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    /// With the servers that a request has passed, the values of its `CDN-Loop` (RFC 8586). Of a
    /// longer list than any chain of servers needs the end counts, which a client cannot write.
    pub fn with_passed<'a>(mut self, values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let values = values.into_iter().filter_map(|of| str::from_utf8(of).ok());
        let all = values.collect::<Vec<_>>().join(", ");
        let start = all.len().saturating_sub(PASSED_BYTES_MAX);
        self.passed = match &all[all.ceil_char_boundary(start)..] {
            "" => None,
            last => Some(last.into()),
        };
        self
    }

    /// The servers that the request has passed.
    pub fn passed(&self) -> Option<&str> {
        self.passed.as_deref()
    }

    /// An id in a proxy's header field, if it is short and free of special characters.
    pub fn named(value: &HeaderValue) -> Option<Self> {
        let name = value.to_str().ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:+/=".contains(&byte);
        let is_fit = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        is_fit.then(|| Self {
            assigned: AssignedId::Named(name.into()),
            trace: None,
            passed: None,
        })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.assigned {
            AssignedId::Own(number) => write!(f, "{number:016x}"),
            AssignedId::Named(name) => f.write_str(name),
        }
    }
}

/// Whether a value is that of version 00: version, trace, span and flags in lowercase hexadecimal
/// digits, trace and span not zero.
fn is_traceparent(value: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |text: &str| text.bytes().any(|b| b != b'0');
    let parts: Vec<&str> = value.split('-').collect();
    let [version, trace, span, flags] = parts[..] else {
        return false;
    };
    let lengths = [version, trace, span, flags].map(str::len);
    version == "00"
        && lengths == [2, 32, 16, 2]
        && [trace, span, flags].into_iter().all(is_hex)
        && is_set(trace)
        && is_set(span)
}

/// Generator of numbers. It starts at a random number, so that ids from before and after a restart
/// do not collide.
#[derive(Debug)]
pub struct RequestIds(AtomicU64);

impl Default for RequestIds {
    fn default() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(0_u8)))
    }
}

impl RequestIds {
    /// A number that is unique in this process.
    pub fn next(&self) -> RequestId {
        RequestId::own(self.0.fetch_add(1, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_short_and_plain_ids_of_proxy() {
        let named = |text: &str| {
            let value = HeaderValue::from_str(text).expect("a value");
            RequestId::named(&value).map(|id| id.to_string())
        };
        let uuid = "6e2fb550-c457-11e9-bb97-0800200c9a66";
        assert_eq!(named(uuid).as_deref(), Some(uuid));
        for text in ["", "a b", "a\"b", "a\\b", &"x".repeat(65)] {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn only_valid_traceparent_is_kept() {
        let kept = |text: &str| {
            let id = RequestId::own(1).with_trace(Some(text.as_bytes()));
            id.traceparent() == Some(text)
        };
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert!(kept(&format!("00-{trace}-b7ad6b7169203331-01")));
        for text in [
            String::new(),
            format!("01-{trace}-b7ad6b7169203331-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            format!("00-{trace}-b7ad6b7169203331-01-x"),
            format!("00-{trace}-b7ad6b716920333-01"),
        ] {
            assert!(!kept(&text), "{text}");
        }
        let id = RequestId::own(1).with_trace(None);
        assert_eq!(
            (id.traceparent(), id.to_string().as_str()),
            (None, "0000000000000001")
        );
    }

    #[test]
    fn servers_passed_last_are_known_after_any_list_of_a_client() {
        let passed = |values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            let id = RequestId::own(1).with_passed(values);
            id.passed().map(str::to_owned)
        };
        assert_eq!(passed(&[]), None);
        assert_eq!(passed(&["a"]).as_deref(), Some("a"));
        let long = format!("{}, headlong-1", "\u{e4}".repeat(5000));
        for values in [&[long.as_str()][..], &["x", "headlong-1"]] {
            let passed = passed(values).expect("a list");
            assert!(passed.ends_with(", headlong-1"), "{passed}");
            assert!(passed.len() <= PASSED_BYTES_MAX);
        }
    }

    #[test]
    fn own_ids_are_unique() {
        let ids = RequestIds::default();
        let (first, second) = (ids.next().to_string(), ids.next().to_string());
        assert_ne!(first, second);
        assert_eq!(first.len(), 16);
    }
}
