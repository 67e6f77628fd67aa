//! Who asks for a file, and why it is not to be had: what every rule of access reads and answers.

use crate::path_token::PathToken;
use crate::status::Status;

/// Who asks for what, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The path of the file with its first slash, decoded.
    pub path: &'a str,
    /// The query as it came; empty for none.
    pub query: &'a str,
    /// The token that stood before the path, if there was one.
    pub path_token: Option<PathToken<'a>>,
    /// The client's address as text.
    pub address: &'a str,
    /// Now, in seconds since 1970.
    pub now: u64,
    /// Seconds for which a token is good beyond its end, for clocks that differ.
    pub skew: u64,
}

impl Asker<'_> {
    pub(crate) fn in_time(&self, expires: &str) -> Result<(), Refused> {
        let is_number = !expires.is_empty() && expires.bytes().all(|b| b.is_ascii_digit());
        let expires = is_number.then(|| expires.parse::<u64>().ok()).flatten();
        match expires {
            None | Some(0) => Err(Refused::Forbidden),
            Some(expires) if expires.saturating_add(self.skew) < self.now => Err(Refused::Expired),
            Some(_) => Ok(()),
        }
    }
}

/// Why nothing is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No token, or not one for this.
    Forbidden,
    /// A right one that is too old.
    Expired,
}

impl Refused {
    /// As users of nginx's `secure_link` answer.
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
