//! Figures of viewers, server and drives in each phase of a run, in real and in virtual time.
//!
//! Both worlds supply cumulative counters at the ends of the phases, summed over all drives, and
//! the bytes that viewers received; the figures are computed here for both.

use headlong_sim::{RunMeasurements, ServerModel, Snapshot, WorldSetup};
use headlong_units::{Duration, Instant};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::PhaseDurations;

/// End of the first phase, in which a cold server and its drives are busiest.
const START: Duration = Duration::from_secs(100);

/// A phase of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPhase {
    /// `start`: the first 100 s; `ramp`: the rest of the ramp; `steady`: the rest of the measured
    /// time.
    pub name: String,
    /// Its beginning, in seconds from the start of the run.
    pub from_s: f64,
    /// Its end, or the end of a run that ended in it.
    pub to_s: f64,
    /// Bytes received by viewers, per second.
    pub delivered: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Reads of all drives that had to seek.
    pub seeks: u64,
    /// Jobs of the server that were completed; absent for servers without jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Of those, jobs completed after their deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_late: Option<u64>,
}

/// Cumulative counters at one time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PhaseSample {
    /// Model time from the start of the run.
    pub(crate) at: Duration,
    pub(crate) read_bytes: u64,
    pub(crate) seeks: u64,
    /// Jobs, and late jobs among them.
    pub(crate) jobs: Option<(u64, u64)>,
}

impl PhaseSample {
    /// From the counters of all emulated drives, and the status of the server.
    pub(crate) fn of(at: Duration, drives: &[Value], status: &Value) -> Self {
        let drives_sum = |path: &str| -> u64 {
            let counters = drives
                .iter()
                .filter_map(|drive| drive.pointer(path)?.as_u64());
            counters.sum()
        };
        let count = |name: &str| sum_of_devices(status, name).map(|count| count as u64);
        Self {
            at,
            read_bytes: drives_sum("/counters/reads/bytes"),
            seeks: drives_sum("/counters/reads/seeks"),
            jobs: count("jobs").zip(count("jobs_late")),
        }
    }
}

/// A counter in the status of a server, summed over its devices; `None` if a device lacks it.
pub(crate) fn sum_of_devices(status: &Value, name: &str) -> Option<f64> {
    let devices = status["devices"].as_array().filter(|all| !all.is_empty())?;
    let counters = devices
        .iter()
        .map(|device| device["counters"][name].as_f64());
    counters.sum()
}

/// Names and ends of the phases, in order.
pub(crate) fn phase_ends(phases: &PhaseDurations) -> Vec<(&'static str, Duration)> {
    let end = phases.ramp_up + phases.measured;
    let mut from = Duration::ZERO;
    let all = [
        ("start", START.min(end)),
        ("ramp", phases.ramp_up),
        ("steady", end),
    ];
    let is_there = |(_, to): &(&str, Duration)| {
        let is_there = *to > from;
        from = from.max(*to);
        is_there
    };
    all.into_iter().filter(is_there).collect()
}

impl RunPhase {
    /// All phases, from a sample at the end of each. `delivered` returns the bytes received between
    /// two times. A run that ended early has fewer samples.
    pub(crate) fn all(
        phases: &PhaseDurations,
        samples: &[PhaseSample],
        delivered: impl Fn(Duration, Duration) -> u64,
    ) -> Vec<Self> {
        let mut before = PhaseSample::default();
        let phase = |((name, end), sample): ((&str, Duration), &PhaseSample)| {
            let (from, to) = (before.at, sample.at.min(end));
            let seconds = (to - from).as_secs_f64().max(1e-9);
            let jobs = sample
                .jobs
                .map(|jobs| (jobs, before.jobs.unwrap_or_default()));
            let phase = Self {
                name: name.to_owned(),
                from_s: from.as_secs_f64(),
                to_s: to.as_secs_f64(),
                delivered: delivered(from, to) as f64 / seconds,
                read_bytes: sample.read_bytes.saturating_sub(before.read_bytes),
                seeks: sample.seeks.saturating_sub(before.seeks),
                jobs: jobs.map(|(now, before)| now.0.saturating_sub(before.0)),
                jobs_late: jobs.map(|(now, before)| now.1.saturating_sub(before.1)),
            };
            before = PhaseSample { at: to, ..*sample };
            phase
        };
        phase_ends(phases)
            .into_iter()
            .zip(samples)
            .map(phase)
            .collect()
    }

    /// All phases of a virtual run, from the regular samples of its state.
    pub(crate) fn of_virtual(setup: &WorldSetup, seen: &RunMeasurements) -> Vec<Self> {
        let window = setup.window;
        let phases = PhaseDurations {
            ramp_up: window.from.since(Instant::ZERO),
            measured: window.to.since(window.from),
            ramp_down: setup.ramp_down,
        };
        let before = |time: Duration| {
            let mut looks = seen.looks().iter().rev();
            looks.find(|look| look.at <= Instant::ZERO + time)
        };
        let has_jobs = setup.server == ServerModel::Headlong;
        let sample = |look: &Snapshot| PhaseSample {
            at: look.at.since(Instant::ZERO),
            read_bytes: look.drive.bytes,
            seeks: look.drive.repositions,
            jobs: has_jobs.then_some((look.stats.jobs, look.stats.jobs_late)),
        };
        let mut samples: Vec<PhaseSample> = Vec::new();
        for (_, end) in phase_ends(&phases) {
            // A run that ended in an earlier phase has no sample of this one.
            let last = samples.last().map_or(Duration::ZERO, |last| last.at);
            let found = before(end).map(sample);
            samples.extend(found.filter(|found| found.at > last));
        }
        let delivered = |time| before(time).map_or(0, |look| look.delivered_bytes);
        Self::all(&phases, &samples, |from, to| {
            delivered(to) - delivered(from)
        })
    }

    /// Bytes read between two seeks, on average.
    pub fn bytes_per_seek(&self) -> Option<f64> {
        (self.seeks > 0).then(|| self.read_bytes as f64 / self.seeks as f64)
    }

    /// Share of the jobs that were completed after their deadline.
    pub fn late_share(&self) -> Option<f64> {
        let jobs = self.jobs.filter(|jobs| *jobs > 0)?;
        Some(self.jobs_late? as f64 / jobs as f64)
    }
}

/// Bytes of bodies that a load generator's result has between two times, by the intervals that
/// begin there.
pub(crate) fn bytes_received(load: &Value, from: Duration, to: Duration) -> u64 {
    let points = load["series"].as_array().into_iter().flatten();
    let inside = |point: &&Value| {
        let at = point["t_s"].as_f64().unwrap_or(-1.0);
        (from.as_secs_f64()..to.as_secs_f64()).contains(&at)
    };
    let bytes = points
        .filter(inside)
        .filter_map(|point| point["bytes"].as_u64());
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn phases(ramp_up: u64, measured: u64) -> PhaseDurations {
        PhaseDurations {
            ramp_up: Duration::from_secs(ramp_up),
            measured: Duration::from_secs(measured),
            ramp_down: Duration::from_secs(10),
        }
    }

    fn sample(second: u64, scale: u64) -> PhaseSample {
        let drive = json!({ "counters": { "reads": { "bytes": 1000 * scale, "seeks": scale } } });
        let device = json!({ "counters": { "jobs": 10 * scale, "jobs_late": scale * scale } });
        let status = json!({ "devices": [device.clone(), device] });
        PhaseSample::of(
            Duration::from_secs(second),
            &[drive.clone(), drive],
            &status,
        )
    }

    #[test]
    fn phases_are_differences_summed_over_drives_and_devices() {
        let samples = [sample(100, 1), sample(301, 3), sample(540, 5)];
        let load = json!({ "series": [
            { "t_s": 0.0, "bytes": 300 }, { "t_s": 95.0, "bytes": 200 },
            { "t_s": 100.0, "bytes": 400 }, { "t_s": 300.0, "bytes": 2400 },
        ] });
        let received = |from, to| bytes_received(&load, from, to);
        let found = RunPhase::all(&phases(300, 240), &samples, received);
        let told: Vec<_> = found
            .iter()
            .map(|phase| {
                (
                    phase.name.as_str(),
                    phase.to_s,
                    phase.delivered,
                    phase.seeks,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("start", 100.0, 5.0, 2),
                ("ramp", 300.0, 2.0, 4),
                ("steady", 540.0, 10.0, 4)
            ]
        );
        assert_eq!(found[1].bytes_per_seek(), Some(1000.0));
        // 2 x (9 - 1) of 2 x 20 jobs.
        assert_eq!(found[1].late_share(), Some(0.4));
    }

    #[test]
    fn short_and_ended_runs_have_fewer_phases() {
        let names = |phases| -> Vec<&str> {
            phase_ends(&phases)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(names(phases(1, 300)), ["start", "steady"]);
        assert_eq!(names(phases(10, 30)), ["start"]);
        let samples = [sample(40, 1)];
        let found = RunPhase::all(&phases(300, 240), &samples, |_, _| 80);
        assert_eq!(
            (found.len(), found[0].to_s, found[0].delivered),
            (1, 40.0, 2.0)
        );
    }

    #[test]
    fn server_without_jobs_has_no_late_share() {
        let nothing = PhaseSample::of(Duration::from_secs(100), &[], &Value::Null);
        let found = RunPhase::all(&phases(300, 240), &[nothing], |_, _| 0);
        assert_eq!(
            (found[0].late_share(), found[0].bytes_per_seek()),
            (None, None)
        );
    }
}
