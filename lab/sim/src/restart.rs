//! Restart of the server in the middle of a run.
//!
//! Memory is lost, replies in progress are cut, and requests during the outage fail to connect.
//! Saved state, if there is any, is restored into the next shard in the same way as in the server.

use headlong_device::{DeviceCore, RestoredChains, SavedChains};
use headlong_engine::{SavedChain, Shard, ShardMeasurements};
use headlong_units::{Duration, Instant};

use crate::resources::SimulatedResources;

/// Time of a restart, and the state that survives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// When the process ends.
    pub at: Instant,
    /// Length of the outage.
    pub down: Duration,
    /// Age of the saved state when the process ends: zero after a graceful shutdown, up to 20 s
    /// after a kill; `None` if no state is saved.
    pub kept: Option<Duration>,
}

/// The latest saved state. Each chain is saved with its stream id, which is stable here.
#[derive(Debug, Default)]
pub(crate) struct SavedState {
    written: Option<Instant>,
    learned: ShardMeasurements,
    chains: Vec<(u64, SavedChain)>,
}

impl SavedState {
    /// Saves the learned state of a shard.
    pub(crate) fn write(&mut self, now: Instant, shard: &Shard) {
        self.written = Some(now);
        self.learned = shard.measurements();
        let chains = shard.saved_chains(usize::MAX).into_iter();
        self.chains = chains.map(|chain| (chain.stream.0, chain)).collect();
    }

    /// Restores the saved state into a new device before its first request.
    pub(crate) fn restore(&self, now: Instant, core: &mut DeviceCore<SimulatedResources>) {
        let Some(written) = self.written else {
            return;
        };
        core.shard_mut().restore_measurements(now, &self.learned);
        let known = SavedChains {
            chains: self.chains.clone(),
            age: now.since(written),
        };
        core.set_restored_chains(RestoredChains::new(now, known));
    }
}
