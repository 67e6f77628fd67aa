//! Request ids for logs and metrics.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderValue;

/// The header field by which servers pass on a request id.
pub const REQUEST_ID: &str = "x-request-id";
/// Longest accepted id of a proxy: exemplars in metrics have a limited length.
const NAME_BYTES_MAX: usize = 64;

/// A request id: that of a trusted proxy, or else a number of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// Assigned by this server.
    Own(u64),
    /// Assigned by a proxy.
    Named(Box<str>),
}

impl RequestId {
    /// An id in a proxy's header field, if it is short and free of special characters.
    pub fn named(value: &HeaderValue) -> Option<Self> {
        let name = value.to_str().ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:+/=".contains(&byte);
        let is_fit = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        is_fit.then(|| Self::Named(name.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(number) => write!(f, "{number:016x}"),
            Self::Named(name) => f.write_str(name),
        }
    }
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
        RequestId::Own(self.0.fetch_add(1, Relaxed))
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
    fn own_ids_are_unique() {
        let ids = RequestIds::default();
        let (first, second) = (ids.next().to_string(), ids.next().to_string());
        assert_ne!(first, second);
        assert_eq!(first.len(), 16);
    }
}
