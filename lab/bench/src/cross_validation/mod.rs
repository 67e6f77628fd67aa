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

mod figures;
mod phases;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use headlong_report::{Page, Section};
use headlong_units::Duration;
use serde::Serialize;

pub use self::figures::ValidationFigures;
pub use self::phases::{PhaseComparison, PhaseFigure};
use crate::command::{BenchError, BenchOptions, CommandOutcome, print};
use crate::experiment::{Experiment, ExperimentCell, ServerKind};
use crate::record::{OutcomeName, RunRecord};
use crate::run_phases::sum_of_devices;
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
                phases::compare(&real.phases, &simulated.phases)
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
