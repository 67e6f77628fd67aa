//! Failover of SSDs: probes, state changes and failed writes.

use headlong_units::Instant;

use super::FlashStore;
use crate::spec::{FlashPolicy, ProbeResult, SsdId, SsdState};

impl FlashStore {
    /// A [`super::StoreCommand::Probe`] has completed.
    pub fn handle_probed(&mut self, now: Instant, ssd: SsdId, probed: ProbeResult) {
        let Some(index) = self.ssds.iter().position(|of| of.id == ssd) else {
            return;
        };
        if self.ssds[index].conduct.end_probe(now, probed) {
            self.drop_all_filling(index);
        }
    }

    /// The next SSD whose state changed, with its old and new state.
    pub fn poll_change(&mut self) -> Option<(SsdId, SsdState, SsdState)> {
        self.ssds.iter_mut().find_map(|ssd| {
            let (before, now) = ssd.conduct.poll_change()?;
            Some((ssd.id, before, now))
        })
    }

    /// When [`Self::poll_command`] may return something without another event.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let conducts = self
            .ssds
            .iter()
            .filter_map(|ssd| ssd.conduct.poll_timeout());
        // The adaptive policy waits for the end of a read, which is an event.
        let is_paper = self.config.policy != FlashPolicy::Adaptive;
        let waiting = self.ssds.iter();
        let waiting = waiting.filter(|ssd| is_paper && ssd.has_task() && ssd.conduct.may_write());
        conducts
            .chain(waiting.map(|ssd| ssd.conduct.next_epoch()))
            .min()
    }

    /// Abandons the unsealed blocks of SSDs with a write that does not complete.
    pub(super) fn give_up_late_writes(&mut self, now: Instant) {
        for index in 0..self.ssds.len() {
            if self.ssds[index].conduct.give_up_late_write(now) {
                self.drop_all_filling(index);
            }
        }
    }

    /// Abandons all unsealed blocks of an SSD.
    pub(super) fn drop_all_filling(&mut self, index: usize) {
        for of in core::mem::take(&mut self.ssds[index].filling) {
            self.drop_filling(index, of.block);
        }
    }
}
