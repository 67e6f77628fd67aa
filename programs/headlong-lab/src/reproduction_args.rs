//! Runs a paper's experiment with options, on an emulated drive or in virtual time.

use anyhow::anyhow;
use headlong_bench::{CommandOutcome, VirtualOptions};
use headlong_reproduce::{Paper, experiment, latencies, reproduce, reproduce_imitated};
use headlong_units::Duration;

use crate::bench::{BenchOutput, threads};

/// Options of an experiment that can run on an emulated drive or in virtual time.
#[derive(Debug, clap::Args)]
pub(crate) struct RealOrVirtualArgs {
    /// In virtual time: minutes, without root. Configurations that cannot be simulated are left out
    #[arg(long = "virtual")]
    pub(crate) is_virtual: bool,
    #[command(flatten)]
    pub(crate) again: ReproductionArgs,
}

/// Common options of a reproduction.
#[derive(Debug, clap::Args)]
pub(crate) struct ReproductionArgs {
    /// In minutes: fewer configurations, one run at each rate, coarser steps
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

/// Runs the experiment of a paper, on an emulated drive or in virtual time.
pub(crate) fn of_paper(
    paper: Paper,
    again: &ReproductionArgs,
    is_virtual: bool,
) -> anyhow::Result<CommandOutcome> {
    let experiment = experiment(paper, again.quick).map_err(|mistakes| anyhow!("{mistakes}"))?;
    let name = match is_virtual {
        true => format!("{}-virtual", experiment.name),
        false => experiment.name.clone(),
    };
    let options = again.output.options(&name, again.quick)?;
    if paper == Paper::Latencies {
        return Ok(latencies(&experiment, &options)?);
    }
    if is_virtual {
        let quick = if again.quick { " --quick" } else { "" };
        let how = VirtualOptions {
            turnaround: Duration::ZERO,
            replay: format!(
                "headlong simulate experiments/{}.toml{quick}",
                experiment.name
            ),
            threads: threads(None),
        };
        return Ok(reproduce_imitated(paper, &experiment, &how, &options)?);
    }
    Ok(reproduce(paper, &experiment, again.quick, &options)?)
}
