//! A paper's experiment on an emulated drive or in virtual time, compared with the published
//! results.

use std::path::Path;

use headlong_bench::command::summary;
use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, ComparisonResult, Experiment, MB, Mistakes,
    RunRecord, VirtualOptions, compare, comparison_page, limits,
};
use headlong_published::PublishedValue;
use headlong_report::{Bar, Cell, Page, Section, Table, maximum_rates};
use headlong_stats::Summary;
use headlong_units::Duration;

use crate::claims::{Claim, claims_table, outcome_of};
use crate::published::{ConfigurationKey, Paper, PublishedConfiguration, RateKind, in_unit};
use crate::read_throughput::{self, ReadThroughput};
use crate::report::PaperReport;

/// Duration of one measurement of plain reads, with the drive in real time.
const READING_TIME: Duration = Duration::from_secs(30);
const READING_TIME_QUICK: Duration = Duration::from_secs(8);
/// Number of repetitions (thesis 3.5.4: 15).
const READINGS: u32 = 15;
const READINGS_QUICK: u32 = 3;

/// The experiment of a paper.
///
/// # Errors
/// None in practice: the file is part of the program.
pub fn experiment(paper: Paper, is_quick: bool) -> Result<Experiment, Mistakes> {
    let (name, text) = paper.experiment();
    let name = Path::new("experiments").join(name).with_extension("toml");
    let experiment = Experiment::from_text(&name, text, is_quick)?;
    experiment.check_workloads(&name)?;
    Ok(experiment)
}

/// Runs the experiment and compares the results with the published ones.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn reproduce(
    paper: Paper,
    experiment: &Experiment,
    is_quick: bool,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let cells = experiment.cells();
    let mut driver = options.driver(
        experiment,
        &cells,
        cells.len() * experiment.repeats as usize,
    )?;
    let mut readings = Vec::new();
    if paper == Paper::ToChunk {
        let (time, times) = match is_quick {
            true => (READING_TIME_QUICK, READINGS_QUICK),
            false => (READING_TIME, READINGS),
        };
        readings = read_throughput::measure(driver.runner(), experiment, time, times)?;
    }
    let compared = compare(experiment, &mut driver)?;
    let result = ReproducedPaper {
        paper,
        experiment,
        compared,
        readings,
    };
    result.publish(options)
}

/// The same in virtual time: without a drive, plain reads (thesis Table 3.4) are left out.
///
/// # Errors
/// If a result cannot be written.
pub fn reproduce_imitated(
    paper: Paper,
    experiment: &Experiment,
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    imitated(paper, experiment, how, options)?.publish(options)
}

/// The claims of a paper in virtual time.
///
/// # Errors
/// If a record cannot be written.
pub(crate) fn imitated_claims(
    paper: Paper,
    experiment: &Experiment,
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<Vec<Claim>, BenchError> {
    Ok(imitated(paper, experiment, how, options)?.claims())
}

fn imitated<'e>(
    paper: Paper,
    experiment: &'e Experiment,
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<ReproducedPaper<'e>, BenchError> {
    Ok(ReproducedPaper {
        paper,
        experiment,
        compared: limits(experiment, &experiment.cells(), how, options)?,
        readings: Vec::new(),
    })
}

struct ReproducedPaper<'e> {
    paper: Paper,
    experiment: &'e Experiment,
    compared: ComparisonResult,
    readings: Vec<ReadThroughput>,
}

impl ReproducedPaper<'_> {
    fn publish(&self, options: &BenchOptions) -> Result<CommandOutcome, BenchError> {
        let comparison = [
            Some(self.table()),
            self.disk_table(),
            Some(claims_table(&self.claims())),
        ];
        let readings = (!self.readings.is_empty()).then(|| read_throughput::table(&self.readings));
        PaperReport {
            lead: String::new(),
            tables: readings
                .into_iter()
                .chain(comparison.into_iter().flatten())
                .collect(),
            json: self.json(),
            page: self.page(options),
            outcome: CommandOutcome::of_searches(&self.compared.limits)
                .and(outcome_of(&self.claims())),
        }
        .publish(options)
    }

    /// The mean rate of a workload with a server, bytes per second.
    fn rate(&self, kind: RateKind, (workload, server): &ConfigurationKey) -> Option<f64> {
        match kind {
            RateKind::Offered => Some(self.compared.rates(workload, server)?.mean),
            RateKind::Delivered => {
                let limits = self.compared.of(workload, server);
                let found: Summary = limits
                    .filter_map(|limit| Some(delivered(limit.best.as_ref()?)))
                    .collect();
                found.mean()
            }
        }
    }

    /// Our rate in the unit of a published one, and of its kind.
    fn rate_like(&self, figure: &PublishedConfiguration) -> Option<f64> {
        let unit = figure
            .published
            .as_ref()
            .map_or("MB/s", |value| &value.unit);
        let rate = self.rate(self.paper.said().compares, figure.of.as_ref()?)?;
        Some(in_unit(rate, unit))
    }

    /// Our results and the published ones. Only the rate of the published kind is comparable.
    fn table(&self) -> Table {
        let in_mb = |kind, figure: &PublishedConfiguration| {
            let rate = figure.of.as_ref().and_then(|of| self.rate(kind, of));
            Cell::maybe(rate.map(|rate| rate / MB), 1)
        };
        let kind = match self.paper.said().compares {
            RateKind::Offered => "Here, offered",
            RateKind::Delivered => "Here, delivered",
        };
        Table::of(
            &self.paper.said().figures,
            &[
                ("Configuration", &|figure| figure.name.as_str().into()),
                ("Offered (MB/s)", &|figure| in_mb(RateKind::Offered, figure)),
                ("Delivered (MB/s)", &|figure| {
                    in_mb(RateKind::Delivered, figure)
                }),
                (kind, &|figure| Cell::maybe(self.rate_like(figure), 1)),
                ("Published", &|figure| printed(figure.published.as_ref())),
                ("Where", &|figure| figure.source.as_str().into()),
            ],
        )
    }

    /// Libception Table 2: drive figures at the limit. `None` if the paper gives none.
    fn disk_table(&self) -> Option<Table> {
        let heads = "Configuration | Drive (MB/s) | published | ms for 128 KiB | published | \
            Bytes in sequences up to 128 KiB (%) | published | above 1920 KiB (%) | published";
        type FigureColumn = (fn(&RunRecord) -> f64, usize);
        let ours: [FigureColumn; 4] = [
            (|best| drive_rate(best) / MB, 1),
            (ms_per_transaction, 2),
            (|best| share_up_to(best, 128.0) * 100.0, 0),
            (|best| (1.0 - share_up_to(best, 1920.0)) * 100.0, 0),
        ];
        let mut table = Table::headed(heads);
        for figure in &self.paper.said().figures {
            if figure.drive.is_empty() {
                continue;
            }
            let of = figure.of.iter();
            let limits = of.flat_map(|(workload, server)| self.compared.of(workload, server));
            let best = limits.filter_map(|limit| limit.best.as_ref()).last();
            let cells = ours
                .iter()
                .enumerate()
                .flat_map(|(index, (value, decimals))| {
                    let ours = Cell::maybe(best.map(value), *decimals);
                    [ours, printed(figure.drive.get(index))]
                });
            table.push(std::iter::once(figure.name.as_str().into()).chain(cells));
        }
        (!table.is_empty()).then_some(table)
    }

    fn claims(&self) -> Vec<Claim> {
        let kind = self.paper.said().compares;
        self.paper.claims(|of| self.rate(kind, of))
    }

    fn page(&self, options: &BenchOptions) -> Page {
        let mut bars = maximum_rates("Maximum failure-free rate, here and published");
        for figure in &self.paper.said().figures {
            let published = figure.published.as_ref().map(|value| value.number);
            let both = [self.rate_like(figure), published];
            bars = bars.group(figure.name.as_str(), both.map(|rate| rate.map(Bar::new)));
        }
        let mut section = Section::new("Comparison with published results")
            .text(self.paper.said().mapping.as_str())
            .figure(bars)
            .table(self.table())
            .table(claims_table(&self.claims()));
        if let Some(table) = self.disk_table() {
            section = section.table(table);
        }
        if !self.readings.is_empty() {
            section = section
                .text(read_throughput::WORDS)
                .table(read_throughput::table(&self.readings));
        }
        comparison_page(self.experiment, &self.compared, &options.command_line).section(section)
    }

    fn json(&self) -> serde_json::Value {
        let mut value = summary(self.experiment, &self.compared);
        let published = self.paper.said().figures.iter().map(|figure| {
            let of = figure.of.as_ref();
            serde_json::json!({
                "name": figure.name,
                "workload": of.map(|of| &of.0),
                "server": of.map(|of| &of.1),
                "published": figure.published.as_ref().map(ToString::to_string),
                "here": self.rate_like(figure),
                "source": figure.source,
            })
        });
        value["published"] = published.collect();
        value["claims"] = serde_json::to_value(self.claims()).unwrap_or_default();
        value
    }
}

/// A published number as printed.
fn printed(value: Option<&PublishedValue>) -> Cell {
    value.map(ToString::to_string).into()
}

/// Bytes per second that viewers received: with rising rates, in the last step that passed.
fn delivered(record: &RunRecord) -> f64 {
    let step = record.climbed.as_ref().and_then(|climbed| climbed.passed());
    step.map_or(record.verdict.delivered, |step| step.delivered)
}

/// Bytes per second that each drive read: with rising rates, in the last step that passed.
fn drive_rate(record: &RunRecord) -> f64 {
    let step = record.climbed.as_ref().and_then(|climbed| climbed.passed());
    let drives = 1 + record.disk.others.len();
    step.map_or(record.disk.pattern.rate(), |step| {
        step.disk.read / drives as f64
    })
}

/// Busy time of the drive per 128 KiB (libception section 5: FreeBSD's transaction), in
/// milliseconds.
fn ms_per_transaction(record: &RunRecord) -> f64 {
    let counter = |path| {
        let value = record.disk.counters.pointer(path);
        value
            .and_then(serde_json::Value::as_f64)
            .unwrap_or(f64::NAN)
    };
    let bytes = counter("/counters/reads/bytes");
    counter("/counters/busy_ns") / 1e6 / (bytes / 131_072.0)
}

fn share_up_to(record: &RunRecord, kib: f64) -> f64 {
    let cdf = record.disk.pattern.cdf();
    cdf.map_or(f64::NAN, |cdf| cdf.share_up_to(kib * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reproductions_are_valid_and_name_existing_cells() {
        for paper in Paper::ALL {
            for is_quick in [false, true] {
                let experiment = experiment(paper, is_quick).expect("right");
                let said = paper.said();
                let shapes = said
                    .shapes
                    .iter()
                    .flat_map(|shape| [&shape.this, &shape.that]);
                let figures = said.figures.iter().filter_map(|figure| figure.of.as_ref());
                for (workload, server) in figures.chain(shapes) {
                    let cell = experiment.cell(Some(server), Some(workload));
                    assert!(cell.is_ok(), "{}: {cell:?}", paper.experiment().0);
                }
            }
        }
    }
}
