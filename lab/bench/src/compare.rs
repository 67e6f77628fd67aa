//! Comparison of several servers under several workloads, with repeats and confidence
//! intervals.

use serde::Serialize;

use headlong_stats::{Comparison, ConfidenceInterval, Summary, USUAL_CONFIDENCE};

use crate::experiment::{Baseline, Experiment};
use crate::rig::RigError;
use crate::search_driver::{Runner, SearchDriver, ServerLimit};

/// All limits found.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonResult {
    /// In measuring order.
    pub limits: Vec<ServerLimit>,
}

/// Rates of one server under one workload over all repeats, in bytes per second.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRates {
    /// One rate for each repeat that found one.
    pub rates: Vec<f64>,
    /// Their mean; the only rate if there is one.
    pub mean: f64,
    /// 95 % confidence interval of the mean, if there are several.
    pub interval: Option<ConfidenceInterval>,
}

/// Ratio of a server's rate to a baseline's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateRatio {
    /// Name of the workload.
    pub workload: String,
    /// Name of the server.
    pub subject: String,
    /// Name of the baseline.
    pub baseline: String,
    /// The fastest of the baseline's servers.
    pub best: String,
    /// Ratio of the means.
    pub ratio: f64,
    /// 95 % confidence interval, low and high, if there are repeats.
    pub interval: Option<(f64, f64)>,
    /// Required ratio.
    pub at_least: Option<f64>,
    /// Target ratio.
    pub aim: Option<f64>,
    /// Whether the baseline's limit was the machine's: then the ratio is an upper bound and
    /// supports no claim.
    pub is_bound: bool,
}

impl RateRatio {
    /// Whether the required ratio is reached.
    pub fn holds(&self) -> bool {
        !self.is_bound && self.at_least.is_none_or(|least| self.ratio >= least)
    }
}

/// Searches every limit `repeats` times with different seeds: all servers in turn, then all again
/// in the opposite order, so that drift favours none of them.
///
/// # Errors
/// If the machine failed. Records of earlier runs are complete.
pub fn compare<R: Runner>(
    experiment: &Experiment,
    driver: &mut SearchDriver<'_, R>,
) -> Result<ComparisonResult, RigError> {
    let mut compared = ComparisonResult { limits: Vec::new() };
    for repeat in 0..experiment.repeats {
        let mut cells = experiment.cells();
        if repeat % 2 == 1 {
            cells.reverse();
        }
        for cell in cells {
            // Start from the rate found in earlier repeats.
            let known = compared.rates(&cell.workload_name, &cell.server_name);
            let start = known.map_or_else(|| cell.rate_start(), |rates| rates.mean);
            compared.limits.push(driver.search(&cell, start, repeat)?);
        }
    }
    Ok(compared)
}

impl ComparisonResult {
    /// Names of the experiment's workloads that have limits.
    pub fn workloads<'c>(&'c self, experiment: &'c Experiment) -> impl Iterator<Item = &'c String> {
        let names = experiment.workloads.keys();
        names.filter(|name| self.limits.iter().any(|limit| limit.workload == **name))
    }

    /// Limits of one server under one workload.
    pub fn of<'c>(
        &'c self,
        workload: &'c str,
        server: &'c str,
    ) -> impl Iterator<Item = &'c ServerLimit> + Clone {
        let all = self.limits.iter();
        all.filter(move |limit| limit.workload == workload && limit.server == server)
    }

    /// Its rates; `None` if none was found.
    pub fn rates(&self, workload: &str, server: &str) -> Option<ServerRates> {
        let found = self
            .of(workload, server)
            .filter_map(|limit| limit.found.rate);
        let rates: Vec<f64> = found.collect();
        let summary: Summary = rates.iter().copied().collect();
        Some(ServerRates {
            mean: summary.mean()?,
            interval: summary.interval(USUAL_CONFIDENCE),
            rates,
        })
    }

    /// Ratios to all baselines, for the workloads in which both sides were measured.
    pub fn ratios(&self, experiment: &Experiment) -> Vec<RateRatio> {
        let baselines = experiment.baselines.iter();
        let pairs = baselines.flat_map(|b| experiment.workloads.keys().map(move |w| (b, w)));
        pairs
            .filter_map(|(baseline, workload)| self.ratio(baseline, workload))
            .collect()
    }

    /// Required ratios that could not be computed: baselines and workloads.
    pub(crate) fn without_ratio<'e>(
        &self,
        experiment: &'e Experiment,
    ) -> Vec<(&'e Baseline, &'e str)> {
        let demands = |baseline: &'e Baseline| {
            let workloads = baseline.at_least.keys();
            workloads.map(move |workload| (baseline, workload.as_str()))
        };
        let demands = experiment.baselines.iter().flat_map(demands);
        demands
            .filter(|(baseline, workload)| self.ratio(baseline, workload).is_none())
            .collect()
    }

    /// Whether the rates of both sides were searched, found or not.
    pub(crate) fn were_looked_for(&self, baseline: &Baseline, workload: &str) -> bool {
        let was = |server: &String| self.of(workload, server).next().is_some();
        was(&baseline.subject) && baseline.servers.iter().any(was)
    }

    /// Rates of two servers in the repeats in which both have one. Both sides use the same seeds in
    /// the same repeat.
    fn pairs(&self, workload: &str, first: &str, second: &str) -> (Vec<f64>, Vec<f64>) {
        let found = |server| {
            let limits = self.of(workload, server);
            limits.filter_map(|limit| Some((limit.repeat, limit.found.rate?)))
        };
        let pair = |(repeat, rate)| {
            let other = found(second).find(|(other, _)| *other == repeat);
            other.map(|(_, other)| (rate, other))
        };
        found(first).filter_map(pair).unzip()
    }

    fn ratio(&self, baseline: &Baseline, workload: &str) -> Option<RateRatio> {
        let subject = self.rates(workload, &baseline.subject)?;
        let measured = baseline.servers.iter();
        let measured = measured.filter_map(|name| Some((name, self.rates(workload, name)?)));
        let (best, rates) = measured.max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
        let (ours, theirs) = self.pairs(workload, &baseline.subject, best);
        let compared = Comparison::of_pairs(&ours, &theirs, USUAL_CONFIDENCE).ok();
        let is_bound = baseline.servers.iter().any(|server| {
            self.of(workload, server)
                .any(|limit| limit.found.is_machine_limited())
        });
        Some(RateRatio {
            workload: workload.to_owned(),
            subject: baseline.subject.clone(),
            baseline: baseline.name.clone(),
            best: best.clone(),
            ratio: compared.map_or(subject.mean / rates.mean, |c| c.ratio.estimate),
            interval: compared.map(|c| (c.ratio.low, c.ratio.high)),
            at_least: baseline.at_least.get(workload).copied(),
            aim: baseline.aim.get(workload).copied(),
            is_bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::ExperimentCell;
    use crate::record::{OutcomeName, RecordFolder, RunRecord};
    use crate::run_identity::{of_run, settings};
    use crate::search::SearchResult;

    const MIB: f64 = 1_048_576.0;
    const TEXT: &str = r#"
name = "stand-in"
repeats = 2
[drive]
preset = "wd-red-wd10efrx"
[files]
catalogue = "youtube-sd"
[workload.sd]
preset = "youtube-sd"
[server.slow]
kind = "nginx"
rate_start = { sd = "20MiB/s" }
[server.slower]
kind = "nginx"
workers = 7
[server.fast]
kind = "headlong"
[baseline.best]
subject = "fast"
servers = ["slow", "slower"]
at_least = { sd = 2.4 }
"#;

    /// Servers with known limits.
    struct FakeRunner {
        build: &'static str,
        runs: Vec<(String, f64, u64)>,
        refuse_above: f64,
        refused: u32,
    }

    impl Runner for &mut FakeRunner {
        fn build(&self) -> &str {
            self.build
        }

        fn run(
            &mut self,
            cell: &ExperimentCell,
            rate: f64,
            seed: u64,
            ends_at_failure: bool,
        ) -> Result<RunRecord, RigError> {
            self.runs.push((cell.server_name.clone(), rate, seed));
            let limit = match cell.server_name.as_str() {
                "slow" => 24.0 + (seed / 1000) as f64,
                "slower" => 19.0,
                _ => 70.0 + (seed / 1000) as f64,
            };
            let outcome = match rate {
                rate if rate > self.refuse_above * MIB => OutcomeName::Refused,
                rate if rate > limit * MIB => OutcomeName::Failed,
                _ => OutcomeName::Passed,
            };
            self.refused += u32::from(outcome == OutcomeName::Refused);
            let mut record = crate::record::tests::record(cell, rate, seed, outcome);
            let settings = settings(&experiment(), cell, self.build);
            record.setup.experiment = of_run(settings, ends_at_failure);
            Ok(record)
        }
    }

    fn stand_in() -> FakeRunner {
        FakeRunner {
            build: "1.0",
            runs: Vec::new(),
            refuse_above: 1e6,
            refused: 0,
        }
    }

    fn experiment() -> Experiment {
        Experiment::from_text(Path::new("x.toml"), TEXT, false).expect("right")
    }

    fn compared(runner: &mut FakeRunner, records: Option<&Path>) -> ComparisonResult {
        let experiment = experiment();
        let records = records.map(|folder| RecordFolder::open(folder).expect("a folder"));
        let mut driver = SearchDriver::new(&experiment, runner, records, true, 6);
        compare(&experiment, &mut driver).expect("a stand-in does not fail")
    }

    #[test]
    fn ratio_uses_best_server_of_baseline() {
        let mut runner = stand_in();
        let compared = compared(&mut runner, None);
        let ratios = compared.ratios(&experiment());
        assert_eq!(ratios.len(), 1);
        assert_eq!(ratios[0].best, "slow");
        assert!((2.6..3.2).contains(&ratios[0].ratio), "{ratios:?}");
        assert!(ratios[0].holds() && ratios[0].interval.is_some());
        let slow = compared.rates("sd", "slow").expect("found");
        assert!(
            slow.rates
                .iter()
                .all(|rate| (23.0..=25.0).contains(&(rate / MIB)))
        );
        // The second repeat starts at the rate found by the first, in the opposite order.
        let repeats: Vec<_> = compared
            .limits
            .iter()
            .map(|l| (&*l.server, l.repeat))
            .collect();
        let expected = [
            ("fast", 0),
            ("slow", 0),
            ("slower", 0),
            ("slower", 1),
            ("slow", 1),
            ("fast", 1),
        ];
        assert_eq!(repeats, expected);
        assert!(compared.limits[5].found.probes < compared.limits[0].found.probes);
    }

    #[test]
    fn machine_limited_search_retries_once_and_claims_nothing() {
        let mut runner = stand_in();
        runner.refuse_above = 22.0;
        let compared = compared(&mut runner, None);
        let ratio = &compared.ratios(&experiment())[0];
        assert!(ratio.is_bound && !ratio.holds(), "{ratio:?}");
        assert_eq!(runner.refused % 2, 0);
        assert!(
            compared
                .of("sd", "fast")
                .all(|limit| limit.machine.is_some())
        );
    }

    /// Results of a server's searches, one for each repeat.
    fn limits(server: &str, rates: &[Option<f64>]) -> Vec<ServerLimit> {
        let limit = |(repeat, rate): (u32, &Option<f64>)| ServerLimit {
            workload: "sd".into(),
            server: server.into(),
            repeat,
            found: SearchResult {
                rate: *rate,
                failed: Some(100.0),
                refused: None,
                is_settled: rate.is_some(),
                probes: 3,
            },
            best: None,
            failed: None,
            machine: None,
        };
        (0..).zip(rates).map(limit).collect()
    }

    #[test]
    fn pairs_rates_by_repeat_not_by_position() {
        let ratio = |fast: &[Option<f64>], slow: &[Option<f64>]| {
            let limits = [limits("fast", fast), limits("slow", slow)].concat();
            ComparisonResult { limits }.ratios(&experiment()).remove(0)
        };
        // Each side lacks another of three repeats: a single pair has no interval.
        let one = ratio(
            &[Some(70.0), None, Some(90.0)],
            &[None, Some(20.0), Some(30.0)],
        );
        assert_eq!((one.ratio, one.interval), (3.2, None), "ratio of the means");
        let two = ratio(
            &[Some(60.0), Some(80.0), Some(90.0)],
            &[None, Some(20.0), Some(30.0)],
        );
        assert!((two.ratio - 12.0_f64.sqrt()).abs() < 1e-9, "{two:?}");
        assert!(two.interval.is_some());
    }

    #[test]
    fn lists_required_ratios_without_result() {
        let experiment = experiment();
        let lacking = |limits: Vec<ServerLimit>| {
            let compared = ComparisonResult { limits };
            let lacking = compared.without_ratio(&experiment).into_iter();
            let lacking = lacking.map(|(baseline, workload)| {
                let looked_for = compared.were_looked_for(baseline, workload);
                (baseline.name.as_str(), workload, looked_for)
            });
            lacking.collect::<Vec<_>>()
        };
        let fast = || limits("fast", &[Some(70.0)]);
        let nothing = [fast(), limits("slow", &[None])].concat();
        assert_eq!(lacking(nothing), [("best", "sd", true)]);
        assert_eq!(lacking(fast()), [("best", "sd", false)]);
        assert_eq!(
            lacking([fast(), limits("slow", &[Some(20.0)])].concat()),
            []
        );
    }

    #[test]
    fn resume_skips_recorded_runs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = stand_in();
        let whole = compared(&mut first, Some(folder.path()));
        let mut second = stand_in();
        let again = compared(&mut second, Some(folder.path()));
        assert!(second.runs.is_empty() && !first.runs.is_empty());
        assert_eq!(whole.limits.len(), again.limits.len());
        for (one, other) in whole.limits.iter().zip(&again.limits) {
            assert_eq!(one.found, other.found);
        }
        // A different build may have a higher limit.
        let mut newer = FakeRunner {
            build: "1.1",
            ..stand_in()
        };
        compared(&mut newer, Some(folder.path()));
        assert_eq!(newer.runs, first.runs);
        // A search aborts a run that has failed; a single run continues.
        let (experiment, records) = (experiment(), RecordFolder::open(folder.path()));
        let mut third = FakeRunner {
            build: "1.1",
            ..stand_in()
        };
        let records = Some(records.expect("a folder"));
        let mut driver = SearchDriver::new(&experiment, &mut third, records, true, 1);
        let (_, rate, seed) = newer.runs.first().expect("some").clone();
        let cell = experiment
            .cell(Some("fast"), None)
            .expect("the cell exists");
        for ends_at_failure in [true, false] {
            let made = driver.run(&cell, rate, seed, ends_at_failure);
            made.expect("a stand-in does not fail");
        }
        assert_eq!(third.runs.len(), 1);
    }
}
