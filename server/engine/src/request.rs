//! A request of a viewer, with the hints of its player.

use headlong_units::{BitRate, Duration};

use crate::ids::{ConnectionId, StreamId, ViewerId};

/// Identity of a viewer, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderIdentity {
    /// One player, by its session id.
    Named(ViewerId),
    /// A player without an id: its requests are matched by position.
    Unnamed {
        /// Its address, which any number of other players may share.
        origin: ViewerId,
        /// The connection, if it appears to be the player's own. It may be a proxy's, so it is a
        /// hint.
        connection: Option<ConnectionId>,
    },
}

impl ReaderIdentity {
    /// The player, or its origin.
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

/// A request for bytes of one part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The viewer.
    pub viewer: ReaderIdentity,
    /// The address that holds the reply's memory, which is limited to a share of all; `None` if the
    /// limit does not apply.
    pub holder: Option<ViewerId>,
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in [`crate::StreamSpec::parts`].
    pub part: u32,
    /// First byte, within the part.
    pub offset: u64,
    /// Number of bytes; more than the part holds is an error ([`crate::Refusal::OutOfBounds`]).
    pub length: u64,
    /// Whether the request has no end of range. It then does not tell how much will really be read
    /// (thesis 5.3.2).
    pub open_ended: bool,
    /// How many of its first bytes the same viewer's previous request had, too, if it watches on:
    /// video and audio are interleaved, so consecutive segments of a file share a few kilobytes.
    pub overlap_bytes: u64,
    /// The player's hints.
    pub hints: Hints,
}

/// An announced request (`nor` and `nrr` of CMCD): a hint, without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnouncedRequest {
    /// The viewer.
    pub viewer: ReaderIdentity,
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in [`crate::StreamSpec::parts`].
    pub part: u32,
    /// First byte, within the part.
    pub offset: u64,
    /// Number of bytes; those beyond the end of the part are ignored.
    pub length: u64,
}

/// Player hints by CMCD (CTA-5004); all are optional, and none is trusted beyond a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// `bl`: media in the player's buffer.
    pub buffer: Option<Duration>,
    /// `dl`: how soon the first byte must arrive, from now.
    pub deadline: Option<Duration>,
    /// `su`: the player is starting, seeking or recovering from an empty buffer.
    pub startup: bool,
    /// `br`: bit rate of the requested rendition.
    pub bit_rate: Option<BitRate>,
    /// `mtp`: throughput that the player measures, the fastest it can take bytes.
    pub throughput: Option<BitRate>,
}
