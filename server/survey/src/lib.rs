//! What a disk can do, measured from outside, and where titles lie on it.
//!
//! The one idea: an operator looks at the disks that are there, before and while they serve.
//! [`probe`] measures one as FreeBSD's `diskinfo -t` does; [`layout`] says where files and titles
//! lie; [`tune`] says what the kernel has set for one and what serves best. Drive models are not known here: whoever has them passes a target to be measured, and a
//! function that fits a model.

// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]
#![forbid(unsafe_code)]

mod decimal_bytes;
mod error;
pub mod layout;
mod layout_page;
mod layout_report;
mod layout_tables;
mod output;
pub mod probe;
mod probe_page;
mod probe_report;
pub mod tune;
mod tune_report;

pub use error::SurveyError;
pub use layout_report::{LayingOut, layout};
pub use output::{check_folder, print};
pub use probe_page::page as probe_page;
pub use probe_report::{Fit, Probe, Probing, Subject, probe};
pub use tune_report::{Tuning, kernel_settings, kernel_warning, tune};
