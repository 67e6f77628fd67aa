//! What a flash tier did, as far as worlds are compared by it.

use core::ops::{AddAssign, Sub};

use headlong_flash::FlashView;

/// What a tier counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashCounts {
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes of records that were taken.
    pub admitted_bytes: u64,
    /// Bytes written: records, what is between them, and summaries. As writes are whole blocks in
    /// order, what the flash itself writes is taken to be the same.
    pub written_bytes: u64,
    /// Bytes that were offered, and not taken because too little would be saved.
    pub not_worth_bytes: u64,
    /// The same, because the budget was used up.
    pub over_budget_bytes: u64,
    /// The same, because writes wait for reads or for the SSD.
    pub busy_bytes: u64,
    /// The same, because no SSD is in service.
    pub out_of_service_bytes: u64,
    /// Records that came too late, so that the disk was asked too.
    pub late_records: u64,
}

/// A tier at one moment, with what it counted until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashUse {
    /// Bytes of all its blocks.
    pub capacity_bytes: u64,
    /// Bytes of records that can be read.
    pub filled_bytes: u64,
    /// Most bytes that it writes in any day, beyond its first filling.
    pub budget_bytes: u64,
    /// From the beginning, or within the window.
    pub counts: FlashCounts,
}

impl FlashCounts {
    pub(crate) fn of(view: &FlashView) -> Self {
        Self {
            read_bytes: view.read_bytes,
            admitted_bytes: view.admitted_bytes,
            written_bytes: view.written_bytes,
            not_worth_bytes: view.refused.not_worth_bytes,
            over_budget_bytes: view.refused.budget_bytes,
            busy_bytes: view.refused.busy_bytes,
            out_of_service_bytes: view.refused.out_of_service_bytes,
            late_records: view.reads_failed,
        }
    }
}

impl FlashUse {
    pub(crate) fn of(view: &FlashView, counts: FlashCounts) -> Self {
        Self {
            capacity_bytes: view.capacity_bytes,
            filled_bytes: view.filled_bytes,
            budget_bytes: view.budget_bytes,
            counts,
        }
    }
}

impl AddAssign for FlashUse {
    /// Two parts of one tier.
    fn add_assign(&mut self, other: Self) {
        self.capacity_bytes += other.capacity_bytes;
        self.filled_bytes += other.filled_bytes;
        self.budget_bytes += other.budget_bytes;
        self.counts += other.counts;
    }
}

impl AddAssign for FlashCounts {
    fn add_assign(&mut self, other: Self) {
        self.read_bytes += other.read_bytes;
        self.admitted_bytes += other.admitted_bytes;
        self.written_bytes += other.written_bytes;
        self.not_worth_bytes += other.not_worth_bytes;
        self.over_budget_bytes += other.over_budget_bytes;
        self.busy_bytes += other.busy_bytes;
        self.out_of_service_bytes += other.out_of_service_bytes;
        self.late_records += other.late_records;
    }
}

impl Sub for FlashCounts {
    type Output = Self;
    /// What was counted since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes - earlier.read_bytes,
            admitted_bytes: self.admitted_bytes - earlier.admitted_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            not_worth_bytes: self.not_worth_bytes - earlier.not_worth_bytes,
            over_budget_bytes: self.over_budget_bytes - earlier.over_budget_bytes,
            busy_bytes: self.busy_bytes - earlier.busy_bytes,
            out_of_service_bytes: self.out_of_service_bytes - earlier.out_of_service_bytes,
            late_records: self.late_records - earlier.late_records,
        }
    }
}
