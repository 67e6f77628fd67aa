//! Signed URLs: who has a token for a path may watch it.
//!
//! The one idea: a token is an HMAC-SHA256 over when it ends, whose it is and what it opens, in an
//! order that leaves one reading only: the expiry is digits, the address holds no line end, and
//! the path comes last. What is signed is the path as the file is looked up by, decoded once, so
//! that no spelling of a URL opens another file.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};

use crate::asker::{Asker, Refused};
use crate::path_token::{PathToken, without_tokens};
use crate::secure_link::SecureLink;

/// The keys of HMAC tokens: `expires`, `token`, and `prefix` if one token opens a folder; or all of
/// it in the path ([`PathToken`]).
#[derive(Clone, PartialEq, Eq)]
pub struct SignedUrl {
    /// Any of these may have signed: during a rotation the new one and the old.
    pub keys: Vec<String>,
    /// Whether a token is good from one address only.
    pub bind_address: bool,
}

/// Names of the arguments.
const TOKEN: &str = "token";
const EXPIRES: &str = "expires";
const PREFIX: &str = "prefix";

impl SignedUrl {
    /// The text that is signed.
    fn message(&self, expires: &str, address: &str, scope: &str, path: &str) -> String {
        let address = if self.bind_address { address } else { "-" };
        format!("{expires}\n{address}\n{scope} {path}")
    }

    /// Whether the asker may have the path. A token in the path is the one that counts; of
    /// arguments, one that is there twice is refused.
    ///
    /// # Errors
    /// Forbidden for a wrong token, expired for a right one that is too old.
    pub fn verify(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        match asker.path_token {
            Some(token) => self.verify_in_path(asker, token),
            None => self.verify_in_query(asker),
        }
    }

    fn verify_in_path(&self, asker: &Asker<'_>, token: PathToken<'_>) -> Result<(), Refused> {
        let folder = token.folder(asker.path).ok_or(Refused::Forbidden)?;
        let message = self.message(token.expires, asker.address, "prefix", folder);
        self.verify_message(asker, &message, token.token, token.expires)
    }

    fn verify_in_query(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        let one = |name| only_value(asker.query, name);
        let token = one(TOKEN)?.ok_or(Refused::Forbidden)?;
        let expires = one(EXPIRES)?.ok_or(Refused::Forbidden)?;
        let message = match one(PREFIX)? {
            None => self.message(expires, asker.address, "path", asker.path),
            Some(prefix) => {
                let prefix = percent_decode_str(prefix).decode_utf8();
                let prefix = prefix.map_err(|_| Refused::Forbidden)?;
                let is_folder = prefix.starts_with('/') && prefix.ends_with('/');
                if !is_folder || !asker.path.starts_with(&*prefix) {
                    return Err(Refused::Forbidden);
                }
                self.message(expires, asker.address, "prefix", &prefix)
            }
        };
        self.verify_message(asker, &message, token, expires)
    }

    fn verify_message(
        &self,
        asker: &Asker<'_>,
        message: &str,
        token: &str,
        expires: &str,
    ) -> Result<(), Refused> {
        let token = URL_SAFE_NO_PAD.decode(token);
        let token = token.map_err(|_| Refused::Forbidden)?;
        // The library compares in constant time.
        let is_by = |key: &String| {
            Hmac::<Sha256>::new_from_slice(key.as_bytes())
                .is_ok_and(|mac| mac.chain_update(message).verify_slice(&token).is_ok())
        };
        match self.keys.iter().any(is_by) {
            true => asker.in_time(expires),
            false => Err(Refused::Forbidden),
        }
    }
}

/// Without the keys.
impl fmt::Debug for SignedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedUrl")
            .field("bind_address", &self.bind_address)
            .finish_non_exhaustive()
    }
}

/// Who may have what lies below a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Everybody.
    Open,
    /// Nobody.
    Closed,
    /// Who has a link signed as for nginx.
    SecureLink(SecureLink),
    /// Who has an HMAC token.
    SignedUrl(SignedUrl),
}

impl Gate {
    /// Whether the asker may pass.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        match self {
            Self::Open => Ok(()),
            Self::Closed => Err(Refused::Forbidden),
            Self::SecureLink(link) => link.verify(asker),
            Self::SignedUrl(signed) => signed.verify(asker),
        }
    }

    /// The argument whose value must not be written anywhere, if there is one.
    pub fn secret_argument(&self) -> Option<&str> {
        match self {
            Self::Open | Self::Closed => None,
            Self::SecureLink(link) => Some(link.token_argument()),
            Self::SignedUrl(_) => Some(TOKEN),
        }
    }
}

/// The target with `-` for tokens in its path, and for the value of every argument that
/// `is_secret`: for logs.
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

/// Names of arguments are equal in any case, as nginx has it, and however they are encoded.
pub fn is_same_argument(written: &str, name: &str) -> bool {
    let decoded = percent_decode_str(written).map(|b| b.to_ascii_lowercase());
    decoded.eq(name.bytes().map(|b| b.to_ascii_lowercase()))
}

/// The value of the argument of this name, undecoded.
///
/// # Errors
/// If there are two, in whatever spelling.
pub fn only_value<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, Refused> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(written, _)| is_same_argument(written, name));
    match (values.next(), values.next()) {
        (first, None) => Ok(first.map(|(_, value)| value)),
        _ => Err(Refused::Forbidden),
    }
}

/// The beginning of the SHA-256 of a secret, in hexadecimal: tells two of them apart, and neither
/// what they are.
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
