//! What will happen, in order of time and then of being planned.

use std::collections::BTreeMap;

use headlong_units::Instant;

/// Something that will happen in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A step of the plan.
    Step(usize),
    /// The next request of a session.
    Ask(usize),
    /// An exchange gets on: its look-up or description has come.
    GoOn(u64),
    /// A socket has taken the first piece of an exchange.
    Taken(u64),
    /// A viewer loses patience.
    Leave(u64),
    /// The server cuts off a reader that takes nothing.
    CutOff(u64),
    /// What is on flash has been looked at for a disk, by this process.
    Recovered(usize, u32),
    /// A disk is told that a stream has gone.
    Gone(usize, u64, u32),
    /// Some illness may be over.
    Heal,
}

/// Things to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    things: BTreeMap<(Instant, u64), Happening>,
    planned: u64,
}

impl Queue {
    pub(crate) fn plan(&mut self, at: Instant, what: Happening) {
        self.planned += 1;
        self.things.insert((at, self.planned), what);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.things.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Happening> {
        let entry = self.things.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }
}
