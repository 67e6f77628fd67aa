//! A device's part of the flash tier: it takes part once what was there is known, and what it is told and
//! tells is counted.

use headlong_engine::FlashCommand;
use headlong_units::Instant;

use super::Device;
use crate::around::{Around, FlashTold};
use crate::check::Check;

impl Device {
    /// The tier takes part from now on, or some more is known of what is there. Answers whether there
    /// is more.
    pub(crate) fn attach(&mut self, around: &mut Around<'_>) -> bool {
        let Some(port) = &mut self.port else {
            return false;
        };
        if !self.is_attached {
            let spec = port.spec(around.ssds);
            self.is_attached = true;
            let attached = self.shard.attach_flash(around.now, &spec, Vec::new());
            around
                .oracle
                .expect(attached.is_ok(), Check::Panic, around.now, || {
                    format!("a tier that was formatted takes no part: {attached:?}")
                });
        } else if let Some(blocks) = port.recover(around) {
            self.shard.handle_flash_recovered(around.now, blocks);
        } else {
            let (written, fresh) = (port.written_bytes, port.fresh.clone());
            self.shard
                .handle_flash_recovery_ended(around.now, written, &fresh);
            self.is_recovered = true;
            self.note_flash_budget();
        }
        self.settle(around);
        !self.is_recovered
    }

    /// After a change of the budget the largest one counts.
    pub(super) fn note_flash_budget(&mut self) {
        let port = self.port.as_ref().filter(|_| self.is_recovered);
        if let Some((port, view)) = port.zip(self.shard.flash_view()) {
            let left = view.budget_bytes.saturating_sub(port.written_bytes);
            self.flash_bytes_max = self.flash_bytes_max.max(Some(left + port.first_fillings));
        }
    }

    pub(crate) fn flash_told(&mut self, around: &mut Around<'_>, told: FlashTold) {
        self.tell(around.now, told);
        self.settle(around);
    }

    pub(super) fn tell(&mut self, now: Instant, told: FlashTold) {
        match told {
            FlashTold::Written(block, to, ok) => {
                self.shard.handle_flash_written(now, block, to, ok)
            }
            FlashTold::Sealed(block, ok) => self.shard.handle_flash_sealed(now, block, ok),
            FlashTold::Read(id, outcomes) => {
                self.shard.handle_flash_read_done(now, id, &outcomes, None);
            }
            FlashTold::Probed(ssd, probed) => self.shard.handle_flash_probed(now, ssd, probed),
        }
    }

    pub(super) fn note_flash(&mut self, around: &mut Around<'_>, command: &FlashCommand) {
        match command {
            FlashCommand::Stage {
                place,
                length,
                slot,
                ..
            } => {
                let of = [
                    u64::from(place.block.0),
                    u64::from(*length),
                    u64::from(slot.0),
                ];
                around.note("stage", of);
            }
            FlashCommand::Write { block, from, to } => {
                self.flash_bytes += u64::from(to - from);
                around.note(
                    "flash write",
                    [block.0.into(), (*from).into(), (*to).into()],
                );
            }
            FlashCommand::Seal {
                block,
                from,
                sequence,
            } => {
                let bytes = self
                    .port
                    .as_ref()
                    .map_or(0, |port| port.bytes_of_seal(*from));
                self.flash_bytes += u64::from(bytes);
                around.note("seal", [block.0.into(), *sequence, 0]);
            }
            FlashCommand::Drop(block) => around.note("drop", [block.0.into(), 0, 0]),
            FlashCommand::Read(read) => {
                around.note("flash read", [read.id.0, read.records.len() as u64, 0])
            }
            FlashCommand::Probe(ssd) => around.note("probe", [ssd.0.into(), 0, 0]),
        }
    }
}
