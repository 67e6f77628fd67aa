//! Links signed for nginx's `secure_link` and `secure_link_md5`, so that a site can migrate and
//! keep its URLs.
//!
//! The same expression over the same variables gives the same text; its MD5 in URL-safe base64 is
//! the token. Where nginx is lenient (case of argument names, the first of two, padding, spare bits
//! of the last character), so is this module, because such URLs exist. MD5 is only for
//! compatibility; new sites should use [`crate::SignedUrl`].

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use headlong_units::path_bytes;
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::credentials::{AccessRefusal, Credentials, raw_value};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Length of 16 bytes in base64, with padding.
const TOKEN_LETTERS_MAX: usize = 24;

#[derive(Clone, PartialEq, Eq)]
enum ExpressionPart {
    Literal(String),
    Expires,
    Uri,
    RemoteAddr,
}

/// The expression of `secure_link_md5` with the argument names of `secure_link`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecureLink {
    parts: Vec<ExpressionPart>,
    md5: String,
    expires: String,
}

/// Why an expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// An unknown variable, by name.
    #[error("unknown variable `${0}`; use $secure_link_expires, $uri and $remote_addr")]
    Unknown(String),
    /// No `$uri`: one token would give access to everything.
    #[error("has no $uri, so one token would open every file; add it")]
    NoUri,
    /// Only variables: anyone could create tokens.
    #[error("contains no secret, so anyone could sign; add one")]
    NoSecret,
}

impl SecureLink {
    /// Parses an expression such as `$secure_link_expires$uri$remote_addr secret`.
    ///
    /// # Errors
    /// If it uses another variable, has no `$uri` or no secret.
    pub fn parse(expression: &str, md5: &str, expires: &str) -> Result<Self, ExpressionError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = expression;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (name, after) = match rest.strip_prefix('{') {
                Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
                None => {
                    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                    rest.split_at(rest.find(is_other).unwrap_or(rest.len()))
                }
            };
            let part = match name {
                "secure_link_expires" => ExpressionPart::Expires,
                "uri" => ExpressionPart::Uri,
                "remote_addr" => ExpressionPart::RemoteAddr,
                _ => return Err(ExpressionError::Unknown(name.into())),
            };
            if !literal.is_empty() {
                parts.push(ExpressionPart::Literal(core::mem::take(&mut literal)));
            }
            parts.push(part);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(ExpressionPart::Literal(literal));
        }
        let is_secret = |part: &ExpressionPart| match part {
            ExpressionPart::Literal(text) => !text.trim().is_empty(),
            _ => false,
        };
        if !parts.contains(&ExpressionPart::Uri) {
            return Err(ExpressionError::NoUri);
        }
        if !parts.iter().any(is_secret) {
            return Err(ExpressionError::NoSecret);
        }
        Ok(Self {
            parts,
            md5: md5.into(),
            expires: expires.into(),
        })
    }

    /// Verifies the link of a request; without `$secure_link_expires` links do not expire.
    ///
    /// # Errors
    /// `Forbidden` for an invalid token, `Expired` for a valid one that has expired.
    pub fn verify(&self, asker: &Credentials<'_>) -> Result<(), AccessRefusal> {
        let token = raw_value(asker.query, &self.md5).ok_or(AccessRefusal::Forbidden)?;
        let text = match self.parts.contains(&ExpressionPart::Expires) {
            true => raw_value(asker.query, &self.expires).ok_or(AccessRefusal::Forbidden)?,
            false => "",
        };
        if token.len() > TOKEN_LETTERS_MAX {
            return Err(AccessRefusal::Forbidden);
        }
        let token = LENIENT
            .decode(token)
            .map_err(|_| AccessRefusal::Forbidden)?;
        let mut hash = Md5::new();
        for part in &self.parts {
            match part {
                ExpressionPart::Literal(literal) => hash.update(literal),
                ExpressionPart::Expires => hash.update(text),
                ExpressionPart::Uri => hash.update(path_bytes(asker.path)),
                ExpressionPart::RemoteAddr => hash.update(asker.address),
            }
        }
        let right = hash.finalize();
        if !bool::from(right.as_slice().ct_eq(token.as_slice())) {
            return Err(AccessRefusal::Forbidden);
        }
        match self.parts.contains(&ExpressionPart::Expires) {
            true => asker.in_time(text),
            false => Ok(()),
        }
    }

    pub(crate) fn token_argument(&self) -> &str {
        &self.md5
    }
}

/// Omits the secret.
impl fmt::Debug for SecureLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureLink")
            .field("md5", &self.md5)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPRESSION: &str = "$secure_link_expires$uri$remote_addr secret";

    fn credentials<'a>(path: &'a str, query: &'a str, now: u64) -> Credentials<'a> {
        Credentials {
            path,
            query,
            path_token: None,
            address: "127.0.0.1",
            now,
            skew: 0,
        }
    }

    // Example of nginx's manual:
    // echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary |
    // openssl base64 | tr +/ -_ | tr -d =
    const GOOD: &str = "md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";

    #[test]
    fn accepts_example_of_nginx_manual_until_expiry() {
        let link = SecureLink::parse(EXPRESSION, "md5", "expires").unwrap();
        assert_eq!(link.verify(&credentials("/s/link", GOOD, 1)), Ok(()));
        assert_eq!(
            link.verify(&credentials("/s/link", GOOD, 2_147_483_647)),
            Ok(())
        );
        let late = credentials("/s/link", GOOD, 2_147_483_648);
        assert_eq!(link.verify(&late), Err(AccessRefusal::Expired));
        assert_eq!(link.verify(&Credentials { skew: 1, ..late }), Ok(()));
    }

    #[test]
    fn anything_else_is_forbidden() {
        let link = SecureLink::parse(EXPRESSION, "md5", "expires").unwrap();
        let refused = |path, query| {
            let verdict = link.verify(&credentials(path, query, 1));
            assert_eq!(verdict, Err(AccessRefusal::Forbidden), "{path}?{query}");
        };
        refused("/s/link2", GOOD);
        refused("/s/link", "");
        refused("/s/link", "md5=_e4Nc3iduzkWRm01TBBNYw");
        refused("/s/link", "md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483646");
        refused("/s/link", "md5=_e4Nc3iduzkWRm01TBBNYw&expires=%32147483647");
        refused("/s/link", "md5=-e4Nc3iduzkWRm01TBBNYw&expires=2147483647");
        refused("/s/link", "md5=%5fe4Nc3iduzkWRm01TBBNYw&expires=2147483647");
        refused(
            "/s/link",
            "md5=x&md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647",
        );
        let other = Credentials {
            address: "127.0.0.2",
            ..credentials("/s/link", GOOD, 1)
        };
        assert_eq!(link.verify(&other), Err(AccessRefusal::Forbidden));
    }

    #[test]
    fn expression_without_uri_or_secret_is_invalid() {
        let parse = |text| SecureLink::parse(text, "md5", "expires").unwrap_err();
        assert_eq!(parse("$uri"), ExpressionError::NoSecret);
        assert_eq!(parse("$secure_link_expires secret"), ExpressionError::NoUri);
        let unknown = ExpressionError::Unknown("arg_x".into());
        assert_eq!(parse("$uri$arg_x secret"), unknown);
        assert!(SecureLink::parse("${uri}secret", "md5", "e").is_ok());
    }
}
