//! The server ends in the midst of a run and is there again a moment later.
//!
//! What memory held is gone, replies in progress are cut, and who asks meanwhile finds nobody. What
//! was learned is told to the next shard as the server's shell does it, if it is kept.

use std::collections::BTreeMap;

use headlong_engine::{Learned, LearnedChain, Shard, StreamId};
use headlong_units::{Duration, Instant};

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

/// What was written down last, and the chains of it whose streams nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    written: Option<Instant>,
    learned: Learned,
    chains: BTreeMap<StreamId, Vec<LearnedChain>>,
}

impl Kept {
    /// Writes down what a shard has learned.
    pub(crate) fn write(&mut self, now: Instant, shard: &Shard) {
        self.written = Some(now);
        self.learned = shard.learned();
        self.chains = BTreeMap::new();
        for chain in shard.learned_chains(usize::MAX) {
            self.chains.entry(chain.stream).or_default().push(chain);
        }
    }

    /// Tells a new shard what is known before anybody asks.
    pub(crate) fn tell(&self, now: Instant, shard: &mut Shard) {
        if self.written.is_some() {
            shard.handle_learned(now, &self.learned);
        }
    }

    /// A stream is registered: its viewers of before are known again.
    pub(crate) fn welcome(&mut self, now: Instant, shard: &mut Shard, stream: StreamId) {
        let Some(written) = self.written else {
            return;
        };
        for chain in self.chains.remove(&stream).unwrap_or_default() {
            let idle = chain.idle + now.since(written);
            shard.handle_returning(now, stream, LearnedChain { idle, ..chain });
        }
    }
}
