//! Signed JSON Web Tokens, by the profile for URIs (RFC 9246): who has one for a URI may watch it.
//!
//! The one idea: the key decides the algorithm. Each key is of one algorithm, which its file tells,
//! and verifies tokens that name this one and no other; so `none`, and a public key that is taken
//! for a secret, open nothing. Claims are read after the signature was found right, and what is
//! not understood is refused.
//!
//! Invariants: nothing here does I/O but [`PublicKey::read`]; the time comes in; a token is at most
//! [`TOKEN_BYTES_MAX`] long, and what its claims make the server do is bounded, the expression over
//! the URI included.

mod claims;
mod key;
mod uri;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headlong_http::Refused;
use serde::Deserialize;

use claims::Claims;
pub(crate) use claims::{Asker, Expected};
pub(crate) use key::{PublicKey, Secret};
pub(crate) use uri::Uri;

/// The longest token, in bytes; usual ones have some hundreds.
pub(crate) const TOKEN_BYTES_MAX: usize = 4096;

/// Whose tokens are believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    /// Keys of HS256.
    pub(crate) secrets: Vec<Secret>,
    /// Keys of RS256, ES256 and EdDSA.
    pub(crate) public: Vec<PublicKey>,
    /// What tokens must say.
    pub(crate) expected: Expected,
}

/// The header of a token. One that says more than it may is refused by its `crit`.
#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<serde_json::Value>,
}

impl Trust {
    /// Whether a token opens what is asked for.
    ///
    /// # Errors
    /// Forbidden for a wrong one, expired for a right one that is too old.
    pub(crate) fn verify(&self, token: &str, asker: &Asker<'_>) -> Result<(), Refused> {
        let claims = self.claims(token).ok_or(Refused::Forbidden)?;
        claims.judge(&self.expected, asker)
    }

    /// What a token says, if one of the keys signed it.
    fn claims(&self, token: &str) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        if header.crit.is_some() {
            return None;
        }
        let (signed, signature) = (signed.as_bytes(), decode(signature)?);
        let is_right = match header.alg.as_str() {
            Secret::ALGORITHM => self.secrets.iter().any(|s| s.verifies(signed, &signature)),
            other => {
                let mut keys = self.public.iter().filter(|key| key.algorithm() == other);
                keys.any(|key| key.verifies(signed, &signature))
            }
        };
        let payload = is_right.then(|| decode(payload)).flatten()?;
        serde_json::from_slice(&payload).ok()
    }
}

#[cfg(test)]
mod tests;
