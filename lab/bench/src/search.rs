//! Search for the highest failure-free rate of a server, in few runs.
//!
//! A pass and a failure bracket the limit. The search steps away from the first guess in growing
//! steps until it has both, then bisects (geometrically) until they are close; then the rate that
//! passed has to pass again with other seeds, a configured number of times. Real and virtual runs
//! use the same search.
//!
//! Invariants: the search makes no I/O and reads no clock; the result depends only on the outcomes,
//! not on the number of concurrent runs; a rate that failed is never the limit, even if higher rates
//! passed; a refused run counts neither as pass nor as failure.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::experiment::{Experiment, SearchRules};
use crate::load_result::QualityRules;

/// Default granularity of rates, in bytes per second: a hundredth of a MiB.
const RATE_UNIT: f64 = 1_048_576.0 / 100.0;
/// Steps away from the guess grow up to this multiple of the first one.
const STEPS_MAX: i32 = 4;
/// The search does not go below this share of the first guess.
const FLOOR: f64 = 1.0 / 64.0;

/// Outcome of a run, as used by the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// No more failures than allowed.
    Passed,
    /// More failures than allowed.
    Failed,
    /// The measurement is invalid: the load generator lagged, the machine was too busy, or the
    /// emulated drive was late. The run does not count, and no higher rate can be measured.
    Refused,
}

/// A run to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// In bytes per second.
    pub rate: f64,
    /// Index of the seed, from 0.
    pub seed_index: u32,
}

/// Result of a search, final or intermediate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchResult {
    /// Highest rate that passed with no failure below it; `None` if there is none.
    pub rate: Option<f64>,
    /// Lowest rate that failed.
    pub failed: Option<f64>,
    /// Lowest rate that could not be measured.
    pub refused: Option<f64>,
    /// Whether `rate` passed the required number of times, with a failure close above it.
    pub is_settled: bool,
    /// Number of runs.
    pub probes: u32,
}

impl SearchResult {
    /// Whether the machine, not the server, is the limit: higher rates could not be measured.
    pub fn is_machine_limited(&self) -> bool {
        match (self.refused, self.failed) {
            (Some(refused), Some(failed)) => refused < failed,
            (refused, None) => refused.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// A finished search, with the runs that prove its result.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedSearch<R> {
    /// The result.
    pub found: SearchResult,
    /// The runs at the found rate, in the order of their seeds; empty if no rate passed.
    pub passed: Vec<R>,
    /// The run that failed closest above it.
    pub failed: Option<R>,
    /// The last run that was refused.
    pub refused: Option<R>,
}

/// A search in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSearch {
    rules: SearchRules,
    /// Granularity of rates, in bytes per second.
    unit: f64,
    start: f64,
    runs: Vec<(Probe, RunOutcome)>,
}

impl LimitSearch {
    /// A search that begins at `start` bytes per second, which must be above 0.
    pub fn new(start: f64, rules: SearchRules) -> Self {
        Self {
            rules,
            unit: RATE_UNIT,
            start: rounded(start, RATE_UNIT),
            runs: Vec::new(),
        }
    }

    /// The search of an experiment.
    pub(crate) fn of(experiment: &Experiment, start: f64) -> Self {
        let mut rules = experiment.search;
        let Some(grain) = experiment.search_grain else {
            return Self::new(start, rules);
        };
        rules.resolution = 0.0;
        Self::new(start, rules).in_steps_of(grain)
    }

    /// The search for the highest rate at which no seed fails (thesis 4.4.3), in whole multiples of
    /// `unit` bytes per second: up or down by an eighth, then in growing steps, then by bisection.
    pub fn without_failure(start: f64, unit: f64, seeds: u32) -> Self {
        let rules = SearchRules {
            failures_max: 0.0,
            quality: QualityRules::default(),
            step: 0.125,
            resolution: 0.0,
            confirm: seeds.max(1),
            probes_max: 64,
        };
        Self::new(start, rules).in_steps_of(unit)
    }

    /// Restricts rates to whole multiples of `unit` bytes per second: this is then the resolution
    /// of the result, whatever the rules say.
    #[must_use]
    pub fn in_steps_of(self, unit: f64) -> Self {
        let start = rounded(self.start, unit).max(unit);
        Self {
            unit,
            start,
            ..self
        }
    }

    /// Searches to the end. `make` makes the given runs, at most `at_once`; runs after the first
    /// are speculative: they are used only if all runs before them pass. `outcome` judges a run, in
    /// the order of the search.
    ///
    /// # Errors
    /// The first error of `make`.
    pub fn run<R, E>(
        mut self,
        at_once: usize,
        mut make: impl FnMut(&[Probe]) -> Result<Vec<R>, E>,
        mut outcome: impl FnMut(&R) -> RunOutcome,
    ) -> Result<CompletedSearch<R>, E> {
        let mut searched = CompletedSearch {
            found: self.found(),
            passed: Vec::new(),
            failed: None,
            refused: None,
        };
        // A failed confirmation may restore an earlier rate as the highest that passed.
        let mut passed: Vec<(f64, R)> = Vec::new();
        loop {
            let probes = self.ahead(at_once);
            if probes.is_empty() {
                searched.found = self.found();
                passed.retain(|(rate, _)| searched.found.rate == Some(*rate));
                searched.passed = passed.into_iter().map(|(_, run)| run).collect();
                return Ok(searched);
            }
            for (probe, run) in probes.iter().zip(make(&probes)?) {
                if self.next() != Some(*probe) {
                    break;
                }
                let outcome = outcome(&run);
                self.record(*probe, outcome);
                let lowest = self.bracket().failed;
                match outcome {
                    RunOutcome::Passed => passed.push((probe.rate, run)),
                    RunOutcome::Failed if lowest == Some(probe.rate) => searched.failed = Some(run),
                    RunOutcome::Failed => {}
                    RunOutcome::Refused => searched.refused = Some(run),
                }
            }
        }
    }

    /// The next runs under the assumption that each of them passes.
    fn ahead(&self, count: usize) -> Vec<Probe> {
        let mut assumed = self.clone();
        let next = std::iter::from_fn(|| {
            let probe = assumed.next()?;
            assumed.record(probe, RunOutcome::Passed);
            Some(probe)
        });
        next.take(count).collect()
    }

    /// The next run; `None` when the search has ended.
    pub fn next(&self) -> Option<Probe> {
        if self.runs.len() >= self.rules.probes_max as usize {
            return None;
        }
        let found = self.bracket();
        // A refused rate is a ceiling, like a failed one.
        let ceiling = [found.failed, found.refused]
            .into_iter()
            .flatten()
            .reduce(f64::min);
        match (found.rate, ceiling) {
            (None, None) => self.fresh(self.start),
            (Some(passed), None) => {
                let rate = passed * self.step_away(RunOutcome::Passed);
                self.fresh(rate.max(passed + self.unit))
            }
            (None, Some(ceiling)) => {
                let rate = ceiling / self.step_away(RunOutcome::Failed);
                let rate = rate.min(ceiling - self.unit);
                (rate >= self.start * FLOOR)
                    .then(|| self.fresh(rate))
                    .flatten()
            }
            (Some(passed), Some(ceiling)) => {
                let middle = rounded((passed * ceiling).sqrt(), self.unit);
                match self.is_close(passed, ceiling) || middle <= passed || middle >= ceiling {
                    true => self.confirmation(passed),
                    false => self.fresh(middle),
                }
            }
        }
    }

    /// Records the outcome of a run.
    pub fn record(&mut self, probe: Probe, outcome: RunOutcome) {
        self.runs.push((probe, outcome));
    }

    /// The current result.
    pub fn found(&self) -> SearchResult {
        let mut found = self.bracket();
        found.is_settled = self.next().is_none() && self.is_closed(&found);
        found
    }

    fn is_closed(&self, found: &SearchResult) -> bool {
        let (Some(rate), Some(failed)) = (found.rate, found.failed) else {
            return false;
        };
        let middle = rounded((rate * failed).sqrt(), self.unit);
        let is_near = middle <= rate || middle >= failed || self.is_close(rate, failed);
        is_near && self.passes(rate) >= self.rules.confirm
    }

    /// Whether the bracket is narrow enough; rounding of the rates is allowed for.
    fn is_close(&self, passed: f64, ceiling: f64) -> bool {
        ceiling <= passed * (1.0 + self.rules.resolution) + self.unit
    }

    fn rates(&self, outcome: RunOutcome) -> impl Iterator<Item = f64> {
        let runs = self.runs.iter();
        runs.filter(move |(_, o)| *o == outcome)
            .map(|(probe, _)| probe.rate)
    }

    fn bracket(&self) -> SearchResult {
        let failed = self.rates(RunOutcome::Failed).reduce(f64::min);
        let below = failed.unwrap_or(f64::INFINITY);
        let passed = self.rates(RunOutcome::Passed).filter(|rate| *rate < below);
        let rate = passed.reduce(f64::max);
        // A refused rate that passed later, or lies below a passed one, is not a ceiling.
        let above = rate.unwrap_or(0.0);
        let refused = self.rates(RunOutcome::Refused).filter(|rate| *rate > above);
        SearchResult {
            rate,
            failed,
            refused: refused.reduce(f64::min),
            is_settled: false,
            probes: self.runs.len() as u32,
        }
    }

    /// Step size: grows while the outcome repeats, so that a bad guess costs few runs.
    fn step_away(&self, outcome: RunOutcome) -> f64 {
        let same = match outcome {
            RunOutcome::Passed => self.rates(RunOutcome::Passed).count(),
            _ => self
                .rates(RunOutcome::Failed)
                .chain(self.rates(RunOutcome::Refused))
                .count(),
        };
        (1.0 + self.rules.step).powi((same as i32).clamp(1, STEPS_MAX))
    }

    fn passes(&self, rate: f64) -> u32 {
        self.rates(RunOutcome::Passed)
            .filter(|passed| *passed == rate)
            .count() as u32
    }

    fn fresh(&self, rate: f64) -> Option<Probe> {
        let rate = rounded(rate, self.unit);
        (rate > 0.0).then_some(Probe {
            rate,
            seed_index: 0,
        })
    }

    fn confirmation(&self, rate: f64) -> Option<Probe> {
        let seed_index = self.passes(rate);
        (seed_index < self.rules.confirm).then_some(Probe { rate, seed_index })
    }
}

fn rounded(rate: f64, unit: f64) -> f64 {
    (rate / unit).round() * unit
}

/// Runs jobs on several threads. Results are in the order of the jobs; `on_result` is called on the
/// calling thread for each result as soon as it is available, with the index of its job.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: NonZeroUsize,
    work: impl Fn(&J) -> R + Sync,
    mut on_result: impl FnMut(usize, &R),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut answers: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let (next, work) = (&next, &work);
        for _ in 0..threads.get().min(jobs.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else {
                        return;
                    };
                    if sender.send((index, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, answer) in receiver {
            on_result(index, &answer);
            answers[index] = Some(answer);
        }
    });
    // The scope panics if a thread has panicked.
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn rules() -> SearchRules {
        SearchRules {
            failures_max: 0.0,
            quality: QualityRules::default(),
            step: 0.2,
            resolution: 0.04,
            confirm: 1,
            probes_max: 24,
        }
    }

    fn run(search: &mut LimitSearch, mut oracle: impl FnMut(Probe) -> RunOutcome) -> SearchResult {
        while let Some(probe) = search.next() {
            search.record(probe, oracle(probe));
        }
        search.found()
    }

    fn threshold(limit: f64) -> impl Fn(Probe) -> RunOutcome {
        move |probe| match probe.rate <= limit {
            true => RunOutcome::Passed,
            false => RunOutcome::Failed,
        }
    }

    #[test]
    fn good_guess_needs_few_runs() {
        for limit in [21.0, 23.0, 25.0, 27.0, 29.5] {
            let found = run(
                &mut LimitSearch::new(25.0 * MIB, rules()),
                threshold(limit * MIB),
            );
            assert!(found.is_settled && found.probes <= 6, "{limit}: {found:?}");
        }
    }

    #[test]
    fn step_equal_to_resolution_needs_no_bisection() {
        let rules = SearchRules {
            step: 0.15,
            resolution: 0.15,
            ..rules()
        };
        // 46.00, 52.90 and 69.96 (rounded up), then 60.83.
        let found = run(
            &mut LimitSearch::new(46.0 * MIB, rules),
            threshold(65.0 * MIB),
        );
        assert!(found.is_settled && found.probes == 4, "{found:?}");
        assert_eq!((found.rate.expect("a rate") / MIB * 100.0).round(), 6083.0);
    }

    #[test]
    fn failed_confirmation_with_new_seed_revokes_rate() {
        let rules = SearchRules {
            confirm: 3,
            ..rules()
        };
        let mut search = LimitSearch::new(10.0 * MIB, rules);
        // 10 MiB/s passes only with the first seed.
        let found = run(&mut search, |probe| {
            let limit = if probe.seed_index == 0 { 10.1 } else { 9.0 };
            threshold(limit * MIB)(probe)
        });
        let rate = found.rate.expect("a rate") / MIB;
        assert!((8.6..=9.0).contains(&rate), "{rate}");
        assert!(found.is_settled);
    }

    #[test]
    fn server_failing_at_every_rate_ends_search() {
        let found = run(&mut LimitSearch::new(25.0 * MIB, rules()), |_| {
            RunOutcome::Failed
        });
        assert_eq!(found.rate, None);
        assert!(!found.is_settled && found.probes < 12, "{found:?}");
    }

    #[test]
    fn refused_rate_is_machine_limit_not_failure() {
        let found = run(
            &mut LimitSearch::new(60.0 * MIB, rules()),
            |probe| match probe.rate {
                rate if rate > 70.0 * MIB => RunOutcome::Refused,
                _ => RunOutcome::Passed,
            },
        );
        assert!(found.is_machine_limited() && !found.is_settled, "{found:?}");
        assert_eq!(found.failed, None);
        assert!(found.rate.expect("a rate") > 67.0 * MIB);
        // A failure below it makes the server the limit.
        let found = run(
            &mut LimitSearch::new(60.0 * MIB, rules()),
            |probe| match probe.rate {
                rate if rate > 70.0 * MIB => RunOutcome::Refused,
                rate if rate > 50.0 * MIB => RunOutcome::Failed,
                _ => RunOutcome::Passed,
            },
        );
        assert!(!found.is_machine_limited() && found.is_settled, "{found:?}");
    }

    #[test]
    fn whole_steps_find_exact_edge_from_both_sides() {
        let rules = SearchRules {
            step: 0.125,
            resolution: 0.0,
            confirm: 3,
            probes_max: 64,
            ..rules()
        };
        for start in [1.0, 5.0, 49.0, 50.0, 51.0, 200.0] {
            let mut search = LimitSearch::new(start * MIB, rules).in_steps_of(MIB);
            let found = run(&mut search, threshold(50.6 * MIB));
            let mib = |rate: Option<f64>| rate.map(|rate| rate / MIB);
            assert_eq!(mib(found.rate), Some(50.0), "from {start}");
            assert_eq!(mib(found.failed), Some(51.0), "from {start}");
            assert!(found.is_settled, "from {start}");
        }
    }

    #[test]
    fn small_first_step_is_cheap_for_near_and_far_guess() {
        let runs = |start: f64, step| {
            let rules = SearchRules {
                step,
                resolution: 0.0,
                probes_max: 64,
                ..rules()
            };
            let mut search = LimitSearch::new(start * MIB, rules).in_steps_of(MIB);
            run(&mut search, threshold(50.6 * MIB)).probes
        };
        assert_eq!(runs(50.0, 0.02), 2);
        assert!(runs(50.0, 0.125) > 2);
        assert!(runs(48.0, 0.02) <= runs(48.0, 0.125));
        assert!(runs(100.0, 0.02) <= runs(100.0, 0.125) + 10);
    }

    #[test]
    fn result_does_not_depend_on_concurrency() {
        let searched = |at_once| {
            let rules = SearchRules {
                confirm: 3,
                ..rules()
            };
            let mut judged = Vec::new();
            let limit = |probe: &Probe| 50.6 - f64::from(probe.seed_index);
            let made = LimitSearch::new(30.0 * MIB, rules).run(
                at_once,
                |probes| Ok::<_, ()>(probes.to_vec()),
                |probe| {
                    judged.push(*probe);
                    threshold(limit(probe) * MIB)(*probe)
                },
            );
            (made.expect("nothing fails"), judged)
        };
        let (one, judged) = searched(1);
        assert_eq!((one.clone(), judged.clone()), searched(2));
        assert_eq!((one.clone(), judged), searched(5));
        let seeds: Vec<u32> = one.passed.iter().map(|probe| probe.seed_index).collect();
        assert_eq!(seeds, [0, 1, 2]);
        let rates = one.passed.iter().map(|probe| Some(probe.rate));
        assert!(rates.into_iter().all(|rate| rate == one.found.rate));
        assert_eq!(one.failed.map(|probe| probe.rate), one.found.failed);
    }

    #[test]
    fn rate_restored_by_failed_confirmation_keeps_runs() {
        let rules = SearchRules {
            resolution: 0.25,
            confirm: 3,
            ..rules()
        };
        // 10 and 12 pass; 12 fails its confirmation.
        let outcome = |probe: &Probe| match (probe.rate / MIB, probe.seed_index) {
            (rate, _) if rate > 12.1 => RunOutcome::Failed,
            (rate, 1..) if rate > 11.0 => RunOutcome::Failed,
            _ => RunOutcome::Passed,
        };
        let search = LimitSearch::new(10.0 * MIB, rules);
        let made = search.run(1, |probes| Ok::<_, ()>(probes.to_vec()), outcome);
        let made = made.expect("nothing fails");
        let shown = made
            .passed
            .iter()
            .map(|probe| (Some(probe.rate), probe.seed_index));
        let rate = made.found.rate;
        assert_eq!((rate.expect("a rate") / MIB).round(), 10.0);
        assert_eq!(shown.collect::<Vec<_>>(), [(rate, 0), (rate, 1), (rate, 2)]);
        assert_eq!(made.failed.map(|probe| probe.rate), made.found.failed);
    }

    #[test]
    fn exhausted_search_is_not_settled() {
        let rules = SearchRules {
            probes_max: 3,
            ..rules()
        };
        let found = run(&mut LimitSearch::new(MIB, rules), threshold(500.0 * MIB));
        assert_eq!((found.probes, found.is_settled), (3, false));
    }

    proptest! {
        #[test]
        fn finds_limit_within_resolution(
            start in 1.0f64..200.0,
            factor in 0.1f64..8.0,
            resolution in 0.01f64..0.15,
        ) {
            let rules = SearchRules { resolution, ..rules() };
            let limit = start * factor * MIB;
            let found = run(&mut LimitSearch::new(start * MIB, rules), threshold(limit));
            let (rate, failed) = (found.rate.expect("a rate"), found.failed.expect("a failure"));
            prop_assert!(rate <= limit && limit < failed);
            // Rates are rounded to hundredths of a MiB.
            prop_assert!(failed - rate <= rate * resolution + 0.011 * MIB, "{rate} {failed}");
            prop_assert!(found.is_settled);
            prop_assert!(found.probes <= 16, "{}", found.probes);
        }

        #[test]
        fn finds_noisy_edge_approximately(seed: u64, start in 15.0f64..40.0) {
            // Always passes below 23, never above 27, randomly between.
            let mut state = seed;
            let rules = SearchRules { confirm: 2, ..rules() };
            let found = run(&mut LimitSearch::new(start * MIB, rules), |probe| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let chance = (state >> 40) as f64 / (1u64 << 24) as f64;
                threshold((23.0 + 4.0 * chance) * MIB)(probe)
            });
            let rate = found.rate.expect("a rate") / MIB;
            prop_assert!((23.0 / 1.05..=27.0).contains(&rate), "{rate} {found:?}");
            prop_assert!(found.is_settled);
        }

        #[test]
        fn search_ends_for_any_outcomes(outcomes in proptest::collection::vec(0u8..3, 64)) {
            let mut outcomes = outcomes.into_iter().cycle();
            let mut search = LimitSearch::new(25.0 * MIB, rules());
            let found = run(&mut search, |_| match outcomes.next() {
                Some(0) => RunOutcome::Passed,
                Some(1) => RunOutcome::Failed,
                _ => RunOutcome::Refused,
            });
            prop_assert!(found.probes <= 24);
            if let (Some(rate), Some(failed)) = (found.rate, found.failed) {
                prop_assert!(rate < failed);
            }
        }
    }
}
