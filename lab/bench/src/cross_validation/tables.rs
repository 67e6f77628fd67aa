//! Tables that compare real and virtual runs.

use headlong_report::{Cell, Table};

use super::{CrossValidation, PhaseFigure, ValidationFigures, ValidationPair};

const MIB: f64 = 1_048_576.0;

impl CrossValidation {
    /// Failure-free rates, real and virtual.
    pub fn rates_table(&self) -> Table {
        let heads = "Workload | Server | Real (MiB/s) | Virtual (MiB/s) | Ratio | Within | Agrees";
        let mut table = Table::headed(heads);
        for pair in &self.pairs {
            let rate = |rate: Option<f64>| Cell::maybe(rate.map(|rate| rate / MIB), 1);
            let agrees = match (pair.agrees, pair.is_machine_limited) {
                (true, false) => "yes",
                (true, true) => "as far as the machine can tell",
                (false, _) => "no",
            };
            table.push([
                pair.workload.as_str().into(),
                pair.server.as_str().into(),
                rate(pair.real_rate),
                rate(pair.virtual_rate),
                Cell::maybe(pair.ratio, 2),
                format!("{:.0} %", pair.tolerance * 100.0).into(),
                agrees.into(),
            ]);
        }
        table
    }

    /// Figures at the same rate: each one twice, the real one first.
    pub fn figures_table(&self) -> Table {
        let mut heads = vec!["Figure".to_owned()];
        let both: Vec<(&ValidationPair, ValidationFigures, ValidationFigures)> = self
            .pairs
            .iter()
            .filter_map(|pair| Some((pair, pair.real?, pair.simulated?)))
            .collect();
        for (pair, ..) in &both {
            let rate = pair.rate.unwrap_or(0.0) / MIB;
            heads.push(format!("{} {} at {rate:.1}", pair.workload, pair.server));
        }
        let mut table = Table::new(heads);
        for (name, figure, scale, decimals) in FIGURES {
            let mut row = vec![Cell::from(*name)];
            for (_, real, simulated) in &both {
                let format_figure = |figures: &ValidationFigures| match figure(figures) {
                    Some(value) => format!("{:.1$}", value * scale, decimals),
                    None => "-".to_owned(),
                };
                row.push(format!("{} / {}", format_figure(real), format_figure(simulated)).into());
            }
            table.push(row);
        }
        table
    }
}

impl CrossValidation {
    /// Figures by phase at the same rate, with their differences.
    pub fn phases_table(&self) -> Table {
        let heads = "Workload | Server | Phase | Seconds | Figure | Real | Virtual | Difference (%) \
                     | Within 5 %";
        let mut table = Table::headed(heads);
        for pair in &self.pairs {
            for phase in &pair.phases {
                let (scale, decimals) = match phase.figure {
                    PhaseFigure::Delivered => (1.0 / MIB, 1),
                    PhaseFigure::BytesPerSeek => (1e-6, 2),
                    PhaseFigure::LateJobs => (100.0, 2),
                };
                let format_figure =
                    |value: Option<f64>| Cell::maybe(value.map(|v| v * scale), decimals);
                let difference = phase.difference.map(|difference| difference * 100.0);
                table.push([
                    pair.workload.as_str().into(),
                    pair.server.as_str().into(),
                    phase.phase.as_str().into(),
                    format!("{:.0} to {:.0}", phase.from_s, phase.to_s).into(),
                    phase.figure.title().into(),
                    format_figure(phase.real),
                    format_figure(phase.simulated),
                    Cell::maybe(difference, 1),
                    match phase.agrees {
                        Some(true) => "yes",
                        Some(false) => "no",
                        None => "-",
                    }
                    .into(),
                ]);
            }
        }
        table
    }
}

type FigureAccessor = fn(&ValidationFigures) -> Option<f64>;

/// Name, accessor, scale and decimals of each row.
const FIGURES: &[(&str, FigureAccessor, f64, usize)] = &[
    ("Asked for (MiB/s)", |f| f.asked_for, 1.0 / MIB, 1),
    ("Delivered (MiB/s)", |f| Some(f.delivered), 1.0 / MIB, 1),
    ("Drive (MiB/s)", |f| Some(f.disk), 1.0 / MIB, 1),
    ("KiB a seek", |f| Some(f.bytes_per_seek), 1.0 / 1024.0, 0),
    (
        "Block requests per second",
        |f| Some(f.requests_per_second),
        1.0,
        1,
    ),
    ("Drive busy (%)", |f| f.disk_busy, 100.0, 1),
    ("Reads per second", |f| f.reads_per_second, 1.0, 1),
    ("Mean prefetch (KiB)", |f| f.prefetch_bytes, 1.0 / 1024.0, 0),
    ("Served from earlier reads (%)", |f| f.hit_ratio, 100.0, 1),
    ("Evicted unread (%)", |f| f.evicted_ratio, 100.0, 2),
    ("Sessions failed (%)", |f| Some(f.failure_share), 100.0, 2),
];
