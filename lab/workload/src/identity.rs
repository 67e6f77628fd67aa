//! What a player tells about itself.

/// By what a server can tell one viewer from another, beside what each asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// A session id (CMCD `sid`).
    #[default]
    Sid,
    /// The same, and the bit rate of what is asked for (CMCD `br`).
    Cmcd,
    /// A connection that is kept. All come from one address.
    Connection,
    /// Nothing: a connection for each request, and all come from one address.
    None,
}

impl Identity {
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
