//! Figures of the flash tier in the record of a run.

use headlong_units::MIB;
use serde::{Deserialize, Serialize};

use crate::distribution_summary::{is_none, is_zero, ratio};
use crate::flash_use::FlashUse;

/// Activity of a flash tier within the window, and its state at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashFigures {
    /// Capacity of its blocks, 10^9 bytes.
    pub capacity_gb: f64,
    /// Share of the capacity with readable records.
    pub filled_ratio: f64,
    /// Most bytes written in any 24 hours besides the initial fill, 10^9.
    pub budget_gb_per_day: f64,
    /// Bytes written per day at the rate of the window, 10^9.
    pub written_gb_per_day: f64,
    /// Bytes written.
    pub written_mib_s: f64,
    /// Bytes read.
    pub read_mib_s: f64,
    /// Bytes read for each byte written; none if nothing was written.
    pub reads_per_write: Option<f64>,
    /// Bytes written to flash for each byte written to the drive: 1, because all writes are whole
    /// blocks.
    pub write_amplification: f64,
    /// Offered bytes that were rejected: too little benefit, write budget, writes waiting for
    /// reads.
    pub refused_mib_s: [f64; 3],
    /// Records that arrived too late, so that the disk was read as well.
    #[serde(default, skip_serializing_if = "is_none")]
    pub late_records: u64,
    /// Bytes offered while no SSD was in service, MiB/s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_service_mib_s: f64,
}

const DAY_S: f64 = 86_400.0;
const GB: f64 = 1e9;

impl FlashFigures {
    pub(crate) fn of(flash: &FlashUse, seconds: f64) -> Self {
        let counts = &flash.counts;
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let refused = [
            counts.not_worth_bytes,
            counts.over_budget_bytes,
            counts.busy_bytes,
        ];
        let (read, written) = (counts.read_bytes as f64, counts.written_bytes as f64);
        Self {
            capacity_gb: ratio(flash.capacity_bytes as f64, GB),
            filled_ratio: ratio(flash.filled_bytes as f64, flash.capacity_bytes as f64),
            budget_gb_per_day: ratio(flash.budget_bytes as f64, GB),
            written_gb_per_day: ratio(written / GB * DAY_S, seconds),
            written_mib_s: mib_s(counts.written_bytes),
            read_mib_s: mib_s(counts.read_bytes),
            reads_per_write: (written > 0.0).then(|| ratio(read, written)),
            write_amplification: 1.0,
            refused_mib_s: refused.map(mib_s),
            late_records: counts.late_records,
            out_of_service_mib_s: mib_s(counts.out_of_service_bytes),
        }
    }

    /// One line for people.
    pub fn line(&self, from_flash: f64) -> String {
        let reads = self.reads_per_write;
        let reads = reads.map_or("-".to_owned(), |reads| format!("{reads:.1}"));
        let [not_worth, budget, busy] = self.refused_mib_s;
        format!(
            "  flash: {:.0}% of bytes, {:.0}% of {:.1} GB filled; written {:.2} MiB/s, \
             {:.1} GB a day of {:.1}; {reads} bytes read per byte written; refused MiB/s: \
             not worth it {not_worth:.1}, budget {budget:.1}, busy {busy:.1}",
            from_flash * 100.0,
            self.filled_ratio * 100.0,
            self.capacity_gb,
            self.written_mib_s,
            self.written_gb_per_day,
            self.budget_gb_per_day,
        )
    }
}
