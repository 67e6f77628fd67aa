//! How a player identifies itself to the server.

use serde::{Deserialize, Serialize};

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
