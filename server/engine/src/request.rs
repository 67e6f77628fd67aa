//! What a viewer asks for, and what its player said about how soon it needs it.

use headlong_units::{BitRate, Duration};

use crate::ids::{ConnectionId, StreamId, ViewerId};

/// Who asks, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// One player, by the id of its session.
    Named(ViewerId),
    /// A player without an id: what it reads tells whose request is whose.
    Unnamed {
        /// Where it comes from (an address), which any number of others may come from too.
        origin: ViewerId,
        /// The connection, if it is the player's own as far as one can see. It may be a proxy's, so
        /// it is a hint.
        connection: Option<ConnectionId>,
    },
}

impl Identity {
    /// The player, or where it comes from.
    pub(crate) fn viewer(self) -> ViewerId {
        match self {
            Self::Named(viewer) => viewer,
            Self::Unnamed { origin, .. } => origin,
        }
    }

    /// The connection of a player without an id.
    pub(crate) fn connection(self) -> Option<ConnectionId> {
        match self {
            Self::Named(_) => None,
            Self::Unnamed { connection, .. } => connection,
        }
    }
}

/// A viewer wants some bytes of one part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub viewer: Identity,
    /// The address that holds the reply's memory, which is a share of all at most; `None` where that
    /// does not count.
    pub holder: Option<ViewerId>,
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in [`crate::StreamSpec::parts`].
    pub part: u32,
    /// First byte wanted, within the part.
    pub offset: u64,
    /// Bytes wanted; more than the part holds is an error ([`crate::Refusal::OutOfBounds`]).
    pub length: u64,
    /// Whether the viewer asked for everything from `offset` on (no end of range), which tells
    /// nothing about how much it will really read (thesis 5.3.2).
    pub open_ended: bool,
    /// What the player said.
    pub hints: Hints,
}

/// What a viewer will want next, as its player says (`nor` and `nrr` of CMCD): a hint, which makes no
/// reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Who says it.
    pub viewer: Identity,
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in [`crate::StreamSpec::parts`].
    pub part: u32,
    /// First byte that will be wanted, within the part.
    pub offset: u64,
    /// Bytes that will be wanted; what the part has not is passed over.
    pub length: u64,
}

/// What the player said with CMCD (CTA-5004); all of it is optional and none of it is trusted to
/// be more than a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// `bl`: media in the player's buffer.
    pub buffer: Option<Duration>,
    /// `dl`: how soon the first byte must be there, from now.
    pub deadline: Option<Duration>,
    /// `su`: the player is starting, seeking or recovering from an empty buffer.
    pub startup: bool,
    /// `br`: bit rate of the rendition asked for.
    pub bit_rate: Option<BitRate>,
    /// `mtp`: throughput that the player measures, the fastest it can take bytes.
    pub throughput: Option<BitRate>,
}
