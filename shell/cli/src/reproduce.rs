//! `headlong reproduce`: the papers' experiments again.

use anyhow::anyhow;
use headlong_bench::reproduce::{Paper, experiment, reproduce, reproduce_virtual};

use crate::bench::{Output, judge, show_plan};

/// The papers' experiments again, our numbers beside theirs. Needs root, but in virtual time.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Reproduce {
    /// Titles in chunk files or whole (NOSSDAV 2012; thesis 3.5 to 3.7)
    ///
    ///   headlong reproduce to-chunk --quick
    #[command(verbatim_doc_comment)]
    ToChunk(Again),
    /// Serialized and large reads, and the kernel's read-ahead (TOMPECS 2018)
    ///
    ///   headlong reproduce libception --part asap --quick
    ///   headlong reproduce libception --part readahead --quick
    #[command(verbatim_doc_comment)]
    Libception {
        /// asap is section 5 (Table 2, Figures 2 to 6); readahead is 6.5 (Figures 14 and 15)
        #[arg(long, value_name = "NAME", value_parser = ["asap", "readahead"])]
        part: String,
        #[command(flatten)]
        again: Again,
    },
    /// Which prefetch size, and that nobody need choose it (SYSTOR 2014; thesis chapter 4)
    ///
    /// In virtual time; needs no root. Exit code 4 if something published does not come out again.
    ///
    ///   headlong reproduce automated-prefetching --quick
    ///   headlong reproduce automated-prefetching --real --quick
    #[command(verbatim_doc_comment)]
    AutomatedPrefetching {
        /// Chosen points of its first figure in real time, on an emulated drive. Needs root
        #[arg(long)]
        real: bool,
        #[command(flatten)]
        again: Again,
    },
}

/// How it is to be done again.
#[derive(Debug, clap::Args)]
pub(crate) struct Again {
    /// In minutes: fewer configurations, one run at each rate, coarser steps
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: Output,
}

/// Does it.
pub(crate) fn again(arguments: &Reproduce) -> anyhow::Result<()> {
    let (paper, again) = match arguments {
        Reproduce::AutomatedPrefetching { real: false, again } => {
            let options = again.output.options("automated-prefetching", again.quick)?;
            return judge(reproduce_virtual(again.quick, &options)?);
        }
        Reproduce::AutomatedPrefetching { real: true, again } => (Paper::Sizes, again),
        Reproduce::ToChunk(again) => (Paper::ToChunk, again),
        Reproduce::Libception { part, again } => match part.as_str() {
            "asap" => (Paper::Asap, again),
            _ => (Paper::ReadAhead, again),
        },
    };
    let experiment = experiment(paper, again.quick).map_err(|mistakes| anyhow!("{mistakes}"))?;
    let options = again.output.options(&experiment.name, again.quick)?;
    if again.output.plan {
        return judge(show_plan(&experiment, &experiment.cells(), true, &options)?);
    }
    judge(reproduce(paper, &experiment, again.quick, &options)?)
}
