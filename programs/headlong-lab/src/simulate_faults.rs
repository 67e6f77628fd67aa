//! `headlong simulate faults`: the server's decisions under random faults, with a check after every
//! step.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Instant;

use headlong_faults::{Campaign, CampaignReport, Mutant, Plan, RunOptions, Violation, run, shrink};
use headlong_units::{Bytes, Duration, nearest_three};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::mistake::{EXIT_MISSED, Verdict};
use crate::output::print_line;
use crate::stop::stop_on_signals;

/// Run the server's decisions under random faults in virtual time, and check every step
///
/// Each seed is a machine with settings, viewers and faults of disks, SSDs, files, clocks and
/// processes. Every byte delivered to a viewer is compared. For a failed seed the command that
/// repeats it is printed; the failure is reproducible.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FaultsArgs {
    /// Number of seeds to run
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first_seed: u64,
    /// Run this one seed, and report its course
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed", "seconds"])]
    seed: Option<u64>,
    /// Remove steps that a failing seed does not need to fail; with --seed
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Print all events; with --seed
    #[arg(long, requires = "seed", conflicts_with = "json")]
    trace: bool,
    /// Threads; the result does not depend on it
    #[arg(long, value_name = "N", default_value = "2")]
    threads: NonZeroUsize,
    /// End after this many seconds, whatever the number of seeds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Mutate the code under test, to verify that tests detect it; only in a build with the feature
    /// `mutants`
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    mutant: Option<Mutant>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  headlong simulate faults --seeds 100000
  headlong simulate faults --seconds 60 --first-seed 1000000
  headlong simulate faults --seed 528 --shrink --trace
  headlong simulate faults --mutant slot-kept";

fn mutant(name: &str) -> Result<Mutant, String> {
    if !cfg!(feature = "mutants") {
        let text = "this program was built without mutations; build it with `cargo build -p \
                    headlong-lab --features mutants`";
        return Err(text.to_owned());
    }
    Mutant::from_name(name).ok_or_else(|| {
        let known = Mutant::ALL.iter().map(|mutant| mutant.name());
        let nearest = nearest_three(name, known).join(", ");
        format!("there is no such mutation; the nearest names are {nearest}")
    })
}

/// Runs the verb.
pub(crate) fn simulate(faults: &FaultsArgs) -> anyhow::Result<()> {
    match faults.seed {
        Some(seed) => one(faults, seed),
        None => many(faults),
    }
}

fn many(faults: &FaultsArgs) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let began = Instant::now();
    let is_over = || {
        let late = faults
            .seconds
            .is_some_and(|most| began.elapsed().as_secs() >= most);
        late || stop.load(Ordering::Relaxed)
    };
    let bar = ProgressBar::new(faults.seeds);
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} seeds, {eta} left")?;
    bar.set_style(style);
    let campaign = Campaign {
        first_seed: faults.first_seed,
        seeds: faults.seeds,
        threads: faults.threads,
        how: RunOptions {
            mutant: faults.mutant,
            with_lines: false,
        },
    };
    let report = campaign.run(&is_over, &|done| bar.set_position(done));
    bar.finish_and_clear();
    match faults.json {
        true => print_line(&report_json(faults, &report).to_string())?,
        false => print_report(faults, &report)?,
    }
    verdict(
        report.failed.first().map(|(_, violation)| violation),
        report.failed.len(),
    )
}

fn print_report(faults: &FaultsArgs, report: &CampaignReport) -> anyhow::Result<()> {
    for (seed, violation) in &report.failed {
        print_line(&format!(
            "seed {seed}: {violation}\n  {}",
            replay(faults, *seed)
        ))?;
    }
    let counts = &report.counts;
    print_line(&format!(
        "{} seeds from {}, {} failed; {} requests ({} whole), {} compared, {} records of flash read, {} found again, {} starts; trace {:016x}",
        report.seeds,
        faults.first_seed,
        report.failed.len(),
        counts.requests,
        counts.whole,
        Bytes(counts.bytes),
        counts.flash_reads,
        counts.found_records,
        counts.starts,
        report.trace,
    ))
}

/// The command that repeats a seed.
fn replay(faults: &FaultsArgs, seed: u64) -> String {
    let mutant = faults
        .mutant
        .map_or_else(String::new, |mutant| format!(" --mutant {}", mutant.name()));
    format!("headlong simulate faults --seed {seed}{mutant} --shrink --trace")
}

fn report_json(faults: &FaultsArgs, report: &CampaignReport) -> Value {
    let counts = &report.counts;
    let failed = report.failed.iter().map(|(seed, violation)| {
        let mut failed = violation_json(violation);
        failed["seed"] = json!(seed);
        failed["replay"] = json!(replay(faults, *seed));
        failed
    });
    json!({
        "first_seed": faults.first_seed,
        "seeds": report.seeds,
        "failed": failed.collect::<Vec<_>>(),
        "steps": counts.steps,
        "requests": counts.requests,
        "requests_whole": counts.whole,
        "bytes_compared": counts.bytes,
        "flash_records_read": counts.flash_reads,
        "flash_records_found": counts.found_records,
        "starts": counts.starts,
        "seeds_with_fault": report.with_fault,
        "trace": format!("{:016x}", report.trace),
    })
}

fn violation_json(violation: &Violation) -> Value {
    json!({
        "check": violation.check.name(),
        "invariants": violation.check.invariants(),
        "at_s": Duration(violation.at.0).as_secs_f64(),
        "text": violation.text,
    })
}

fn one(faults: &FaultsArgs, seed: u64) -> anyhow::Result<()> {
    let how = RunOptions {
        mutant: faults.mutant,
        with_lines: false,
    };
    let mut plan = Plan::of(seed);
    let whole = plan.len();
    if faults.shrink
        && let Some(shrunk) = shrink(&plan, how)
    {
        plan = shrunk.plan;
    }
    let outcome = run(
        &plan,
        RunOptions {
            with_lines: faults.trace,
            ..how
        },
    );
    if faults.json {
        let failed = outcome.violation.as_ref().map(violation_json);
        let value = json!({
            "seed": seed,
            "steps_of_plan": plan.len(),
            "steps_of_seed": whole,
            "failed": failed,
            "requests": outcome.counts.requests,
            "bytes_compared": outcome.counts.bytes,
            "trace": format!("{:016x}", outcome.trace),
        });
        print_line(&value.to_string())?;
    } else {
        outcome.lines.iter().try_for_each(|line| print_line(line))?;
        print_line(&format!(
            "the plan, {} of {whole} steps (seconds, what):",
            plan.len()
        ))?;
        plan.lines().iter().try_for_each(|line| print_line(line))?;
        let how = outcome
            .violation
            .as_ref()
            .map_or_else(|| "all held".to_owned(), ToString::to_string);
        print_line(&format!("seed {seed}: {how}; trace {:016x}", outcome.trace))?;
    }
    verdict(outcome.violation.as_ref(), 1)
}

fn verdict(violation: Option<&Violation>, failed: usize) -> anyhow::Result<()> {
    let Some(violation) = violation else {
        return Ok(());
    };
    let reason = format!("{failed} failed; the first by {}", violation.check.name());
    Err(Verdict::of(EXIT_MISSED, reason).into())
}
