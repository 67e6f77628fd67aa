//! Tables of limits, of ratios, and of single runs.

use headlong_report::{Cell, Table};

use super::MIB;
use crate::compare::{ComparisonResult, RateRatio};
use crate::record::{OutcomeName, RunRecord};
use crate::search_driver::ServerLimit;

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
            of_best(|best| best.disk.pattern.bytes_per_sequence / 1024.0, 0),
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
            Cell::number(record.disk.pattern.bytes_per_sequence / 1024.0, 0),
            busy(record),
            Cell::number(record.cpu.machine_share * 100.0, 0),
        ]);
    }
    table
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
