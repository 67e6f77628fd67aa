//! The papers' experiments again: our numbers beside theirs.
//!
//! The one idea: a reproduction is an experiment of this repository, a list of what was published
//! with where, and what in the published figures is a shape that must come out again even where the
//! numbers cannot, because drives, kernels and servers have changed.

mod automated;
pub mod netflix;
mod published;
mod reading;

use std::path::Path;

use headlong_report::{Bar, Cell, Page, Section, Table, maximum_rates};
use headlong_units::Duration;

use crate::command::{BenchError, Ending, Options};
use crate::compare::{Compared, compare};
use crate::experiment::{Experiment, Mistakes};
use crate::record::RunRecord;
use crate::told::{MB, comparison_page};
use crate::virtual_command::{Virtual, limits};

pub use automated::{Choice, reproduce_virtual, scenario_names};
pub use published::{Paper, Published, Shape};
use reading::Reading;

/// Time of one measurement of plain reading, whose drive is as fast as life.
const READING_TIME: Duration = Duration::from_secs(30);
const READING_TIME_QUICK: Duration = Duration::from_secs(8);
/// How often it is repeated (thesis 3.5.4: 15 times).
const READINGS: u32 = 15;
const READINGS_QUICK: u32 = 3;

/// The experiment of a paper.
///
/// # Errors
/// None but mistakes of ours: the file is part of the program.
pub fn experiment(paper: Paper, is_quick: bool) -> Result<Experiment, Mistakes> {
    let (name, text) = paper.experiment();
    let experiment = Experiment::from_text(Path::new(name), text, is_quick)?;
    experiment.check_workloads(Path::new(name))?;
    Ok(experiment)
}

/// Makes the experiment and puts what was published beside it.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn reproduce(
    paper: Paper,
    experiment: &Experiment,
    is_quick: bool,
    options: &Options,
) -> Result<Ending, BenchError> {
    let cells = experiment.cells();
    let mut hunt = options.hunt(
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
        readings = reading::measure(hunt.runner(), experiment, time, times)?;
    }
    let compared = compare(experiment, &mut hunt)?;
    let result = Reproduced {
        paper,
        experiment,
        compared,
        readings,
    };
    result.write(options)
}

/// The same in virtual time: no drive is made, so plain reading (thesis Table 3.4) is left out.
///
/// # Errors
/// If a result cannot be written.
pub fn reproduce_imitated(
    paper: Paper,
    experiment: &Experiment,
    how: &Virtual,
    options: &Options,
) -> Result<Ending, BenchError> {
    let compared = limits(experiment, &experiment.cells(), how, options)?;
    let result = Reproduced {
        paper,
        experiment,
        compared,
        readings: Vec::new(),
    };
    result.write(options)
}

struct Reproduced<'e> {
    paper: Paper,
    experiment: &'e Experiment,
    compared: Compared,
    readings: Vec<Reading>,
}

impl Reproduced<'_> {
    fn write(&self, options: &Options) -> Result<Ending, BenchError> {
        self.page(options).write(&options.report())?;
        crate::command::print(options, &self.json(), || self.text(options));
        Ok(Ending::Done)
    }

    /// Ours beside theirs, in MB/s as the papers write.
    fn table(&self) -> Table {
        let heads = ["Configuration", "Here (MB/s)", "Published (MB/s)", "Where"];
        let mut table = Table::new(heads);
        for published in self.paper.published() {
            let ours = self.compared.rates(published.workload, published.server);
            table.push([
                published.name.into(),
                ours.map_or(Cell::Missing, |rates| Cell::number(rates.mean / MB, 1)),
                published
                    .rate_mb
                    .map_or(Cell::Missing, |rate| Cell::number(rate, 1)),
                published.source.into(),
            ]);
        }
        table
    }

    /// Libception Table 2: what the drive did at the limit.
    fn disk_table(&self) -> Table {
        let heads = [
            "Configuration",
            "Drive (MB/s)",
            "published",
            "ms for 128 KiB",
            "published",
            "Bytes in sequences up to 128 KiB (%)",
            "published",
            "above 1920 KiB (%)",
            "published",
        ];
        let mut table = Table::new(heads);
        for published in self.paper.published() {
            let Some(disk) = published.disk else {
                continue;
            };
            let limits = self.compared.of(published.workload, published.server);
            let best = limits.filter_map(|limit| limit.best.as_ref()).last();
            let ours = |value: fn(&RunRecord) -> f64, decimals| {
                best.map_or(Cell::Missing, |best| Cell::number(value(best), decimals))
            };
            let theirs = |value: Option<f64>, decimals| {
                value.map_or(Cell::Missing, |value| Cell::number(value, decimals))
            };
            table.push([
                published.name.into(),
                ours(|best| best.disk.pattern.rate() / MB, 1),
                theirs(Some(disk.rate_mb), 1),
                ours(ms_per_transaction, 2),
                theirs(Some(disk.ms_per_transaction), 2),
                ours(|best| share_up_to(best, 128.0) * 100.0, 0),
                theirs(disk.short_percent, 0),
                ours(|best| (1.0 - share_up_to(best, 1920.0)) * 100.0, 0),
                theirs(disk.long_percent, 0),
            ]);
        }
        table
    }

    /// What must come out again whatever the numbers.
    fn shapes_table(&self) -> Table {
        let mut table = Table::new(["Published", "Here", "Comes out again"]);
        for shape in self.paper.shapes() {
            let rate = |(workload, server): (&str, &str)| {
                self.compared
                    .rates(workload, server)
                    .map(|rates| rates.mean)
            };
            let ratio = rate(shape.this)
                .zip(rate(shape.that))
                .map(|(this, that)| this / that);
            table.push([
                shape.words.into(),
                ratio.map_or(Cell::Missing, |ratio| {
                    Cell::Text(format!("{ratio:.2} times"))
                }),
                match ratio {
                    None => Cell::Missing,
                    Some(ratio) if shape.holds(ratio) => "yes".into(),
                    Some(_) => "no".into(),
                },
            ]);
        }
        table
    }

    fn has_disk_figures(&self) -> bool {
        self.paper
            .published()
            .iter()
            .any(|published| published.disk.is_some())
    }

    fn page(&self, options: &Options) -> Page {
        let mut bars = maximum_rates("Maximum failure-free rate, here and published");
        for published in self.paper.published() {
            let ours = self.compared.rates(published.workload, published.server);
            let bars_of = [
                ours.map(|rates| Bar::new(rates.mean / MB)),
                published.rate_mb.map(Bar::new),
            ];
            bars = bars.group(published.name, bars_of);
        }
        let mut section = Section::new("Beside what was published")
            .text(self.paper.mapping())
            .figure(bars)
            .table(self.table())
            .table(self.shapes_table());
        if self.has_disk_figures() {
            section = section.table(self.disk_table());
        }
        if !self.readings.is_empty() {
            section = section
                .text(reading::WORDS)
                .table(reading::table(&self.readings));
        }
        comparison_page(self.experiment, &self.compared, &options.command_line).section(section)
    }

    fn text(&self, options: &Options) -> String {
        let mut tables = Vec::new();
        if !self.readings.is_empty() {
            tables.push(reading::table(&self.readings));
        }
        tables.push(self.table());
        if self.has_disk_figures() {
            tables.push(self.disk_table());
        }
        tables.push(self.shapes_table());
        let tables: Vec<String> = tables.iter().map(Table::to_markdown).collect();
        format!(
            "{}\nThe page: {}\n",
            tables.join("\n"),
            options.report().display()
        )
    }

    fn json(&self) -> serde_json::Value {
        let mut value = crate::command::summary(self.experiment, &self.compared);
        let published = self.paper.published().iter().map(|published| {
            serde_json::json!({
                "workload": published.workload,
                "server": published.server,
                "rate": published.rate_mb.map(|rate| rate * MB),
                "source": published.source,
            })
        });
        value["published"] = published.collect();
        value
    }
}

/// How long the drive was busy for each 128 KiB (libception section 5: FreeBSD's transaction), in
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
    fn every_reproduction_is_a_right_experiment_and_names_what_is_in_it() {
        for paper in Paper::ALL {
            for is_quick in [false, true] {
                let experiment = experiment(paper, is_quick).expect("right");
                let shapes = paper
                    .shapes()
                    .iter()
                    .flat_map(|shape| [shape.this, shape.that]);
                let published = paper.published().iter().map(|p| (p.workload, p.server));
                for (workload, server) in published.chain(shapes) {
                    let cell = experiment.cell(Some(server), Some(workload));
                    assert!(cell.is_ok(), "{}: {cell:?}", paper.experiment().0);
                }
            }
        }
    }
}
