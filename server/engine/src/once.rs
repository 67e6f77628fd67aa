//! Chains whose reader asked once, and has left, it seems.
//!
//! The one idea: who watches on asks again within seconds, but who looked in, or wanted one segment,
//! never does. Where many come for so little, those who have left would be most of the readers for as
//! long as they are remembered, and leave the others with a small share of memory.

use headlong_units::{Duration, Instant};

use crate::age::{AgeQueue, Turn};
use crate::ids::ChainId;

/// Of the time for which a reader is remembered, the part after which one that asked once has left.
const REMEMBERED_FOR_LEFT: u64 = 4;

/// Whether the reader of a chain is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stay {
    /// It has not asked yet.
    #[default]
    Expected,
    /// It asked once; the turn is that of a chain that is idle.
    Once(Option<Turn>),
    /// It asked once, long ago.
    Left,
    /// It asked several times.
    Stays,
}

impl Stay {
    fn turn(self) -> Option<Turn> {
        match self {
            Self::Once(turn) => turn,
            _ => None,
        }
    }
}

/// Those that asked once.
#[derive(Debug, Default)]
pub(crate) struct Once {
    idle: AgeQueue<ChainId>,
    left_count: usize,
}

impl Once {
    /// How many have left.
    pub(crate) fn left_count(&self) -> usize {
        self.left_count
    }

    /// A chain's request begins.
    pub(crate) fn asks(&mut self, stay: &mut Stay) {
        let next = match *stay {
            Stay::Expected => Stay::Once(None),
            _ => Stay::Stays,
        };
        self.leave(core::mem::replace(stay, next));
    }

    /// A chain has no request in progress from now on.
    pub(crate) fn rests(&mut self, now: Instant, id: ChainId, stay: &mut Stay) {
        if let Stay::Once(turn) = stay {
            *turn = Some(self.idle.push(now, id));
        }
    }

    /// Forgets those that do not rest any more, of so many chains.
    pub(crate) fn tidy(&mut self, chains: usize, stay_of: impl Fn(ChainId) -> Option<Stay>) {
        self.idle.tidy(chains, |id| stay_of(id)?.turn());
    }

    /// A chain that was in this state is over.
    pub(crate) fn leave(&mut self, stay: Stay) {
        self.left_count -= usize::from(stay == Stay::Left);
    }

    /// A chain whose reader has left by now, by a memory of `gap`; it is to be told so.
    pub(crate) fn poll(
        &mut self,
        (now, gap): (Instant, Duration),
        stay_of: impl Fn(ChainId) -> Option<Stay>,
    ) -> Option<ChainId> {
        let (since, id) = self.idle.oldest(|id| stay_of(id)?.turn())?;
        let has_left = now.since(since) > Duration(gap.0 / REMEMBERED_FOR_LEFT);
        has_left.then(|| {
            self.left_count += 1;
            id
        })
    }

    /// When [`Once::poll`] may next answer.
    pub(crate) fn poll_timeout(&self, gap: Duration) -> Option<Instant> {
        let after = Duration(gap.0 / REMEMBERED_FOR_LEFT + 1);
        self.idle.since().map(|since| since + after)
    }
}
