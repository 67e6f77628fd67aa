//! Snapshots of a shard: numbers for metrics, and chains for the dashboard.

use alloc::vec::Vec;

use headlong_units::{BitRate, Duration};

use super::state::Shard;
use crate::chain::Chain;
use crate::config::{EngineConfig, Policy};
use crate::health::DeviceState;
use crate::ids::{ChainId, StreamId, ViewerId};
use crate::stats::{MemoryUse, QueueUse, Stats};

/// One live chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainView {
    /// The viewer.
    pub viewer: ViewerId,
    /// The stream.
    pub stream: StreamId,
    /// Bit rate by which its prefetches are sized, if known.
    pub bit_rate: Option<BitRate>,
    /// Bytes from the start of the chain to the end of its requests.
    pub length_bytes: u64,
    /// Consecutive bytes in memory from its position on, whichever chain they were read for.
    pub unread_bytes: u64,
    /// Size of its next prefetch, by the rule.
    pub prefetch_bytes: u64,
    /// Its assumed reading speed.
    pub pace: BitRate,
    /// Time until it runs dry if no more is read for it: its bytes in memory, at its pace, and the
    /// buffer that its player reported.
    pub slack: Duration,
}

impl Shard {
    /// Settings in force.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The same counters by the policy in force when they were counted; they add up to
    /// [`Self::stats`]. Work that a replaced policy had begun counts for its successor.
    pub fn stats_by_policy(&self) -> Vec<(Policy, Stats)> {
        let policy = self.config.sizing.policy;
        self.stats_by_policy.until_now(policy, self.stats)
    }

    /// Division of memory now.
    pub fn memory_use(&self) -> MemoryUse {
        self.memory.usage(self.config.piece_bytes)
    }

    /// Whether replies that are being sent hold most of the memory.
    pub fn is_memory_held_by_clients(&self) -> bool {
        self.memory.sending_count() > self.memory.slot_count() / 2
    }

    /// The queue as it is now.
    pub fn queue_use(&self) -> QueueUse {
        QueueUse {
            jobs: self.queue.len(),
            jobs_demanded: self.queue.jobs().filter(|job| job.demanded).count(),
            jobs_overdue: self
                .queue
                .deadlines()
                .take_while(|at| *at < self.now)
                .count(),
            outstanding_reads: self.runs.reads_outstanding(),
            head_physical: self.runs.head(),
        }
    }

    /// Health of the device. One that hangs on all its outstanding reads is offline until a read
    /// returns.
    pub fn device_state(&self) -> DeviceState {
        if self.is_hung() {
            DeviceState::Offline
        } else {
            self.health.state()
        }
    }

    /// Whether new viewers are being refused.
    pub fn is_overloaded(&self) -> bool {
        let waiting = self.queue.pressing();
        let wait_max = self.bearing.wait_max(self.now, self.config.patience);
        self.load.is_overloaded(waiting, wait_max)
    }

    /// Number of live chains.
    pub fn chain_count(&self) -> usize {
        self.chains.len()
    }

    /// At most `count_max` live chains, those closest to running dry first. One that has reached
    /// the end of its stream is left out. Of very many chains only [`EXAMINED_MAX`] are examined.
    pub fn chain_views(&self, count_max: usize) -> Vec<ChainView> {
        let examined = self.chains.at_most(EXAMINED_MAX);
        // First by the bytes read for each chain: the content of memory is looked up only for those
        // shown.
        let slack = |chain: &Chain| {
            let left = chain.fetched_end.saturating_sub(chain.position);
            self.pace(chain).time_for(left) + chain.buffer(self.now)
        };
        let mut shown: Vec<(Duration, ChainId, &Chain)> = examined
            .filter(|(_, chain)| !self.is_at_end(chain))
            .map(|(id, chain)| (slack(chain), id, chain))
            .collect();
        shown.sort_unstable_by_key(|(slack, id, _)| (*slack, *id));
        shown.truncate(count_max);
        let view =
            |(_, id, chain): (Duration, ChainId, &Chain)| Some((id, self.chain_view(chain)?));
        let mut views: Vec<(ChainId, ChainView)> = shown.into_iter().filter_map(view).collect();
        views.sort_unstable_by_key(|(id, view)| (view.slack, view.viewer, view.stream, *id));
        views.into_iter().map(|(_, view)| view).collect()
    }

    fn is_at_end(&self, chain: &Chain) -> bool {
        let layout = self.streams.layout(chain.stream);
        layout.is_none_or(|layout| chain.position >= layout.size_bytes())
    }

    /// At most `count_max` positions of queued jobs on the device, ascending; a regular sample if
    /// there are more jobs.
    pub fn queue_positions(&self, count_max: usize) -> Vec<u64> {
        let step = self.queue.len().div_ceil(count_max.max(1)).max(1);
        self.queue.positions().step_by(step).collect()
    }

    fn chain_view(&self, chain: &Chain) -> Option<ChainView> {
        let stream = self.streams.get(chain.stream)?;
        let layout = &stream.layout;
        let is_there = |piece: &u32| {
            let slot = self.memory.find((chain.stream, *piece));
            slot.is_some_and(|slot| self.memory.is_ready(slot))
        };
        let first = layout.piece_at_logical(chain.position);
        let last = layout
            .piece_count()
            .min(first.saturating_add(PIECES_SHOWN_MAX));
        let gap = (first..last).find(|piece| !is_there(piece)).unwrap_or(last);
        let unread_bytes = layout.logical_of_piece(gap).saturating_sub(chain.position);
        let pace = self.pace(chain);
        Some(ChainView {
            viewer: chain.viewer,
            stream: chain.stream,
            bit_rate: chain
                .believed_bit_rate(stream.bit_rate, self.config.pace_default)
                .or(stream.bit_rate),
            length_bytes: chain.end - chain.start,
            unread_bytes,
            prefetch_bytes: self.prefetch_bytes(chain, 0),
            pace,
            slack: pace.time_for(unread_bytes) + chain.buffer(self.now),
        })
    }
}

/// How far ahead of a chain its view searches, in pieces: the largest prefetch of usual pieces.
/// Reporting must not cost more than serving.
const PIECES_SHOWN_MAX: u32 = 256;

/// Chains that are searched for those closest to running dry.
const EXAMINED_MAX: usize = 4096;
