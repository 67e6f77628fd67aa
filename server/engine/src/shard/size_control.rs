//! Connects the shard with the controller of the reference size.

use headlong_units::{BitRate, Duration, MIB};

use super::state::Shard;
use crate::chain::Chain;
use crate::control::{ControlView, ControllerInput, EndedChain, SizeChange};
use crate::runs::RunId;

/// Chains that began within this time represent those that begin now.
const LATELY: Duration = Duration::from_secs(90);

impl Shard {
    /// The controller of the reference size, with the size in use.
    pub fn control_view(&self) -> ControlView {
        self.control.view()
    }

    /// The next change of the reference size that was not polled yet, for a log. To be called after
    /// [`Self::handle_timeout`]; the oldest are dropped if they are not polled.
    pub fn poll_size_change(&mut self) -> Option<SizeChange> {
        self.control.poll_change()
    }

    pub(super) fn tick_control(&mut self) {
        if self.control.poll_timeout().is_some_and(|at| at <= self.now) {
            let seen = self.controller_input();
            self.control.handle_tick(&seen);
        }
    }

    /// A read ended: if its run is complete, it is a measurement of the device.
    pub(super) fn measure_run(&mut self, id: RunId) {
        let Some(run) = self.runs.whole(id) else {
            return;
        };
        let (of_each, busy) = (run.of_each_reposition(), run.as_busy());
        if let Some((bytes, took)) = of_each {
            self.control.record_read(bytes, took);
        }
        if self.config.has_arm && !self.queue.is_empty() {
            let overdue = self.queue.deadlines().next() < Some(self.now);
            let lanes_max = self.config.outstanding_reads_max;
            let drive = self.control.best_known_drive();
            self.lanes.record(self.now, busy, drive, overdue, lanes_max);
        }
    }

    /// A chain ended: its length determines what any size would have cost for it.
    pub(super) fn remember_chain(&mut self, chain: &Chain) {
        let Some(stream) = self.streams.get(chain.stream) else {
            return;
        };
        let reference = self.control.sizing().reference_bytes.max(1);
        let rule = u128::from(self.prefetch_bytes(chain, 0)) * u128::from(MIB);
        let horizon = self.pace(chain).bytes_in(self.config.ahead_horizon);
        let ahead_bytes = match self.reads_ahead_now() {
            true => horizon.max(chain.next_request_bytes()),
            false => 0,
        };
        let ended = EndedChain {
            read_bytes: chain.position.saturating_sub(chain.start),
            whole_bytes: stream.layout.size_bytes().saturating_sub(chain.start),
            rule_bytes_per_mib: u64::try_from(rule / u128::from(reference)).unwrap_or(u64::MAX),
            ahead_bytes,
            pace: self.pace_over_all(chain),
            sent_bytes: self.stats.bytes_sent,
        };
        self.control.record_chain(ended);
    }

    /// Reading speed of a chain that ended, without the idle time after it.
    fn pace_over_all(&self, chain: &Chain) -> BitRate {
        let known = self.streams.bit_rate(chain.stream);
        chain
            .believed_bit_rate(known, self.config.pace_default)
            .or(known)
            .or_else(|| chain.pace.long_run(chain.last_seen))
            .or(self.control.bit_rate_mean())
            .unwrap_or(self.config.pace_default)
    }

    fn controller_input(&self) -> ControllerInput {
        let (mut sizes, mut paces, mut rates, mut rated) = (0_u128, 0_u128, 0_u128, 0_u128);
        let chains = self.chains.iter();
        for (_, chain) in chains.filter(|(_, chain)| chain.is_reader()) {
            // No prefetch is larger, whatever bit rate the player reports.
            let size = self
                .prefetch_bytes(chain, 0)
                .min(self.config.memory_bytes / 2);
            sizes += u128::from(size);
            paces += u128::from(self.pace(chain).0);
            let is_recent = self.now.since(chain.pace.first_at()) <= LATELY;
            if is_recent && let Some(rate) = self.bit_rate(chain) {
                rates += u128::from(rate.0);
                rated += 1;
            }
        }
        let memory = self.memory_use();
        let chains = self.reader_count();
        let mean = |sum: u128| u64::try_from(sum / u128::from(chains.max(1))).unwrap_or(u64::MAX);
        ControllerInput {
            now: self.now,
            stats: self.stats,
            chains,
            size_mean_bytes: mean(sizes),
            pace_mean: BitRate(mean(paces)),
            bit_rate_mean: rates
                .checked_div(rated)
                .map(|rate| BitRate(u64::try_from(rate).unwrap_or(u64::MAX))),
            drive: self.control.drive(),
            again_bytes: self.control.again_bytes(),
            memory_bytes: self.config.memory_bytes,
            unread_bytes: memory.unread_bytes + memory.filling_bytes,
        }
    }
}
