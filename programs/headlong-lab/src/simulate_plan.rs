//! `headlong simulate plan`: drives and memory needed for a demand.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_chain_sim::{CatalogueBytes, SimulationSettings};
use headlong_engine::Policy;
use headlong_plan::{
    DriveOffer, LogReadings, PeakDemand, PlanError, PlanSearch, PriceTable, plan, text,
};
use headlong_units::{ByteRate, Bytes};

use crate::mistake::{EXIT_DROPPED, Mistakes, Verdict};
use crate::output::print_line;
use crate::simulate_chains::{MegabyteSizes, TableArgs, algorithm, sizes};
use headlong_bench::drive_spec;

/// Plan drives, memory and flash for a peak demand, with their cost
///
/// Simulates the chains of a log, or of one generated from a characterisation, with each rule for
/// prefetch sizes: the work of drives and the memory of the busiest minute, scaled to the demand.
/// Each kind of drive is evaluated alone, and each hard drive with each kind of flash for the most
/// popular files. One line for each rule and choice of drives, at its cheapest size, cheapest
/// first; the assumptions follow.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    table: TableArgs,
    /// Total consumption of all viewers at the peak, such as 40Gbit/s or 500MB/s
    #[arg(long, value_name = "RATE", value_parser = peak)]
    peak: ByteRate,
    /// Drives to choose from, such as wd-red-wd10efrx,ssd-qlc-consumer: presets, listed in
    /// docs/lab/drives.md, or drive description files (FILE.toml)
    #[arg(long, value_name = "DRIVE,...", value_delimiter = ',', required = true)]
    drives: Vec<String>,
    #[command(flatten)]
    prices: PriceArgs,
    /// Bytes of all titles, such as 80TiB [default: the sizes in --files, or the parts read, which
    /// are a lower bound]
    #[arg(long, value_name = "SIZE")]
    catalogue: Option<Bytes>,
    /// Utilisation limit of drives at the peak, in per cent: the rest is headroom for bursts
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    utilisation_max: u8,
    /// Rule for the size of a prefetch; may be given several times [default: all]
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Vec<Policy>,
    /// Sizes to try, MB of 2^20 bytes
    #[arg(long, value_name = "MB", value_parser = sizes, default_value = "1,2,4,6,8,12,16")]
    size: MegabyteSizes,
    /// Threads; the figures do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  headlong simulate plan ours.toml --peak 40Gbit/s --drives wd-red-wd10efrx
  headlong simulate plan chains.csv --peak 40Gbit/s --drives wd-red-wd10efrx
  headlong simulate plan chains.csv --files files.csv --peak 10Gbit/s --utilisation-max 70 \\
    --drives wd-red-wd10efrx,ssd-qlc-consumer --prices prices.toml --json

Exit codes: 0 done, 64 a mistake in the command line or an input, 5 fewer than 200 sessions or no
usable log, 2 a failure.";

/// Where prices come from.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PriceArgs {
    /// Prices of drives and memory: 2026, 2013 (FlashStream's Table 6), or a TOML file
    #[arg(long, value_name = "YEAR|FILE.toml", default_value = "2026")]
    prices: PathBuf,
}

impl PriceArgs {
    /// The price table.
    pub(crate) fn table(&self) -> Result<PriceTable, Vec<String>> {
        match self.prices.to_str() {
            Some("2026") => return PriceTable::current(),
            Some("2013") => return PriceTable::flashstream(),
            _ => {}
        }
        let name = self.prices.display().to_string();
        let text = std::fs::read_to_string(&self.prices)
            .map_err(|error| vec![format!("{name}: {error}; write 2026, 2013 or a file")])?;
        PriceTable::read(&name, &text)
    }
}

/// A remark on plans from a specification.
const GENERATED: &str = "the chains are generated from a specification: figures differ from those \
    of the log by what its fit misses (docs/lab/trace-characterise.md); --log or the folder of \
    --tables has the chains themselves";

fn peak(text: &str) -> Result<ByteRate, String> {
    match text.parse::<ByteRate>() {
        Ok(ByteRate(0)) => Err("the peak demand must be above 0".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(format!("{error}, such as 40Gbit/s or 500MB/s")),
    }
}

impl PlanArgs {
    /// The drives with their prices, or all mistakes.
    fn offers(&self) -> Result<(PriceTable, Vec<DriveOffer>), Mistakes> {
        let mut mistakes = Vec::new();
        let prices = self
            .prices
            .table()
            .map_err(|wrong| mistakes.extend(wrong))
            .ok();
        let mut offers = Vec::new();
        for name in &self.drives {
            match drive_spec(name.trim()) {
                Err(error) => mistakes.push(error),
                Ok(spec) => {
                    let offer = prices.as_ref().map(|prices| DriveOffer::new(spec, prices));
                    match offer {
                        Some(Ok(offer)) => offers.push(offer),
                        Some(Err(mistake)) => mistakes.push(mistake),
                        // Mistakes of the price table have been reported.
                        None => {}
                    }
                }
            }
        }
        match prices {
            Some(prices) if mistakes.is_empty() => Ok((prices, offers)),
            _ => Err(Mistakes(mistakes)),
        }
    }
}

/// Runs the verb.
pub(crate) fn simulate(planning: &PlanArgs) -> anyhow::Result<()> {
    let (prices, offers) = planning.offers()?;
    let (read, files) = planning.table.read(planning.threads, true)?;
    let default = SimulationSettings::default();
    let settings = SimulationSettings {
        threads: planning.threads.unwrap_or(default.threads),
        ..default
    };
    let policies = match planning.algorithm.as_slice() {
        [] => Policy::ALL,
        some => some,
    };
    if !read.has_sessions {
        let mistake = "the table has no column `session`, without which no interval is known; \
                       `headlong trace chains` writes one";
        return Err(Mistakes::of(mistake).into());
    }
    let exact = planning.catalogue.map(|bytes| CatalogueBytes {
        bytes: bytes.0,
        is_least: false,
    });
    let demand = PeakDemand {
        bytes_per_s: planning.peak.0 as f64,
        catalogue: exact.or(read.catalogue),
        utilisation_max: f64::from(planning.utilisation_max) / 100.0,
    };
    let size_of = |file: u32| {
        let name = read.files.get(file as usize)?;
        files.as_ref()?.files.get(name)?.size_bytes
    };
    let search = PlanSearch {
        policies,
        sizes_mb: &planning.size.0,
        settings: &settings,
    };
    let log = LogReadings {
        table: &read.table,
        scattered: read.scattered.as_ref(),
    };
    let mut plan = plan(log, size_of, &demand, &offers, &prices, &search).map_err(refusal)?;
    if read.is_generated {
        plan.remarks.push(GENERATED.to_owned());
    }
    let told = match planning.json {
        true => serde_json::to_string_pretty(&plan)?,
        false => text(&plan),
    };
    print_line(told.trim_end())
}

/// A log with too few sessions has its own exit code.
fn refusal(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Sessions { .. } => Verdict::of(EXIT_DROPPED, error).into(),
        PlanError::Simulation(error) => error.into(),
    }
}
