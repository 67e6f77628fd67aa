//! State of one slot: its piece, its owner, and its rank in the order of eviction.

use core::cmp::Reverse;

use headlong_units::{Duration, Instant};

use crate::ids::{ChainId, Slot, StreamId};
use crate::popularity::Popularity;

/// One piece of one stream.
pub(crate) type PieceKey = (StreamId, u32);

/// An evicted piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvictedPiece {
    pub(crate) key: PieceKey,
    pub(crate) was_read: bool,
    /// How long it had been in memory.
    pub(crate) age: Duration,
    /// Its owner, if it was taken from a live chain.
    pub(crate) owner: Option<ChainId>,
}

/// A piece in memory, with its owner and rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedPiece {
    pub(crate) key: PieceKey,
    pub(crate) slot: Slot,
    /// The chain that owns it.
    pub(crate) owner: Option<ChainId>,
    /// When a viewer behind will want it.
    pub(crate) wanted_at: Option<Instant>,
    pub(crate) popularity: Popularity,
    pub(crate) was_read: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotPhase {
    Free,
    Filling,
    Ready,
}

/// Rank of a Read slot in the order of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvictionRank {
    /// In one of the lists by last use: never sent and abandoned by its owner, or sent.
    InList(u8),
    /// Viewers are expected as often as its segment was read; the least popular is evicted first,
    /// equals by last use.
    Popular(Popularity, u64),
    /// A viewer behind will want it, at this time; the latest is evicted first, equals by last use.
    Wanted(Reverse<Instant>, u64),
}

/// Optional id of the owning chain, in the size of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnerId(u64);

impl OwnerId {
    pub(super) const NOBODY: Self = Self(u64::MAX);

    pub(super) fn of(chain: Option<ChainId>) -> Self {
        chain.map_or(Self::NOBODY, |chain| Self(chain.0))
    }

    pub(super) fn chain(self) -> Option<ChainId> {
        (self != Self::NOBODY).then_some(ChainId(self.0))
    }
}

/// All state of a slot, in one cache line: slots are visited in random order, so each line is a
/// miss.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct SlotState {
    pub(super) stream: StreamId,
    pub(super) piece: u32,
    pub(super) sending: u32,
    pub(super) owner: OwnerId,
    pub(super) filled_at: Instant,
    pub(super) rank: Option<EvictionRank>,
    /// End of the bytes that were sent, from the piece's start; all bytes before it count as sent.
    pub(super) sent_to: u32,
    pub(super) state: SlotPhase,
    /// The piece is also on flash.
    pub(super) is_on_flash: bool,
}

const _: () = assert!(size_of::<SlotState>() == 64);

impl SlotState {
    /// An empty slot.
    pub(super) const EMPTY: Self = Self {
        stream: StreamId(0),
        piece: 0,
        sending: 0,
        owner: OwnerId::NOBODY,
        filled_at: Instant::ZERO,
        rank: None,
        sent_to: 0,
        state: SlotPhase::Free,
        is_on_flash: false,
    };

    pub(super) fn key(&self) -> PieceKey {
        (self.stream, self.piece)
    }

    pub(super) fn is_owned(&self) -> bool {
        self.owner != OwnerId::NOBODY
    }

    pub(super) fn was_read(&self) -> bool {
        self.sent_to > 0
    }
}
