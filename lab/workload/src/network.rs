//! Networks of viewers, and how viewers identify themselves.

use alloc::string::{String, ToString as _};

use headlong_units::{BitRate, Duration};
use serde::{Deserialize, Serialize};

/// The network of the viewers of one class (thesis Table 3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkClass {
    /// Its name in results: `high`, `bband`, `medium`.
    pub name: String,
    /// Bandwidth of such a viewer; no limit if `None`.
    pub bandwidth: Option<BitRate>,
    /// One-way delay; a reply arrives no sooner than twice this (thesis 3.2.3: 50 ms).
    pub delay: Duration,
    /// Share of sessions in this class; shares add up to 1.
    pub share: f64,
}

impl NetworkClass {
    /// No limit and no delay: the network of traces that define none.
    pub fn unlimited() -> Self {
        Self {
            name: "unlimited".to_string(),
            bandwidth: None,
            delay: Duration::ZERO,
            share: 1.0,
        }
    }
}

/// How a server can distinguish viewers, apart from their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewerIdentity {
    /// A session id (CMCD `sid`).
    #[default]
    Sid,
    /// The same, and the bit rate of the requested object (CMCD `br`).
    Cmcd,
    /// A persistent connection. All viewers share one address.
    Connection,
    /// None: a connection for each request, and all viewers share one address.
    None,
}

impl ViewerIdentity {
    /// All of them by name.
    pub const ALL: [(&'static str, Self); 4] = [
        (Self::Sid.name(), Self::Sid),
        (Self::Cmcd.name(), Self::Cmcd),
        (Self::Connection.name(), Self::Connection),
        (Self::None.name(), Self::None),
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sid => "sid",
            Self::Cmcd => "cmcd",
            Self::Connection => "connection",
            Self::None => "none",
        }
    }
}
