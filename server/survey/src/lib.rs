//! Survey of a machine's disks: performance measured from outside, and kernel settings.
//!
//! For operators, before and during service. [`probe`] measures a disk as FreeBSD's `diskinfo -t`
//! does; [`tune`] compares the kernel's settings with advised ones. Drive models are not part of
//! this crate: a caller that has them passes a target to measure, and a function that fits a model.

// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]
#![forbid(unsafe_code)]

mod decimal_bytes;
mod error;
mod output;
pub mod probe;
mod probe_page;
mod probe_report;
pub mod tune;
mod tune_report;

pub use error::SurveyError;
pub use output::{check_folder, print};
pub use probe_page::page as probe_page;
pub use probe_report::{ModelFit, ProbeOptions, ProbeReport, ProbedDrive, probe};
pub use tune_report::{TuneArgs, kernel_settings, kernel_warning, tune};
