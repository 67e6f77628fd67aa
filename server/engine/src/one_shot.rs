//! One-shot chains: viewers that sent a single request.
//!
//! A viewer that continues sends its next request within seconds. One that sampled a title, or
//! fetched one segment, does not; it counts as departed after a quarter of the normal idle time.
//! With many such viewers, remembered ones would otherwise dilute the memory share of active
//! chains.

use headlong_units::{Duration, Instant};

use crate::age_queue::{AgeQueue, StayId};
use crate::ids::ChainId;

/// A one-shot reader counts as departed after the idle time divided by this.
const REMEMBERED_FOR_LEFT: u64 = 4;

/// Presence of the reader of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReaderPresence {
    /// It has sent no request yet.
    #[default]
    Expected,
    /// It sent one request; the turn is set while the chain is idle.
    Once(Option<StayId>),
    /// It sent one request, long ago.
    Left,
    /// It sent several requests.
    Stays,
}

impl ReaderPresence {
    fn turn(self) -> Option<StayId> {
        match self {
            Self::Once(turn) => turn,
            _ => None,
        }
    }
}

/// Tracks the one-shot chains.
#[derive(Debug, Default)]
pub(crate) struct OneShotReaders {
    idle: AgeQueue<ChainId>,
    left_count: usize,
}

impl OneShotReaders {
    /// How many readers have left.
    pub(crate) fn left_count(&self) -> usize {
        self.left_count
    }

    /// A request of a chain begins.
    pub(crate) fn note_request(&mut self, stay: &mut ReaderPresence) {
        let next = match *stay {
            ReaderPresence::Expected => ReaderPresence::Once(None),
            _ => ReaderPresence::Stays,
        };
        self.leave(core::mem::replace(stay, next));
    }

    /// A chain has no request in progress from now on.
    pub(crate) fn rests(&mut self, now: Instant, id: ChainId, stay: &mut ReaderPresence) {
        if let ReaderPresence::Once(turn) = stay {
            *turn = Some(self.idle.push(now, id));
        }
    }

    /// Removes stale entries; there are `chains` chains in all.
    pub(crate) fn tidy(
        &mut self,
        chains: usize,
        stay_of: impl Fn(ChainId) -> Option<ReaderPresence>,
    ) {
        self.idle.tidy(chains, |id| stay_of(id)?.turn());
    }

    /// A chain in the state `stay` ended or left that state.
    pub(crate) fn leave(&mut self, stay: ReaderPresence) {
        self.left_count -= usize::from(stay == ReaderPresence::Left);
    }

    /// A chain whose reader has left, given the idle time `gap`; the caller must set its state to
    /// [`ReaderPresence::Left`].
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        gap: Duration,
        stay_of: impl Fn(ChainId) -> Option<ReaderPresence>,
    ) -> Option<ChainId> {
        let (since, id) = self.idle.oldest(|id| stay_of(id)?.turn())?;
        let has_left = now.since(since) > Duration(gap.0 / REMEMBERED_FOR_LEFT);
        has_left.then(|| {
            self.left_count += 1;
            id
        })
    }

    /// The idle chain that has been so for longest, of those whose reader has not left yet.
    pub(crate) fn oldest(
        &mut self,
        stay_of: impl Fn(ChainId) -> Option<ReaderPresence>,
    ) -> Option<ChainId> {
        let oldest = self.idle.oldest(|id| stay_of(id)?.turn());
        oldest.map(|(_, id)| id)
    }

    /// When [`OneShotReaders::poll`] may next return a chain.
    pub(crate) fn poll_timeout(&self, gap: Duration) -> Option<Instant> {
        let after = Duration(gap.0 / REMEMBERED_FOR_LEFT + 1);
        self.idle.since().map(|since| since + after)
    }
}
