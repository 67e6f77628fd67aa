//! Claims of a token, and whether they permit a request. A claim with the wrong type, or a
//! duplicate one, makes the whole token invalid.

use std::net::IpAddr;

use headlong_http::AccessRefusal;
use ipnet::IpNet;
use serde::Deserialize;

use super::uri::{self, Uri};

/// Claims that may be listed as critical (`cdnicrit`), because they are checked.
const UNDERSTOOD: [&str; 8] = [
    "iss", "aud", "exp", "nbf", "cdniv", "cdnicrit", "cdniip", "cdniuc",
];

/// A request to check.
#[derive(Debug, Clone, Copy)]
pub struct TokenRequest<'a> {
    /// The requested URI.
    pub uri: &'a Uri,
    /// The client's address in canonical form, if it has one.
    pub address: Option<IpAddr>,
    /// Seconds since 1970.
    pub now: u64,
    /// Tolerated clock difference in seconds.
    pub skew: u64,
}

/// Expected issuer and audience.
#[derive(Debug, Clone, Default)]
pub struct ExpectedClaims {
    /// Accepted issuers (`iss`); empty for any, or none.
    pub issuers: Vec<String>,
    /// Audience that a token with `aud` must name.
    pub audience: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// The claims that are checked. Times are seconds since 1970 and may have fractions.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    /// Version of the profile; 1 by default.
    cdniv: Option<u64>,
    /// Claims that must be understood, separated by commas.
    cdnicrit: Option<String>,
    /// Address or network of the client.
    cdniip: Option<String>,
    /// URIs that the token permits.
    cdniuc: Option<String>,
    /// Transport of the next token of a chain; only 0, for none, is supported.
    cdnistt: Option<u64>,
}

impl Claims {
    /// An invalid claim takes precedence over expiry.
    pub(super) fn judge(
        &self,
        expected: &ExpectedClaims,
        asker: &TokenRequest<'_>,
    ) -> Result<(), AccessRefusal> {
        let is_for_this = self.is_understood()
            && self.is_by_one_of(&expected.issuers)
            && self.is_for(expected.audience.as_deref())
            && self.is_of(asker.address)
            && self.has_begun(asker)
            && self
                .cdniuc
                .as_deref()
                .is_some_and(|container| uri::holds(container, asker.uri));
        match is_for_this {
            false => Err(AccessRefusal::Forbidden),
            true if self.is_over(asker) => Err(AccessRefusal::Expired),
            true => Ok(()),
        }
    }

    fn is_understood(&self) -> bool {
        let critical = self.cdnicrit.as_deref().unwrap_or_default();
        let mut names = critical.split(',').map(str::trim);
        self.cdniv.is_none_or(|version| version == 1)
            && self.cdnistt.is_none_or(|transport| transport == 0)
            && names.all(|name| name.is_empty() || UNDERSTOOD.contains(&name))
    }

    fn is_by_one_of(&self, issuers: &[String]) -> bool {
        issuers.is_empty() || self.iss.as_ref().is_some_and(|iss| issuers.contains(iss))
    }

    /// Without a configured audience, a token with one is refused (RFC 7519 4.1.3).
    fn is_for(&self, audience: Option<&str>) -> bool {
        let named = |name: &String| Some(name.as_str()) == audience;
        match &self.aud {
            None => true,
            Some(Audience::One(name)) => named(name),
            Some(Audience::Several(names)) => names.iter().any(named),
        }
    }

    fn is_of(&self, address: Option<IpAddr>) -> bool {
        let Some(text) = &self.cdniip else {
            return true;
        };
        let network = text.parse::<IpAddr>().map(IpNet::from);
        let network = network.ok().or_else(|| text.parse().ok());
        network
            .zip(address)
            .is_some_and(|(network, address): (IpNet, _)| network.contains(&address))
    }

    fn has_begun(&self, asker: &TokenRequest<'_>) -> bool {
        let now = asker.now.saturating_add(asker.skew) as f64;
        self.nbf.is_none_or(|begin| begin <= now)
    }

    fn is_over(&self, asker: &TokenRequest<'_>) -> bool {
        let now = asker.now.saturating_sub(asker.skew) as f64;
        self.exp.is_some_and(|end| end < now)
    }
}
