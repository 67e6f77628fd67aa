//! What the controller of the reference size is told, and what it says.

use headlong_units::{BitRate, MIB};

use super::{OutstandingRead, Shard};
use crate::chain::Chain;
use crate::control::{ControlView, Ended, Seen, SizeChange};

impl Shard {
    /// The controller of the reference size, with the size in use.
    pub fn control_view(&self) -> ControlView {
        self.control.view()
    }

    /// The next change of the reference size that nobody was told of, for a log. Worth calling
    /// after [`Self::handle_timeout`]; the oldest go when nobody does.
    pub fn poll_size_change(&mut self) -> Option<SizeChange> {
        self.control.poll_change()
    }

    pub(super) fn tick_control(&mut self) {
        if self.control.poll_timeout().is_some_and(|at| at <= self.now) {
            let seen = self.seen();
            self.control.handle_tick(&seen);
        }
    }

    /// A read ended: the device was on it since it was issued, or since the one before it ended.
    pub(super) fn measure_read(&mut self, read: &OutstandingRead) {
        let began = read.issued_at.max(self.read_done_at);
        self.read_done_at = self.now;
        if read.is_elsewhere {
            self.control.record_read(read.bytes, self.now.since(began));
        }
    }

    /// A chain ended: how far it went says what any size would have cost for it.
    pub(super) fn remember_chain(&mut self, chain: &Chain) {
        let Some(stream) = self.streams.get(&chain.stream) else {
            return;
        };
        let reference = self.control.sizing().reference_bytes.max(1);
        let rule = u128::from(self.prefetch_bytes(chain, 0)) * u128::from(MIB);
        let horizon = self.pace(chain).bytes_in(self.config.ahead_horizon);
        let ended = Ended {
            read_bytes: chain.position.saturating_sub(chain.start),
            whole_bytes: stream.layout.size_bytes().saturating_sub(chain.start),
            rule_bytes_per_mib: u64::try_from(rule / u128::from(reference)).unwrap_or(u64::MAX),
            ahead_bytes: horizon.max(chain.last_request_bytes),
            sent_bytes: self.stats.bytes_sent,
        };
        self.control.record_chain(ended);
    }

    fn seen(&self) -> Seen {
        let (mut sizes, mut paces, mut rates, mut rated) = (0_u128, 0_u128, 0_u128, 0_u128);
        for (_, chain) in self.chains.iter() {
            sizes += u128::from(self.prefetch_bytes(chain, 0));
            paces += u128::from(self.pace(chain).0);
            if let Some(rate) = self.bit_rate(chain) {
                rates += u128::from(rate.0);
                rated += 1;
            }
        }
        let memory = self.memory_use();
        let chains = self.chains.len() as u64;
        let mean = |sum: u128| u64::try_from(sum / u128::from(chains.max(1))).unwrap_or(u64::MAX);
        Seen {
            now: self.now,
            stats: self.stats,
            chains,
            size_mean_bytes: mean(sizes),
            pace_mean: BitRate(mean(paces)),
            bit_rate_mean: rates
                .checked_div(rated)
                .map(|rate| BitRate(u64::try_from(rate).unwrap_or(u64::MAX))),
            drive: self.control.drive(),
            memory_bytes: self.config.memory_bytes,
            unread_bytes: memory.unread_bytes + memory.filling_bytes,
        }
    }
}
