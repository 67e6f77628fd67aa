//! Reproduction of the papers' experiments.
//!
//! A reproduction consists of an experiment of this repository, the published figures with their
//! sources, and shapes: relations that must be reproduced even where numbers cannot, because
//! drives, kernels and servers have changed.

// Standard error may be closed or full, and then `eprintln!` panics: use `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]
#![forbid(unsafe_code)]

mod automated;
mod claims;
mod coverage;
mod diffs;
mod experiments;
mod flashstream;
mod latencies;
pub mod netflix;
mod published;
mod read_throughput;
mod report;

pub use automated::{ScenarioSelection, reproduce_virtual, scenario_names};
pub use claims::{
    Claim, ClaimsRun, ClaimsSize, Origin, claim_groups, claims_page, run_claims, stored_claims,
};
pub use coverage::coverage_page;
pub use diffs::{DiffOptions, diff_again};
pub use experiments::{experiment, reproduce, reproduce_imitated};
pub use flashstream::{FlashstreamOptions, FlashstreamPart, flashstream};
pub use latencies::latencies;
pub use published::Paper;
pub use report::RunChoice;
