//! Prefetch simulation on chains (thesis 5.6): what a rule for sizes would cost in drives and
//! memory on a workload that was logged.
//!
//! The one idea: a chain says how many bytes were read, from when to when; consumption is taken as
//! even, so the moment and size of every prefetch follow from the rule alone, and each chain can
//! be accounted for by itself. There is no queue, no cache and no memory that runs short.
//!
//! Invariants: the sizes are the engine's own ([`headlong_engine::prefetch_bytes`]); times are
//! whole milliseconds, sizes whole bytes and sums integers, so the figures depend neither on the
//! number of threads nor on the order of the table.
//!
//! The rules, exactly. Prefetch k of a chain is issued when the consumed position reaches the sum
//! of the earlier ones, the first at the chain's start, none at its length; consumption is linear
//! from `t_start` to `t_end`, a moment rounded down to the millisecond. A prefetch is of its full
//! size, even beyond the chain; it costs one seek, and seek and bytes are booked in the minute of
//! issue. A chain's one buffer has the size of its latest prefetch, and is freed 40 s after
//! `t_end`. What comes before time zero counts as time zero.
#![forbid(unsafe_code)]

mod accounts;
mod claims;
mod clairvoyant;
mod drive;
mod first_sizes;
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

pub use claims::{Claim, claims};
pub use clairvoyant::{Bound, Frontier, FrontierPoint, frontier};
pub use drive::{DriveRates, Megabyte};
pub use first_sizes::{FirstSize, FirstSizes, first_sizes};
pub use log::chains_of;
pub use page::{page, sections, text};
pub use point::Load;
pub use point::{Point, Settings, SimulationError};
pub use read::{Dropped, FileFacts, FilesTable, Read, ReadError, read_chains, read_files};
pub use report::{Given, Report, Source};
pub use sizes::{Algorithm, Rule};
pub use source::{ChainsError, open};
pub use survival::{Law, MULTIPLIER, SURVIVAL, SurvivalFit, survival};
pub use sweep::{Sweep, Swept, Wanted};
pub use table::{ChainRow, ChainTable, Class, FileUse, Shape, TableError};
