//! Credentials of a request that access checks verify, and the reasons of a refusal.

use crate::path_token::PathToken;
use crate::status::Status;

/// A request to verify.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The path of the file with its first slash, decoded.
    pub path: &'a str,
    /// Query as received; empty for none.
    pub query: &'a str,
    /// Token in front of the path, if any.
    pub path_token: Option<PathToken<'a>>,
    /// Client address as text.
    pub address: &'a str,
    /// Current time in seconds since 1970.
    pub now: u64,
    /// Seconds that a token stays valid after its expiry, to tolerate clock differences.
    pub skew: u64,
}

impl Credentials<'_> {
    pub(crate) fn in_time(&self, expires: &str) -> Result<(), AccessRefusal> {
        let is_number = !expires.is_empty() && expires.bytes().all(|b| b.is_ascii_digit());
        let expires = is_number.then(|| expires.parse::<u64>().ok()).flatten();
        match expires {
            None | Some(0) => Err(AccessRefusal::Forbidden),
            Some(expires) if expires.saturating_add(self.skew) < self.now => {
                Err(AccessRefusal::Expired)
            }
            Some(_) => Ok(()),
        }
    }
}

/// Why access is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRefusal {
    /// No token, or an invalid one.
    Forbidden,
    /// A valid token that has expired.
    Expired,
}

impl AccessRefusal {
    /// Same statuses as in common configurations of nginx's `secure_link`.
    pub const fn status(self) -> Status {
        match self {
            Self::Forbidden => Status::Forbidden,
            Self::Expired => Status::Gone,
        }
    }
}

/// The first value of this name, in any case, undecoded: nginx's `$arg_name`.
pub(crate) fn raw_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(written, _)| written.eq_ignore_ascii_case(name))?;
    Some(value)
}
