//! Tables and HTML page.

use headlong_bench::{BenchError, BenchOptions, CommandOutcome};
use headlong_report::{Axis, Cell, Chart, Page, Section, Series, Table};

use super::results::{AdmissionSeries, OfferedLoad, OverloadResult, SHARE_MIN, ViewerSet};

/// Explanation of the figures.
const WORDS: &str = "Goodput is the bytes of calls answered completely in time. Offered is the \
                     long-run demand of all arriving viewers relative to the limit: the highest \
                     rate at which no call fails. Shares are relative to the best of the row, for \
                     each set of viewers separately; a set that got everything it asked for counts \
                     as 100 %.";

/// Writes the page and prints the tables.
pub(super) fn publish(
    held: &OverloadResult,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let json = serde_json::to_value(held).unwrap_or_default();
    let text = text(held);
    options.publish(page(held, options), ("hold", &text), (&json, &text))?;
    Ok(match held.holds() {
        true => CommandOutcome::Done,
        false => CommandOutcome::Missed,
    })
}

fn text(held: &OverloadResult) -> String {
    let seeds: Vec<String> = held.seeds.iter().map(ToString::to_string).collect();
    let seeds = seeds.join(", ");
    let tables = [goodput(held), shares(held), kept(held), failures(held)];
    let tables = tables.map(|table| table.to_markdown()).join("\n");
    format!("Sets of viewers, by seed: {seeds}\n\n{tables}")
}

/// A table with a column for each load.
fn table(
    held: &OverloadResult,
    caption: &str,
    cell: impl Fn(&AdmissionSeries, &OfferedLoad) -> Cell,
) -> Table {
    let loads = held.series.first().map_or(&[][..], |series| &series.loads);
    let heads = ["Viewers", "Told apart by", "Admission", "Limit (MiB/s)"].map(str::to_owned);
    let loads = loads.iter().map(|load| format!("{} x", load.load));
    let mut table = Table::new(heads.into_iter().chain(loads)).caption(caption);
    for series in &held.series {
        let first = [
            series.workload.into(),
            series.identity.as_str().into(),
            series.admission.as_str().into(),
            Cell::number(series.limit_mib_s, 0),
        ];
        let cells = series.loads.iter().map(|load| cell(series, load));
        table.push(first.into_iter().chain(cells));
    }
    table
}

fn goodput(held: &OverloadResult) -> Table {
    table(held, "Goodput, MiB/s, mean of all sets", |_, load| {
        Cell::number(load.mean(|set| set.goodput_mib_s), 1)
    })
}

fn shares(held: &OverloadResult) -> Table {
    let caption = format!(
        "Share of the best of the row, %, minimum over all sets; at least {:.0} is required",
        SHARE_MIN * 100.0
    );
    table(held, &caption, |series, load| {
        Cell::number(series.least(load) * 100.0, 1)
    })
}

fn kept(held: &OverloadResult) -> Table {
    let caption = "Share of the best with as many viewers or fewer, %, minimum over all sets";
    table(held, caption, |series, load| {
        Cell::number(series.kept(load) * 100.0, 1)
    })
}

fn failures(held: &OverloadResult) -> Table {
    let share = |set: &ViewerSet| {
        let let_in = set.calls.saturating_sub(set.refused).max(1);
        100.0 * set.failures as f64 / let_in as f64
    };
    let caption = "Failed calls among those admitted, %, mean over all sets";
    table(held, caption, |_, load| Cell::number(load.mean(share), 2))
}

fn page(held: &OverloadResult, options: &BenchOptions) -> Page {
    let mut section = Section::new("Goodput over the load").text(WORDS);
    let mut workloads: Vec<&str> = held.series.iter().map(|series| series.workload).collect();
    workloads.dedup();
    for workload in workloads {
        let x = Axis::new("Offered load, relative to the limit", "").from(0.0);
        let y = Axis::new("Goodput", "MiB/s").from(0.0);
        let mut chart = Chart::lines(workload, x, y);
        for series in held.series.iter().filter(|one| one.workload == workload) {
            let point = |load: &OfferedLoad| (load.load, load.mean(|set| set.goodput_mib_s));
            let points: Vec<(f64, f64)> = series.loads.iter().map(point).collect();
            let name = format!("{}, {}", series.admission, series.identity);
            chart = chart.series(Series::new(name, points));
        }
        section = section.figure(chart);
    }
    let section = section
        .table(goodput(held))
        .table(shares(held))
        .table(kept(held))
        .table(failures(held))
        .command(options.command_line.as_str());
    let seeds = held.seeds.len();
    let lead = format!("{seeds} sets of viewers, run time {:.0} s.", held.seconds);
    Page::new("Overload")
        .lead(lead)
        .section(section)
        .footer(concat!("headlong ", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::results::tests::held;

    #[test]
    fn tables_have_row_per_rule_and_column_per_load() {
        let text = text(&held(&[(88.0, 4), (100.0, 9)]));
        assert!(text.starts_with("Sets of viewers, by seed: 7\n"), "{text}");
        let row = |cells: &str| {
            format!("| SD      | session ids   | accept    |            90 | {cells} |")
        };
        for (cells, count) in [
            ("88.0 | 100.0", 2),
            ("100.0 | 100.0", 1),
            ("0.40 | 0.90", 1),
        ] {
            let found = text
                .replace("  ", " ")
                .matches(&row(cells).replace("  ", " "))
                .count();
            assert_eq!(found, count, "{cells} in:\n{text}");
        }
    }
}
