//! `headlong simulate plan`: how many drives and how much memory a demand takes.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_chain_sim::Settings;
use headlong_engine::Policy;
use headlong_plan::{Demand, Offer, Prices, TryOut, plan, text};
use headlong_units::{ByteRate, Bytes};

use crate::drive_args::drive_spec;
use crate::mistake::Mistakes;
use crate::output::print_line;
use crate::simulate_chains::{Sizes, TableArgs, algorithm, sizes};

/// Plan how many drives, how much memory and flash a peak demand takes, and what they cost
///
/// From the chains of a log, or of one that is generated from what it was characterised as, simulated
/// with each rule for prefetch sizes: the work of drives and the memory of the busiest minute, in
/// proportion to the demand. Each kind of drive is tried
/// alone, and each hard drive with each kind of flash for the files that are asked for most. One
/// line for each rule and choice of drives, at its cheapest size, cheapest first; what was taken
/// for granted stands below.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Planning {
    #[command(flatten)]
    table: TableArgs,
    /// What all viewers together take at the peak, such as 40Gbit/s or 500MB/s
    #[arg(long, value_name = "RATE", value_parser = peak)]
    peak: ByteRate,
    /// Drives to choose from, such as wd-red-wd10efrx,ssd-qlc-consumer: presets, which
    /// docs/lab/drives.md lists, or files that describe one (FILE.toml)
    #[arg(long, value_name = "DRIVE,...", value_delimiter = ',', required = true)]
    drives: Vec<String>,
    /// What drives and memory cost, as TOML; FlashStream's Table 6 by default, which is of 2013
    #[arg(long, value_name = "PRICES.toml")]
    prices: Option<PathBuf>,
    /// Bytes of all titles, such as 80TiB; without it the sizes in --files, or what was read
    #[arg(long, value_name = "SIZE")]
    catalogue: Option<Bytes>,
    /// Most that drives may be busy at the peak, in per cent: what is left is room for chance
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    utilisation_max: u8,
    /// Rule for the size of a prefetch; may be given several times, all if not at all
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Vec<Policy>,
    /// Sizes to try, MB of 2^20 bytes
    #[arg(long, value_name = "MB", value_parser = sizes, default_value = "1,2,4,6,8,12,16")]
    size: Sizes,
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
        Ok(ByteRate(0)) => Err("nothing at the peak is no demand".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(format!("{error}, such as 40Gbit/s or 500MB/s")),
    }
}

impl Planning {
    fn prices(&self) -> Result<Prices, Vec<String>> {
        let Some(path) = &self.prices else {
            return Prices::flashstream();
        };
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| vec![format!("{name}: {error}")])?;
        Prices::read(&name, &text)
    }

    /// What may be bought and for how much, or all that is wrong with it.
    fn offers(&self) -> Result<(Prices, Vec<Offer>), Mistakes> {
        let mut mistakes = Vec::new();
        let prices = self.prices().map_err(|wrong| mistakes.extend(wrong)).ok();
        let mut offers = Vec::new();
        for name in &self.drives {
            match drive_spec(name.trim()) {
                Err(error) => mistakes.push(error),
                Ok(spec) => {
                    let offer = prices.as_ref().map(|prices| Offer::new(spec, prices));
                    match offer {
                        Some(Ok(offer)) => offers.push(offer),
                        Some(Err(mistake)) => mistakes.push(mistake),
                        // The price table's own mistakes are told already.
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

/// Plans.
pub(crate) fn simulate(planning: &Planning) -> anyhow::Result<()> {
    let (prices, offers) = planning.offers()?;
    let (read, files) = planning.table.read(planning.threads)?;
    let default = Settings::default();
    let settings = Settings {
        threads: planning.threads.unwrap_or(default.threads),
        ..default
    };
    let policies = match planning.algorithm.as_slice() {
        [] => Policy::ALL,
        some => some,
    };
    // A title that nobody asked for takes its place too.
    let listed = || match read.unlisted {
        0 => files.as_ref()?.bytes(),
        _ => None,
    };
    let demand = Demand {
        bytes_per_s: planning.peak.0 as f64,
        catalogue_bytes: planning.catalogue.map(|bytes| bytes.0).or_else(listed),
        utilisation_max: f64::from(planning.utilisation_max) / 100.0,
    };
    let size_of = |file: u32| {
        let name = read.files.get(file as usize)?;
        files.as_ref()?.files.get(name)?.size_bytes
    };
    let try_out = TryOut {
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
