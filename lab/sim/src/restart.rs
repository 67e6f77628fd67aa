//! The server ends in the midst of a run and is there again a moment later.
//!
//! What memory held is gone, replies in progress are cut, and who asks meanwhile finds nobody. What
//! was learned is told to the next shard as the server's shell does it, if it is kept.

use headlong_device::{DeviceCore, KnownViewers, Returning};
use headlong_engine::{Learned, LearnedChain, Shard};
use headlong_units::{Duration, Instant};

use crate::resources::Virtual;

/// When the server ends, and what the next one knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// When it ends.
    pub at: Instant,
    /// How long nobody is there.
    pub down: Duration,
    /// How long before its end what it had learned was written down: zero of one that was told to
    /// stop, up to 20 s of one that was killed; `None` if nothing is kept.
    pub kept: Option<Duration>,
}

/// What was written down last, each chain with its stream, whose number lasts here.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    written: Option<Instant>,
    learned: Learned,
    chains: Vec<(u64, LearnedChain)>,
}

impl Kept {
    /// Writes down what a shard has learned.
    pub(crate) fn write(&mut self, now: Instant, shard: &Shard) {
        self.written = Some(now);
        self.learned = shard.learned();
        let chains = shard.learned_chains(usize::MAX).into_iter();
        self.chains = chains.map(|chain| (chain.stream.0, chain)).collect();
    }

    /// Tells a new device what is known before anybody asks.
    pub(crate) fn tell(&self, now: Instant, core: &mut DeviceCore<Virtual>) {
        let Some(written) = self.written else {
            return;
        };
        core.shard_mut().handle_learned(now, &self.learned);
        let known = KnownViewers {
            chains: self.chains.clone(),
            age: now.since(written),
        };
        core.set_returning(Returning::new(now, known));
    }
}
