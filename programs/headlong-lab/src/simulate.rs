//! `headlong simulate`: experiments in virtual time, grids of them, and bounds for all servers.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use headlong_bench::grid::{
    GridAxis, GridPoint, GridRow, Sweep, SweepQuantity, combinations, to_csv,
};
use headlong_bench::grid_points::{collect_points, has_point, store_point};
use headlong_bench::{
    BenchOptions, Experiment, ExperimentCell, KeyChange, VirtualOptions, default_store, grid_table,
    sweep_page,
};
use headlong_report::{command_line, say};
use headlong_sim::{IMITATED, RunFigures, ViewingRecord};
use headlong_units::MIB;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::bench::{ExperimentSelection, judge, rate, threads};
use crate::mistake::Mistakes;
use crate::output::{have_folders, print_line};
use crate::records::RecordsFile;
use crate::simulate_chains::{self, SimulateChainsArgs};
use crate::simulate_faults::{self, FaultsArgs};
use crate::simulate_fleet::{self, FleetArgs};
use crate::simulate_plan::{self, PlanArgs};

/// Simulate an experiment: its servers, viewers and drive in virtual time, at given rates or at the
/// highest without failure; docs/lab/simulate.md has its keys and the printed columns
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    mode: Option<SimulationMode>,
    #[command(flatten)]
    simulated: SimulatedArgs,
}

const EXAMPLES: &str = "Examples:
  headlong simulate youtube-sd --set memory=8GiB --set server.prefetch=auto
  headlong simulate youtube-hd --rate 80MiB/s --seeds 10 --json
  headlong simulate youtube-sd --grid server.prefetch=1MiB,2MiB,auto --grid memory=2GiB,4GiB
  headlong simulate experiments/server-must-win.toml --quick --workload sd";

#[derive(Debug, Clone, clap::Subcommand)]
enum SimulationMode {
    /// Compute the least number of viewers that any server loses from a start with empty memory
    #[command(after_help = BOUND_EXAMPLE)]
    Bound(ExperimentArgs),
    Chains(SimulateChainsArgs),
    Plan(PlanArgs),
    Faults(FaultsArgs),
    Fleet(FleetArgs),
}

/// An experiment, and the rates and seeds of its runs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExperimentArgs {
    /// A preset, such as youtube-sd, or an experiment of `headlong bench` (FILE.toml)
    #[arg(value_name = "EXPERIMENT", required = true)]
    name: Option<String>,
    /// Change a key, such as server.prefetch=auto or workload.requests.size=20s (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Use the values of its table [quick]
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    names: ExperimentSelection,
    /// Run at this rate, such as 25MiB/s, instead of searching the highest (repeatable)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Vec<f64>,
    /// First seed of the viewers [default: the experiment's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of seeds [default: 1 with --rate, otherwise `search.confirm`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct SimulatedArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Simulate every combination of such keys; also server and workload (repeatable)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = axis)]
    #[arg(conflicts_with_all = ["results", "resume", "records"])]
    grid: Vec<GridAxis>,
    /// Concurrent simulations [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder for the records of runs [default: bench-results/NAME-virtual]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Skip runs that already have a record
    #[arg(long)]
    resume: bool,
    /// The page with charts [default: report.html among the results; of a grid, none]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write each request of the only run as a row: CSV, or Parquet if FILE ends with .parquet
    #[arg(
        long,
        value_name = "FILE",
        requires = "rate",
        conflicts_with = "resume"
    )]
    records: Option<PathBuf>,
    /// Write the rows of a grid as comma-separated values
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    apart: ApartArgs,
}

/// Points of a grid, simulated apart.
#[derive(Debug, Clone, clap::Args)]
#[group(multiple = false, conflicts_with_all = ["results", "resume", "records"])]
struct PointSelection {
    /// List the combinations of a grid, each with its ID
    #[arg(long)]
    list: bool,
    /// Simulate only the combination with this ID (repeatable)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Report the grid from the results of all combinations in DIR
    #[arg(long, value_name = "DIR")]
    collect: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
struct ApartArgs {
    #[command(flatten)]
    selection: PointSelection,
    /// Write the result of each combination to DIR/ID.json, and skip those that are there
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "collect", "csv", "report", "json"])]
    #[arg(conflicts_with_all = ["results", "resume", "records"])]
    into: Option<PathBuf>,
}

impl PointSelection {
    /// Whether the points of a grid are meant, even if it is one point without axes.
    fn is_any(&self) -> bool {
        self.list || !self.only.is_empty() || self.collect.is_some()
    }
}

const BOUND_EXAMPLE: &str = "Example:
  headlong simulate bound youtube-hd --rate 200MiB/s --set phases.ramp_up=0s \\
    --set phases.measured=300s --set workload.sessions.resume_time=225s";

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = pair.ok_or("write it like memory=4GiB")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// `memory=2GiB,4GiB`.
fn axis(text: &str) -> Result<GridAxis, String> {
    let (name, values) = pair(text)?;
    let values = values.split(',').map(|value| value.trim().to_owned());
    let values: Vec<String> = values.filter(|value| !value.is_empty()).collect();
    match values.is_empty() {
        true => Err("names no values; write it like memory=2GiB,4GiB".to_owned()),
        false => Ok(GridAxis { name, values }),
    }
}

/// Runs the verb.
pub(crate) fn simulate(arguments: &SimulateArgs) -> anyhow::Result<()> {
    match &arguments.mode {
        None if arguments.simulated.is_grid() => sweep(&arguments.simulated),
        None => run(&arguments.simulated),
        Some(SimulationMode::Bound(bounding)) => bound(bounding),
        Some(SimulationMode::Chains(simulating)) => simulate_chains::simulate(simulating),
        Some(SimulationMode::Plan(planning)) => simulate_plan::simulate(planning),
        Some(SimulationMode::Faults(faults)) => simulate_faults::simulate(faults),
        Some(SimulationMode::Fleet(fleet)) => simulate_fleet::simulate(fleet),
    }
}

impl ExperimentArgs {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The experiment at a point of a grid, what is selected of it, and the command that repeats
    /// its runs.
    fn at(
        &self,
        grid: &[GridAxis],
        values: &[String],
    ) -> Result<(Experiment, ExperimentSelection, String), Mistakes> {
        let mut names = self.names.clone();
        let mut changes = Vec::new();
        let mut command = vec!["simulate".to_owned(), self.name().to_owned()];
        command.extend(self.quick.then(|| "--quick".to_owned()));
        let mut change = |option, key: &str, value: &str| {
            command.extend(["--set".to_owned(), format!("{key}={value}")]);
            let (key, value) = (key.to_owned(), value.to_owned());
            changes.push(KeyChange { option, key, value });
        };
        self.set
            .iter()
            .for_each(|(key, value)| change("--set", key, value));
        for (axis, value) in grid.iter().zip(values) {
            match axis.name.as_str() {
                "server" => names.server = Some(value.clone()),
                "workload" => names.workload = Some(value.clone()),
                key => change("--grid", key, value),
            }
        }
        let experiment = Experiment::named(self.name(), self.quick, &changes);
        let mut experiment = experiment.map_err(Mistakes::of)?;
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment.search.confirm = self.seeds.unwrap_or(experiment.search.confirm);
        Ok((experiment, names, command_line(command)))
    }

    /// The only server and workload, ready to run.
    fn one(&self) -> anyhow::Result<(Experiment, ExperimentCell, VirtualOptions)> {
        let (experiment, names, replay) = self.at(&[], &[])?;
        let cell = names.one(&experiment)?;
        let how = options(&experiment, replay, None);
        Ok((experiment, cell, how))
    }

    fn seeds_of(&self, experiment: &Experiment) -> std::ops::Range<u64> {
        let count = u64::from(self.seeds.unwrap_or(1));
        experiment.seed..experiment.seed.saturating_add(count)
    }
}

fn options(experiment: &Experiment, replay: String, count: Option<NonZeroUsize>) -> VirtualOptions {
    VirtualOptions {
        turnaround: experiment.simulation.turnaround,
        replay,
        threads: threads(count),
    }
}

/// Simulates one server at the given rates, or searches the limits of all.
fn run(arguments: &SimulatedArgs) -> anyhow::Result<()> {
    if arguments.csv.is_some() {
        return Err(Mistakes::of("--csv: is for the rows of a grid; add --grid").into());
    }
    let of = &arguments.experiment;
    let (experiment, names, replay) = of.at(&[], &[])?;
    let how = options(&experiment, replay, arguments.threads);
    let results = arguments.options(&experiment.name);
    let cells = names.all(&experiment)?;
    let lacks = how.bench(&experiment).lacks(&cells);
    if lacks.len() == cells.len() {
        return Err(Mistakes(lacks.iter().map(ToString::to_string).collect()).into());
    }
    if of.rate.is_empty() {
        return judge(headlong_bench::simulate(
            &experiment,
            &cells,
            &how,
            &results,
        )?);
    }
    let runs = seeds_and_rates(&of.rate, of.seeds_of(&experiment));
    let mut calls = match &arguments.records {
        Some(_) if cells.len() * runs.len() > 1 => {
            let mistake = "--records: one file holds one run; give one --rate and no --seeds, and \
                           select one server and workload";
            return Err(Mistakes::of(mistake).into());
        }
        path => path.as_deref().map(RecordsFile::create).transpose()?,
    };
    let mut told = Ok(());
    if !of.json {
        print_line(RunFigures::heading())?;
    }
    let bench = how.bench(&experiment).with_calls(calls.is_some());
    let ending = headlong_bench::simulate_runs(
        &experiment,
        &cells,
        &runs,
        bench,
        &results,
        |cell, record, each_call| {
            if let Some(figures) = record.figures().filter(|_| !of.json && told.is_ok()) {
                told = print_figures(figures, cell.has_adaptive_players());
            }
            if let Some(file) = calls.as_mut().filter(|_| told.is_ok()) {
                told = file.add(&each_call);
            }
        },
    )?;
    told?;
    calls.map(RecordsFile::finish).transpose()?;
    if !of.json {
        print_line(&format!("imitated: {IMITATED}"))?;
    }
    judge(ending)
}

/// Every rate with every seed.
fn seeds_and_rates(rates: &[f64], seeds: std::ops::Range<u64>) -> Vec<(f64, u64)> {
    let with_seeds = |rate: &f64| seeds.clone().map(|seed| (*rate, seed)).collect::<Vec<_>>();
    rates.iter().flat_map(with_seeds).collect()
}

/// Prints the line of a run, and the playback of adaptive players.
fn print_figures(figures: &RunFigures, adapts: bool) -> anyhow::Result<()> {
    print_line(&figures.line())?;
    if let Some(flash) = &figures.flash {
        print_line(&flash.line(figures.flash_ratio))?;
    }
    if let Some(devices) = figures.devices() {
        print_line(&devices)?;
    }
    if adapts {
        print_line(ViewingRecord::heading())?;
        for seen in &figures.viewing {
            print_line(&seen.line())?;
        }
    }
    Ok(())
}

impl SimulatedArgs {
    /// Whether the points of a grid are meant; one without axes has one.
    fn is_grid(&self) -> bool {
        !self.grid.is_empty() || self.apart.selection.is_any() || self.apart.into.is_some()
    }

    fn options(&self, name: &str) -> BenchOptions {
        let quick = if self.experiment.quick { "-quick" } else { "" };
        let results = || PathBuf::from("bench-results").join(format!("{name}{quick}-virtual"));
        BenchOptions {
            headlong: PathBuf::new(),
            store: default_store(),
            results: self.results.clone().unwrap_or_else(results),
            resumes: self.resume,
            report: self.report.clone(),
            json: self.experiment.json,
            command_line: command_line(std::env::args_os().skip(1)),
        }
    }

    /// Every combination of a grid, or all mistakes.
    fn points(&self) -> Result<Vec<GridPoint>, Mistakes> {
        let mut mistakes = twice(&self.grid);
        let mut points = Vec::new();
        for values in combinations(&self.grid) {
            let made = self.experiment.at(&self.grid, &values);
            let cell = made.and_then(|(experiment, names, replay)| {
                let cell = names.one(&experiment)?;
                let cell = options(&experiment, replay, None)
                    .bench(&experiment)
                    .cell(&cell);
                cell.map_err(Mistakes::of)
            });
            match cell {
                Ok(cell) => points.push(GridPoint { values, cell }),
                Err(Mistakes(mut wrong)) => {
                    wrong.retain(|mistake| !mistakes.contains(mistake));
                    mistakes.extend(wrong);
                }
            }
        }
        Mistakes::if_any(mistakes)?;
        Ok(points)
    }
}

/// Keys given more than once: only the last one would apply, and the columns would be wrong.
fn twice(grid: &[GridAxis]) -> Vec<String> {
    let again = |(place, axis): (usize, &GridAxis)| {
        let name = &axis.name;
        let is_again = grid[..place].iter().any(|other| other.name == *name);
        let text = "is given twice; give all its values once";
        is_again.then(|| format!("--grid {name}: {text}, such as {name}=A,B"))
    };
    grid.iter().enumerate().filter_map(again).collect()
}

/// Simulates every combination of a grid, or those that are selected.
fn sweep(arguments: &SimulatedArgs) -> anyhow::Result<()> {
    have_folders(&[
        ("--csv", arguments.csv.as_deref()),
        ("--report", arguments.report.as_deref()),
    ])?;
    let of = &arguments.experiment;
    let points = arguments.points()?;
    let (experiment, ..) = of.at(&[], &[])?;
    let (aim, seeds) = match of.rate.is_empty() {
        true => (SweepQuantity::Limit, experiment.search.confirm),
        false => {
            let rates = of.rate.iter().map(|rate| rate / MIB as f64);
            (SweepQuantity::Rates(rates.collect()), of.seeds.unwrap_or(1))
        }
    };
    let sweep = Sweep {
        aim,
        seed: experiment.seed,
        seeds,
        threads: threads(arguments.threads),
    };
    let ApartArgs { selection, into } = &arguments.apart;
    if selection.list {
        return list(&arguments.grid, &sweep, &points);
    }
    let rows = match (&selection.collect, into) {
        (Some(folder), _) => collect_points(folder, &sweep, &points).map_err(Mistakes::of)?,
        (None, into) => {
            let points = selection.selected(&sweep, points)?;
            if let Some(folder) = into {
                return simulate_into(folder, &sweep, points);
            }
            simulate_points(&sweep, &points, |_, _| {})?
        }
    };
    report_grid(arguments, &sweep, &rows)
}

/// Simulates points, with a progress bar; `finished` receives each with its rows.
fn simulate_points(
    sweep: &Sweep,
    points: &[GridPoint],
    mut finished: impl FnMut(&GridPoint, &[GridRow]),
) -> anyhow::Result<Vec<GridRow>> {
    let bar = ProgressBar::new(points.len() as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let rows = sweep.run(points, |point, rows| {
        bar.inc(1);
        finished(point, rows);
    })?;
    bar.finish_and_clear();
    Ok(rows)
}

/// Prints and writes the rows of a grid.
fn report_grid(arguments: &SimulatedArgs, sweep: &Sweep, rows: &[GridRow]) -> anyhow::Result<()> {
    let (of, grid) = (&arguments.experiment, &arguments.grid);
    if let Some(file) = &arguments.csv {
        std::fs::write(file, to_csv(grid, rows))
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    }
    if let Some(file) = &arguments.report {
        let command = command_line(std::env::args_os().skip(1));
        let title = format!("A grid of {}", of.name());
        sweep_page(&title, grid, &sweep.aim, rows, &command).write(file)?;
    }
    match of.json {
        true => print_json(&json!({ "axes": grid, "rows": rows })),
        false => print_line(grid_table(grid, rows).to_markdown().trim_end()),
    }
}

/// Prints the ID and the values of each point.
fn list(grid: &[GridAxis], sweep: &Sweep, points: &[GridPoint]) -> anyhow::Result<()> {
    for point in points {
        let pairs = grid.iter().zip(&point.values);
        let pairs: Vec<String> = pairs
            .map(|(axis, value)| format!("{}={value}", axis.name))
            .collect();
        print_line(format!("{}\t{}", sweep.id(point), pairs.join(" ")).trim_end())?;
    }
    Ok(())
}

/// Simulates points, each into its file, unless that is there.
fn simulate_into(folder: &Path, sweep: &Sweep, mut points: Vec<GridPoint>) -> anyhow::Result<()> {
    let build = env!("HEADLONG_VERSION");
    std::fs::create_dir_all(folder)
        .map_err(|error| anyhow::anyhow!("{}: {error}", folder.display()))?;
    let (all, mut unreadable) = (points.len(), Ok(()));
    points.retain(|point| match has_point(folder, &sweep.id(point), build) {
        Ok(is_there) => !is_there,
        Err(error) => {
            unreadable = Err(error);
            true
        }
    });
    unreadable?;
    let mut stored = Ok(());
    simulate_points(sweep, &points, |point, rows| {
        if stored.is_ok() {
            stored = store_point(folder, &sweep.id(point), build, rows).map(drop);
        }
    })?;
    stored?;
    let (new, known) = (points.len(), all - points.len());
    say!(
        "headlong: {}: {new} combinations written, {known} there already",
        folder.display()
    );
    Ok(())
}

impl PointSelection {
    /// The points that `--only` selects, or all.
    fn selected(
        &self,
        sweep: &Sweep,
        mut points: Vec<GridPoint>,
    ) -> Result<Vec<GridPoint>, Mistakes> {
        if self.only.is_empty() {
            return Ok(points);
        }
        let ids: Vec<String> = points.iter().map(|point| sweep.id(point)).collect();
        let unknown = self.only.iter().filter(|id| !ids.contains(id));
        let mistakes: Vec<String> = unknown
            .map(|id| {
                format!(
                    "--only {id}: there is no such combination; --list shows those of the same \
                     experiment, --set, --grid, --rate and seeds"
                )
            })
            .collect();
        let mut ids = ids.iter();
        points.retain(|_| ids.next().is_some_and(|id| self.only.contains(id)));
        Mistakes::if_any(mistakes)?;
        Ok(points)
    }
}

fn print_json(value: &Value) -> anyhow::Result<()> {
    print_line(&format!("{value:#}"))
}

/// Computes the least numbers of lost viewers.
fn bound(of: &ExperimentArgs) -> anyhow::Result<()> {
    if of.rate.is_empty() {
        return Err(Mistakes::of("--rate: is missing; give the rate of the viewers").into());
    }
    let (experiment, cell, how) = of.one()?;
    let cell = how.bench(&experiment).cell(&cell)?;
    let bounds = seeds_and_rates(&of.rate, of.seeds_of(&experiment))
        .into_iter()
        .map(|(rate, seed)| cell.world().loss_bound(rate / MIB as f64, seed))
        .collect::<Result<Vec<_>, _>>()?;
    match of.json {
        true => print_json(&json!(bounds)),
        false => bounds
            .iter()
            .try_for_each(|bound| print_line(&bound.line())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn parsed(arguments: &str) -> Result<SimulateArgs, String> {
        let words = ["headlong", "simulate"].into_iter();
        let args = Args::try_parse_from(words.chain(arguments.split_whitespace()));
        match args.map_err(|error| error.to_string())?.command {
            Command::Simulate(simulating) => Ok(*simulating),
            _ => panic!("another command"),
        }
    }

    fn points(arguments: &str) -> Result<Vec<GridPoint>, Vec<String>> {
        let simulating = parsed(arguments).expect("a command line").simulated;
        simulating.points().map_err(|Mistakes(wrong)| wrong)
    }

    #[test]
    fn help_fits_on_a_screen() {
        let help = parsed("--help").expect_err("the help");
        assert!(help.lines().count() <= 50, "{help}");
    }

    #[test]
    fn preset_is_one_server_in_known_world() {
        let of = parsed("youtube-sd").expect("right").simulated.experiment;
        let (experiment, cell, how) = of.one().expect("right");
        let cell = how.bench(&experiment).cell(&cell).expect("simulatable");
        let setup = &cell.world().setup;
        assert_eq!(setup.engine.memory_bytes, 3584 << 20);
        assert_eq!(setup.engine.sizing.reference_bytes, 8 << 20);
        assert_eq!(setup.placement, headlong_sim::Placement::Packed);
        let mut engine = headlong_sim::WorldSetup::default().engine;
        engine.memory_bytes = setup.engine.memory_bytes;
        assert_eq!(setup.engine, engine);
    }

    #[test]
    fn grid_varies_keys_and_servers() {
        let points = points(
            "youtube-sd --grid server.prefetch=1MiB,2MiB --grid memory=1GiB,2GiB,4GiB \
             --grid workload.title.sd.zipf_alpha=0.6,1 --set server.outstanding_reads_rotating=4",
        );
        let points = points.expect("right");
        assert_eq!(points.len(), 12);
        let last = &points[11];
        assert_eq!(last.values, ["2MiB", "4GiB", "1"]);
        let engine = &last.cell.world().setup.engine;
        assert_eq!(engine.sizing.reference_bytes, 2 << 20);
        assert_eq!(
            (engine.memory_bytes, engine.outstanding_reads_max),
            (4 << 30, 4)
        );
        assert_eq!(last.cell.world().workload.groups[0].zipf_alpha, 1.0);
        let servers = self::points("youtube-sd --grid server=headlong,nginx");
        assert_eq!(servers.expect("right").len(), 2);
    }

    /// A grid of two points that are simulated in a moment.
    const GRID: &str = "youtube-sd --set phases.ramp_up=1s --set phases.measured=5s --rate 2MiB/s \
                        --grid memory=1GiB,2GiB";

    fn sweep_of(arguments: &str) -> Result<(), String> {
        let simulating = parsed(arguments).expect("a command line");
        simulate(&simulating).map_err(|error| error.to_string())
    }

    fn point_ids() -> Vec<String> {
        let simulating = parsed(GRID).expect("a command line").simulated;
        let points = simulating.points().expect("points");
        let sweep = Sweep {
            aim: SweepQuantity::Rates(vec![2.0]),
            seed: 1,
            seeds: 1,
            threads: NonZeroUsize::MIN,
        };
        points.iter().map(|point| sweep.id(point)).collect()
    }

    #[test]
    fn collected_points_equal_one_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let into = file("points");
        sweep_of(&format!("{GRID} --csv {}", file("one.csv"))).expect("simulated");
        let last = &point_ids()[1];
        sweep_of(&format!("{GRID} --only {last} --into {into}")).expect("simulated");
        let stored = || std::fs::metadata(Path::new(&into).join(format!("{last}.json")));
        let before = stored().expect("a file").modified().expect("a time");
        sweep_of(&format!("{GRID} --into {into}")).expect("simulated");
        let after = stored().expect("a file").modified().expect("a time");
        assert_eq!(before, after, "it is not simulated again");
        sweep_of(&format!(
            "{GRID} --collect {into} --csv {}",
            file("all.csv")
        ))
        .expect("collected");
        let text = |name| std::fs::read_to_string(file(name)).expect("rows");
        assert_eq!(text("one.csv"), text("all.csv"));
    }

    #[test]
    fn points_that_do_not_fit_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let into = folder.path().display().to_string();
        let ids = point_ids();
        let unknown = sweep_of(&format!("{GRID} --only 0123 --into {into}"));
        assert!(
            unknown
                .expect_err("unknown")
                .contains("--only 0123: there is no such")
        );
        sweep_of(&format!("{GRID} --only {} --into {into}", ids[0])).expect("simulated");
        let collect = format!("{GRID} --collect {into}");
        let missing = sweep_of(&collect).expect_err("one is missing");
        assert!(
            missing.contains(&format!("1 of 2 points are missing, such as {}", ids[1])),
            "{missing}"
        );
        let of = |id: &str| folder.path().join(format!("{id}.json"));
        let text = std::fs::read_to_string(of(&ids[0])).expect("a point");
        let other = text
            .replace(&ids[0], &ids[1])
            .replace("\"build\": \"", "\"build\": \"9");
        std::fs::write(of(&ids[1]), &other).expect("written");
        let mixed = sweep_of(&collect).expect_err("two builds");
        assert!(
            mixed.contains("simulate all points with one build"),
            "{mixed}"
        );
        std::fs::write(of(&ids[1]), &text).expect("written");
        let foreign = sweep_of(&collect).expect_err("another point");
        assert!(
            foreign.contains("is not the result of this point"),
            "{foreign}"
        );
    }

    #[test]
    fn reports_all_invalid_points_of_grid() {
        let wrong = points(
            "youtube-sd --grid server.prefech=1MiB,2MiB --grid drive.preset=wd-rad \
             --grid memory=1GiB --grid memory=2GiB",
        );
        let told = wrong.expect_err("mistakes").join("\n");
        for part in [
            "prefetch`",
            "wd-red-wd10efrx",
            "--grid memory: is given twice",
        ] {
            assert!(told.contains(part), "{part} is missing in: {told}");
        }
        assert_eq!(
            told.matches("server.prefech:").count(),
            1,
            "once for all points: {told}"
        );
    }

    #[test]
    fn drive_may_be_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.toml");
        let mine = headlong_drive::preset("hp-146-10k-sas").expect("a preset");
        std::fs::write(&file, toml::to_string(&mine).expect("text")).expect("written");
        let points = points(&format!(
            "youtube-sd --grid drive.preset={}",
            file.display()
        ));
        assert_eq!(points.expect("right")[0].cell.world().drive, mine);
    }
}
