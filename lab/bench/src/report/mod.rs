//! Reports: tables, charts and HTML pages.

mod page;
mod tables;
mod virtual_time;

pub use page::{comparison_page, run_page};
pub use tables::{limits_table, ratios_table, runs_table};
pub(crate) use tables::{tables, workload_table};
pub use virtual_time::{grid_table, series_charts, sweep_page};

/// Bytes in the unit of displayed rates.
pub(crate) const MIB: f64 = 1_048_576.0;
/// Bytes in the unit of the papers' rates.
pub const MB: f64 = 1_000_000.0;
