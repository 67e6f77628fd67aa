//! SSDs that fail, and come back.

use headlong_units::Instant;

use super::Room;
use crate::spec::{FlashPolicy, Probed, SsdId, SsdState};

impl Room {
    /// A [`super::RoomCommand::Probe`] ended.
    pub fn handle_probed(&mut self, now: Instant, ssd: SsdId, probed: Probed) {
        let Some(index) = self.ssds.iter().position(|of| of.id == ssd) else {
            return;
        };
        if self.ssds[index].conduct.end_probe(now, probed) {
            self.drop_all_filling(index);
        }
    }

    /// The next SSD whose state changed, with its state before and now.
    pub fn poll_change(&mut self) -> Option<(SsdId, SsdState, SsdState)> {
        self.ssds.iter_mut().find_map(|ssd| {
            let (before, now) = ssd.conduct.poll_change()?;
            Some((ssd.id, before, now))
        })
    }

    /// When [`Self::poll_command`] may have something though nothing happened.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let conducts = self
            .ssds
            .iter()
            .filter_map(|ssd| ssd.conduct.poll_timeout());
        // Ours waits for a read to end, which is told.
        let is_paper = self.config.policy != FlashPolicy::Adaptive;
        let waiting = self.ssds.iter();
        let waiting = waiting.filter(|ssd| is_paper && ssd.has_task() && ssd.conduct.may_write());
        conducts
            .chain(waiting.map(|ssd| ssd.conduct.next_epoch()))
            .min()
    }

    /// Blocks that are collected for an SSD that does not end a write are given up.
    pub(super) fn give_up_late_writes(&mut self, now: Instant) {
        for index in 0..self.ssds.len() {
            if self.ssds[index].conduct.give_up_late_write(now) {
                self.drop_all_filling(index);
            }
        }
    }

    /// Nothing that is collected for an SSD will be written.
    pub(super) fn drop_all_filling(&mut self, index: usize) {
        for of in core::mem::take(&mut self.ssds[index].filling) {
            self.drop_filling(index, of.block);
        }
    }
}
