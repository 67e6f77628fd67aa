//! Viewers of the process before, until somebody asks for what they read.
//!
//! Numbers of streams mean nothing in another process, so a chain comes with a name of its stream
//! that lasts. It is told to the shard when that stream is registered, and dropped if that takes
//! longer than a viewer is remembered.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_engine::{LearnedChain, Shard, StreamId};
use headlong_units::{Duration, Instant};

/// Chains of the process before.
#[derive(Debug, Clone, Default)]
pub struct KnownViewers {
    /// Each with the lasting name of its stream.
    pub chains: Vec<(u64, LearnedChain)>,
    /// Time since they were written down.
    pub age: Duration,
}

/// Chains of the process before whose streams nobody has asked for yet.
#[derive(Debug, Default)]
pub struct Returning {
    by_name: BTreeMap<u64, Vec<LearnedChain>>,
    told: Option<(Duration, Instant)>,
}

impl Returning {
    /// What is known at `now`.
    pub fn new(now: Instant, known: KnownViewers) -> Self {
        let mut by_name: BTreeMap<u64, Vec<LearnedChain>> = BTreeMap::new();
        for (name, chain) in known.chains {
            by_name.entry(name).or_default().push(chain);
        }
        Self {
            by_name,
            told: Some((known.age, now)),
        }
    }

    /// How old it was when it was taken over; `None` if nothing was.
    pub fn age(&self) -> Option<Duration> {
        self.told.map(|(age, _)| age)
    }

    /// A stream is registered: its viewers of before are known again.
    pub(crate) fn welcome(
        &mut self,
        now: Instant,
        shard: &mut Shard,
        stream: StreamId,
        name: impl FnOnce() -> Option<u64>,
    ) {
        let Some((age, told_at)) = self.told.filter(|_| !self.by_name.is_empty()) else {
            return;
        };
        let passed = age + now.since(told_at);
        if passed > shard.config().chain_gap {
            self.by_name = BTreeMap::new();
            return;
        }
        let chains = name().and_then(|name| self.by_name.remove(&name));
        for chain in chains.unwrap_or_default() {
            let idle = chain.idle + passed;
            shard.handle_returning(now, stream, LearnedChain { idle, ..chain });
        }
    }
}
