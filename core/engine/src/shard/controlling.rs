//! What the controller of the reference size is told, and what it says.

use headlong_units::BitRate;

use super::{OutstandingRead, Shard};
use crate::control::{ControlView, Seen, SizeChange};

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

    fn seen(&self) -> Seen {
        let (mut sizes, mut paces) = (0_u128, 0_u128);
        for (_, chain) in self.chains.iter() {
            sizes += u128::from(self.prefetch_bytes(chain, 0));
            paces += u128::from(self.pace(chain).0);
        }
        let chains = self.chains.len() as u64;
        let mean = |sum: u128| u64::try_from(sum / u128::from(chains.max(1))).unwrap_or(u64::MAX);
        Seen {
            now: self.now,
            stats: self.stats,
            chains,
            size_mean_bytes: mean(sizes),
            pace_mean: BitRate(mean(paces)),
            drive: self.control.drive(),
        }
    }
}
