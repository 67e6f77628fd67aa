//! Result of a run with rising rates: the fill phase of the cache, then for each step the failures
//! of viewers and the work of both drives.
//!
//! Invariant: a step fails if a call fails in it; later steps are meaningless, because their
//! viewers start on a backlog.

use headlong_units::Duration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::StepLoad;
use crate::search::SearchResult;

/// A cache counts as filled when this share of its SSD was written: no cache can use all of it.
const FILLED_SHARE: f64 = 0.8;

/// A drive with this share of busy time is at its limit.
const BUSY_SHARE: f64 = 0.95;

/// Result of the whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepLoadResult {
    /// When four fifths of the SSD's capacity had been written to it, in seconds; `None` if never.
    pub filled_s: Option<f64>,
    /// The phase in which caches are filled.
    pub fill: LoadStep,
    /// The completed steps.
    pub steps: Vec<LoadStep>,
}

/// A period of constant offered load. Rates are in bytes per second of model time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadStep {
    /// Offered rate.
    pub rate: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Whether the run continued after it.
    pub is_whole: bool,
    /// Calls that failed in it.
    pub failures: u64,
    /// Bytes of bodies that reached viewers.
    pub delivered: f64,
    /// Work of the drive.
    pub disk: DriveWork,
    /// Work of the SSD, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd: Option<DriveWork>,
}

/// Work of a drive per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DriveWork {
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
    /// Share of busy time.
    pub busy: f64,
}

/// Counters of both drives at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DriveSample {
    /// Model time since the viewers started.
    pub(crate) at: Duration,
    pub(crate) disk: DriveCounters,
    pub(crate) ssd: Option<DriveCounters>,
}

/// Counters of one drive since they were reset.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct DriveCounters {
    read_bytes: f64,
    written_bytes: f64,
    busy_ns: f64,
}

impl DriveCounters {
    /// From the counters of `headlong disk emulate`; a missing counter is 0.
    pub(crate) fn of(counters: &Value) -> Self {
        let number = |name: &str| {
            let found = counters.pointer(&format!("/counters/{name}"));
            found.and_then(Value::as_f64).unwrap_or(0.0)
        };
        Self {
            read_bytes: number("reads/bytes"),
            written_bytes: number("writes/bytes"),
            busy_ns: number("busy_ns"),
        }
    }

    /// Sum over several drives; the busy time is their mean.
    pub(crate) fn of_all(counters: &[Value]) -> Self {
        let mut sums = Self::default();
        for one in counters.iter().map(Self::of) {
            sums.read_bytes += one.read_bytes;
            sums.written_bytes += one.written_bytes;
            sums.busy_ns += one.busy_ns / counters.len() as f64;
        }
        sums
    }

    /// The work since `earlier`, over the given number of seconds.
    fn since(self, earlier: Self, seconds: f64) -> DriveWork {
        let of_a_second = |from: f64, to: f64| (to - from) / seconds.max(1e-9);
        DriveWork {
            read: of_a_second(earlier.read_bytes, self.read_bytes),
            written: of_a_second(earlier.written_bytes, self.written_bytes),
            busy: of_a_second(earlier.busy_ns, self.busy_ns) / 1e9,
        }
    }
}

impl StepLoadResult {
    /// From samples of the drives' counters, in order, and the load generator's result.
    pub(crate) fn of(
        climb: &StepLoad,
        ssd_bytes: Option<u64>,
        looks: &[DriveSample],
        load: &Value,
    ) -> Self {
        let filled = ssd_bytes.and_then(|bytes| {
            let is_full = |look: &&DriveSample| {
                (look.ssd).is_some_and(|ssd| ssd.written_bytes >= bytes as f64 * FILLED_SHARE)
            };
            looks.iter().find(is_full)
        });
        let end = looks.last().map_or(0.0, |look| look.at.as_secs_f64());
        let mut from = 0.0;
        let mut stretches = Vec::new();
        for (rate, length) in climb.stretches() {
            let to = from + length.as_secs_f64();
            if from >= end {
                break;
            }
            stretches.push(stretch(rate, (from, to), looks, load));
            from = to;
        }
        let mut stretches = stretches.into_iter();
        Self {
            filled_s: filled.map(|look| look.at.as_secs_f64()),
            fill: stretches.next().unwrap_or_default(),
            steps: stretches.collect(),
        }
    }

    /// The last successful step before the first failed one.
    pub fn passed(&self) -> Option<&LoadStep> {
        let passed = |step: &&LoadStep| step.failures == 0 && step.is_whole;
        self.steps.iter().take_while(passed).last()
    }

    /// The first step with a failure.
    pub fn failed(&self) -> Option<&LoadStep> {
        self.steps.iter().find(|step| step.failures > 0)
    }

    /// Whether a drive was nearly always busy in the failed step, or in the last successful one: a
    /// call fails seconds after the drive falls behind.
    pub(crate) fn was_limited_by_drive(&self) -> bool {
        let end = self.steps.iter().rev().take(2);
        let busy = |step: &LoadStep| step.disk.busy.max(step.ssd.map_or(0.0, |ssd| ssd.busy));
        end.map(busy).any(|busy| busy >= BUSY_SHARE)
    }

    /// As the result of a search.
    pub(crate) fn found(&self) -> SearchResult {
        let failed = self.failed().map(|step| step.rate);
        SearchResult {
            rate: self.passed().map(|step| step.rate),
            failed,
            refused: None,
            is_settled: failed.is_some(),
            probes: 1,
        }
    }
}

fn stretch(rate: f64, (from, to): (f64, f64), looks: &[DriveSample], load: &Value) -> LoadStep {
    let at = |time: f64| {
        let before = |look: &&DriveSample| look.at.as_secs_f64() <= time;
        looks.iter().rev().find(before).or_else(|| looks.first())
    };
    let points = load["series"].as_array().into_iter().flatten();
    let inside = |point: &&Value| {
        let at = point["t_s"].as_f64().unwrap_or(-1.0);
        (from..to).contains(&at)
    };
    let points: Vec<&Value> = points.filter(inside).collect();
    let sum = |name: &str| -> u64 { points.iter().filter_map(|p| p[name].as_u64()).sum() };
    let (Some(first), Some(last)) = (at(from), at(to)) else {
        return LoadStep::default();
    };
    let end = looks.last().map_or(0.0, |look| look.at.as_secs_f64());
    // The last sample shows the end of the run, or is up to a second before it.
    let is_whole = end + 1.0 >= to;
    let seconds = to.min(end) - from;
    let looked = (last.at - first.at).as_secs_f64();
    LoadStep {
        rate,
        seconds,
        is_whole,
        failures: sum("failures"),
        delivered: sum("bytes") as f64 / seconds.max(1e-9),
        disk: last.disk.since(first.disk, looked),
        ssd: (last.ssd.zip(first.ssd)).map(|(last, first)| last.since(first, looked)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn climb() -> StepLoad {
        StepLoad {
            fill: Duration::from_secs(100),
            fill_rate: 5.0,
            from: 10.0,
            step: 0.5,
            step_time: Duration::from_secs(10),
            steps: 4,
        }
    }

    fn look(at: u64, disk: f64, ssd: f64) -> DriveSample {
        let sums = |bytes| DriveCounters {
            read_bytes: bytes,
            written_bytes: bytes / 2.0,
            busy_ns: at as f64 * 0.5e9,
        };
        DriveSample {
            at: Duration::from_secs(at),
            disk: sums(disk),
            ssd: Some(sums(ssd)),
        }
    }

    fn load(failures: &[(f64, u64)]) -> Value {
        let point =
            |(at, failures): &(f64, u64)| json!({ "t_s": at, "failures": failures, "bytes": 50 });
        json!({ "series": failures.iter().map(point).collect::<Vec<_>>() })
    }

    #[test]
    fn limit_is_last_step_before_first_failure() {
        let looks: Vec<DriveSample> = (0..=125).map(|at| look(at, 0.0, 0.0)).collect();
        let load = load(&[(50.0, 9), (105.0, 0), (112.0, 0), (123.0, 1)]);
        let climbed = StepLoadResult::of(&climb(), None, &looks, &load);
        assert_eq!(
            climbed.fill.failures, 9,
            "failures of the fill phase do not count"
        );
        let found = climbed.found();
        assert_eq!((found.rate, found.failed), (Some(15.0), Some(22.5)));
        assert!(found.is_settled);
        assert_eq!(climbed.steps.len(), 3, "the run ended in the third");
        assert_eq!(climbed.passed().map(|step| step.delivered), Some(5.0));
    }

    #[test]
    fn all_steps_passed_finds_no_limit_and_none_no_rate() {
        let looks: Vec<DriveSample> = (0..=140).map(|at| look(at, 0.0, 0.0)).collect();
        let all = StepLoadResult::of(&climb(), None, &looks, &load(&[]));
        assert_eq!(
            (all.found().rate, all.found().is_settled),
            (Some(33.75), false)
        );
        let none = StepLoadResult::of(&climb(), None, &looks, &load(&[(101.0, 1)]));
        assert_eq!((none.found().rate, none.found().failed), (None, Some(10.0)));
    }

    #[test]
    fn sums_reads_of_drives_and_averages_busy_time() {
        let one = |bytes: u64, busy_ns: u64| serde_json::json!({"counters": {"reads": {"bytes": bytes}, "busy_ns": busy_ns}});
        let sums = DriveCounters::of_all(&[one(10, 4), one(30, 2)]);
        assert_eq!((sums.read_bytes, sums.busy_ns), (40.0, 3.0));
        assert_eq!(DriveCounters::of_all(&[]), DriveCounters::default());
    }

    #[test]
    fn reports_drive_work_per_step_and_ssd_fill_time() {
        let looks: Vec<DriveSample> = (0..=120)
            .map(|at| look(at, at as f64, 2.0 * at as f64))
            .collect();
        let climbed = StepLoadResult::of(&climb(), Some(100), &looks, &load(&[]));
        assert_eq!(climbed.filled_s, Some(80.0));
        let step = climbed.steps[1];
        let ssd = step.ssd.expect("the SSD has counters");
        assert_eq!((step.disk.read, ssd.read, ssd.written), (1.0, 2.0, 1.0));
        assert_eq!(step.disk.busy, 0.5);
        assert_eq!(
            StepLoadResult::of(&climb(), Some(1000), &looks, &load(&[])).filled_s,
            None
        );
    }
}
