//! What a device's thread has learned, for the one of the next process.
//!
//! Numbers of streams mean nothing there, so a chain goes with a name of its stream that lasts
//! ([`super::StreamSource::lasting_name`]); it is told to the shard again when that stream is
//! registered, and forgotten if that takes longer than a viewer is remembered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_engine::{Learned, LearnedChain, Shard, StreamId};
use headlong_units::{Duration, Instant};

use super::StreamSource;
use crate::time_scale::TimeScale;

/// Most chains that are told to the next process.
const CHAINS_MAX: usize = 16_384;

/// What was learned of one device.
#[derive(Debug, Clone)]
pub struct DeviceLearned {
    /// By its shard.
    pub learned: Learned,
    /// Its live chains, each with the name of its stream that lasts.
    pub chains: Vec<(u64, LearnedChain)>,
    /// Model time since it was told by the process before this.
    pub age: Duration,
    /// When that age was measured.
    pub told_at: Clock,
}

/// What a shard has learned, with the names of what its viewers read.
pub(super) fn tell(
    shard: &Shard,
    sources: &HashMap<StreamId, Arc<dyn StreamSource>>,
) -> DeviceLearned {
    let named = |chain: LearnedChain| {
        let name = sources.get(&chain.stream)?.lasting_name()?;
        Some((name, chain))
    };
    let chains = shard.learned_chains(CHAINS_MAX).into_iter();
    DeviceLearned {
        learned: shard.learned(),
        chains: chains.filter_map(named).collect(),
        age: Duration::ZERO,
        told_at: Clock::now(),
    }
}

/// Chains of the last process whose streams nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    by_name: HashMap<u64, Vec<LearnedChain>>,
    told: Option<(Duration, Clock)>,
}

impl Returning {
    pub(super) fn new(told: Option<&DeviceLearned>) -> Self {
        let mut by_name: HashMap<u64, Vec<LearnedChain>> = HashMap::new();
        for (name, chain) in told.iter().flat_map(|told| &told.chains) {
            by_name.entry(*name).or_default().push(*chain);
        }
        Self {
            by_name,
            told: told.map(|told| (told.age, told.told_at)),
        }
    }

    /// How old what was taken over was then; `None` if nothing was.
    pub(super) fn age(&self) -> Option<Duration> {
        self.told.map(|(age, _)| age)
    }

    /// A stream is registered: its viewers of before are known again.
    pub(super) fn welcome(
        &mut self,
        (now, time_scale): (Instant, TimeScale),
        shard: &mut Shard,
        stream: StreamId,
        source: &dyn StreamSource,
    ) {
        let Some((age, told_at)) = self.told.filter(|_| !self.by_name.is_empty()) else {
            return;
        };
        let passed = age + time_scale.model(told_at.elapsed());
        if passed > shard.config().chain_gap {
            self.by_name = HashMap::new();
            return;
        }
        let name = source.lasting_name();
        let chains = name.and_then(|name| self.by_name.remove(&name));
        for chain in chains.unwrap_or_default() {
            let idle = chain.idle + passed;
            shard.handle_returning(now, stream, LearnedChain { idle, ..chain });
        }
    }
}
