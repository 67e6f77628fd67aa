//! What viewers did: the tables and figures of thesis 5.1 to 5.4, summed up part by part.
//!
//! The one idea: every table and figure is a sum over sessions, so each has an accumulator that
//! sees one session at a time, adds up to another of its kind, and gives its tables and figures at
//! the end. All sums are whole numbers: however the sessions were spread over threads, the answer is
//! the same. Logs that were read and logs that were generated are measured here alike.
//!
//! Invariants: pure; memory does not grow with the number of requests; sessions that start in the last
//! hour of a long log count in Table 5.1 and Figure 5.1 and nowhere else (A16).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod accumulators;
mod assemble;
mod behaviour;
mod bit_rates;
mod catalogue;
mod chaining;
mod comparison;
mod counting;
mod devices;
mod examples;
mod merge;
mod observed;
mod outcome;
mod phase_shares;
mod pieces;
mod published;
mod report;
mod requests;
mod seconds;
mod sessions;
mod survival;
mod view;
mod viewing;
mod volume;

#[cfg(test)]
mod naive_tests;
#[cfg(test)]
mod pieces_tests;

pub use accumulators::Accumulators;
pub use comparison::{Comparison, comparison};
pub use merge::Merge;
pub use observed::{
    ChainRow, ChainsSeen, DURATION_PARTS, DeviceSeen, LENGTHS, Observed, PhasesSeen, Points,
    Popularity, RenditionSeen, TitlesSeen, ViewingSeen, distribution, length_at,
};
pub use outcome::{Axis, Column, Figure, Form, Row, Scale, Series, Table, Value};
pub use published::{
    Beside, Published, SESSIONS_PUBLISHED, all as all_published, beside, published,
};
pub use report::{About, Characterisation, Dropped, SCHEMA, Section};
pub use sessions::SessionSplitter;
pub use view::{Cluster, DEVICES_MAX, Log, PhasesOf, RateClass, Rates, SessionView, Span};
