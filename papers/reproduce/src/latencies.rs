//! Durations of calls that read files (libception 6.6): reproduces Figure 17.

use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, Experiment, OutcomeName, RunRecord, runs_table,
};
use headlong_report::{Axis, Cell, Chart, Page, Section, Series, Table};
use serde::Serialize;
use serde_json::Value;

use crate::published::{ConfigurationKey, Paper};
use crate::shapes::shapes_table;

/// Limit of short calls: the paper's millisecond, rounded up to the end of a bucket.
const SHORT_US: u64 = 1024;
/// Calls for data in memory take less than this.
const IN_MEMORY_US: u64 = 100;

/// Makes one run of each server at its rate in the experiment, and compares the calls with the
/// published results.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn latencies(
    experiment: &Experiment,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let cells = experiment.cells();
    let mut driver = options.driver(experiment, &cells, cells.len())?;
    let mut runs = Vec::new();
    for cell in &cells {
        let rate = experiment.first_rate(cell);
        runs.push(driver.run(cell, rate, experiment.seed, false)?);
    }
    drop(driver);
    let timed = TimedRuns {
        calls: runs.iter().map(CallDurations::of).collect(),
        runs,
    };
    timed.write(experiment, options)
}

/// Runs, and the calls of each.
struct TimedRuns {
    runs: Vec<RunRecord>,
    calls: Vec<CallDurations>,
}

/// The calls of one run, by duration.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CallDurations {
    workload: String,
    server: String,
    /// All calls that were considered: sequential reads of part of a file, or of much of it.
    all: u64,
    /// Those for bytes in memory, which are not timed.
    in_memory: u64,
    /// The others: upper bound in microseconds of model time (`None` for the longest), count.
    timed: Vec<(Option<u64>, u64)>,
}

impl CallDurations {
    /// From the reception's final status.
    fn of(run: &RunRecord) -> Self {
        let told = &run.server_facts.status["calls"];
        let scale = u64::from(run.time_scale);
        let buckets = told["latencies"].as_array().into_iter().flatten();
        let timed = buckets.map(|bucket| {
            let below = bucket["below_us"].as_u64();
            let count = bucket["count"].as_u64().unwrap_or(0);
            (below.map(|us| us.saturating_mul(scale)), count)
        });
        let timed: Vec<_> = timed.collect();
        let number = |name: &str| told.get(name).and_then(Value::as_u64).unwrap_or(0);
        // Some calls that block are not timed: mappings.
        let in_memory = number("resident");
        let counted: u64 = timed.iter().map(|(_, count)| count).sum();
        Self {
            workload: run.workload.clone(),
            server: run.server.clone(),
            all: in_memory + counted,
            in_memory,
            timed,
        }
    }

    /// Number of calls shorter than this, within the resolution of the buckets.
    fn below(&self, us: u64) -> u64 {
        let is_below = |(below, _): &&(Option<u64>, u64)| below.is_some_and(|below| below <= us);
        let timed = self.timed.iter().filter(is_below);
        self.in_memory + timed.map(|(_, count)| count).sum::<u64>()
    }

    /// A number of calls as a share of all.
    fn share(&self, calls: u64) -> Option<f64> {
        (self.all > 0).then(|| calls as f64 / self.all as f64)
    }

    /// Share of short calls.
    fn short(&self) -> Option<f64> {
        self.share(self.below(SHORT_US))
    }

    /// Upper bounds of the buckets, in microseconds.
    fn ends(&self) -> impl Iterator<Item = u64> {
        let timed = self.timed.iter().filter_map(|(below, _)| *below);
        std::iter::once(IN_MEMORY_US).chain(timed.filter(|us| *us > IN_MEMORY_US))
    }

    /// Upper bound in milliseconds of this share of the calls.
    fn quantile_ms(&self, part: f64) -> Option<f64> {
        let reached = |us: &u64| {
            self.share(self.below(*us))
                .is_some_and(|share| share >= part)
        };
        self.ends().find(reached).map(|us| us as f64 / 1e3)
    }

    /// The distribution, in milliseconds and per cent.
    fn points(&self) -> Vec<(f64, f64)> {
        let points = self.ends().filter_map(|us| {
            let share = self.share(self.below(us))?;
            Some((us as f64 / 1e3, share * 100.0))
        });
        points.collect()
    }
}

impl TimedRuns {
    fn calls(&self, (workload, server): &ConfigurationKey) -> Option<&CallDurations> {
        let is_it = |calls: &&CallDurations| calls.workload == *workload && calls.server == *server;
        self.calls.iter().find(is_it)
    }

    fn short(&self, of: &ConfigurationKey) -> Option<f64> {
        self.calls(of)?.short()
    }

    fn ending(&self) -> CommandOutcome {
        let is_refused = |run: &RunRecord| run.verdict.outcome == OutcomeName::Refused;
        match self.runs.iter().any(is_refused) || self.calls.iter().any(|calls| calls.all == 0) {
            true => CommandOutcome::Refused,
            false => CommandOutcome::Done,
        }
    }

    fn table(&self) -> Table {
        let heads = "Configuration | Rate (MiB/s) | Failed (%) | Calls | In memory (%) | \
            Below 1 ms (%) | Published (%) | 95 % below (ms) | 99 % below (ms)";
        let caption = "Calls that read (libception Figure 17)";
        let mut table = Table::headed(heads).caption(caption);
        for figure in &Paper::Latencies.said().figures {
            let calls = self.calls(&figure.of);
            let (workload, server) = &figure.of;
            let mut runs = self.runs.iter();
            let run = runs.find(|run| run.workload == *workload && run.server == *server);
            let percent = |share: Option<f64>| share.map(|share| share * 100.0);
            table.push([
                figure.name.as_str().into(),
                Cell::maybe(run.map(|run| run.rate / 1_048_576.0), 1),
                Cell::maybe(percent(run.map(|run| run.verdict.failure_share)), 2),
                Cell::maybe(calls.map(|calls| calls.all as f64), 0),
                Cell::maybe(
                    percent(calls.and_then(|calls| calls.share(calls.in_memory))),
                    1,
                ),
                Cell::maybe(percent(self.short(&figure.of)), 1),
                Cell::maybe(figure.short_calls, 0),
                Cell::maybe(calls.and_then(|calls| calls.quantile_ms(0.95)), 1),
                Cell::maybe(calls.and_then(|calls| calls.quantile_ms(0.99)), 1),
            ]);
        }
        table
    }

    fn shapes_table(&self) -> Table {
        shapes_table(Paper::Latencies, |of| self.short(of))
    }

    fn chart(&self) -> Chart {
        let x = Axis::new("Time of a call", "ms").log();
        let mut chart = Chart::steps("Duration of calls", x, "calls").line_at_x(1.0, "1 ms");
        for figure in &Paper::Latencies.said().figures {
            let points = self.calls(&figure.of).map(CallDurations::points);
            let points = points.unwrap_or_default();
            chart = chart.series(Series::new(figure.name.as_str(), points));
        }
        chart
    }

    fn text(&self) -> String {
        let tables = [self.table(), self.shapes_table()];
        tables.map(|table| table.to_markdown()).join("\n")
    }

    fn write(
        &self,
        experiment: &Experiment,
        options: &BenchOptions,
    ) -> Result<CommandOutcome, BenchError> {
        let section = Section::new("Comparison with published results")
            .text(Paper::Latencies.said().mapping.as_str())
            .figure(self.chart())
            .table(self.table())
            .table(self.shapes_table());
        let runs = Section::new("Runs")
            .command(options.command_line.as_str())
            .table(runs_table(&self.runs));
        let page = Page::new("Duration of calls that read files")
            .lead(experiment.about.as_str())
            .section(section)
            .section(runs)
            .footer(concat!("headlong ", env!("CARGO_PKG_VERSION")));
        let text = self.text();
        let json = serde_json::json!({
            "schema": "headlong-latencies-1",
            "experiment": experiment.name,
            "calls": self.calls,
            "ending": format!("{:?}", self.ending()).to_lowercase(),
        });
        options.publish(page, ("latencies", &text), (&json, &text))?;
        Ok(self.ending())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> CallDurations {
        CallDurations {
            workload: "sd".to_owned(),
            server: "nginx".to_owned(),
            all: 100,
            in_memory: 50,
            timed: vec![
                (Some(512), 10),
                (Some(1024), 20),
                (Some(65_536), 18),
                (None, 2),
            ],
        }
    }

    #[test]
    fn calls_in_memory_are_shortest_and_last_bucket_open() {
        let calls = calls();
        assert_eq!(calls.short(), Some(0.8));
        assert_eq!(calls.quantile_ms(0.5), Some(0.1));
        assert_eq!(calls.quantile_ms(0.6), Some(0.512));
        assert_eq!(calls.quantile_ms(0.95), Some(65.536));
        assert_eq!(calls.quantile_ms(0.99), None);
        assert_eq!(
            calls.points(),
            [(0.1, 50.0), (0.512, 60.0), (1.024, 80.0), (65.536, 98.0)]
        );
    }

    #[test]
    fn compares_with_published_and_refuses_missing() {
        let timed = TimedRuns {
            runs: Vec::new(),
            calls: vec![
                calls(),
                CallDurations {
                    server: "nginx-libception".to_owned(),
                    in_memory: 70,
                    ..calls()
                },
            ],
        };
        let text = timed.text();
        assert!(
            text.contains("1.25 times") && text.contains(" 49 |"),
            "{text}"
        );
        assert_eq!(timed.ending(), CommandOutcome::Done);
        let none = CallDurations {
            all: 0,
            in_memory: 0,
            timed: Vec::new(),
            ..calls()
        };
        assert_eq!(none.short(), None);
        let timed = TimedRuns {
            runs: Vec::new(),
            calls: vec![none],
        };
        assert_eq!(timed.ending(), CommandOutcome::Refused);
    }
}
