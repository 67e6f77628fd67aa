//! Looking for the highest rate that a server serves without failures, in few runs.
//!
//! The one idea: a pass and a failure bracket the limit. From the first guess the search steps away,
//! further each time, until it has both, then halves what lies between them (in ratio, not in
//! difference) until they are close; then the rate that passed has to pass again, with other seeds,
//! as often as is asked.
//!
//! Invariants: no I/O, no clock; the answer depends on the outcomes alone; what failed once is never
//! called the limit, whatever passed above it; a run that was refused is neither pass nor failure.

use crate::experiment::SearchRules;

/// Rates are whole multiples of this, in bytes of a second: a hundredth of a MiB.
const RATE_UNIT: f64 = 1_048_576.0 / 100.0;
/// Steps away from the guess grow up to this many of the first one.
const STEPS_MAX: i32 = 4;
/// Below this share of the first guess nothing is looked for.
const FLOOR: f64 = 1.0 / 64.0;

/// How a run ended, for the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No more failures than are allowed.
    Passed,
    /// Too many.
    Failed,
    /// The run itself was not good enough to say: the load generator lagged, the machine was too
    /// busy, the emulated drive was late. It does not count, and nothing above it can be measured.
    Refused,
}

/// One run that is to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// In bytes of a second.
    pub rate: f64,
    /// Which of the experiment's seeds, from 0.
    pub seed_index: u32,
}

/// What was found, or what is known so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Highest rate that passed and below which nothing failed; `None` if none did.
    pub rate: Option<f64>,
    /// Lowest rate that failed.
    pub failed: Option<f64>,
    /// Lowest rate that could not be measured.
    pub refused: Option<f64>,
    /// Whether `rate` passed as often as was asked, with a failure close above it.
    pub is_settled: bool,
    /// How many runs were made.
    pub probes: u32,
}

impl Found {
    /// Whether the limit is the machine's and not the server's: what is above could not be measured.
    pub fn is_machine_limited(&self) -> bool {
        match (self.refused, self.failed) {
            (Some(refused), Some(failed)) => refused < failed,
            (refused, None) => refused.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// A search on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    rules: SearchRules,
    start: f64,
    runs: Vec<(Probe, Outcome)>,
}

impl Search {
    /// A search that begins at `start` bytes of a second, which must be above 0.
    pub fn new(start: f64, rules: SearchRules) -> Self {
        let start = rounded(start);
        let runs = Vec::new();
        Self { rules, start, runs }
    }

    /// What to run next; `None` when there is nothing left to learn.
    pub fn next(&self) -> Option<Probe> {
        if self.runs.len() >= self.rules.probes_max as usize {
            return None;
        }
        let found = self.bracket();
        // What could not be measured is a ceiling like what failed.
        let ceiling = [found.failed, found.refused]
            .into_iter()
            .flatten()
            .reduce(f64::min);
        match (found.rate, ceiling) {
            (None, None) => self.fresh(self.start),
            (Some(passed), None) => self.fresh(passed * self.step_away(Outcome::Passed)),
            (None, Some(ceiling)) => {
                let rate = ceiling / self.step_away(Outcome::Failed);
                (rate >= self.start * FLOOR)
                    .then(|| self.fresh(rate))
                    .flatten()
            }
            (Some(passed), Some(ceiling)) => {
                let middle = rounded((passed * ceiling).sqrt());
                match self.is_close(passed, ceiling) || middle <= passed || middle >= ceiling {
                    true => self.confirmation(passed),
                    false => self.fresh(middle),
                }
            }
        }
    }

    /// Takes the outcome of a run.
    pub fn record(&mut self, probe: Probe, outcome: Outcome) {
        self.runs.push((probe, outcome));
    }

    /// What is known by now.
    pub fn found(&self) -> Found {
        let mut found = self.bracket();
        found.is_settled = self.next().is_none() && self.is_closed(&found);
        found
    }

    fn is_closed(&self, found: &Found) -> bool {
        let (Some(rate), Some(failed)) = (found.rate, found.failed) else {
            return false;
        };
        let is_near = rounded((rate * failed).sqrt()) <= rate || self.is_close(rate, failed);
        is_near && self.passes(rate) >= self.rules.confirm
    }

    /// Whether nothing is to be looked for between them; what rounding did to them does not count.
    fn is_close(&self, passed: f64, ceiling: f64) -> bool {
        ceiling <= passed * (1.0 + self.rules.resolution) + RATE_UNIT
    }

    fn rates(&self, outcome: Outcome) -> impl Iterator<Item = f64> {
        let runs = self.runs.iter();
        runs.filter(move |(_, o)| *o == outcome)
            .map(|(probe, _)| probe.rate)
    }

    fn bracket(&self) -> Found {
        let failed = self.rates(Outcome::Failed).reduce(f64::min);
        let below = failed.unwrap_or(f64::INFINITY);
        let passed = self.rates(Outcome::Passed).filter(|rate| *rate < below);
        let rate = passed.reduce(f64::max);
        // What was refused once and passed at a second try, or below what passed, is no ceiling.
        let above = rate.unwrap_or(0.0);
        let refused = self.rates(Outcome::Refused).filter(|rate| *rate > above);
        Found {
            rate,
            failed,
            refused: refused.reduce(f64::min),
            is_settled: false,
            probes: self.runs.len() as u32,
        }
    }

    /// Further each time the outcome was the same one, so that a bad guess costs little.
    fn step_away(&self, outcome: Outcome) -> f64 {
        let same = match outcome {
            Outcome::Passed => self.rates(Outcome::Passed).count(),
            _ => self
                .rates(Outcome::Failed)
                .chain(self.rates(Outcome::Refused))
                .count(),
        };
        (1.0 + self.rules.step).powi((same as i32).clamp(1, STEPS_MAX))
    }

    fn passes(&self, rate: f64) -> u32 {
        self.rates(Outcome::Passed)
            .filter(|passed| *passed == rate)
            .count() as u32
    }

    fn fresh(&self, rate: f64) -> Option<Probe> {
        let rate = rounded(rate);
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

fn rounded(rate: f64) -> f64 {
    (rate / RATE_UNIT).round() * RATE_UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: f64 = 1_048_576.0;

    fn rules() -> SearchRules {
        SearchRules {
            failures_max: 0.0,
            quality: crate::quality::Quality::default(),
            step: 0.2,
            resolution: 0.04,
            confirm: 1,
            probes_max: 24,
        }
    }

    fn run(search: &mut Search, mut oracle: impl FnMut(Probe) -> Outcome) -> Found {
        while let Some(probe) = search.next() {
            search.record(probe, oracle(probe));
        }
        search.found()
    }

    fn threshold(limit: f64) -> impl Fn(Probe) -> Outcome {
        move |probe| match probe.rate <= limit {
            true => Outcome::Passed,
            false => Outcome::Failed,
        }
    }

    #[test]
    fn a_good_guess_needs_few_runs() {
        for limit in [21.0, 23.0, 25.0, 27.0, 29.5] {
            let found = run(
                &mut Search::new(25.0 * MIB, rules()),
                threshold(limit * MIB),
            );
            assert!(found.is_settled && found.probes <= 6, "{limit}: {found:?}");
        }
    }

    #[test]
    fn a_step_as_long_as_the_resolution_leaves_nothing_between() {
        let rules = SearchRules {
            step: 0.15,
            resolution: 0.15,
            ..rules()
        };
        // 46.00, 52.90 and 69.96, which is rounded up; then 60.83.
        let found = run(&mut Search::new(46.0 * MIB, rules), threshold(65.0 * MIB));
        assert!(found.is_settled && found.probes == 4, "{found:?}");
        assert_eq!((found.rate.expect("a rate") / MIB * 100.0).round(), 6083.0);
    }

    #[test]
    fn a_confirmation_has_a_seed_of_its_own_and_may_take_the_rate_back() {
        let rules = SearchRules {
            confirm: 3,
            ..rules()
        };
        let mut search = Search::new(10.0 * MIB, rules);
        // 10 passes with the first seed only.
        let found = run(&mut search, |probe| {
            let limit = if probe.seed_index == 0 { 10.1 } else { 9.0 };
            threshold(limit * MIB)(probe)
        });
        let rate = found.rate.expect("a rate") / MIB;
        assert!((8.6..=9.0).contains(&rate), "{rate}");
        assert!(found.is_settled);
    }

    #[test]
    fn a_server_that_fails_at_any_rate_ends_the_search() {
        let found = run(&mut Search::new(25.0 * MIB, rules()), |_| Outcome::Failed);
        assert_eq!(found.rate, None);
        assert!(!found.is_settled && found.probes < 12, "{found:?}");
    }

    #[test]
    fn what_cannot_be_measured_is_the_machines_limit_and_no_failure() {
        let found = run(&mut Search::new(60.0 * MIB, rules()), |probe| {
            match probe.rate {
                rate if rate > 70.0 * MIB => Outcome::Refused,
                _ => Outcome::Passed,
            }
        });
        assert!(found.is_machine_limited() && !found.is_settled, "{found:?}");
        assert_eq!(found.failed, None);
        assert!(found.rate.expect("a rate") > 67.0 * MIB);
        // A failure below it makes it the server's again.
        let found = run(&mut Search::new(60.0 * MIB, rules()), |probe| {
            match probe.rate {
                rate if rate > 70.0 * MIB => Outcome::Refused,
                rate if rate > 50.0 * MIB => Outcome::Failed,
                _ => Outcome::Passed,
            }
        });
        assert!(!found.is_machine_limited() && found.is_settled, "{found:?}");
    }

    #[test]
    fn a_search_that_has_run_too_long_says_so() {
        let rules = SearchRules {
            probes_max: 3,
            ..rules()
        };
        let found = run(&mut Search::new(MIB, rules), threshold(500.0 * MIB));
        assert_eq!((found.probes, found.is_settled), (3, false));
    }

    proptest! {
        #[test]
        fn the_limit_is_found_within_the_resolution(
            start in 1.0f64..200.0,
            factor in 0.1f64..8.0,
            resolution in 0.01f64..0.15,
        ) {
            let rules = SearchRules { resolution, ..rules() };
            let limit = start * factor * MIB;
            let found = run(&mut Search::new(start * MIB, rules), threshold(limit));
            let (rate, failed) = (found.rate.expect("a rate"), found.failed.expect("a failure"));
            prop_assert!(rate <= limit && limit < failed);
            // Rates are rounded to hundredths of a MiB.
            prop_assert!(failed - rate <= rate * resolution + 0.011 * MIB, "{rate} {failed}");
            prop_assert!(found.is_settled);
            prop_assert!(found.probes <= 16, "{}", found.probes);
        }

        #[test]
        fn a_noisy_edge_is_found_near_where_it_is(seed: u64, start in 15.0f64..40.0) {
            // Passes surely below 23, never above 27, by chance between.
            let mut state = seed;
            let rules = SearchRules { confirm: 2, ..rules() };
            let found = run(&mut Search::new(start * MIB, rules), |probe| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let chance = (state >> 40) as f64 / (1u64 << 24) as f64;
                threshold((23.0 + 4.0 * chance) * MIB)(probe)
            });
            let rate = found.rate.expect("a rate") / MIB;
            prop_assert!((23.0 / 1.05..=27.0).contains(&rate), "{rate} {found:?}");
            prop_assert!(found.is_settled);
        }

        #[test]
        fn any_outcomes_end_the_search(outcomes in proptest::collection::vec(0u8..3, 64)) {
            let mut outcomes = outcomes.into_iter().cycle();
            let mut search = Search::new(25.0 * MIB, rules());
            let found = run(&mut search, |_| match outcomes.next() {
                Some(0) => Outcome::Passed,
                Some(1) => Outcome::Failed,
                _ => Outcome::Refused,
            });
            prop_assert!(found.probes <= 24);
            if let (Some(rate), Some(failed)) = (found.rate, found.failed) {
                prop_assert!(rate < failed);
            }
        }
    }
}
