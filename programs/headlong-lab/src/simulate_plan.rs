//! `headlong simulate plan`: drives and memory needed for a demand.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_chain_sim::SimulationSettings;
use headlong_engine::Policy;
use headlong_plan::{DriveOffer, PeakDemand, PlanSearch, PriceTable, plan, text};
use headlong_units::{ByteRate, Bytes};

use crate::drive_args::drive_spec;
use crate::mistake::Mistakes;
use crate::output::print_line;
use crate::simulate_chains::{MegabyteSizes, TableArgs, algorithm, sizes};

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
    /// Prices of drives and memory, as TOML [default: FlashStream's Table 6, of 2013]
    #[arg(long, value_name = "PRICES.toml")]
    prices: Option<PathBuf>,
    /// Bytes of all titles, such as 80TiB [default: the sizes in --files, or the parts read]
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
    --drives wd-red-wd10efrx,ssd-qlc-consumer --prices prices.toml --json";

fn peak(text: &str) -> Result<ByteRate, String> {
    match text.parse::<ByteRate>() {
        Ok(ByteRate(0)) => Err("the peak demand must be above 0".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(format!("{error}, such as 40Gbit/s or 500MB/s")),
    }
}

impl PlanArgs {
    fn prices(&self) -> Result<PriceTable, Vec<String>> {
        let Some(path) = &self.prices else {
            return PriceTable::flashstream();
        };
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| vec![format!("{name}: {error}")])?;
        PriceTable::read(&name, &text)
    }

    /// The drives with their prices, or all mistakes.
    fn offers(&self) -> Result<(PriceTable, Vec<DriveOffer>), Mistakes> {
        let mut mistakes = Vec::new();
        let prices = self.prices().map_err(|wrong| mistakes.extend(wrong)).ok();
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
    let (read, files) = planning.table.read(planning.threads)?;
    let default = SimulationSettings::default();
    let settings = SimulationSettings {
        threads: planning.threads.unwrap_or(default.threads),
        ..default
    };
    let policies = match planning.algorithm.as_slice() {
        [] => Policy::ALL,
        some => some,
    };
    // Titles without requests need capacity, too.
    let listed = || match read.unlisted {
        0 => files.as_ref()?.bytes(),
        _ => None,
    };
    let demand = PeakDemand {
        bytes_per_s: planning.peak.0 as f64,
        catalogue_bytes: planning.catalogue.map(|bytes| bytes.0).or_else(listed),
        utilisation_max: f64::from(planning.utilisation_max) / 100.0,
    };
    let size_of = |file: u32| {
        let name = read.files.get(file as usize)?;
        files.as_ref()?.files.get(name)?.size_bytes
    };
    let try_out = PlanSearch {
        policies,
        sizes_mb: &planning.size.0,
        settings: &settings,
    };
    let plan = plan(&read.table, size_of, &demand, &offers, &prices, &try_out)?;
    let told = match planning.json {
        true => serde_json::to_string_pretty(&plan)?,
        false => text(&plan),
    };
    print_line(told.trim_end())
}
