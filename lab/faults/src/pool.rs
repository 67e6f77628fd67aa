//! The memory of a device, as `serve::raw::Pool` has it: slots that are read into by one, or looked
//! at by many.

use std::collections::{BTreeMap, BTreeSet};

use headlong_engine::Slot;

/// All slots of a device.
#[derive(Debug)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
    piece: usize,
    leased: BTreeSet<Slot>,
    views: BTreeMap<Slot, u32>,
}

impl Pool {
    pub(crate) fn new(slots: u64, piece_bytes: u64) -> Self {
        let piece = piece_bytes as usize;
        // Not zeros, so that what was never read is not taken for zeros of a file.
        Self {
            bytes: vec![0xa5; slots as usize * piece],
            piece,
            leased: BTreeSet::new(),
            views: BTreeMap::new(),
        }
    }

    pub(crate) fn slot(&self, slot: Slot) -> &[u8] {
        let from = slot.0 as usize * self.piece;
        &self.bytes[from..from + self.piece]
    }

    pub(crate) fn slot_mut(&mut self, slot: Slot) -> &mut [u8] {
        let from = slot.0 as usize * self.piece;
        &mut self.bytes[from..from + self.piece]
    }

    /// Whether a slot is read into or looked at.
    pub(crate) fn is_used(&self, slot: Slot) -> bool {
        self.leased.contains(&slot) || self.views.contains_key(&slot)
    }

    /// Slots are going to be read into; `None` if one is in use.
    pub(crate) fn lease(&mut self, slots: &[Slot]) -> Option<()> {
        if slots.iter().any(|slot| self.is_used(*slot)) {
            return None;
        }
        self.leased.extend(slots);
        Some(())
    }

    pub(crate) fn release(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.leased.remove(slot);
        }
    }

    /// A slot is going to be sent; `None` if it is being read into.
    pub(crate) fn view(&mut self, slot: Slot) -> Option<()> {
        if self.leased.contains(&slot) {
            return None;
        }
        *self.views.entry(slot).or_insert(0) += 1;
        Some(())
    }

    pub(crate) fn drop_view(&mut self, slot: Slot) {
        if let Some(count) = self.views.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                self.views.remove(&slot);
            }
        }
    }

    pub(crate) fn is_leased(&self, slot: Slot) -> bool {
        self.leased.contains(&slot)
    }
}
