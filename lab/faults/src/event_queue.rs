//! Future events, ordered by time, then by order of insertion.

use std::collections::BTreeMap;

use headlong_units::Instant;

/// A future event of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A step of the plan.
    Step(usize),
    /// The next request of a session.
    Ask(usize),
    /// The look-up or stream description of an exchange has completed.
    GoOn(u64),
    /// A socket has accepted the first piece of an exchange.
    Taken(u64),
    /// A viewer runs out of patience.
    Leave(u64),
    /// The server disconnects a stalled reader.
    CutOff(u64),
    /// The next part of the flash recovery of a disk is done, for this process.
    Recovered(usize, u32),
    /// A disk is notified that a stream was removed.
    Gone(usize, u64, u32),
    /// A fault may have expired.
    Heal,
}

/// Future events.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    things: BTreeMap<(Instant, u64), Event>,
    planned: u64,
}

impl EventQueue {
    pub(crate) fn plan(&mut self, at: Instant, what: Event) {
        self.planned += 1;
        self.things.insert((at, self.planned), what);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.things.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Event> {
        let entry = self.things.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }
}
