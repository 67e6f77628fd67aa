//! A paper's experiment on an emulated drive or in virtual time, compared with the published
//! results.

use std::path::Path;

use headlong_bench::command::summary;
use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, ComparisonResult, Experiment, MB, Mistakes,
    RunRecord, VirtualOptions, compare, comparison_page, limits,
};
use headlong_report::{Bar, Cell, Page, Section, Table, maximum_rates};
use headlong_units::Duration;

use crate::published::{ConfigurationKey, Paper};
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
    let compared = limits(experiment, &experiment.cells(), how, options)?;
    let result = ReproducedPaper {
        paper,
        experiment,
        compared,
        readings: Vec::new(),
    };
    result.publish(options)
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
            Some(self.shapes_table()),
        ];
        let readings = (!self.readings.is_empty()).then(|| read_throughput::table(&self.readings));
        PaperReport {
            name: self.paper.experiment().0,
            lead: String::new(),
            tables: readings
                .into_iter()
                .chain(comparison.into_iter().flatten())
                .collect(),
            json: self.json(),
            page: self.page(options),
            outcome: CommandOutcome::Done,
        }
        .publish(options)
    }

    /// The mean rate of a workload with a server, bytes per second.
    fn rate(&self, (workload, server): &ConfigurationKey) -> Option<f64> {
        Some(self.compared.rates(workload, server)?.mean)
    }

    /// Our results and the published ones, in MB/s like the papers.
    fn table(&self) -> Table {
        Table::of(
            &self.paper.said().figures,
            &[
                ("Configuration", &|figure| figure.name.as_str().into()),
                ("Here (MB/s)", &|figure| {
                    Cell::maybe(self.rate(&figure.of).map(in_mb), 1)
                }),
                ("Published (MB/s)", &|figure| Cell::maybe(figure.rate, 1)),
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
            (|best| best.disk.pattern.rate() / MB, 1),
            (ms_per_transaction, 2),
            (|best| share_up_to(best, 128.0) * 100.0, 0),
            (|best| (1.0 - share_up_to(best, 1920.0)) * 100.0, 0),
        ];
        let mut table = Table::headed(heads);
        for figure in &self.paper.said().figures {
            let Some(drive) = &figure.drive else {
                continue;
            };
            let limits = self.compared.of(&figure.of.0, &figure.of.1);
            let best = limits.filter_map(|limit| limit.best.as_ref()).last();
            let cells = ours
                .iter()
                .enumerate()
                .flat_map(|(index, (value, decimals))| {
                    let numbers = [best.map(value), drive.get(index).copied()];
                    numbers.map(|number| Cell::maybe(number, *decimals))
                });
            table.push(std::iter::once(figure.name.as_str().into()).chain(cells));
        }
        (!table.is_empty()).then_some(table)
    }

    fn shapes_table(&self) -> Table {
        self.paper.shapes_table(|of| self.rate(of))
    }

    fn page(&self, options: &BenchOptions) -> Page {
        let mut bars = maximum_rates("Maximum failure-free rate, here and published");
        for figure in &self.paper.said().figures {
            let ours = self.rate(&figure.of).map(in_mb);
            bars = bars.group(
                figure.name.as_str(),
                [ours, figure.rate].map(|rate| rate.map(Bar::new)),
            );
        }
        let mut section = Section::new("Comparison with published results")
            .text(self.paper.said().mapping.as_str())
            .figure(bars)
            .table(self.table())
            .table(self.shapes_table());
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
            serde_json::json!({
                "workload": figure.of.0,
                "server": figure.of.1,
                "rate": figure.rate.map(|rate| rate * MB),
                "source": figure.source,
            })
        });
        value["published"] = published.collect();
        value
    }
}

fn in_mb(rate: f64) -> f64 {
    rate / MB
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
                let figures = said.figures.iter().map(|figure| &figure.of);
                for (workload, server) in figures.chain(shapes) {
                    let cell = experiment.cell(Some(server), Some(workload));
                    assert!(cell.is_ok(), "{}: {cell:?}", paper.experiment().0);
                }
            }
        }
    }
}
