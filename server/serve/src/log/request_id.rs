//! What a request is called in logs and metrics.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderValue;

/// The field by which servers tell one another what they call a request.
pub const REQUEST_ID: &str = "x-request-id";
/// Longest name of a proxy's that is taken: what metrics may say of a request is bounded.
const NAME_BYTES_MAX: usize = 64;

/// What a request is called: what a trusted proxy calls it, else a number of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// Of this server.
    Own(u64),
    /// Of the proxy in front.
    Named(Box<str>),
}

impl RequestId {
    /// As a proxy wrote it, if it is fit to be a part of a line.
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

/// Numbers of requests. Where they begin is drawn at each start, so that lines of before and after a
/// restart are not mixed up.
#[derive(Debug)]
pub struct RequestIds(AtomicU64);

impl Default for RequestIds {
    fn default() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(0_u8)))
    }
}

impl RequestIds {
    /// One that no other request of this process has.
    pub fn next(&self) -> RequestId {
        RequestId::Own(self.0.fetch_add(1, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_name_is_taken_if_it_is_short_and_plain() {
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
    fn own_numbers_differ() {
        let ids = RequestIds::default();
        let (first, second) = (ids.next().to_string(), ids.next().to_string());
        assert_ne!(first, second);
        assert_eq!(first.len(), 16);
    }
}
