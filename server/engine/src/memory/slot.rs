//! One slot of memory: which piece it holds, for whom, and where it stands in the order of eviction.

use core::cmp::Reverse;

use headlong_units::{Duration, Instant};

use crate::ids::{ChainId, Slot, StreamId};

/// One piece of one stream.
pub(crate) type PieceKey = (StreamId, u32);

/// What became of a piece that had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) key: PieceKey,
    pub(crate) was_read: bool,
    /// How long it had been in memory.
    pub(crate) age: Duration,
    /// The chain it was kept for, if it had to be taken from a live one.
    pub(crate) owner: Option<ChainId>,
}

/// A piece that is in memory, and what for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) key: PieceKey,
    pub(crate) slot: Slot,
    /// The chain it is kept for.
    pub(crate) owner: Option<ChainId>,
    /// When a viewer behind will want it.
    pub(crate) wanted_at: Option<Instant>,
    pub(crate) was_read: bool,
    pub(crate) filled_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Filling,
    Ready,
}

/// Where a Read slot stands in the order of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// Never read, and whom it was read for has left; or nobody is known to want it. In the list of
    /// its kind, by last use.
    InList(u8),
    /// A viewer behind will want it, at this time; the latest goes first, of equals by last use.
    Wanted(Reverse<Instant>, u64),
}

/// The chain that a piece is kept for, in no more room than its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u64);

impl Owner {
    pub(super) const NOBODY: Self = Self(u64::MAX);

    pub(super) fn of(chain: Option<ChainId>) -> Self {
        chain.map_or(Self::NOBODY, |chain| Self(chain.0))
    }

    pub(super) fn chain(self) -> Option<ChainId> {
        (self != Self::NOBODY).then_some(ChainId(self.0))
    }
}

/// All of a slot, in one line of the processor's cache: whoever comes to a slot comes from another
/// one, so each line is a miss.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct SlotState {
    pub(super) stream: StreamId,
    pub(super) piece: u32,
    pub(super) sending: u32,
    pub(super) owner: Owner,
    pub(super) filled_at: Instant,
    pub(super) rank: Option<Rank>,
    /// Where what was sent of it ends, in bytes from its start; what lies before counts as sent.
    pub(super) sent_to: u32,
    pub(super) state: State,
    /// Flash has it too.
    pub(super) is_on_flash: bool,
}

const _: () = assert!(size_of::<SlotState>() == 64);

impl SlotState {
    /// Nothing is in it.
    pub(super) const EMPTY: Self = Self {
        stream: StreamId(0),
        piece: 0,
        sending: 0,
        owner: Owner::NOBODY,
        filled_at: Instant::ZERO,
        rank: None,
        sent_to: 0,
        state: State::Free,
        is_on_flash: false,
    };

    pub(super) fn key(&self) -> PieceKey {
        (self.stream, self.piece)
    }

    pub(super) fn is_owned(&self) -> bool {
        self.owner != Owner::NOBODY
    }

    pub(super) fn was_read(&self) -> bool {
        self.sent_to > 0
    }
}
