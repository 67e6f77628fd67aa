//! What a shard shows of itself: numbers for metrics, and chains for a person to watch.

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
    /// Who reads.
    pub viewer: ViewerId,
    /// What.
    pub stream: StreamId,
    /// Bit rate by which its prefetches are sized, if known.
    pub bit_rate: Option<BitRate>,
    /// Bytes from the start of the chain to where it has asked for.
    pub length_bytes: u64,
    /// Bytes in memory from where it reads on without a gap, whoever they were read for.
    pub unread_bytes: u64,
    /// Size of its next prefetch, by the rule.
    pub prefetch_bytes: u64,
    /// How fast it is taken to read.
    pub pace: BitRate,
    /// Time until it runs dry if nothing more is read for it: what it has in memory, at its pace,
    /// and what its player said it has in its buffer.
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
    /// [`Self::stats`]. What a policy that was changed had begun counts for its successor.
    pub fn stats_by_policy(&self) -> Vec<(Policy, Stats)> {
        let policy = self.config.sizing.policy;
        self.stats_by_policy.until_now(policy, self.stats)
    }

    /// How memory is divided now.
    pub fn memory_use(&self) -> MemoryUse {
        self.memory.usage(self.config.piece_bytes)
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

    /// Health of the device. One that hangs on everything it may do at once is offline until a
    /// read comes back.
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
    /// the end of its stream needs nothing more and is left out. Of very many chains only
    /// [`EXAMINED_MAX`] are looked at.
    pub fn chain_views(&self, count_max: usize) -> Vec<ChainView> {
        let examined = self.chains.at_most(EXAMINED_MAX);
        // By what was read for each first: what memory holds is looked up for those shown only.
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

    /// At most `count_max` positions of queued jobs on the device, upwards; if there are more jobs,
    /// of every so many one.
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

/// How far ahead of a chain its view looks, in pieces: as far as the largest prefetch of usual
/// pieces. Showing must not cost more than serving.
const PIECES_SHOWN_MAX: u32 = 256;

/// Chains among which those closest to running dry are looked for.
const EXAMINED_MAX: usize = 4096;
