//! Table of step-load runs: the limit of each server and the work of its drives.

use headlong_report::{Cell, Table};

use super::MIB;
use super::tables::{limits_table, servers};
use crate::compare::ComparisonResult;
use crate::search_driver::ServerLimit;
use crate::step_load::{DriveWork, LoadStep, StepLoadResult};

/// One row for each server under one workload: for searches, or for step-load runs.
pub(crate) fn workload_table(compared: &ComparisonResult, workload: &str) -> Table {
    let mut best = compared
        .limits
        .iter()
        .filter_map(|limit| limit.best.as_ref());
    match best.any(|record| record.climbed.is_some()) {
        true => climb_table(compared, workload),
        false => limits_table(compared, workload),
    }
}

/// One row for each server under one workload: means over repeats, of the last step that passed.
fn climb_table(compared: &ComparisonResult, workload: &str) -> Table {
    let heads = "Server | Failure-free (MiB/s) | Fails at | Minutes until the SSD was filled | \
        Delivered (MiB/s) | Disk reads (MiB/s) | SSD reads (MiB/s) | SSD writes (MiB/s) | Disk \
        busy (%) | SSD busy (%) | At first: SSD reads | SSD writes | Note";
    let mut table = Table::headed(heads);
    for server in servers(compared, workload) {
        let limits: Vec<&ServerLimit> = compared.of(workload, server).collect();
        let climbed = |limit: &&ServerLimit| limit.best.as_ref()?.climbed.clone();
        let climbed: Vec<StepLoadResult> = limits.iter().filter_map(climbed).collect();
        let rates = compared.rates(workload, server);
        let failed = limits.iter().filter_map(|limit| limit.found.failed);
        let filled = climbed.iter().filter_map(|climbed| climbed.filled_s);
        let last = |of: fn(&LoadStep) -> Option<f64>| {
            mean(climbed.iter().filter_map(|c| c.passed().and_then(of)))
        };
        let first = |of: fn(&LoadStep) -> Option<f64>| {
            mean(climbed.iter().filter_map(|c| c.steps.first().and_then(of)))
        };
        table.push([
            server.into(),
            Cell::maybe(rates.map(|rates| rates.mean / MIB), 1),
            Cell::maybe(mean(failed).map(|rate| rate / MIB), 1),
            Cell::maybe(mean(filled).map(|seconds| seconds / 60.0), 1),
            Cell::maybe(last(|step| Some(step.delivered / MIB)), 1),
            Cell::maybe(last(|step| Some(step.disk.read / MIB)), 1),
            Cell::maybe(last(|step| of_ssd(step, |ssd| ssd.read / MIB)), 1),
            Cell::maybe(last(|step| of_ssd(step, |ssd| ssd.written / MIB)), 2),
            Cell::maybe(last(|step| Some(step.disk.busy * 100.0)), 0),
            Cell::maybe(last(|step| of_ssd(step, |ssd| ssd.busy * 100.0)), 0),
            Cell::maybe(first(|step| of_ssd(step, |ssd| ssd.read / MIB)), 1),
            Cell::maybe(first(|step| of_ssd(step, |ssd| ssd.written / MIB)), 2),
            note(&limits).into(),
        ]);
    }
    table
}

fn of_ssd(step: &LoadStep, figure: fn(DriveWork) -> f64) -> Option<f64> {
    step.ssd.map(figure)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

fn note(limits: &[&ServerLimit]) -> String {
    let of = |what: fn(&&&ServerLimit) -> bool| limits.iter().filter(what).count();
    let refused = of(|limit| limit.machine.is_some());
    let open = of(|limit| limit.machine.is_none() && limit.found.failed.is_none());
    let mut notes = Vec::new();
    if refused > 0 {
        notes.push(format!("{refused} of {} runs do not count", limits.len()));
    }
    if open > 0 {
        notes.push("passed all steps".to_owned());
    }
    notes.join("; ")
}
