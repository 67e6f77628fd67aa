//! Durations of calls that read files (libception 6.6): reproduces Figure 17.

use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, Experiment, OutcomeName, RunRecord, runs_table,
};
use headlong_report::{Axis, Cell, Chart, Page, Section, Series, Table};
use serde::Serialize;
use serde_json::Value;

use crate::claims::{Claim, claims_table, outcome_of};
use crate::published::{ConfigurationKey, Paper, PublishedConfiguration};
use crate::report::{FOOTER, PaperReport};

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
    timed
        .report(experiment, &options.command_line)
        .publish(options)
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
            false => outcome_of(&self.claims()),
        }
    }

    fn table(&self) -> Table {
        let run = |figure: &PublishedConfiguration| {
            let (workload, server) = figure.of.as_ref()?;
            let mut runs = self.runs.iter();
            runs.find(|run| run.workload == *workload && run.server == *server)
        };
        let calls = |figure: &PublishedConfiguration| self.calls(figure.of.as_ref()?);
        let percent = |share: Option<f64>| Cell::maybe(share.map(|share| share * 100.0), 1);
        let quantile = |figure: &PublishedConfiguration, part: f64| {
            Cell::maybe(calls(figure).and_then(|calls| calls.quantile_ms(part)), 1)
        };
        Table::of(
            &Paper::Latencies.said().figures,
            &[
                ("Configuration", &|figure| figure.name.as_str().into()),
                ("Rate (MiB/s)", &|figure| {
                    Cell::maybe(run(figure).map(|run| run.rate / 1_048_576.0), 1)
                }),
                ("Failed (%)", &|figure| {
                    let share = run(figure).map(|run| run.verdict.failure_share);
                    Cell::maybe(share.map(|share| share * 100.0), 2)
                }),
                ("Calls", &|figure| {
                    Cell::maybe(calls(figure).map(|calls| calls.all as f64), 0)
                }),
                ("In memory (%)", &|figure| {
                    percent(calls(figure).and_then(|calls| calls.share(calls.in_memory)))
                }),
                ("Below 1 ms (%)", &|figure| {
                    percent(figure.of.as_ref().and_then(|of| self.short(of)))
                }),
                ("Published", &|figure| {
                    let printed = figure.short_calls.as_ref().map(ToString::to_string);
                    printed.into()
                }),
                ("95 % below (ms)", &|figure| quantile(figure, 0.95)),
                ("99 % below (ms)", &|figure| quantile(figure, 0.99)),
            ],
        )
        .caption("Calls that read (libception Figure 17)")
    }

    fn claims(&self) -> Vec<Claim> {
        Paper::Latencies.claims(|of| self.short(of))
    }

    fn chart(&self) -> Chart {
        let x = Axis::new("Time of a call", "ms").log();
        let mut chart = Chart::steps("Duration of calls", x, "calls").line_at_x(1.0, "1 ms");
        for figure in &Paper::Latencies.said().figures {
            let calls = figure.of.as_ref().and_then(|of| self.calls(of));
            let points = calls.map(CallDurations::points);
            let points = points.unwrap_or_default();
            chart = chart.series(Series::new(figure.name.as_str(), points));
        }
        chart
    }

    fn report(&self, experiment: &Experiment, command: &str) -> PaperReport {
        let section = Section::new("Comparison with published results")
            .text(Paper::Latencies.said().mapping.as_str())
            .figure(self.chart())
            .table(self.table())
            .table(claims_table(&self.claims()));
        let runs = Section::new("Runs")
            .command(command)
            .table(runs_table(&self.runs));
        PaperReport {
            lead: String::new(),
            tables: vec![self.table(), claims_table(&self.claims())],
            json: serde_json::json!({
                "schema": "headlong-latencies-1",
                "experiment": experiment.name,
                "calls": self.calls,
                "ending": format!("{:?}", self.ending()).to_lowercase(),
            }),
            page: Page::new("Duration of calls that read files")
                .lead(experiment.about.as_str())
                .section(section)
                .section(runs)
                .footer(FOOTER),
            outcome: self.ending(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment;

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
        let experiment = experiment(Paper::Latencies, true).expect("an experiment");
        let text = timed.report(&experiment, "headlong").text();
        assert!(
            text.contains(" 1.250 |") && text.contains(" about 49 % |"),
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
