//! Prefetch simulation on chains (thesis 5.6): the cost of a sizing rule in drives and memory on a
//! logged workload.
//!
//! A chain records how many bytes were read, from when to when. Consumption is assumed to be even,
//! so the time and size of every prefetch follow from the rule alone, and chains are independent.
//! The model has no queue, no cache and unlimited memory.
//!
//! Invariants: the sizes are those of the engine ([`headlong_engine::prefetch_bytes`]); times are
//! whole milliseconds, sizes whole bytes and sums integers, so the figures depend neither on the
//! number of threads nor on the order of the table.
//!
//! The exact rules: prefetch k of a chain is issued when the consumed position reaches the sum of
//! the earlier ones, the first at the chain's start, none at its length; consumption is linear from
//! `t_start` to `t_end`, with times rounded down to the millisecond. A prefetch has its full size,
//! even beyond the chain; it costs one seek, and seek and bytes are accounted in the minute of
//! issue. A chain's single buffer has the size of its latest prefetch, and is freed 40 s after
//! `t_end`. Times before zero count as zero.
#![forbid(unsafe_code)]

mod accounts;
mod claims;
mod drive;
mod first_sizes;
mod load;
mod log;
mod page;
mod point;
mod read;
mod report;
mod sizes;
mod source;
mod survival;
mod sweep;
mod table;

#[cfg(test)]
mod naive_tests;

pub use headlong_trace::CatalogueBytes;

pub use claims::{Claim, claims};
pub use drive::{DriveRates, Megabyte};
pub use first_sizes::{FirstSize, FirstSizes, first_sizes};
pub use load::{LoadSums, RuleLoad, SessionGroups};
pub use log::{chains_of, read_bytes_per_s};
pub use page::{page, sections, text};
pub use point::{CostPoint, SimulationError, SimulationSettings};
pub use read::{
    DroppedLines, FileFacts, FilesTable, ParsedTable, ReadError, read_chains, read_files,
};
pub use report::{SimulationParameters, SimulationReport, TableSource};
pub use sizes::{Algorithm, SizingRule};
pub use source::{ChainsError, open};
pub use survival::{MULTIPLIER, SURVIVAL, SurvivalFit, SurvivalLaw, survival};
pub use sweep::{Sweep, SweepResult};
pub use table::{ChainClass, ChainFeatures, ChainRow, ChainTable, FileUse, TableError};
