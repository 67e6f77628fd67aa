//! Request logs: read, cut into chains, and told as tables and charts.
//!
//! The one idea: a log is larger than memory, so it is read once, its names become numbers, and its
//! requests are spread over parts by session; each part then fits, and everything that is told is
//! a sum over parts.
//!
//! Invariants: a bad line is counted and sampled, never fatal; memory is bounded, and the bound is
//! told before the work begins; same logs, same report, whatever the number of threads.
#![forbid(unsafe_code)]

pub mod told;
