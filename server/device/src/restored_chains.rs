//! Chains inherited from the previous process, kept until their stream is requested.
//!
//! Stream numbers are not valid across processes, so each chain carries a persistent name of its
//! stream. The chain is passed to the shard when that stream is registered, and dropped if that
//! takes longer than `chain_gap`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_engine::{SavedChain, Shard, StreamId};
use headlong_units::{Duration, Instant};

/// Chains of the previous process.
#[derive(Debug, Clone, Default)]
pub struct SavedChains {
    /// Each chain with the persistent name of its stream.
    pub chains: Vec<(u64, SavedChain)>,
    /// Time since they were saved.
    pub age: Duration,
}

/// Chains of the previous process whose streams have not been requested yet.
#[derive(Debug, Default)]
pub struct RestoredChains {
    by_name: BTreeMap<u64, Vec<SavedChain>>,
    told: Option<(Duration, Instant)>,
}

impl RestoredChains {
    /// The chains as of `now`.
    pub fn new(now: Instant, known: SavedChains) -> Self {
        let mut by_name: BTreeMap<u64, Vec<SavedChain>> = BTreeMap::new();
        for (name, chain) in known.chains {
            by_name.entry(name).or_default().push(chain);
        }
        Self {
            by_name,
            told: Some((known.age, now)),
        }
    }

    /// Age of the chains when they were loaded; `None` if none were.
    pub fn age(&self) -> Option<Duration> {
        self.told.map(|(age, _)| age)
    }

    /// A stream is registered: its chains are passed to the shard.
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
            shard.restore_chain(now, stream, SavedChain { idle, ..chain });
        }
    }
}
