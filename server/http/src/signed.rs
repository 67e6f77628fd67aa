//! Signed URLs: a token for a path gives access to it.
//!
//! A token is an HMAC-SHA256 over expiry, address and scope, in an unambiguous order: the expiry
//! consists of digits, the address contains no line end, and the path comes last. The signed path
//! is the decoded path that the file is looked up by, so that no spelling of a URL gives access to
//! another file.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headlong_units::{path_bytes, path_text};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};

use crate::credentials::{AccessRefusal, Credentials};
use crate::path_token::{PathToken, without_tokens};
use crate::secure_link::SecureLink;

/// Keys of HMAC tokens in the arguments `expires`, `token`, and `prefix` if a token covers a
/// folder; or in a path token ([`PathToken`]).
#[derive(Clone, PartialEq, Eq)]
pub struct SignedUrl {
    /// Accepted keys: during a rotation the new one and the old one.
    pub keys: Vec<String>,
    /// Whether a token is valid from one address only.
    pub bind_address: bool,
}

/// Names of the arguments.
const TOKEN: &str = "token";
const EXPIRES: &str = "expires";
const PREFIX: &str = "prefix";

impl SignedUrl {
    /// The signed text.
    fn message(&self, expires: &str, address: &str, scope: &str, path: &str) -> String {
        let address = if self.bind_address { address } else { "-" };
        format!("{expires}\n{address}\n{scope} {path}")
    }

    /// Verifies the token of a request. A path token takes precedence; a duplicate argument is
    /// refused.
    ///
    /// # Errors
    /// `Forbidden` for an invalid token, `Expired` for a valid one that has expired.
    pub fn verify(&self, asker: &Credentials<'_>) -> Result<(), AccessRefusal> {
        match asker.path_token {
            Some(token) => self.verify_in_path(asker, token),
            None => self.verify_in_query(asker),
        }
    }

    fn verify_in_path(
        &self,
        asker: &Credentials<'_>,
        token: PathToken<'_>,
    ) -> Result<(), AccessRefusal> {
        let folder = token.folder(asker.path).ok_or(AccessRefusal::Forbidden)?;
        let message = self.message(token.expires, asker.address, "prefix", folder);
        self.verify_message(asker, &message, token.token, token.expires)
    }

    fn verify_in_query(&self, asker: &Credentials<'_>) -> Result<(), AccessRefusal> {
        let one = |name| only_value(asker.query, name);
        let token = one(TOKEN)?.ok_or(AccessRefusal::Forbidden)?;
        let expires = one(EXPIRES)?.ok_or(AccessRefusal::Forbidden)?;
        let message = match one(PREFIX)? {
            None => self.message(expires, asker.address, "path", asker.path),
            Some(prefix) => {
                let prefix: Cow<'_, [u8]> = percent_decode_str(prefix).into();
                let prefix = path_text(&prefix);
                let is_folder = prefix.starts_with('/') && prefix.ends_with('/');
                if !is_folder || !asker.path.starts_with(&*prefix) {
                    return Err(AccessRefusal::Forbidden);
                }
                self.message(expires, asker.address, "prefix", &prefix)
            }
        };
        self.verify_message(asker, &message, token, expires)
    }

    fn verify_message(
        &self,
        asker: &Credentials<'_>,
        message: &str,
        token: &str,
        expires: &str,
    ) -> Result<(), AccessRefusal> {
        let token = URL_SAFE_NO_PAD.decode(token);
        let token = token.map_err(|_| AccessRefusal::Forbidden)?;
        // The library compares in constant time.
        let is_by = |key: &String| {
            Hmac::<Sha256>::new_from_slice(key.as_bytes()).is_ok_and(|mac| {
                mac.chain_update(path_bytes(message))
                    .verify_slice(&token)
                    .is_ok()
            })
        };
        match self.keys.iter().any(is_by) {
            true => asker.in_time(expires),
            false => Err(AccessRefusal::Forbidden),
        }
    }
}

/// Omits the keys.
impl fmt::Debug for SignedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedUrl")
            .field("bind_address", &self.bind_address)
            .finish_non_exhaustive()
    }
}

/// Access check for files below a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlVerifier {
    /// Open to everyone.
    Open,
    /// Closed to everyone.
    Closed,
    /// Requires a link signed for nginx's `secure_link`.
    SecureLink(SecureLink),
    /// Requires an HMAC token.
    SignedUrl(SignedUrl),
}

impl UrlVerifier {
    /// Verifies a request.
    ///
    /// # Errors
    /// Why access is refused.
    pub fn verify(&self, asker: &Credentials<'_>) -> Result<(), AccessRefusal> {
        match self {
            Self::Open => Ok(()),
            Self::Closed => Err(AccessRefusal::Forbidden),
            Self::SecureLink(link) => link.verify(asker),
            Self::SignedUrl(signed) => signed.verify(asker),
        }
    }

    /// The argument with the token, whose value must not be logged.
    pub fn secret_argument(&self) -> Option<&str> {
        match self {
            Self::Open | Self::Closed => None,
            Self::SecureLink(link) => Some(link.token_argument()),
            Self::SignedUrl(_) => Some(TOKEN),
        }
    }
}

/// Masks a target for logs: `-` replaces path tokens, and the values of arguments for which
/// `is_secret` holds.
pub fn mask(target: &str, is_secret: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else {
        return without_tokens(target);
    };
    let path = without_tokens(path);
    let masked = |pair| match str::split_once(pair, '=') {
        Some((name, _)) if is_secret(name) => format!("{name}=-"),
        _ => String::from(pair),
    };
    let pairs: Vec<String> = query.split('&').map(masked).collect();
    Cow::Owned(format!("{path}?{}", pairs.join("&")))
}

/// Whether two argument names are equal, ignoring case, as in nginx, and encoding.
pub fn is_same_argument(written: &str, name: &str) -> bool {
    let decoded = percent_decode_str(written).map(|b| b.to_ascii_lowercase());
    decoded.eq(name.bytes().map(|b| b.to_ascii_lowercase()))
}

/// The undecoded value of an argument.
///
/// # Errors
/// If the argument occurs twice, in any spelling.
pub fn only_value<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, AccessRefusal> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(written, _)| is_same_argument(written, name));
    match (values.next(), values.next()) {
        (first, None) => Ok(first.map(|(_, value)| value)),
        _ => Err(AccessRefusal::Forbidden),
    }
}

/// The beginning of a secret's SHA-256 in hexadecimal: distinguishes secrets without revealing
/// them.
pub fn fingerprint(secret: &str) -> String {
    let hash = Sha256::digest(secret.as_bytes());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
#[path = "signed_tests.rs"]
mod tests;
