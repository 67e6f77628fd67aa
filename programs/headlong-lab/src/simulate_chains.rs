//! `headlong simulate chains`: the cost of prefetch size rules on logged chains.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_chain_sim::{
    Algorithm, ChainsError, CostPoint, DriveRates, FilesTable, Megabyte, ParsedTable,
    SimulationReport, SimulationSettings, Sweep, TableSource, chains_of, open, page, text,
};
use headlong_engine::Policy;
use headlong_trace::Intake;
use headlong_units::{ByteRate, Bytes, Duration, nearest_three};

use crate::mistake::{Mistakes, inputs_are_kept};
use crate::output::print_line;
use crate::request_logs::taken_in;
use headlong_bench::drive_spec;
use headlong_report::say;

/// Simulate prefetching on the chains of a log: drives' utilisation and memory of each rule
///
/// Each chain of the table is read with the server's own rules for prefetch sizes, as in thesis
/// 5.6: one seek for each prefetch, a drive busy for bytes / t_max + seeks / s_max, a buffer with
/// the size of the latest prefetch, freed 40 s after the chain's end. There is no queue and no
/// cache.
///
/// One line for each rule and size: prefetches, bytes read, utilisation of the worst drive in its
/// worst minute (a noisy maximum), of all drives together in the busiest minute, and over all time;
/// peak memory as a minute's mean, as the sum of buffers held in a minute, and as a second's mean.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateChainsArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) sweep: RuleSweepArgs,
    /// Also try first-grow and first-grow-sr with first sizes and growth fitted to this table
    #[arg(long)]
    fit: bool,
    /// Write the report as one HTML page
    #[arg(long, value_name = "REPORT.html")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  headlong simulate chains chains.csv
  headlong simulate chains chains.csv --algorithm fixed --algorithm square-root --size 4,6,8 --json
  headlong simulate chains --log access.log.gz --files files.csv --leave-out-last 1h --fit
  headlong simulate chains chains.csv --files files.csv --drive wd-red-wd10efrx --html report.html";

/// Arguments that select the chains.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TableArgs {
    /// Chains as CSV or Parquet, with the columns start,length,t_start,t_end,open and, if known,
    /// file,kbps,disk (bytes, ms from the start of the log, 0 or 1, kbit/s); other columns are
    /// ignored. Or the output of `headlong trace characterise`: the folder of --tables, the JSON,
    /// or --spec; from the last two a log is generated
    #[arg(
        value_name = "CHAINS",
        required_unless_present = "log",
        conflicts_with = "log"
    )]
    chains: Option<PathBuf>,
    /// Read the chains from a request log, joined as by `headlong trace chains`; may be given
    /// several times, in any format it supports
    #[arg(long, value_name = "LOG")]
    log: Vec<PathBuf>,
    /// Exclude sessions that begin in the last TIME of the log, whose chains are truncated (the
    /// thesis: 1h)
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "log")]
    leave_out_last: Duration,
    /// Memory for reading a log; the rest is spilled to a file
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "log")]
    memory: Bytes,
    /// Files as CSV or Parquet: file and, if known, kbps,disk,size; supplements the chains
    #[arg(long, value_name = "FILES")]
    files: Option<PathBuf>,
}

/// Arguments that select rules and sizes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RuleSweepArgs {
    /// Rule for the size of a prefetch; may be given several times [default: all]
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Vec<Policy>,
    /// Sizes in MB: 7, or 4,6,8, or 1..16, or 0.5..4:0.5; may be given several times
    #[arg(long, value_name = "MB", value_parser = sizes, default_value = "1..16")]
    size: Vec<MegabyteSizes>,
    /// Bytes of a MB, for sizes, --tmax and memory in GB: 1048576 or 1000000
    #[arg(long, value_name = "BYTES", value_parser = megabyte, default_value = "1048576")]
    mb: Megabyte,
    /// Transfer rate of a drive without seeks; the default is of thesis 5.6.2, a Deskstar 5K3000
    #[arg(long, value_name = "RATE", value_parser = transfer_rate, default_value = "125.5MB/s")]
    tmax: TransferRate,
    /// Seeks per second of a drive without transfers; the default is of the same drive
    #[arg(long, value_name = "SEEKS", value_parser = seek_rate, default_value = "39.4/s")]
    smax: f64,
    /// Take both from a modelled drive instead, a preset or a drive description file (Eq. 5.4)
    #[arg(long, value_name = "PRESET|FILE.toml", value_parser = drive, conflicts_with_all = ["tmax", "smax"])]
    drive: Option<DriveRates>,
    /// Number of drives that count for utilisation; those with higher numbers are SSDs, which do
    /// not [default: all drives of the table]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    disks: Option<u16>,
    /// Threads; the figures do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Sizes in MB.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MegabyteSizes(pub(crate) Vec<f64>);

pub(crate) fn algorithm(name: &str) -> Result<Policy, String> {
    Policy::from_name(name).ok_or_else(|| {
        let known = Policy::ALL.iter().map(|policy| policy.name());
        let nearest = nearest_three(name, known).join(", ");
        format!("there is no rule \"{name}\"; the nearest names are {nearest}")
    })
}

pub(crate) fn sizes(text: &str) -> Result<MegabyteSizes, String> {
    const FORM: &str = "write it like 7, 4,6,8, 1..16 or 0.5..4:0.5, in MB";
    const SIZES_MAX: usize = 1_000;
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok();
        number
            .filter(|mb| (0.001..=100_000.0).contains(mb))
            .ok_or_else(|| format!("`{text}` is not a size between 0.001 and 100000; {FORM}"))
    };
    let Some((from, to)) = text.split_once("..") else {
        return text
            .split(',')
            .map(number)
            .collect::<Result<_, _>>()
            .map(MegabyteSizes);
    };
    let (to, step) = match to.split_once(':') {
        Some((to, step)) => (number(to)?, number(step)?),
        None => (number(to)?, 1.0),
    };
    let from = number(from)?;
    // Half a step more, so that 0.1 + 0.1 + 0.1 still includes 0.3.
    let count = ((to - from) / step + 1.0 + 1e-9).floor();
    if count < 1.0 || count > SIZES_MAX as f64 {
        return Err(format!(
            "`{text}` has no sizes or more than {SIZES_MAX}; {FORM}"
        ));
    }
    let sizes = (0..count as usize).map(|index| from + index as f64 * step);
    Ok(MegabyteSizes(sizes.collect()))
}

fn megabyte(text: &str) -> Result<Megabyte, String> {
    match text {
        "1048576" => Ok(Megabyte::Binary),
        "1000000" => Ok(Megabyte::Decimal),
        _ => Err("a MB has 1048576 or 1000000 bytes".to_owned()),
    }
}

/// A transfer rate: in MB, whose size --mb defines, or in an explicit unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TransferRate {
    Megabytes(f64),
    Exact(ByteRate),
}

/// `125.5MB/s`, the bare number for the same, or `120MiB/s`.
fn transfer_rate(text: &str) -> Result<TransferRate, String> {
    let number = text.strip_suffix("MB/s").unwrap_or(text);
    match (positive(number), text.parse::<ByteRate>()) {
        (Some(megabytes), _) => Ok(TransferRate::Megabytes(megabytes)),
        (None, Ok(rate)) if rate.0 > 0 => Ok(TransferRate::Exact(rate)),
        _ => Err(format!(
            "`{text}` is not a rate; write it like 125.5MB/s or 120MiB/s"
        )),
    }
}

/// `39.4/s` or the bare number.
fn seek_rate(text: &str) -> Result<f64, String> {
    positive(text.strip_suffix("/s").unwrap_or(text))
        .ok_or_else(|| format!("`{text}` is not a seek rate; write it like 39.4/s"))
}

fn positive(text: &str) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

fn drive(name: &str) -> Result<DriveRates, String> {
    Ok(DriveRates::of(&drive_spec(name)?))
}

/// Runs the verb.
pub(crate) fn simulate(simulating: &SimulateChainsArgs) -> anyhow::Result<()> {
    let table = &simulating.table;
    let inputs = table.chains.iter().chain(&table.log).chain(&table.files);
    inputs_are_kept(&simulating.html, inputs)?;
    let (read, _) = table.read(simulating.sweep.threads, false)?;
    let settings = simulating.sweep.settings();
    let source = source(&simulating.table.name(), &read, &settings);
    let sweep = simulating.sweep.sweep();
    let mut progress = Progress::new(sweep.points(simulating.fit));
    let report = SimulationReport::make(
        source,
        &read.table,
        &sweep,
        &settings,
        simulating.fit,
        |point| {
            progress.step(point);
        },
    )?;
    drop(progress);
    if let Some(path) = &simulating.html {
        page(&report).write(path)?;
    }
    let told = match simulating.json {
        true => serde_json::to_string_pretty(&report)?,
        false => text(&report),
    };
    print_line(told.trim_end())?;
    if report.source.dropped.lines > 0 && !simulating.json {
        let (lines, samples) = (report.source.dropped.lines, &report.source.dropped.samples);
        say!(
            "headlong: {lines} lines were dropped: {}",
            samples.join("; ")
        );
    }
    Ok(())
}

/// Description of the table.
pub(crate) fn source(name: &str, read: &ParsedTable, settings: &SimulationSettings) -> TableSource {
    TableSource {
        unlisted: read.unlisted,
        dropped: read.dropped.clone(),
        ..TableSource::of(name, &read.table, settings)
    }
}

/// A progress bar.
struct Progress(indicatif::ProgressBar);

impl Progress {
    fn new(points: usize) -> Self {
        // Draws nothing if standard error is not a terminal.
        Self(indicatif::ProgressBar::new(points as u64))
    }

    fn step(&mut self, point: &CostPoint) {
        self.0.set_message(point.algorithm.clone());
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl TableArgs {
    /// Their name in a report.
    fn name(&self) -> String {
        let all = self.chains.iter().chain(&self.log);
        let names: Vec<String> = all.map(|path| path.display().to_string()).collect();
        names.join(", ")
    }

    /// Reads the chains, a log with this number of threads. Requests whose offset is unknown are
    /// kept or dropped.
    pub(crate) fn read(
        &self,
        threads: Option<NonZeroUsize>,
        keeps_unplaced: bool,
    ) -> anyhow::Result<(ParsedTable, Option<FilesTable>)> {
        let read = if self.log.is_empty() {
            // A required argument.
            let path = self.chains.clone().unwrap_or_default();
            open(&path, self.files.as_deref())
        } else {
            let fitting = || Intake::threads_for(self.memory.0);
            let intake = Intake {
                keep_unplaced: keeps_unplaced,
                logs: self.log.clone(),
                files: self.files.clone(),
                memory_bytes_max: self.memory.0,
                threads: threads.map_or_else(fitting, NonZeroUsize::get),
                ..Intake::default()
            };
            let log = taken_in(&intake, false, true)?;
            let read = chains_of(&log, self.leave_out_last, intake.threads);
            read.map(|(read, files)| (read, Some(files)))
        };
        read.map_err(|error| match error {
            ChainsError::Wrong(text) => Mistakes::of(text).into(),
            other => other.into(),
        })
    }
}

impl RuleSweepArgs {
    /// Settings of the simulation.
    pub(crate) fn settings(&self) -> SimulationSettings {
        let plain = DriveRates {
            bytes_per_s: match self.tmax {
                TransferRate::Megabytes(number) => number * self.mb.bytes() as f64,
                TransferRate::Exact(rate) => rate.0 as f64,
            },
            seeks_per_s: self.smax,
        };
        let default = SimulationSettings::default();
        SimulationSettings {
            megabyte: self.mb,
            drive: self.drive.unwrap_or(plain),
            disks: self.disks,
            threads: self.threads.unwrap_or(default.threads),
        }
    }

    /// Rules and sizes of the sweep.
    pub(crate) fn sweep(&self) -> Sweep {
        let mut sizes_mb: Vec<f64> = self.size.iter().flat_map(|sizes| sizes.0.clone()).collect();
        sizes_mb.sort_by(f64::total_cmp);
        sizes_mb.dedup();
        let mut policies: Vec<Policy> = Vec::new();
        let asked = match self.algorithm.as_slice() {
            [] => Policy::ALL,
            some => some,
        };
        for policy in asked {
            if !policies.contains(policy) {
                policies.push(*policy);
            }
        }
        Sweep {
            algorithms: policies.into_iter().map(Algorithm::plain).collect(),
            sizes_mb,
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_units::ByteRate;

    use super::{TransferRate, megabyte, seek_rate, sizes, transfer_rate};

    #[test]
    fn parses_single_sizes_lists_and_ranges() {
        let of = |text| sizes(text).map(|sizes| sizes.0);
        assert_eq!(of("7"), Ok(vec![7.0]));
        assert_eq!(of("4, 6.5"), Ok(vec![4.0, 6.5]));
        assert_eq!(of("1..4"), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(of("0.1..0.3:0.1").map(|sizes| sizes.len()), Ok(3));
        for wrong in [
            "", "0", "-1", "4..1", "1..1e9", "1..2:0", "a", "1,,2", "nan",
        ] {
            of(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn byte_rates_have_units_and_seek_rates_none() {
        assert_eq!(
            transfer_rate("125.5MB/s"),
            Ok(TransferRate::Megabytes(125.5))
        );
        assert_eq!(transfer_rate("125.5"), transfer_rate("125.5MB/s"));
        let exact = TransferRate::Exact(ByteRate(125 << 20));
        assert_eq!(transfer_rate("125MiB/s"), Ok(exact));
        assert_eq!(seek_rate("39.4/s"), Ok(39.4));
        assert_eq!(seek_rate("39.4"), Ok(39.4));
        for wrong in ["", "0", "-1/s", "fast", "inf"] {
            transfer_rate(wrong).expect_err(wrong);
            seek_rate(wrong).expect_err(wrong);
        }
        seek_rate("39.4MB/s").expect_err("a byte rate is not a seek rate");
        megabyte("1000").expect_err("not a megabyte");
    }
}
