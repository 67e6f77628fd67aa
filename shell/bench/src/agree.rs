//! Whether virtual time tells the truth: the same experiment in both worlds, side by side.
//!
//! The one idea: the failure-free rate of each server is looked for on the emulated drive and in
//! virtual time, with the same sessions; and at the rate that was found on the drive, what the two
//! worlds did for it is put beside each other.
//!
//! What the machine adds on the way from the drive to the server is measured in the real runs of
//! `headlong serve`, which counts how long its reads take, and told to the virtual ones: at a time
//! scale of ten, a tenth of a millisecond is a millisecond.
//!
//! Invariants: a figure that one side does not have is missing, not zero; a pair counts only if both
//! sides found a rate.

use std::collections::BTreeMap;

use headlong_report::{Cell as TableCell, Page, Section, Table};
use headlong_units::Duration;
use serde::Serialize;
use serde_json::Value;

use crate::command::{BenchError, Ending, Options, print};
use crate::experiment::{Cell, Experiment, ServerKind};
use crate::hunt::{Hunt, Limit, Runner};
use crate::record::{OutcomeName, RunRecord};
use crate::virtual_command::{Virtual, limits};
use crate::virtual_run::VirtualBench;

/// Name and version of the result's form.
const SCHEMA: &str = "headlong-agree-1";
const MIB: f64 = 1_048_576.0;
/// What the machine adds to a read, if no run of `headlong serve` says.
const TURNAROUND_USUAL: Duration = Duration::from_micros(200);

/// How far rates may lie apart, as a share of the real one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tolerance {
    /// Of the engine.
    pub headlong: f64,
    /// Of the servers that are imitated with their kernel.
    pub vanilla: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            headlong: 0.10,
            vanilla: 0.20,
        }
    }
}

/// What one world did at a rate. Rates in bytes a second of model time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// What viewers got in steady state.
    pub delivered: f64,
    /// What the drive read in steady state.
    pub disk: f64,
    /// Bytes of a sequence of adjacent requests.
    pub bytes_per_seek: f64,
    /// Block requests a second.
    pub requests_per_second: f64,
    /// Share of the whole run in which the drive had something to do.
    pub disk_busy: Option<f64>,
    /// Reads of the server a second, over the whole run.
    pub reads_per_second: Option<f64>,
    /// Mean bytes of a prefetch.
    pub prefetch_bytes: Option<f64>,
    /// Bytes sent that had been read before, of bytes sent.
    pub hit_ratio: Option<f64>,
    /// Bytes prefetched and evicted unread, of bytes read.
    pub evicted_ratio: Option<f64>,
    /// Share of sessions in steady state that failed.
    pub failure_share: f64,
}

impl Figures {
    /// From a record of either world.
    pub fn of(record: &RunRecord) -> Self {
        let pattern = &record.disk.pattern;
        let drive = |path: &str| record.disk.counters.pointer(path).and_then(Value::as_f64);
        let elapsed = drive("/counters/elapsed_ns").filter(|ns| *ns > 0.0);
        let served = |name: &str| {
            let path = format!("/devices/0/counters/{name}");
            let counter = record.server_facts.status.pointer(&path)?;
            counter.as_f64()
        };
        let ratio = |part: &str, whole: &str| {
            let whole = served(whole).filter(|whole| *whole > 0.0)?;
            Some(served(part)? / whole)
        };
        let seconds = pattern.seconds.max(1e-9);
        let is_counted = served("jobs").is_some_and(|jobs| jobs > 0.0);
        // Of a server that counts nothing: what the drive did not read for it.
        let delivered = record.verdict.delivered;
        let kept = || (delivered > 0.0).then(|| (1.0 - pattern.rate() / delivered).max(0.0));
        let of_engine = |value: Option<f64>| value.filter(|_| is_counted);
        Self {
            delivered,
            disk: pattern.rate(),
            bytes_per_seek: pattern.bytes_per_sequence,
            requests_per_second: pattern.requests as f64 / seconds,
            disk_busy: drive("/counters/busy_ns")
                .zip(elapsed)
                .map(|(busy, elapsed)| busy / elapsed),
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

/// One server under one workload in both worlds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Name of the workload.
    pub workload: String,
    /// Name of the server.
    pub server: String,
    /// Mean failure-free rate on the emulated drive, bytes a second; `None` if none was found.
    pub real_rate: Option<f64>,
    /// The same in virtual time.
    pub virtual_rate: Option<f64>,
    /// Virtual by real.
    pub ratio: Option<f64>,
    /// How far it may be from 1.
    pub tolerance: f64,
    /// Whether the machine ended a real search, not the drive: then a higher virtual rate says
    /// nothing against it.
    pub is_machine_limited: bool,
    /// Whether the two agree.
    pub agrees: bool,
    /// The rate at which figures are put beside each other.
    pub rate: Option<f64>,
    /// What happened on the emulated drive at that rate.
    pub real: Option<Figures>,
    /// What happened in virtual time at that rate, with the same sessions.
    pub imagined: Option<Figures>,
    /// The command that repeats the virtual run.
    pub replay: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Always `headlong-agree-1`.
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// What the machine adds to a read, in microseconds on the wall.
    pub turnaround_us: f64,
    /// One for each server and workload.
    pub pairs: Vec<Pair>,
}

impl Agreement {
    /// Whether all agree.
    pub fn holds(&self) -> bool {
        self.pairs.iter().all(|pair| pair.agrees)
    }

    /// Rates of both worlds.
    pub fn rates_table(&self) -> Table {
        let heads = [
            "Workload",
            "Server",
            "Real (MiB/s)",
            "Virtual (MiB/s)",
            "Ratio",
            "Within",
            "Agrees",
        ];
        let mut table = Table::new(heads);
        for pair in &self.pairs {
            let rate = |rate: Option<f64>| number(rate.map(|rate| rate / MIB), 1);
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
                number(pair.ratio, 2),
                format!("{:.0} %", pair.tolerance * 100.0).into(),
                agrees.into(),
            ]);
        }
        table
    }

    /// What both worlds did at the same rate: each figure twice, the real one first.
    pub fn figures_table(&self) -> Table {
        let mut heads = vec!["Figure".to_owned()];
        let both: Vec<(&Pair, Figures, Figures)> = self
            .pairs
            .iter()
            .filter_map(|pair| Some((pair, pair.real?, pair.imagined?)))
            .collect();
        for (pair, ..) in &both {
            let rate = pair.rate.unwrap_or(0.0) / MIB;
            heads.push(format!("{} {} at {rate:.1}", pair.workload, pair.server));
        }
        let mut table = Table::new(heads);
        for (name, figure, scale, decimals) in FIGURES {
            let mut row = vec![TableCell::from(*name)];
            for (_, real, imagined) in &both {
                let told = |figures: &Figures| match figure(figures) {
                    Some(value) => format!("{:.1$}", value * scale, decimals),
                    None => "-".to_owned(),
                };
                row.push(format!("{} / {}", told(real), told(imagined)).into());
            }
            table.push(row);
        }
        table
    }
}

type Figure = fn(&Figures) -> Option<f64>;

/// Name, value, scale and decimals of each row.
const FIGURES: &[(&str, Figure, f64, usize)] = &[
    ("Delivered (MiB/s)", |f| Some(f.delivered), 1.0 / MIB, 1),
    ("Drive (MiB/s)", |f| Some(f.disk), 1.0 / MIB, 1),
    ("KiB a seek", |f| Some(f.bytes_per_seek), 1.0 / 1024.0, 0),
    (
        "Block requests a second",
        |f| Some(f.requests_per_second),
        1.0,
        1,
    ),
    ("Drive busy (%)", |f| f.disk_busy, 100.0, 1),
    ("Reads a second", |f| f.reads_per_second, 1.0, 1),
    ("Mean prefetch (KiB)", |f| f.prefetch_bytes, 1.0 / 1024.0, 0),
    (
        "Sent from what was read before (%)",
        |f| f.hit_ratio,
        100.0,
        1,
    ),
    ("Evicted unread (%)", |f| f.evicted_ratio, 100.0, 2),
    ("Sessions failed (%)", |f| Some(f.failure_share), 100.0, 2),
];

fn number(value: Option<f64>, decimals: usize) -> TableCell {
    value.map_or(TableCell::Missing, |value| {
        TableCell::number(value, decimals)
    })
}

/// Looks for every limit in both worlds. With `rate`, makes one run of each server there instead.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn agree(
    experiment: &Experiment,
    cells: &[Cell],
    rate: Option<f64>,
    how: &Virtual,
    options: &Options,
) -> Result<Ending, BenchError> {
    let cells = &imitable(experiment, cells, how)?;
    let mut hunt = options.hunt(experiment, cells.len() * experiment.repeats as usize)?;
    let real = match rate {
        Some(rate) => runs(experiment, cells, rate, &mut hunt)?,
        None => searches(experiment, cells, &mut hunt)?,
    };
    drop(hunt);
    let measured = turnaround(&real, cells, experiment.time_scale);
    let turnaround = measured.unwrap_or(TURNAROUND_USUAL);
    let how = Virtual {
        turnaround,
        replay: format!("{} --turnaround {turnaround}", how.replay),
        ..how.clone()
    };
    let virtual_options = Options {
        results: options.results.join("virtual"),
        ..options.clone()
    };
    let imagined = match rate {
        Some(_) => Vec::new(),
        None => limits(experiment, cells, &how, &virtual_options)?.limits,
    };
    let bench = VirtualBench::new(experiment, how.turnaround, &how.replay);
    let pairs = cells
        .iter()
        .map(|cell| pair(cell, &real, &imagined, &bench, rate.is_some()))
        .collect::<Result<Vec<Pair>, BenchError>>()?;
    let agreement = Agreement {
        schema: SCHEMA.to_owned(),
        experiment: experiment.name.clone(),
        turnaround_us: how.turnaround.as_secs_f64() * 1e6,
        pairs,
    };
    tell(experiment, &agreement, options)?;
    Ok(match agreement.holds() {
        true => Ending::Done,
        false => Ending::Missed,
    })
}

/// Those that have a form in virtual time; the others are told of, before anything is run.
fn imitable(
    experiment: &Experiment,
    cells: &[Cell],
    how: &Virtual,
) -> Result<Vec<Cell>, BenchError> {
    let bench = VirtualBench::new(experiment, how.turnaround, &how.replay);
    let lacks = bench.lacks(cells);
    for lack in &lacks {
        eprintln!("left out: {lack}");
    }
    let lacking = |cell: &&Cell| !lacks.iter().any(|lack| lack.cell == cell.name());
    let left: Vec<Cell> = cells.iter().filter(lacking).cloned().collect();
    match left.is_empty() {
        true => Err(BenchError::Missing(
            lacks.iter().map(ToString::to_string).collect(),
        )),
        false => Ok(left),
    }
}

fn searches<R: Runner>(
    experiment: &Experiment,
    cells: &[Cell],
    hunt: &mut Hunt<'_, R>,
) -> Result<Vec<Limit>, BenchError> {
    let mut limits = Vec::new();
    for repeat in 0..experiment.repeats {
        for cell in cells {
            limits.push(hunt.search(cell, cell.rate_start(), repeat)?);
        }
    }
    Ok(limits)
}

/// One run of each, as limits that nobody looked for.
fn runs<R: Runner>(
    experiment: &Experiment,
    cells: &[Cell],
    rate: f64,
    hunt: &mut Hunt<'_, R>,
) -> Result<Vec<Limit>, BenchError> {
    let mut limits = Vec::new();
    for cell in cells {
        let record = hunt.run(cell, rate, experiment.seed, false)?;
        limits.push(Limit::of_run(cell, record));
    }
    Ok(limits)
}

fn pair(
    cell: &Cell,
    real: &[Limit],
    imagined: &[Limit],
    bench: &VirtualBench,
    is_one_run: bool,
) -> Result<Pair, BenchError> {
    let is_of =
        |limit: &&Limit| limit.workload == cell.workload_name && limit.server == cell.server_name;
    let mean = |limits: &[Limit]| {
        let rates: Vec<f64> = limits
            .iter()
            .filter(is_of)
            .filter_map(|l| l.found.rate)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
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
        false => (mean(real), mean(imagined)),
    };
    let ratio = real_rate
        .zip(virtual_rate)
        .map(|(real, imagined)| imagined / real);
    let tolerance = Tolerance::default();
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
    Ok(Pair {
        workload: cell.workload_name.clone(),
        server: cell.server_name.clone(),
        real_rate,
        virtual_rate,
        ratio,
        tolerance,
        is_machine_limited,
        agrees,
        rate: best.map(|best| best.rate),
        real: best.map(Figures::of),
        imagined: at_the_rate.as_ref().map(Figures::of),
        replay: best.map(|best| bench.replay_line(cell, best.rate, best.seed)),
    })
}

/// Of single runs: both come to the same end, and deliver and read about the same.
fn both_pass(real: Option<&RunRecord>, imagined: Option<&RunRecord>, tolerance: f64) -> bool {
    let (Some(real), Some(imagined)) = (real, imagined) else {
        return false;
    };
    let is_near = |a: f64, b: f64| (a - b).abs() <= tolerance * a.max(b);
    let (r, i) = (Figures::of(real), Figures::of(imagined));
    real.verdict.outcome == imagined.verdict.outcome
        && is_near(r.delivered, i.delivered)
        && is_near(r.disk, i.disk)
}

/// What the machine adds to a read, on the wall: how long reads of `headlong serve` were under way
/// beyond what the drive was busy, where there is one at a time.
fn turnaround(real: &[Limit], cells: &[Cell], time_scale: u32) -> Option<Duration> {
    let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
    for limit in real {
        let is_one_at_a_time = |cell: &Cell| {
            let named = cell.server_name == limit.server && cell.workload_name == limit.workload;
            match &cell.server.kind {
                ServerKind::Headlong { config } => named && !config.contains("outstanding"),
                _ => false,
            }
        };
        let Some(best) = limit.best.as_ref() else {
            continue;
        };
        if best.verdict.outcome == OutcomeName::Refused || !cells.iter().any(is_one_at_a_time) {
            continue;
        }
        let served = |name: &str| {
            let path = format!("/devices/0/counters/{name}");
            best.server_facts.status.pointer(&path)?.as_f64()
        };
        let drive = best.disk.counters.pointer("/counters/busy_ns");
        let busy = drive.and_then(Value::as_f64);
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

fn tell(
    experiment: &Experiment,
    agreement: &Agreement,
    options: &Options,
) -> Result<(), BenchError> {
    let lead = format!(
        "The emulated drive beside virtual time. What the machine adds to a read: {:.0} us on the \
         wall.",
        agreement.turnaround_us
    );
    let section = Section::new("Rates without a failure")
        .command(&options.command_line)
        .table(agreement.rates_table());
    let figures = Section::new("At the same rate, real / virtual").table(agreement.figures_table());
    let page = Page::new(format!("{}: both worlds", experiment.name)).lead(lead.as_str());
    page.section(section)
        .section(figures)
        .write(&options.report())?;
    let value = serde_json::to_value(agreement).unwrap_or_default();
    print(options, &value, || {
        let mut text = agreement.rates_table().to_markdown() + "\n";
        text += &agreement
            .figures_table()
            .caption("Real / virtual")
            .to_markdown();
        for pair in agreement.pairs.iter().filter(|pair| !pair.agrees) {
            if let Some(replay) = &pair.replay {
                text += &format!("\n{}, {}: again: {replay}", pair.server, pair.workload);
            }
        }
        text + &format!("\nThe page: {}\n", options.report().display())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::search::Found;

    const TEXT: &str = r#"
name = "small"
time_scale = 10
[drive]
preset = "wd-red-wd10efrx"
size = "4GB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 60
set.title.hd.count = 4
[phases]
ramp_up = "10s"
measured = "30s"
ramp_down = "10s"
[workload.sd]
preset = "youtube-sd"
[server.headlong]
kind = "headlong"
config = { admission = "accept" }
[server.nginx]
kind = "nginx"
"#;

    fn cell(server: &str) -> (Experiment, Cell) {
        let experiment = Experiment::from_text(Path::new("x.toml"), TEXT, false).expect("right");
        let cell = experiment.cell(Some(server), None).expect("there is one");
        (experiment, cell)
    }

    fn limit(cell: &Cell, rate: f64, refused: Option<f64>) -> Limit {
        let record = crate::record::tests::record(cell, rate * MIB, 1, OutcomeName::Passed);
        let found = Found {
            rate: Some(rate * MIB),
            failed: None,
            refused: refused.map(|rate| rate * MIB),
            is_settled: true,
            probes: 3,
        };
        Limit {
            found,
            ..Limit::of_run(cell, record)
        }
    }

    fn paired(server: &str, real: (f64, Option<f64>), imagined: f64) -> Pair {
        let (experiment, cell) = cell(server);
        let bench = VirtualBench::new(&experiment, Duration::ZERO, "headlong simulate x.toml");
        let (real, imagined) = (limit(&cell, real.0, real.1), limit(&cell, imagined, None));
        pair(&cell, &[real], &[imagined], &bench, false).expect("imitable")
    }

    #[test]
    fn rates_agree_within_a_tenth_for_the_engine_and_a_fifth_for_others() {
        assert!(paired("headlong", (6.0, None), 6.5).agrees);
        assert!(!paired("headlong", (6.0, None), 6.7).agrees);
        assert!(!paired("headlong", (6.0, None), 5.3).agrees);
        assert!(paired("nginx", (6.0, None), 7.1).agrees);
        assert!(!paired("nginx", (6.0, None), 7.3).agrees);
    }

    #[test]
    fn a_rate_that_the_machine_ended_is_a_lower_bound() {
        assert!(paired("headlong", (6.0, Some(6.5)), 9.0).agrees);
        assert!(!paired("headlong", (6.0, Some(6.5)), 5.0).agrees);
    }

    #[test]
    fn figures_of_both_worlds_are_read_from_the_same_places() {
        let (_, cell) = cell("headlong");
        let mut record = crate::record::tests::record(&cell, 8.0 * MIB, 1, OutcomeName::Passed);
        record.server_facts.status = json!({ "devices": [{ "counters": {
            "jobs": 10, "job_bytes": 80, "bytes_sent": 200, "bytes_reused": 50,
            "bytes_read": 100, "prefetch_evicted_bytes": 5, "reads_done": 20,
        } }] });
        record.disk.counters = json!({ "counters": { "busy_ns": 5_000_000_000_u64, "elapsed_ns": 10_000_000_000_u64 } });
        let figures = Figures::of(&record);
        assert_eq!(figures.prefetch_bytes, Some(8.0));
        assert_eq!(figures.hit_ratio, Some(0.25));
        assert_eq!(figures.evicted_ratio, Some(0.05));
        assert_eq!(figures.disk_busy, Some(0.5));
        assert_eq!(figures.reads_per_second, Some(2.0));
        record.server_facts.status = Value::Null;
        let figures = Figures::of(&record);
        assert_eq!(
            (figures.prefetch_bytes, figures.hit_ratio),
            (None, Some(1.0))
        );
    }

    #[test]
    fn what_the_machine_adds_is_what_reads_take_beyond_the_drive() {
        let (_, cell) = cell("headlong");
        let mut limit = limit(&cell, 6.0, None);
        let best = limit.best.as_mut().expect("a run");
        best.server_facts.status =
            json!({ "devices": [{ "counters": { "busy_seconds": 12.0, "reads_done": 1000 } }] });
        best.disk.counters = json!({ "counters": { "busy_ns": 10_000_000_000_u64 } });
        let cells = [cell];
        let found = turnaround(&[limit.clone()], &cells, 10);
        assert_eq!(found, Some(Duration::from_micros(200)));
        limit.server = "nginx".into();
        assert_eq!(turnaround(&[limit], &cells, 10), None);
    }
}
