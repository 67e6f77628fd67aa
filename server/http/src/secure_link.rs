//! Links as nginx's `secure_link` and `secure_link_md5` sign them, so that a site that moves keeps
//! its URLs.
//!
//! The one idea: the same expression over the same variables gives the same text, and its MD5 in
//! URL-safe base64 is the token. Where nginx is lenient (names of arguments in any case, the first
//! of two, padding, spare bits of the last letter) this is too, since its URLs are out there.
//! MD5 here is what those sites have, not what a new one should take: see [`crate::SignedUrl`].

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::asker::{Asker, Refused, raw_value};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Letters of 16 bytes in base64, padded.
const TOKEN_LETTERS_MAX: usize = 24;

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Expires,
    Uri,
    RemoteAddr,
}

/// The expression of `secure_link_md5` with the names of the two arguments of `secure_link`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecureLink {
    parts: Vec<Part>,
    md5: String,
    expires: String,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpressionError {
    /// A variable that is not known, by name.
    Unknown(String),
    /// No `$uri`: one token would open everything.
    NoUri,
    /// Nothing but variables: anybody could make tokens.
    NoSecret,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "`${name}` is not known; $secure_link_expires, $uri and $remote_addr are"
            ),
            Self::NoUri => f.write_str("has no $uri: one token would open every file; add it"),
            Self::NoSecret => f.write_str("holds no secret: anybody could sign; add one"),
        }
    }
}

impl SecureLink {
    /// Reads an expression such as `$secure_link_expires$uri$remote_addr secret`.
    ///
    /// # Errors
    /// If it names another variable, has no `$uri` or no secret.
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
                "secure_link_expires" => Part::Expires,
                "uri" => Part::Uri,
                "remote_addr" => Part::RemoteAddr,
                _ => return Err(ExpressionError::Unknown(name.into())),
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(core::mem::take(&mut literal)));
            }
            parts.push(part);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let is_secret =
            |part: &Part| matches!(part, Part::Literal(text) if !text.trim().is_empty());
        if !parts.contains(&Part::Uri) {
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

    /// Whether the asker may have the path; without `$secure_link_expires` links do not expire.
    ///
    /// # Errors
    /// Forbidden for a wrong token, expired for a right one that is too old.
    pub fn verify(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        let token = raw_value(asker.query, &self.md5).ok_or(Refused::Forbidden)?;
        let text = match self.parts.contains(&Part::Expires) {
            true => raw_value(asker.query, &self.expires).ok_or(Refused::Forbidden)?,
            false => "",
        };
        if token.len() > TOKEN_LETTERS_MAX {
            return Err(Refused::Forbidden);
        }
        let token = LENIENT.decode(token).map_err(|_| Refused::Forbidden)?;
        let mut hash = Md5::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => hash.update(literal),
                Part::Expires => hash.update(text),
                Part::Uri => hash.update(asker.path),
                Part::RemoteAddr => hash.update(asker.address),
            }
        }
        let right = hash.finalize();
        if !bool::from(right.as_slice().ct_eq(token.as_slice())) {
            return Err(Refused::Forbidden);
        }
        match self.parts.contains(&Part::Expires) {
            true => asker.in_time(text),
            false => Ok(()),
        }
    }

    pub(crate) fn token_argument(&self) -> &str {
        &self.md5
    }
}

/// Without the secret.
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

    fn asks<'a>(path: &'a str, query: &'a str, now: u64) -> Asker<'a> {
        Asker {
            path,
            query,
            path_token: None,
            address: "127.0.0.1",
            now,
            skew: 0,
        }
    }

    // As nginx documents it: echo -n '2147483647/s/link127.0.0.1 secret' |
    //     openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =
    const GOOD: &str = "md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";

    #[test]
    fn the_example_of_the_manual_of_nginx_is_accepted_until_it_expires() {
        let link = SecureLink::parse(EXPRESSION, "md5", "expires").unwrap();
        assert_eq!(link.verify(&asks("/s/link", GOOD, 1)), Ok(()));
        assert_eq!(link.verify(&asks("/s/link", GOOD, 2_147_483_647)), Ok(()));
        let late = asks("/s/link", GOOD, 2_147_483_648);
        assert_eq!(link.verify(&late), Err(Refused::Expired));
        assert_eq!(link.verify(&Asker { skew: 1, ..late }), Ok(()));
    }

    #[test]
    fn anything_else_is_forbidden() {
        let link = SecureLink::parse(EXPRESSION, "md5", "expires").unwrap();
        let refused = |path, query| {
            let verdict = link.verify(&asks(path, query, 1));
            assert_eq!(verdict, Err(Refused::Forbidden), "{path}?{query}");
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
        let other = Asker {
            address: "127.0.0.2",
            ..asks("/s/link", GOOD, 1)
        };
        assert_eq!(link.verify(&other), Err(Refused::Forbidden));
    }

    #[test]
    fn an_expression_that_protects_nothing_is_a_mistake() {
        let parse = |text| SecureLink::parse(text, "md5", "expires").unwrap_err();
        assert_eq!(parse("$uri"), ExpressionError::NoSecret);
        assert_eq!(parse("$secure_link_expires secret"), ExpressionError::NoUri);
        let unknown = ExpressionError::Unknown("arg_x".into());
        assert_eq!(parse("$uri$arg_x secret"), unknown);
        assert!(SecureLink::parse("${uri}secret", "md5", "e").is_ok());
    }
}
