//! Export and import of the state that a device learned, for the next process.
//!
//! Stream numbers are not valid across processes, so each chain carries a persistent name of its
//! stream ([`super::StreamSource::lasting_name`]).

use std::time::Instant as Clock;

use headlong_device::{DeviceCore, Returning, SavedChains};
use headlong_engine::{Learned, SavedChain};
use headlong_units::{Duration, Instant};

use super::resources::DiskResources;
use crate::time_scale::TimeScale;

/// Upper limit of chains that are exported.
const CHAINS_MAX: usize = 16_384;

/// Learned state of one device.
#[derive(Debug, Clone)]
pub struct LearnedState {
    /// State of the shard.
    pub learned: Learned,
    /// Live chains, each with the persistent name of its stream.
    pub chains: Vec<(u64, SavedChain)>,
    /// Model time between the export and `told_at`.
    pub age: Duration,
    /// When `age` was measured.
    pub told_at: Clock,
}

/// Exports the learned state, with the persistent names of its streams.
pub(super) fn tell(core: &DeviceCore<DiskResources>) -> LearnedState {
    let named = |chain: SavedChain| {
        let name = core.sources().get(&chain.stream)?.lasting_name()?;
        Some((name, chain))
    };
    let chains = core.shard().learned_chains(CHAINS_MAX).into_iter();
    LearnedState {
        learned: core.shard().learned(),
        chains: chains.filter_map(named).collect(),
        age: Duration::ZERO,
        told_at: Clock::now(),
    }
}

/// Imports the viewers of the previous process, as of `now`.
pub(super) fn returning(
    now: Instant,
    time_scale: TimeScale,
    told: Option<&LearnedState>,
) -> Returning {
    let known = |told: &LearnedState| SavedChains {
        chains: told.chains.clone(),
        age: told.age + time_scale.model(told.told_at.elapsed()),
    };
    told.map_or_else(Returning::default, |told| Returning::new(now, known(told)))
}
