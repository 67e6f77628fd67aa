//! What a device's thread has learned, for the one of the next process.
//!
//! Numbers of streams mean nothing there, so a chain goes with a name of its stream that lasts
//! ([`super::StreamSource::lasting_name`]).

use std::time::Instant as Clock;

use headlong_device::{DeviceCore, KnownViewers, Returning};
use headlong_engine::{Learned, LearnedChain};
use headlong_units::{Duration, Instant};

use super::resources::DiskResources;
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

/// What a device has learned, with the names of what its viewers read.
pub(super) fn tell(core: &DeviceCore<DiskResources>) -> DeviceLearned {
    let named = |chain: LearnedChain| {
        let name = core.sources().get(&chain.stream)?.lasting_name()?;
        Some((name, chain))
    };
    let chains = core.shard().learned_chains(CHAINS_MAX).into_iter();
    DeviceLearned {
        learned: core.shard().learned(),
        chains: chains.filter_map(named).collect(),
        age: Duration::ZERO,
        told_at: Clock::now(),
    }
}

/// The viewers of the process before, as they are known at `now` of the engine.
pub(super) fn returning(
    now: Instant,
    time_scale: TimeScale,
    told: Option<&DeviceLearned>,
) -> Returning {
    let known = |told: &DeviceLearned| KnownViewers {
        chains: told.chains.clone(),
        age: told.age + time_scale.model(told.told_at.elapsed()),
    };
    told.map_or_else(Returning::default, |told| Returning::new(now, known(told)))
}
