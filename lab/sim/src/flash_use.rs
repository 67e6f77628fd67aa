//! Activity of a flash tier, for comparisons between worlds.

use core::ops::{AddAssign, Sub};

use headlong_flash::FlashView;

/// Counters of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashCounts {
    /// Bytes read from the tier.
    pub read_bytes: u64,
    /// Bytes of admitted records.
    pub admitted_bytes: u64,
    /// Bytes written: records, padding, and summaries. Writes are whole blocks in order, so the
    /// flash itself is assumed to write the same amount.
    pub written_bytes: u64,
    /// Bytes rejected because too little would be saved.
    pub not_worth_bytes: u64,
    /// Bytes rejected because the write budget was used up.
    pub over_budget_bytes: u64,
    /// Bytes rejected because writes waited for reads or for the SSD.
    pub busy_bytes: u64,
    /// Bytes rejected because no SSD was in service.
    pub out_of_service_bytes: u64,
    /// Records that arrived too late, so that the disk was read as well.
    pub late_records: u64,
}

/// A tier at one moment, with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashUse {
    /// Bytes of all blocks.
    pub capacity_bytes: u64,
    /// Bytes of records that can be read.
    pub filled_bytes: u64,
    /// Most bytes written in any 24 hours, besides the initial fill.
    pub budget_bytes: u64,
    /// Since the start, or within the window.
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
    /// Sum of two partitions of one tier.
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
    /// Counts since `earlier`.
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
