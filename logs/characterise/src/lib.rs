//! Characterisation of request logs: the tables and figures of thesis 5.1 to 5.4.
//!
//! Every table and figure is a sum over sessions. Each has an accumulator that receives one session
//! at a time, can be merged with another of its kind, and produces its tables and figures at the
//! end. All sums are integers, so the result does not depend on how the sessions were distributed
//! over threads. Real and generated logs are measured by the same code.
//!
//! Invariants: pure; memory does not grow with the number of requests; sessions that start in the
//! last hour of a long log and still run at its end count in the sections of viewers and of volume
//! only (A16).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod accumulators;
mod assemble;
mod audience;
mod behaviour;
mod bit_rates;
mod catalogue;
mod chain_statistics;
mod devices;
mod examples;
mod histograms;
mod merge;
mod observations;
mod phase_shares;
mod published_numbers;
mod report;
mod requests;
mod seconds;
mod segments;
mod sessions;
mod tables;
mod view;
mod viewing_portions;
mod volume;

#[cfg(test)]
mod naive_tests;
#[cfg(test)]
mod segments_tests;

pub use accumulators::Accumulators;
pub use merge::Merge;
pub use observations::{
    ChainObservations, ChainRow, DURATION_PARTS, DeviceObservations, DistributionPoints, LENGTHS,
    Observations, PhaseObservations, Popularity, RenditionObservations, TitleObservations,
    ViewingObservations, distribution, length_at,
};
pub use published_numbers::{
    NumberComparison, PublishedNumber, SESSIONS_PUBLISHED, all as all_published, beside, published,
};
pub use report::{
    Characterisation, ComparisonRow, DroppedLines, Provenance, ReportSection, SCHEMA, comparison,
};
pub use sessions::SessionSplitter;
pub use tables::{
    Axis, AxisScale, CellValue, Figure, Series, SeriesForm, Table, TableColumn, TableRow,
};
pub use view::{
    Cluster, DEVICES_MAX, LogContext, LogRates, PhaseGroups, RateClass, SessionView, TimeSpan,
};
