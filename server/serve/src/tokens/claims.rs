//! What a token says, and whether that lets in who asks.
//!
//! A claim of a wrong type makes the whole token wrong, and so does one that is there twice.

use std::net::IpAddr;

use headlong_http::Refused;
use ipnet::IpNet;
use serde::Deserialize;

use super::uri::{self, Uri};

/// Claims that a token may call critical (`cdnicrit`): those that are looked at.
const UNDERSTOOD: [&str; 8] = [
    "iss", "aud", "exp", "nbf", "cdniv", "cdnicrit", "cdniip", "cdniuc",
];

/// Who asks for what, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// What is asked for.
    pub(crate) uri: &'a Uri,
    /// The client's, canonical, if it has one.
    pub(crate) address: Option<IpAddr>,
    /// Seconds since 1970.
    pub(crate) now: u64,
    /// Seconds by which clocks may differ.
    pub(crate) skew: u64,
}

/// Who must have issued a token, and for whom.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// Issuers (`iss`) of which one must be named; empty for any, or none.
    pub(crate) issuers: Vec<String>,
    /// What a token that has an audience (`aud`) must name.
    pub(crate) audience: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// The claims that are looked at. Times are seconds since 1970, and may have a fraction.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    /// The version of the profile; 1 if it is not said.
    cdniv: Option<u64>,
    /// Claims that must be understood, with commas between them.
    cdnicrit: Option<String>,
    /// The address or the network of the client.
    cdniip: Option<String>,
    /// Which URIs it opens.
    cdniuc: Option<String>,
    /// How the next token of a chain is handed out; 0 for not at all, which is all we can do.
    cdnistt: Option<u64>,
}

impl Claims {
    /// What is wrong comes before what is too old.
    pub(super) fn judge(&self, expected: &Expected, asker: &Asker<'_>) -> Result<(), Refused> {
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
            false => Err(Refused::Forbidden),
            true if self.is_over(asker) => Err(Refused::Expired),
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

    /// A token for others is none for who has no name, too (RFC 7519 4.1.3).
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

    fn has_begun(&self, asker: &Asker<'_>) -> bool {
        let now = asker.now.saturating_add(asker.skew) as f64;
        self.nbf.is_none_or(|begin| begin <= now)
    }

    fn is_over(&self, asker: &Asker<'_>) -> bool {
        let now = asker.now.saturating_sub(asker.skew) as f64;
        self.exp.is_some_and(|end| end < now)
    }
}
