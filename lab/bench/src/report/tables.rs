//! Tables of limits, of ratios, of runs with rising rates and of single runs.

use headlong_report::{Cell, Table};

use super::MIB;
use crate::compare::{ComparisonResult, RateRatio};
use crate::experiment::Experiment;
use crate::record::{OutcomeName, RunRecord};
use crate::search_driver::ServerLimit;
use crate::step_load::{DriveWork, LoadStep, StepLoadResult};

/// One row for each server under one workload.
pub fn limits_table(compared: &ComparisonResult, workload: &str) -> Table {
    let heads = "Server | Failure-free, offered (MiB/s) | Fails at | Asked for | Delivered | \
        Drive (MiB/s) | KiB a seek | Drive busy (%) | Processors busy (%) | Runs | Note";
    let mut table = Table::headed(heads);
    for server in servers(compared, workload) {
        let limits: Vec<&ServerLimit> = compared.of(workload, server).collect();
        let best = limits.iter().rev().find_map(|limit| limit.best.as_ref());
        let failed = limits.iter().filter_map(|limit| limit.found.failed);
        let of_best =
            |value: fn(&RunRecord) -> f64, decimals| Cell::maybe(best.map(value), decimals);
        table.push([
            server.into(),
            rate_cell(compared, workload, server),
            Cell::maybe(failed.reduce(f64::min).map(|rate| rate / MIB), 1),
            Cell::maybe(best.and_then(|best| in_mib(best.verdict.asked_for)), 1),
            of_best(|best| best.verdict.delivered / MIB, 1),
            of_best(|best| best.disk.pattern.rate() / MIB, 1),
            Cell::maybe(
                best.and_then(|best| best.disk.pattern.kib_per_sequence()),
                0,
            ),
            best.map(busy).into(),
            of_best(|best| best.cpu.machine_share * 100.0, 0),
            limits
                .iter()
                .map(|limit| u64::from(limit.found.probes))
                .sum::<u64>()
                .into(),
            note(&limits).into(),
        ]);
    }
    table
}

/// Server names in measuring order.
pub(crate) fn servers<'c>(compared: &'c ComparisonResult, workload: &str) -> Vec<&'c str> {
    let mut names: Vec<&str> = Vec::new();
    let of_workload = compared
        .limits
        .iter()
        .filter(|limit| limit.workload == workload);
    for limit in of_workload {
        if !names.contains(&limit.server.as_str()) {
            names.push(&limit.server);
        }
    }
    names
}

fn rate_cell(compared: &ComparisonResult, workload: &str, server: &str) -> Cell {
    match compared.rates(workload, server) {
        None => Cell::Missing,
        Some(rates) => match rates.interval {
            None => Cell::number(rates.mean / MIB, 1),
            Some(interval) => Cell::interval(&scaled(interval), 1),
        },
    }
}

pub(crate) fn in_mib(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes / MIB)
}

/// Converts an interval from bytes to MiB.
pub(crate) fn scaled(
    interval: headlong_stats::ConfidenceInterval,
) -> headlong_stats::ConfidenceInterval {
    headlong_stats::ConfidenceInterval {
        estimate: interval.estimate / MIB,
        low: interval.low / MIB,
        high: interval.high / MIB,
        ..interval
    }
}

fn busy(record: &RunRecord) -> Cell {
    let share = record.disk.pattern.busy_share;
    Cell::maybe(share.map(|share| share * 100.0), 0)
}

fn note(limits: &[&ServerLimit]) -> String {
    let bounded = limits
        .iter()
        .filter(|limit| limit.found.is_machine_limited())
        .count();
    let unsettled = limits
        .iter()
        .filter(|limit| !limit.found.is_settled)
        .count()
        - bounded;
    let mut notes = Vec::new();
    if bounded > 0 {
        notes.push("at least this: above it, the machine was the limit".to_owned());
    }
    if unsettled > 0 {
        notes.push(format!(
            "{unsettled} of {} searches not settled",
            limits.len()
        ));
    }
    notes.join("; ")
}

/// One row for each ratio.
pub fn ratios_table(ratios: &[RateRatio]) -> Table {
    let heads = [
        "Workload", "Ratio", "", "95 %", "Required", "Target", "Holds",
    ];
    let mut table = Table::new(heads);
    for ratio in ratios {
        let of = match ratio.best == ratio.baseline {
            true => format!("{} / {}", ratio.subject, ratio.baseline),
            false => format!("{} / {} ({})", ratio.subject, ratio.baseline, ratio.best),
        };
        let interval = ratio
            .interval
            .map(|(low, high)| format!("{low:.2} to {high:.2}"));
        let holds = match (ratio.at_least, ratio.holds()) {
            (None, _) => "-",
            (Some(_), true) => "yes",
            (Some(_), false) => "no",
        };
        table.push([
            ratio.workload.as_str().into(),
            of.into(),
            Cell::number(ratio.ratio, 2),
            interval.into(),
            Cell::maybe(ratio.at_least, 1),
            Cell::maybe(ratio.aim, 1),
            holds.into(),
        ]);
    }
    table
}

/// One row for each run.
pub fn runs_table<'r>(records: impl IntoIterator<Item = &'r RunRecord>) -> Table {
    let heads = "Server | Workload | Offered (MiB/s) | Seed | Outcome | Failed (%) | Failed in \
        the ramp | Asked for (MiB/s) | Delivered (MiB/s) | Drive (MiB/s) | KiB a seek | Drive \
        busy (%) | Processors busy (%)";
    let mut table = Table::headed(heads);
    for record in records {
        let outcome = match record.verdict.outcome {
            OutcomeName::Passed => "passed",
            OutcomeName::Failed => "failed",
            OutcomeName::Refused => "refused",
        };
        table.push([
            record.server.as_str().into(),
            record.workload.as_str().into(),
            Cell::number(record.rate / MIB, 2),
            record.seed.into(),
            outcome.into(),
            Cell::number(record.verdict.failure_share * 100.0, 2),
            record.verdict.ramp_failures.into(),
            Cell::maybe(in_mib(record.verdict.asked_for), 1),
            Cell::number(record.verdict.delivered / MIB, 1),
            Cell::number(record.disk.pattern.rate() / MIB, 1),
            Cell::maybe(record.disk.pattern.kib_per_sequence(), 0),
            busy(record),
            Cell::number(record.cpu.machine_share * 100.0, 0),
        ]);
    }
    table
}

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
            step_note(&limits).into(),
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

fn step_note(limits: &[&ServerLimit]) -> String {
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

/// The ratios, and the limits of each workload.
pub(crate) fn tables(experiment: &Experiment, compared: &ComparisonResult) -> String {
    let ratios = compared.ratios(experiment);
    let ratios = (!ratios.is_empty()).then(|| ratios_table(&ratios));
    let limits = compared.workloads(experiment).map(|workload| {
        workload_table(compared, workload).caption(format!("Workload {workload}:"))
    });
    let tables = ratios.into_iter().chain(limits);
    tables.map(|table| table.to_markdown() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::some;

    #[test]
    fn offered_asked_for_and_delivered_are_separate_columns() {
        let mut run = some();
        run.rate = 8.0 * MIB;
        run.verdict.asked_for = Some(4.0 * MIB);
        run.verdict.delivered = 2.0 * MIB;
        let table = runs_table([&run]).to_markdown();
        let cells = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
        let of = |head: &str| {
            let at = lines[0].iter().position(|cell| cell == head);
            lines[2][at.unwrap_or_else(|| panic!("no {head} in {table}"))].clone()
        };
        assert_eq!(of("Offered (MiB/s)"), "8.00");
        assert_eq!(of("Asked for (MiB/s)"), "4.0");
        assert_eq!(of("Delivered (MiB/s)"), "2.0");
        run.verdict.asked_for = None;
        assert!(
            !runs_table([&run]).to_markdown().contains("4.0"),
            "missing in old records"
        );
    }
}
