//! Automated Control of Aggressive Prefetching (SYSTOR 2014; thesis chapter 4), in virtual time.
//!
//! With an hour of drive time per point, the paper was limited to six sizes; here all of its
//! figures are reproduced in minutes, with the paper's memory (a page cache that may evict
//! prefetched data) and with this server's own, with fixed sizes, with the paper's controller and
//! with ours.
//!
//! Invariant: the rates tried in a scenario depend only on that scenario, so the results do not
//! depend on the number of threads.

mod page;
mod results;
mod scenarios;

use std::num::NonZeroUsize;
use std::time::Instant as WallInstant;

use headlong_sim::SetupError;
use headlong_units::{Instant, MIB};

use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, LimitSearch, Probe, QualityRules, RunOutcome,
    SearchRules, in_parallel,
};
use headlong_report::say;

use crate::claims::Claim;
use crate::report::RunChoice;
use results::{AutomatedResult, ConfigurationLimit, ControllerRun, ScenarioOutcome, name_of};
use scenarios::{
    MemoryModel, PhaseDurations, PrefetchSizing, SCALES, SCALES_SIZE_MIB, SCENARIOS, SIZES_MIB,
    SIZES_QUICK_MIB, SQUARE_ROOT_SCALE, Scenario, TitleMix,
};

/// Extent of a reproduction.
#[derive(Debug, Clone, Copy)]
struct AutomatedScope {
    times: PhaseDurations,
    seeds: u32,
    resolution_mib_s: f64,
    sizes_mib: &'static [u64],
}

const FULL: AutomatedScope = AutomatedScope {
    times: PhaseDurations {
        ramp: 540,
        measured: 300,
    },
    seeds: 2,
    resolution_mib_s: 1.0,
    sizes_mib: &SIZES_MIB,
};

const QUICK: AutomatedScope = AutomatedScope {
    times: PhaseDurations {
        ramp: 420,
        measured: 240,
    },
    seeds: 1,
    resolution_mib_s: 2.0,
    sizes_mib: &SIZES_QUICK_MIB,
};

/// First step of a search whose start may be far from the limit.
const STEP_MAX: f64 = 0.125;
/// Default starting rate of a search.
const GUESS_MIB_S: f64 = 48.0;

/// Selection of scenarios and accuracy; quick is fewer scenarios and sizes, in coarser steps.
#[derive(Debug, Clone, Default)]
pub struct ScenarioSelection {
    /// Number of searches of each limit, each with other viewers, and threads.
    pub choice: RunChoice,
    /// Names of the scenarios to run, from [`scenario_names`]; all of them if empty.
    pub scenarios: Vec<String>,
}

impl ScenarioSelection {
    fn effort(&self) -> AutomatedScope {
        let mut effort = if self.choice.is_quick { QUICK } else { FULL };
        effort.seeds = self.choice.seeds(effort.seeds);
        effort
    }

    /// The named scenarios, else all, or those of a quick reproduction.
    fn scenarios(&self) -> Vec<Scenario> {
        let is_meant = |scenario: &&Scenario| match self.scenarios.is_empty() {
            true => scenario.is_quick || !self.choice.is_quick,
            false => self.scenarios.iter().any(|name| name == scenario.name),
        };
        SCENARIOS.iter().filter(is_meant).copied().collect()
    }
}

/// Names of all scenarios.
pub fn scenario_names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name)
}

/// Reproduces the figures, writes the page and prints the tables.
///
/// # Errors
/// If a result cannot be written.
pub fn reproduce_virtual(
    choice: &ScenarioSelection,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let started = WallInstant::now();
    let mut result = limits(choice);
    let threads = choice.choice.threads();
    result.in_action = in_action(&result.outcomes, choice.effort(), threads);
    result.seconds = started.elapsed().as_secs_f64();
    result.report(&options.command_line).publish(options)
}

/// The claims, without the runs in which a controller finds its size.
pub(crate) fn automated_claims(choice: &ScenarioSelection) -> Vec<Claim> {
    limits(choice).claims()
}

fn limits(choice: &ScenarioSelection) -> AutomatedResult {
    let effort = choice.effort();
    AutomatedResult {
        schema: "headlong-automated-prefetching-1",
        is_quick: choice.choice.is_quick,
        seeds: effort.seeds,
        seconds: 0.0,
        outcomes: outcomes(&choice.scenarios(), effort, choice.choice.threads()),
        in_action: Vec::new(),
    }
}

/// Part of a scenario that one thread runs from beginning to end: consecutive sizes, each search
/// starting at the result of the previous one.
#[derive(Debug, Clone)]
struct ScenarioTask {
    scenario: Scenario,
    part: ScenarioPart,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScenarioPart {
    /// All fixed sizes, and the automatic ones, with this memory.
    Sizes(MemoryModel),
    /// The SD sizes of section 7.4, with the paper's memory.
    Scales,
}

fn outcomes(
    scenarios: &[Scenario],
    effort: AutomatedScope,
    threads: NonZeroUsize,
) -> Vec<ScenarioOutcome> {
    let mut tasks = Vec::new();
    for scenario in scenarios {
        let mut parts = vec![
            ScenarioPart::Sizes(MemoryModel::PageCache),
            ScenarioPart::Sizes(MemoryModel::Own),
        ];
        if scenario.titles == TitleMix::Mixed {
            parts.push(ScenarioPart::Scales);
        }
        tasks.extend(parts.into_iter().map(|part| ScenarioTask {
            scenario: *scenario,
            part,
        }));
    }
    let started = WallInstant::now();
    let mut done = 0;
    let results = in_parallel(
        &tasks,
        threads,
        |task| task.run(effort),
        |index, _| {
            done += 1;
            let passed = started.elapsed().as_secs_f64();
            let left = passed / done as f64 * (tasks.len() - done) as f64;
            let task = &tasks[index];
            say!(
                "{}/{}: {}, {}; {passed:.0} s, about {left:.0} s left",
                done,
                tasks.len(),
                task.scenario.name,
                task.part.name()
            );
        },
    );
    let of = |scenario: &Scenario| {
        let mut outcome = ScenarioOutcome {
            scenario: *scenario,
            name: scenario.name,
            limits: Vec::new(),
        };
        for (task, limits) in tasks.iter().zip(&results) {
            if task.scenario == *scenario {
                outcome.limits.extend(limits.iter().cloned());
            }
        }
        outcome
    };
    scenarios.iter().map(of).collect()
}

impl ScenarioPart {
    const fn name(self) -> &'static str {
        match self {
            Self::Sizes(memory) => name_of(memory),
            Self::Scales => "scales",
        }
    }
}

impl ScenarioTask {
    fn run(&self, effort: AutomatedScope) -> Vec<ConfigurationLimit> {
        match self.part {
            ScenarioPart::Sizes(memory) => self.sizes(memory, effort),
            ScenarioPart::Scales => self.scales(effort),
        }
    }

    fn sizes(&self, memory: MemoryModel, effort: AutomatedScope) -> Vec<ConfigurationLimit> {
        let mut limits: Vec<ConfigurationLimit> = Vec::new();
        let mut guess = GUESS_MIB_S;
        for size in effort.sizes_mib {
            let limit = self.limit(memory, PrefetchSizing::Fixed(*size), None, guess, effort);
            guess = limit.rate_mib_s.max(effort.resolution_mib_s);
            limits.push(limit);
        }
        let rates = limits.iter().map(|limit| limit.rate_mib_s);
        let best = rates.fold(GUESS_MIB_S / 8.0, f64::max);
        for sizing in [PrefetchSizing::AutoPaper, PrefetchSizing::Auto] {
            limits.push(self.limit(memory, sizing, None, best, effort));
        }
        if memory == MemoryModel::PageCache {
            limits.push(self.limit(memory, PrefetchSizing::Vanilla, None, best / 2.5, effort));
        }
        limits
    }

    fn scales(&self, effort: AutomatedScope) -> Vec<ConfigurationLimit> {
        let mut limits = Vec::new();
        let mut guess = GUESS_MIB_S;
        for scale in SCALES {
            for sizing in [
                PrefetchSizing::Fixed(SCALES_SIZE_MIB),
                PrefetchSizing::AutoPaper,
            ] {
                // Already covered by the fixed sizes.
                if scale == SQUARE_ROOT_SCALE {
                    continue;
                }
                let limit = self.limit(MemoryModel::PageCache, sizing, Some(scale), guess, effort);
                guess = limit.rate_mib_s.max(effort.resolution_mib_s);
                limits.push(limit);
            }
        }
        limits
    }

    fn limit(
        &self,
        memory: MemoryModel,
        sizing: PrefetchSizing,
        scale: Option<f64>,
        guess_mib_s: f64,
        effort: AutomatedScope,
    ) -> ConfigurationLimit {
        let used = scale.unwrap_or(SQUARE_ROOT_SCALE);
        let mut experiment = self.scenario.experiment(memory, sizing, used, effort.times);
        experiment.setup.stops_at_failure = true;
        let mut guess_mib_s = guess_mib_s;
        let (mut rates, mut worlds, mut records) = (0.0, 0, Vec::new());
        for seed in 1..=u64::from(effort.seeds) {
            // The previous size is usually a good guess, and the previous seed a better one.
            let is_near = guess_mib_s != GUESS_MIB_S;
            let rules = SearchRules {
                failures_max: 0.0,
                quality: QualityRules::default(),
                step: match is_near {
                    true => (effort.resolution_mib_s / guess_mib_s).min(STEP_MAX),
                    false => STEP_MAX,
                },
                resolution: 0.0,
                confirm: 1,
                probes_max: 64,
            };
            let search = LimitSearch::new(guess_mib_s * MIB as f64, rules);
            let search = search.in_steps_of(effort.resolution_mib_s * MIB as f64);
            let run = |probe: &Probe| experiment.run(probe.rate / MIB as f64, seed);
            let searched = search.run(
                1,
                |probes| {
                    probes
                        .iter()
                        .map(run)
                        .collect::<Result<Vec<_>, SetupError>>()
                },
                |record| match record.failures {
                    0 => RunOutcome::Passed,
                    _ => RunOutcome::Failed,
                },
            );
            // The scenarios are built in, and a test runs each of them.
            let mut searched = searched.expect("a world that can be");
            // Time series are only shown for single runs.
            searched
                .passed
                .iter_mut()
                .for_each(|record| record.series.clear());
            let rate = searched.found.rate.map_or(0.0, |rate| rate / MIB as f64);
            guess_mib_s = rate.max(effort.resolution_mib_s);
            rates += rate;
            worlds += searched.found.probes as usize;
            records.extend(searched.passed);
        }
        let is_mixed = self.scenario.titles == TitleMix::Mixed;
        ConfigurationLimit {
            scenario: self.scenario.name,
            memory: name_of(memory),
            sizing: sizing.name(),
            scale: is_mixed.then_some(used),
            size_mib: match sizing {
                PrefetchSizing::Fixed(mib) => Some(mib),
                PrefetchSizing::AutoPaper | PrefetchSizing::Auto | PrefetchSizing::Vanilla => None,
            },
            rate_mib_s: rates / f64::from(effort.seeds),
            worlds,
            records,
        }
    }
}

/// Duration of the rising load, and of the constant load after it, in seconds (section 4.3).
const RISES: u64 = 2700;
const STAYS: u64 = 1200;

/// Figures 3 and 4: a controller that starts too small with HD titles, and too large with SD ones,
/// at the highest rate of the best fixed size.
fn in_action(
    outcomes: &[ScenarioOutcome],
    effort: AutomatedScope,
    threads: NonZeroUsize,
) -> Vec<ControllerRun> {
    let mut tasks = Vec::new();
    for (figure, name, start_mib) in [
        ("3 (4.3)", "HD, 4 GB, Red", 4),
        ("4 (4.4)", "SD, 4 GB, Red", 8),
    ] {
        let outcome = outcomes.iter().find(|outcome| outcome.name == name);
        let best = outcome.and_then(|outcome| {
            let best = outcome.best(MemoryModel::PageCache)?;
            Some((outcome.scenario, best.rate_mib_s))
        });
        for sizing in [PrefetchSizing::AutoPaper, PrefetchSizing::Auto] {
            tasks.extend(best.map(|(scenario, rate)| (figure, scenario, start_mib, sizing, rate)));
        }
    }
    let run = |task: &(&'static str, Scenario, u64, PrefetchSizing, f64)| {
        let (figure, scenario, start_mib, sizing, rate_mib_s) = *task;
        let times = effort.times;
        let mut experiment =
            scenario.experiment(MemoryModel::PageCache, sizing, SQUARE_ROOT_SCALE, times);
        experiment.setup.engine.control.start_bytes = Some(start_mib * MIB);
        experiment.setup.engine.sizing.reference_bytes = start_mib * MIB;
        experiment.steps = scenarios::rising(RISES);
        let seconds = |seconds| Instant::ZERO + headlong_units::Duration::from_secs(seconds);
        experiment.setup.window.from = seconds(RISES);
        experiment.setup.window.to = seconds(RISES + STAYS);
        ControllerRun {
            figure,
            controller: sizing.name(),
            start_mib,
            rate_mib_s,
            record: experiment.run(rate_mib_s, 1).expect("a world that can be"),
        }
    };
    in_parallel(&tasks, threads, run, |_, _| {})
}
