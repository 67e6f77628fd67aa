//! `headlong simulate fleet`: a fleet behind a balancer, with each of several balancing rules.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use headlong_bench::{drive_spec, in_parallel};
use headlong_fleet::BalancingRule;
use headlong_report::{Cell, Table};
use headlong_sim::{
    FLEET_IMITATED, FleetExperiment, FleetFigures, FleetSources, IMITATED, PlannedDiskFigures,
    SetupError,
};
use headlong_units::nearest;

use crate::bench::threads;
use crate::mistake::Mistakes;
use crate::output::print_line;
use crate::spec_args::read_specification;

/// Most disks in a table.
const DISKS_SHOWN: usize = 24;

/// Simulate a fleet behind a balancer: boxes, their disks, viewers, and boxes that fail
///
/// Each disk runs the server's own decisions, and the balancer's are those of HAProxy with the
/// configuration of `headlong fleet config`. Prints a table with a row for each rule by which the
/// balancer selects a box; docs/lab/simulate-fleet.md has the keys of the file and the columns.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FleetArgs {
    /// The fleet, its viewers and its failures, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Change a key, such as rate=10GiB/s or workload.set.title.dash.count=5000 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Only this rule: spread-hash, bounded-hash, hash, random or placed (repeatable)
    /// [default: all]
    #[arg(long, value_name = "NAME", value_parser = rule)]
    rule: Vec<BalancingRule>,
    /// Seed of the viewers and of random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Concurrent simulations [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  headlong simulate fleet experiments/fleet.toml
  headlong simulate fleet experiments/fleet.toml --rule bounded-hash --set load_percent_max=150

Exit codes: 0 done, 64 a mistake in the command line or the file, 2 a failure.";

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = pair.ok_or("write it like rate=10GiB/s")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn rule(text: &str) -> Result<BalancingRule, String> {
    BalancingRule::from_name(text).ok_or_else(|| {
        let names = BalancingRule::ALL.iter().map(|rule| rule.name());
        let names: Vec<&str> = names.collect();
        let meant = nearest(text, names.iter().copied());
        let meant = meant.map_or(String::new(), |name| format!("did you mean {name}? "));
        format!("no such rule; {meant}there are {}", names.join(", "))
    })
}

/// Runs the verb.
pub(crate) fn simulate(arguments: &FleetArgs) -> anyhow::Result<()> {
    let experiment = arguments.experiment()?;
    let rules = match arguments.rule.as_slice() {
        [] => BalancingRule::ALL,
        some => some,
    };
    let run = |rule: &BalancingRule| -> Result<FleetFigures, SetupError> {
        let started = Instant::now();
        let figures = experiment.run(*rule, arguments.seed)?;
        let wall_s = (started.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        Ok(FleetFigures {
            wall_s: Some(wall_s),
            ..figures
        })
    };
    let runs = in_parallel(rules, threads(arguments.threads), run, |_, _| {});
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    if arguments.json {
        let text = match runs.as_slice() {
            [one] => serde_json::to_string_pretty(one)?,
            all => serde_json::to_string_pretty(all)?,
        };
        return print_line(&text);
    }
    print_line(table(&runs).to_markdown().trim_end())?;
    print_line(&format!("\n{}", fleet_line(&experiment, &runs)))?;
    for run in runs.iter().filter(|run| !run.planned.is_empty()) {
        print_line(&format!("\n{}\n", planned_line(&run.planned)))?;
        print_line(planned_table(&run.planned).to_markdown().trim_end())?;
    }
    print_line(&format!(
        "imitated: {FLEET_IMITATED}; of each box {IMITATED}"
    ))
}

impl FleetArgs {
    fn experiment(&self) -> Result<FleetExperiment, Mistakes> {
        let source = self.file.display().to_string();
        let read =
            |name: &str| std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"));
        let text = read(&source).map_err(|error| Mistakes(vec![error]))?;
        let sources = FleetSources {
            description: &read,
            drive: &drive_spec,
            workload: &|name, changes| {
                read_specification(name, changes).map_err(|Mistakes(lines)| lines)
            },
        };
        let experiment = FleetExperiment::read(&source, &text, &self.set, &sources);
        experiment.map_err(|wrong| Mistakes(wrong.iter().map(ToString::to_string).collect()))
    }
}

/// A row for each run.
fn table(runs: &[FleetFigures]) -> Table {
    let percent = |share: f64, decimals| Cell::number(share * 100.0, decimals);
    Table::of(
        runs,
        &[
            ("Rule", &|run| Cell::from(&*run.rule)),
            ("Viewers", &|run| run.viewers.into()),
            ("Lost (%)", &|run| percent(run.lost_ratio, 3)),
            ("Stalled (%)", &|run| percent(run.stalled_ratio, 2)),
            ("Time in stalls (%)", &|run| {
                percent(run.stall_time_ratio, 3)
            }),
            ("Busiest box / mean", &|run| Cell::number(run.busiest, 2)),
            ("in a minute", &|run| Cell::number(run.busiest_minute, 2)),
            ("Sent (GiB/s)", &|run| {
                Cell::number(run.sent_mib_s / 1024.0, 2)
            }),
            ("Disks read (GiB/s)", &|run| {
                Cell::number(run.disk_mib_s / 1024.0, 2)
            }),
            ("Busy (%)", &|run| percent(run.run.busy, 0)),
            ("Origin / sent (%)", &|run| percent(run.origin_ratio, 2)),
            ("Peers / sent (%)", &|run| percent(run.peer_ratio, 2)),
            ("Other box (%)", &|run| percent(run.away_ratio, 2)),
            ("Redispatched", &|run| run.redispatched.into()),
            ("Took (s)", &|run| Cell::maybe(run.wall_s, 0)),
        ],
    )
}

/// The busy time of all disks beside that of the plan.
fn planned_line(disks: &[PlannedDiskFigures]) -> String {
    let sum = |of: fn(&PlannedDiskFigures) -> f64| disks.iter().map(of).sum::<f64>();
    let mean = |of| sum(of) / disks.len() as f64 * 100.0;
    let error = |disk: &PlannedDiskFigures| (disk.busy_ratio() - 1.0).abs();
    let worst = disks.iter().max_by(|a, b| error(a).total_cmp(&error(b)));
    let worst = worst.map_or(String::new(), |worst| {
        let percent = (worst.busy_ratio() - 1.0) * 100.0;
        format!("; furthest from it is {}: {percent:+.1} %", worst.disk)
    });
    let planned = mean(|disk| disk.planned_busy);
    let busy = mean(|disk| disk.busy);
    format!(
        "{} disks are busy {busy:.1} %, by the plan {planned:.1} %{worst}",
        disks.len()
    )
}

/// A row for each disk that a plan has placed titles on; of many, those furthest from the plan.
fn planned_table(disks: &[PlannedDiskFigures]) -> Table {
    let mut disks: Vec<&PlannedDiskFigures> = disks.iter().collect();
    if disks.len() > DISKS_SHOWN {
        let error = |disk: &PlannedDiskFigures| (disk.busy_ratio() - 1.0).abs();
        disks.sort_by(|a, b| error(b).total_cmp(&error(a)));
        disks.truncate(DISKS_SHOWN);
    }
    let percent = |share: f64| Cell::number(share * 100.0, 1);
    Table::of(
        &disks,
        &[
            ("Disk", &|disk| Cell::from(&*disk.disk)),
            ("Titles", &|disk| disk.titles.into()),
            ("Planned: sent (MiB/s)", &|disk| {
                Cell::number(disk.planned_sent_mib_s, 1)
            }),
            ("sent", &|disk| Cell::number(disk.sent_mib_s, 1)),
            ("Planned: from memory (%)", &|disk| {
                percent(disk.planned_hit_ratio)
            }),
            ("from memory", &|disk| percent(disk.hit_ratio)),
            ("Planned: read (MiB/s)", &|disk| {
                Cell::number(disk.planned_disk_mib_s, 1)
            }),
            ("read", &|disk| Cell::number(disk.disk_mib_s, 1)),
            ("Planned: prefetch (MiB)", &|disk| {
                Cell::number(disk.planned_prefetch_mib, 1)
            }),
            ("prefetch", &|disk| Cell::number(disk.prefetch_mib, 1)),
            ("Planned: busy (%)", &|disk| percent(disk.planned_busy)),
            ("busy", &|disk| percent(disk.busy)),
            ("Error (%)", &|disk| {
                Cell::number((disk.busy_ratio() - 1.0) * 100.0, 1)
            }),
        ],
    )
}

/// The fleet and the times of a run.
fn fleet_line(experiment: &FleetExperiment, runs: &[FleetFigures]) -> String {
    let FleetExperiment { fleet, setup, .. } = experiment;
    let (window, disks) = (setup.window, setup.disks);
    let boxes = fleet.boxes.len();
    let mut text = format!(
        "{}: {boxes} boxes of {disks} x {}, measured {} s after a ramp of {} s",
        experiment.name,
        experiment.drive.name(),
        window.to.since(window.from).as_secs_f64(),
        window.from.0 / 1_000_000_000,
    );
    for failure in &fleet.failures {
        let name = &fleet.boxes[failure.of_box].name;
        let (at, down) = (failure.at.0 / 1_000_000_000, failure.down);
        text.push_str(&format!("; {name} fails at {at} s for {down}"));
    }
    let viewers = runs.iter().map(|run| run.run.viewers_mean);
    let viewers = viewers.fold(0.0, f64::max);
    text.push_str(&format!("; {viewers:.0} viewers at a time"));
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        fleet: FleetArgs,
    }

    fn parsed(words: &str) -> Result<FleetArgs, String> {
        let words = ["fleet"].into_iter().chain(words.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string());
        Ok(line?.fleet)
    }

    #[test]
    fn unknown_rule_names_the_nearest() {
        let told = parsed("a.toml --rule bounded").expect_err("no such rule");
        assert!(told.contains("bounded-hash"), "{told}");
        let rules = parsed("a.toml --rule hash --rule random")
            .expect("right")
            .rule;
        assert_eq!(rules, [BalancingRule::Hash, BalancingRule::Random]);
    }

    #[test]
    fn shipped_experiment_can_be_read() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/fleet.toml");
        let of = parsed(file).expect("a line").experiment().expect("right");
        assert_eq!((of.fleet.boxes.len(), of.setup.disks), (100, 12));
    }
}
