//! Experiments on real and emulated hardware: set up, run, search, compare.
//!
//! An experiment is one file. Its parts (emulated drive, workload, server, viewers) run as separate
//! programs, as a user would start them. The result is a record that contains everything needed to
//! repeat the run.
//!
//! Invariants: everything is checked before anything is started; a run disturbed by the machine is
//! refused, and counts neither as pass nor as failure; however the bench ends, nothing stays behind
//! but the store and the records.

// Standard error may be closed or full, and then `eprintln!` panics: use `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod active_run;
mod admin;
pub mod command;
mod command_lines;
mod compare;
mod cpu_usage;
mod cross_validation;
mod diffs;
mod disk_trace;
mod experiment;
#[cfg(test)]
mod golden_tests;
pub mod grid;
pub mod grid_points;
mod load_result;
mod record;
mod report;
mod rig;
mod run;
mod run_identity;
mod run_phases;
mod search;
mod search_driver;
mod servers;
mod step_load;
mod verdict;
mod virtual_command;
mod virtual_run;

pub use command::{BenchError, BenchOptions, CommandOutcome, default_store};
pub use compare::{ComparisonResult, RateRatio, ServerRates, compare};
pub use cpu_usage::{CpuUsage, MachineInfo};
pub use cross_validation::{
    CrossValidation, PhaseComparison, PhaseFigure, RateTolerance, ValidationFigures,
    ValidationPair, agree,
};
pub use diffs::{DiffBenchmark, DiffReader, DiffRun, diffs};
pub use disk_trace::DiskPattern;
pub use experiment::{
    ApacheSettings, Baseline, BlockQueueOverrides, BlockQueueSettings, Cache, CacheKind,
    Experiment, ExperimentCell, ExperimentDrive, FileSet, FlashTier, KeyChange, Mistakes,
    NetworkSettings, NginxSettings, PhaseDurations, SearchRules, ServerKind, ServerSpec,
    Simulation, StepLoad, WorkloadSpec, drive_spec,
};
pub use load_result::QualityRules;
pub use record::{
    DiskFacts, LoadFigures, OutcomeName, RecordFolder, RunRecord, RunSetup, RunVerdict, SCHEMA,
    ServerFacts,
};
pub use report::{
    MB, comparison_page, grid_table, limits_table, ratios_table, run_page, runs_table,
    series_charts, sweep_page,
};
pub use rig::{MemoryUse, QueueSettings, RigError, missing};
pub use run::Bench;
pub use run_phases::RunPhase;
pub use search::{CompletedSearch, LimitSearch, Probe, RunOutcome, SearchResult, in_parallel};
pub use search_driver::{Runner, SearchDriver, ServerLimit};
pub use servers::pool_memory;
pub use step_load::{DriveWork, LoadStep, StepLoadResult};
pub use virtual_command::{VirtualOptions, limits, simulate, simulate_runs};
pub use virtual_run::{NotSimulatable, VirtualBench, VirtualCell};
