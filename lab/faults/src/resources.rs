//! The resources of a simulated device, among them its memory: slots that are leased to one read or
//! viewed by many replies.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use headlong_device::Resources;
use headlong_engine::Slot;

use crate::files::{Inode, StatIdentity};

/// One version of a stream: its files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamSource {
    pub(crate) parts: Vec<(String, StatIdentity)>,
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct SimulatedResources;

impl Resources for SimulatedResources {
    type Source = Rc<StreamSource>;
    type File = Inode;
    type Memory = SlotLease;
    type Client = ();
    type Record = Vec<u8>;
}

#[derive(Debug)]
struct PoolMemory {
    bytes: Vec<u8>,
    piece: usize,
    leased: BTreeSet<Slot>,
    views: BTreeMap<Slot, u32>,
}

/// All slots of a device; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SlotPool(Rc<RefCell<PoolMemory>>);

/// Slots leased for reading, until dropped.
#[derive(Debug)]
pub(crate) struct SlotLease {
    pool: SlotPool,
    slots: Vec<Slot>,
}

impl SlotPool {
    pub(crate) fn new(slots: u64, piece_bytes: u64) -> Self {
        let piece = piece_bytes as usize;
        Self(Rc::new(RefCell::new(PoolMemory {
            // Not zeros, so that unread memory cannot pass for zeros of a file.
            bytes: vec![0xa5; slots as usize * piece],
            piece,
            leased: BTreeSet::new(),
            views: BTreeMap::new(),
        })))
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(&self, slot: Slot, range: Range<u32>) -> Vec<u8> {
        let memory = self.0.borrow();
        let from = slot.0 as usize * memory.piece;
        memory.bytes[from + range.start as usize..from + range.end as usize].to_vec()
    }

    /// Whether a slot is leased or viewed.
    pub(crate) fn is_used(&self, slot: Slot) -> bool {
        let memory = self.0.borrow();
        memory.leased.contains(&slot) || memory.views.contains_key(&slot)
    }

    /// Leases slots for reading; `None` if one is in use.
    pub(crate) fn lease(&self, slots: &[Slot]) -> Option<SlotLease> {
        if slots.iter().any(|slot| self.is_used(*slot)) {
            return None;
        }
        self.0.borrow_mut().leased.extend(slots);
        Some(SlotLease {
            pool: self.clone(),
            slots: slots.to_vec(),
        })
    }

    /// Adds a view of a slot for sending; `None` if it is leased.
    pub(crate) fn view(&self, slot: Slot) -> Option<()> {
        if self.is_leased(slot) {
            return None;
        }
        *self.0.borrow_mut().views.entry(slot).or_insert(0) += 1;
        Some(())
    }

    pub(crate) fn drop_view(&self, slot: Slot) {
        let mut memory = self.0.borrow_mut();
        if let Some(count) = memory.views.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                memory.views.remove(&slot);
            }
        }
    }

    pub(crate) fn is_leased(&self, slot: Slot) -> bool {
        self.0.borrow().leased.contains(&slot)
    }
}

impl SlotLease {
    /// Capacity in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64 * self.pool.0.borrow().piece as u64
    }

    /// Bytes of a slot.
    pub(crate) fn piece(&self) -> u64 {
        self.pool.0.borrow().piece as u64
    }

    /// Writes at `skip`, within one slot and its capacity.
    pub(crate) fn fill(&self, skip: u64, length: u64, fill: impl FnOnce(&mut [u8])) {
        let mut memory = self.pool.0.borrow_mut();
        let piece = memory.piece;
        let Some(slot) = self.slots.get(skip as usize / piece) else {
            return;
        };
        let from = skip as usize % piece;
        let length = (length as usize).min(piece - from);
        let at = slot.0 as usize * piece + from;
        fill(&mut memory.bytes[at..at + length]);
    }
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        let mut memory = self.pool.0.borrow_mut();
        for slot in &self.slots {
            memory.leased.remove(slot);
        }
    }
}
