//! Cross-validation of virtual time: the same experiment on the emulated drive and in virtual time.
//!
//! The failure-free rate of each server is searched on both, with the same sessions. At the rate
//! found on the drive, the figures of both runs are compared.
//!
//! The virtual runs include the time that the machine adds between the drive and the server: at a
//! time scale of ten, a tenth of a millisecond becomes a millisecond. Where a real run of
//! `headlong serve` has one read outstanding at a time, that time is measured: how long its reads
//! took beyond the busy time of the drive. Several concurrent reads hide most of it.
//!
//! A virtual run takes seconds and a real one minutes, so the virtual limits are searched first and
//! the real searches start from them. Both step through the same rates.
//!
//! Invariants: a figure that one side lacks is missing, not zero; a pair counts only if both sides
//! found a rate.

use std::collections::BTreeMap;

use headlong_report::{Cell, Page, Section, Table};
use headlong_units::Duration;
use serde::Serialize;
use serde_json::Value;

use crate::command::{BenchError, BenchOptions, CommandOutcome, print};
use crate::experiment::{Experiment, ExperimentCell, ServerKind};
use crate::record::{DiskFacts, OutcomeName, RunRecord};
use crate::run_phases::{RunPhase, sum_of_devices};
use crate::search_driver::{Runner, SearchDriver, ServerLimit};
use crate::virtual_command::{VirtualOptions, imitable, limits};
use crate::virtual_run::VirtualBench;

/// Name and version of the result's schema.
const SCHEMA: &str = "headlong-agree-1";
/// Time that the machine adds to a request of the drive, if neither an option nor a run gives
/// it.
const TURNAROUND_USUAL: Duration = Duration::from_micros(200);

/// Largest accepted difference of the rates, as a share of the real one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateTolerance {
    /// For the engine.
    pub headlong: f64,
    /// For servers simulated together with the kernel's page cache.
    pub vanilla: f64,
}

impl Default for RateTolerance {
    fn default() -> Self {
        Self {
            headlong: 0.10,
            vanilla: 0.20,
        }
    }
}

/// One server under one workload, real and virtual.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationPair {
    /// Name of the workload.
    pub workload: String,
    /// Name of the server.
    pub server: String,
    /// Mean failure-free rate on the emulated drive, bytes a second; `None` if none was found.
    pub real_rate: Option<f64>,
    /// The same in virtual time.
    pub virtual_rate: Option<f64>,
    /// Virtual rate divided by the real one.
    pub ratio: Option<f64>,
    /// Largest accepted difference of the ratio from 1.
    pub tolerance: f64,
    /// Whether the machine, not the drive, ended a real search: then a higher virtual rate does not
    /// contradict it.
    pub is_machine_limited: bool,
    /// Whether the two agree.
    pub agrees: bool,
    /// The rate at which the figures are compared.
    pub rate: Option<f64>,
    /// Figures on the emulated drive at that rate.
    pub real: Option<ValidationFigures>,
    /// Figures in virtual time at that rate, with the same sessions.
    pub simulated: Option<ValidationFigures>,
    /// Both by phase of the run, over all drives of the server.
    pub phases: Vec<PhaseComparison>,
    /// The command that repeats the virtual run.
    pub replay: Option<String>,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossValidation {
    /// Always `headlong-agree-1`.
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Time that the machine adds to a request of the drive, in microseconds of wall time.
    pub turnaround_us: f64,
    /// One for each server and workload.
    pub pairs: Vec<ValidationPair>,
}

impl CrossValidation {
    /// Whether all agree.
    pub fn holds(&self) -> bool {
        self.pairs.iter().all(|pair| pair.agrees)
    }
}

/// Searches every limit on the emulated drive and in virtual time. With a rate, makes one run of
/// each server at that rate instead; with a turnaround (see [`VirtualBench::new`]), uses it instead
/// of measuring it.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn agree(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    (rate, said): (Option<f64>, Option<Duration>),
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let cells = imitable(&how.bench(experiment), cells)?;
    let cells: &Vec<ExperimentCell> = &cells.into_iter().cloned().collect();
    let with_turnaround = |turnaround: Duration| VirtualOptions {
        turnaround,
        replay: format!("{} --set simulation.turnaround={turnaround}", how.replay),
        ..how.clone()
    };
    // A record is valid only for the turnaround it was made with.
    let imagine = |how: &VirtualOptions| {
        let folder = format!("virtual-{}", how.turnaround);
        let options = BenchOptions {
            results: options.results.join(folder),
            ..options.clone()
        };
        match rate {
            Some(_) => Ok(Vec::new()),
            None => limits(experiment, cells, how, &options).map(|compared| compared.limits),
        }
    };
    // Missing programs and rights are reported before the first search.
    let mut driver =
        options.driver(experiment, cells, cells.len() * experiment.repeats as usize)?;
    let expected = with_turnaround(said.unwrap_or(TURNAROUND_USUAL));
    let first = imagine(&expected)?;
    let real = match rate {
        Some(rate) => runs(experiment, cells, rate, &mut driver)?,
        None => searches(experiment, cells, &first, &mut driver)?,
    };
    drop(driver);
    let serial = serial(experiment, cells, how);
    let measured = || turnaround(&real, &serial, experiment.time_scale);
    let how = match said.or_else(measured) {
        Some(turnaround) => with_turnaround(turnaround),
        None => expected.clone(),
    };
    let simulated = match how.turnaround == expected.turnaround {
        true => first,
        false => imagine(&how)?,
    };
    let bench = how.bench(experiment);
    let pairs = cells
        .iter()
        .map(|cell| pair(cell, &real, &simulated, &bench, rate.is_some()))
        .collect::<Result<Vec<ValidationPair>, BenchError>>()?;
    let agreement = CrossValidation {
        schema: SCHEMA.to_owned(),
        experiment: experiment.name.clone(),
        turnaround_us: how.turnaround.as_secs_f64() * 1e6,
        pairs,
    };
    write_report(experiment, &agreement, options)?;
    Ok(match agreement.holds() {
        true => CommandOutcome::Done,
        false => CommandOutcome::Missed,
    })
}

/// Searches the limits, starting from the virtual limits of the same servers.
fn searches<R: Runner>(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    simulated: &[ServerLimit],
    driver: &mut SearchDriver<'_, R>,
) -> Result<Vec<ServerLimit>, BenchError> {
    let mut limits = Vec::new();
    for repeat in 0..experiment.repeats {
        for cell in cells {
            let start = mean_rate(cell, simulated).unwrap_or_else(|| cell.rate_start());
            limits.push(driver.search(cell, start, repeat)?);
        }
    }
    Ok(limits)
}

fn is_of(cell: &ExperimentCell) -> impl Fn(&&ServerLimit) -> bool + Copy {
    |limit| limit.workload == cell.workload_name && limit.server == cell.server_name
}

/// The mean rate of this server under this workload over the limits that were found.
fn mean_rate(cell: &ExperimentCell, limits: &[ServerLimit]) -> Option<f64> {
    let of_cell = limits.iter().filter(is_of(cell));
    let rates: Vec<f64> = of_cell.filter_map(|limit| limit.found.rate).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// One run of each server at the given rate, in the form of limits.
fn runs<R: Runner>(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    rate: f64,
    driver: &mut SearchDriver<'_, R>,
) -> Result<Vec<ServerLimit>, BenchError> {
    let mut limits = Vec::new();
    for cell in cells {
        let record = driver.run(cell, rate, experiment.seed, false)?;
        limits.push(ServerLimit::of_run(cell, record));
    }
    Ok(limits)
}

fn pair(
    cell: &ExperimentCell,
    real: &[ServerLimit],
    simulated: &[ServerLimit],
    bench: &VirtualBench,
    is_one_run: bool,
) -> Result<ValidationPair, BenchError> {
    let is_of = is_of(cell);
    let best = real
        .iter()
        .filter(is_of)
        .rev()
        .find_map(|limit| limit.best.as_ref());
    let at_the_rate = match best {
        Some(best) => Some(bench.clone().run(cell, best.rate, best.seed, false)?),
        None => None,
    };
    let (real_rate, virtual_rate) = match is_one_run {
        true => (None, None),
        false => (mean_rate(cell, real), mean_rate(cell, simulated)),
    };
    let ratio = real_rate
        .zip(virtual_rate)
        .map(|(real, simulated)| simulated / real);
    let tolerance = RateTolerance::default();
    let tolerance = match cell.server.kind {
        ServerKind::Headlong { .. } => tolerance.headlong,
        _ => tolerance.vanilla,
    };
    let is_machine_limited = real
        .iter()
        .filter(is_of)
        .any(|limit| limit.found.is_machine_limited());
    let agrees = match (is_one_run, ratio) {
        (true, _) => both_pass(best, at_the_rate.as_ref(), tolerance),
        (false, Some(ratio)) => {
            ratio >= 1.0 - tolerance && (is_machine_limited || ratio <= 1.0 + tolerance)
        }
        (false, None) => false,
    };
    Ok(ValidationPair {
        workload: cell.workload_name.clone(),
        server: cell.server_name.clone(),
        real_rate,
        virtual_rate,
        ratio,
        tolerance,
        is_machine_limited,
        agrees,
        rate: best.map(|best| best.rate),
        real: best.map(ValidationFigures::of),
        simulated: at_the_rate.as_ref().map(ValidationFigures::of),
        phases: best
            .zip(at_the_rate.as_ref())
            .map_or_else(Vec::new, |(real, simulated)| {
                compare_phases(&real.phases, &simulated.phases)
            }),
        replay: best.map(|best| bench.replay_line(cell, best.rate, best.seed)),
    })
}

/// For single runs: both have the same outcome, and deliver and read about the same.
fn both_pass(real: Option<&RunRecord>, simulated: Option<&RunRecord>, tolerance: f64) -> bool {
    let (Some(real), Some(simulated)) = (real, simulated) else {
        return false;
    };
    let is_near = |a: f64, b: f64| (a - b).abs() <= tolerance * a.max(b);
    let (r, i) = (
        ValidationFigures::of(real),
        ValidationFigures::of(simulated),
    );
    real.verdict.outcome == simulated.verdict.outcome
        && is_near(r.delivered, i.delivered)
        && is_near(r.disk, i.disk)
}

/// The cells whose server has one read outstanding at a time.
fn serial(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    how: &VirtualOptions,
) -> Vec<ExperimentCell> {
    let bench = how.bench(experiment);
    let is_serial = |cell: &&ExperimentCell| bench.reads_at_a_time(cell) == Some(1);
    cells.iter().filter(is_serial).cloned().collect()
}

/// Time that the machine adds to a read of these servers, in wall time: how long their reads were
/// outstanding beyond the busy time of the drive.
fn turnaround(
    real: &[ServerLimit],
    serial: &[ExperimentCell],
    time_scale: u32,
) -> Option<Duration> {
    let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
    for limit in real {
        let is_serial = |cell: &ExperimentCell| {
            cell.server_name == limit.server && cell.workload_name == limit.workload
        };
        let Some(best) = limit.best.as_ref() else {
            continue;
        };
        if best.verdict.outcome == OutcomeName::Refused || !serial.iter().any(is_serial) {
            continue;
        }
        let served = |name: &str| sum_of_devices(&best.server_facts.status, name);
        let drives = std::iter::once(&best.disk.counters).chain(&best.disk.others);
        let busy = drives.map(|drive| drive.pointer("/counters/busy_ns")?.as_f64());
        let busy: Option<f64> = busy.sum();
        if let (Some(server), Some(drive), Some(reads)) =
            (served("busy_seconds"), busy, served("reads_done"))
        {
            *sums.entry("added").or_default() += (server - drive / 1e9).max(0.0);
            *sums.entry("reads").or_default() += reads;
        }
    }
    let reads = sums.get("reads").copied().filter(|reads| *reads > 0.0)?;
    let seconds = sums.get("added")? / reads / f64::from(time_scale);
    Some(Duration((seconds * 1e9) as u64))
}

fn write_report(
    experiment: &Experiment,
    agreement: &CrossValidation,
    options: &BenchOptions,
) -> Result<(), BenchError> {
    let lead = format!(
        "The emulated drive compared with virtual time. Added by the machine per request: \
         {:.0} us of wall time.",
        agreement.turnaround_us
    );
    let section = Section::new("Failure-free rates")
        .command(&options.command_line)
        .table(agreement.rates_table());
    let figures = Section::new("At the same rate, real / virtual").table(agreement.figures_table());
    let phases = Section::new("By phase, at the same rate")
        .text("All drives of a server together. A difference is a share of the real figure.")
        .table(agreement.phases_table());
    let page = Page::new(format!("{}: real and virtual", experiment.name)).lead(lead.as_str());
    page.section(section)
        .section(figures)
        .section(phases)
        .write(&options.report())?;
    let value = serde_json::to_value(agreement).unwrap_or_default();
    print(options, &value, || {
        let mut text = agreement.rates_table().to_markdown() + "\n";
        text += &agreement
            .figures_table()
            .caption("Real / virtual")
            .to_markdown();
        text += "\n";
        text += &agreement.phases_table().caption("By phase").to_markdown();
        for pair in agreement.pairs.iter().filter(|pair| !pair.agrees) {
            if let Some(replay) = &pair.replay {
                text += &format!("\n{}, {}: again: {replay}", pair.server, pair.workload);
            }
        }
        text + &format!("\nReport: {}\n", options.report().display())
    });
    Ok(())
}

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

/// Results of one run at a given rate. Rates in bytes per second of model time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ValidationFigures {
    /// Requested by calls sent in steady state.
    pub asked_for: Option<f64>,
    /// Received by viewers in steady state.
    pub delivered: f64,
    /// Read by the first drive in steady state.
    pub disk: f64,
    /// Mean bytes of a sequence of adjacent requests.
    pub bytes_per_seek: f64,
    /// Block requests per second.
    pub requests_per_second: f64,
    /// Share of the whole run in which a drive was busy, on average over all drives.
    pub disk_busy: Option<f64>,
    /// Read commands of the server per second, over the whole run.
    pub reads_per_second: Option<f64>,
    /// Mean bytes of a prefetch.
    pub prefetch_bytes: Option<f64>,
    /// Bytes sent that were served from an earlier read, as a share of bytes sent.
    pub hit_ratio: Option<f64>,
    /// Bytes prefetched and evicted unread, as a share of bytes read.
    pub evicted_ratio: Option<f64>,
    /// Share of sessions in steady state that failed.
    pub failure_share: f64,
}

impl ValidationFigures {
    /// Takes the figures from a record, real or virtual.
    pub fn of(record: &RunRecord) -> Self {
        let pattern = &record.disk.pattern;
        let drive = |path: &str| record.disk.counters.pointer(path).and_then(Value::as_f64);
        let elapsed = drive("/counters/elapsed_ns").filter(|ns| *ns > 0.0);
        let served = |name: &str| sum_of_devices(&record.server_facts.status, name);
        let ratio = |part: &str, whole: &str| {
            let whole = served(whole).filter(|whole| *whole > 0.0)?;
            Some(served(part)? / whole)
        };
        let seconds = pattern.seconds.max(1e-9);
        let is_counted = served("jobs").is_some_and(|jobs| jobs > 0.0);
        // A server without counters: the hit ratio is the share that the drive did not read for
        // it.
        let delivered = record.verdict.delivered;
        let kept = || (delivered > 0.0).then(|| (1.0 - pattern.rate() / delivered).max(0.0));
        let of_engine = |value: Option<f64>| value.filter(|_| is_counted);
        Self {
            asked_for: record.verdict.asked_for,
            delivered,
            disk: pattern.rate(),
            bytes_per_seek: pattern.bytes_per_sequence,
            requests_per_second: pattern.requests as f64 / seconds,
            disk_busy: busy_share(&record.disk),
            reads_per_second: of_engine(
                served("reads_done")
                    .zip(elapsed)
                    .map(|(reads, elapsed)| reads / (elapsed / 1e9)),
            ),
            prefetch_bytes: ratio("job_bytes", "jobs"),
            hit_ratio: of_engine(ratio("bytes_reused", "bytes_sent")).or_else(kept),
            evicted_ratio: of_engine(ratio("prefetch_evicted_bytes", "bytes_read")),
            failure_share: record.verdict.failure_share,
        }
    }
}

fn busy_share(disk: &DiskFacts) -> Option<f64> {
    let drives = std::iter::once(&disk.counters).chain(&disk.others);
    let share = |drive: &Value| {
        let of = |path: &str| drive.pointer(path).and_then(Value::as_f64);
        let elapsed = of("/counters/elapsed_ns").filter(|ns| *ns > 0.0)?;
        Some(of("/counters/busy_ns")? / elapsed)
    };
    let shares: Option<Vec<f64>> = drives.map(share).collect();
    let shares = shares?;
    Some(shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Largest difference of figures that agree, as a share of the real one.
const DIFFERENCE_MAX: f64 = 0.05;

/// A figure that is compared by phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseFigure {
    /// Bytes that viewers received, per second.
    Delivered,
    /// Bytes that the drives read between two seeks, on average.
    BytesPerSeek,
    /// Share of the server's jobs that were completed after their deadline.
    LateJobs,
}

impl PhaseFigure {
    const ALL: [Self; 3] = [Self::Delivered, Self::BytesPerSeek, Self::LateJobs];

    /// Name and unit, as a table shows it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Delivered => "Delivered (MiB/s)",
            Self::BytesPerSeek => "MB a seek",
            Self::LateJobs => "Late jobs (%)",
        }
    }

    fn of(self, phase: &RunPhase) -> Option<f64> {
        match self {
            Self::Delivered => Some(phase.delivered),
            Self::BytesPerSeek => phase.bytes_per_seek(),
            Self::LateJobs => phase.late_share(),
        }
    }
}

/// One figure of one phase, real and virtual.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseComparison {
    /// See [`RunPhase::name`].
    pub phase: String,
    /// Beginning of the phase, in seconds from the start of the run.
    pub from_s: f64,
    /// End of the phase in the real run.
    pub to_s: f64,
    /// The figure.
    pub figure: PhaseFigure,
    /// On the emulated drives.
    pub real: Option<f64>,
    /// In virtual time.
    pub simulated: Option<f64>,
    /// The virtual figure less the real one, as a share of the real one.
    pub difference: Option<f64>,
    /// Whether they differ by at most 5 %; nothing if a side lacks the figure.
    pub agrees: Option<bool>,
}

/// Every figure of the phases that both runs have.
fn compare_phases(real: &[RunPhase], simulated: &[RunPhase]) -> Vec<PhaseComparison> {
    let pairs = real.iter().filter_map(|real| {
        let simulated = simulated.iter().find(|phase| phase.name == real.name)?;
        Some((real, simulated))
    });
    let each = pairs.flat_map(|pair| PhaseFigure::ALL.map(|figure| (pair, figure)));
    let compare = |((real, simulated), figure): ((&RunPhase, &RunPhase), PhaseFigure)| {
        let (from_s, to_s) = (real.from_s, real.to_s);
        let phase = real.name.clone();
        let (real, simulated) = (figure.of(real), figure.of(simulated));
        let both = real.zip(simulated);
        let agrees =
            |(real, simulated): (f64, f64)| (simulated - real).abs() <= DIFFERENCE_MAX * real.abs();
        PhaseComparison {
            phase,
            from_s,
            to_s,
            figure,
            real,
            simulated,
            // Without a real value there is no share of it, but equal zeros agree.
            difference: both
                .filter(|(real, _)| *real != 0.0)
                .map(|(real, simulated)| simulated / real - 1.0),
            agrees: both.map(agrees),
        }
    };
    each.map(compare).collect()
}

#[cfg(test)]
mod tests;
