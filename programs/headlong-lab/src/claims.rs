//! `headlong reproduce claims`: the claims of all papers, as stored or as a run finds them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use headlong_bench::{BenchOptions, default_store};
use headlong_reproduce::{ClaimsSize, RunChoice, claim_groups, run_claims, stored_claims};

use crate::output::{print, print_line};
use crate::verdict::{EXIT_MISSED, Verdict};

/// Claims of all papers, and whether they come out
///
/// Prints the stored table: published, in virtual time, on emulated drives, whether it comes out,
/// and why not. With --check, runs the claims in virtual time and compares them with what is
/// stored; exit code 4 if they differ. The smallest size takes minutes, the largest an hour.
///
///   headlong reproduce claims
///   headlong reproduce claims --check --group flashstream
///   headlong reproduce claims --save papers/reproduce/src/claims/stored.csv --size quick
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ClaimsArgs {
    /// Run the claims, and compare them with the stored ones
    #[arg(long)]
    check: bool,
    /// Run the claims, and write the stored table with them into this file
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    save: Option<PathBuf>,
    /// How much is run
    #[arg(long, value_name = "SIZE", default_value = "small", value_parser = size)]
    size: ClaimsSize,
    /// Only the claims of this reproduction; repeatable
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(claim_groups()))]
    group: Vec<String>,
    /// Concurrent simulations [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder for the records of runs
    #[arg(long, value_name = "DIR", default_value = "bench-results/claims")]
    results: PathBuf,
}

fn size(name: &str) -> Result<ClaimsSize, String> {
    let names = || ClaimsSize::ALL.iter().map(|size| size.name());
    ClaimsSize::from_name(name)
        .ok_or_else(|| format!("write one of {}", names().collect::<Vec<_>>().join(", ")))
}

impl ClaimsArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if !self.check && self.save.is_none() {
            return print(&stored_claims());
        }
        let choice = RunChoice {
            threads: self.threads,
            ..RunChoice::default()
        };
        let options = BenchOptions {
            headlong: PathBuf::new(),
            store: default_store(),
            results: self.results.clone(),
            resumes: false,
            report: None,
            markdown: None,
            json: false,
            command_line: String::new(),
        };
        let made = run_claims(self.size, &self.group, &choice, &options)?;
        if let Some(file) = &self.save {
            return std::fs::write(file, made.stored())
                .with_context(|| format!("cannot write {}", file.display()));
        }
        let differences = made.differences();
        if differences.is_empty() {
            return print_line("all claims are as stored");
        }
        Err(Verdict {
            code: EXIT_MISSED,
            reasons: differences,
        }
        .into())
    }
}
