//! Export and import of the state that a device learned, for the next process.
//!
//! Stream numbers are not valid across processes, so each chain carries a persistent name of its
//! stream ([`super::StreamSource::lasting_name`]).

use std::time::Instant as Clock;

use headlong_device::{DeviceCore, RestoredChains, SavedChains};
use headlong_engine::{SavedChain, ShardMeasurements};
use headlong_kernel::time_scale::TimeScale;
use headlong_units::{Duration, Instant};

use super::resources::DiskResources;

/// Upper limit of chains that are exported.
const CHAINS_MAX: usize = 16_384;

/// Learned state of one device.
#[derive(Debug, Clone)]
pub struct LearnedState {
    /// State of the shard.
    pub learned: ShardMeasurements,
    /// Live chains, each with the persistent name of its stream.
    pub chains: Vec<(u64, SavedChain)>,
    /// Model time between the export and `told_at`.
    pub age: Duration,
    /// When `age` was measured.
    pub told_at: Clock,
}

/// Exports the learned state, with the persistent names of its streams.
pub(super) fn export(core: &DeviceCore<DiskResources>) -> LearnedState {
    let named = |chain: SavedChain| {
        let name = core.sources().get(&chain.stream)?.lasting_name()?;
        Some((name, chain))
    };
    let chains = core.shard().saved_chains(CHAINS_MAX).into_iter();
    LearnedState {
        learned: core.shard().measurements(),
        chains: chains.filter_map(named).collect(),
        age: Duration::ZERO,
        told_at: Clock::now(),
    }
}

/// Imports the viewers of the previous process, as of `now`.
pub(super) fn restored_chains(
    now: Instant,
    time_scale: TimeScale,
    told: Option<&LearnedState>,
) -> RestoredChains {
    let known = |told: &LearnedState| SavedChains {
        chains: told.chains.clone(),
        age: told.age + time_scale.model(told.told_at.elapsed()),
    };
    told.map_or_else(RestoredChains::default, |told| {
        RestoredChains::new(now, known(told))
    })
}
