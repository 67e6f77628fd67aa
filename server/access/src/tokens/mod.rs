//! Signed JSON Web Tokens by the URI signing profile (RFC 9246): a token permits access to its
//! URIs.
//!
//! The key determines the algorithm. Each key has one algorithm, according to its file, and
//! verifies only tokens that name it; this prevents `none` and the use of a public key as a secret.
//! Claims are parsed after the signature was verified, and unknown critical ones are refused.
//!
//! Invariants: only [`PublicKey::read`] does I/O; time is an argument; a token has at most
//! [`TOKEN_BYTES_MAX`] bytes, and the cost of its claims is bounded, including the expression over
//! the URI.

mod claims;
mod key;
mod uri;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headlong_http::AccessRefusal;
use serde::Deserialize;

use claims::Claims;
pub use claims::{ExpectedClaims, TokenRequest};
pub use key::{PublicKey, SharedSecret};
pub use uri::Uri;

/// Longest accepted token, in bytes; usual ones have a few hundred.
pub(crate) const TOKEN_BYTES_MAX: usize = 4096;

/// Trusted keys and expected claims.
#[derive(Debug, Clone, Default)]
pub struct TokenVerifier {
    /// HS256 keys.
    pub secrets: Vec<SharedSecret>,
    /// RS256, ES256 and EdDSA keys.
    pub public: Vec<PublicKey>,
    /// Expected claims.
    pub expected: ExpectedClaims,
}

/// Header of a token. Unsupported critical extensions are refused by `crit`.
#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    crit: Option<serde_json::Value>,
}

impl TokenVerifier {
    /// Checks whether a token permits a request.
    ///
    /// # Errors
    /// `Forbidden` for an invalid token, `Expired` for a valid one that has expired.
    pub fn verify(&self, token: &str, asker: &TokenRequest<'_>) -> Result<(), AccessRefusal> {
        let claims = self.claims(token).ok_or(AccessRefusal::Forbidden)?;
        claims.judge(&self.expected, asker)
    }

    /// The claims of a token, if one of the keys signed it.
    fn claims(&self, token: &str) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let header: TokenHeader = serde_json::from_slice(&decode(header)?).ok()?;
        if header.crit.is_some() {
            return None;
        }
        let (signed, signature) = (signed.as_bytes(), decode(signature)?);
        let is_right = match header.alg.as_str() {
            SharedSecret::ALGORITHM => self.secrets.iter().any(|s| s.verifies(signed, &signature)),
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
