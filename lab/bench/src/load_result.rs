//! Results of a run that decide its verdict: the load generator's, playback quality, and how late
//! the emulated drives were.

use std::path::Path;

use headlong_units::BitRate;
use serde::Serialize;
use serde_json::Value;

/// Name and version of the supported format.
const SCHEMA: &str = "headlong-load-1";

/// The figures that decide a run, and the whole result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadResult {
    /// Reasons for refusing it; empty if it counts.
    pub(crate) refused_because: Vec<String>,
    /// Share of the sessions in steady state that failed.
    pub(crate) failure_share: f64,
    /// Sessions that failed before the steady state.
    pub(crate) ramp_failures: u64,
    /// Sessions outside the steady state.
    pub(crate) ramp_viewers: RampViewers,
    /// Playback quality.
    pub(crate) viewed: PlaybackQuality,
    /// Bytes requested in the window, per second of model time.
    pub(crate) asked_for: Option<f64>,
    /// Bytes received by viewers in the window, per second of model time.
    pub(crate) delivered: f64,
    /// The file's content.
    pub(crate) whole: Value,
}

impl LoadResult {
    /// Reads the file; a missing or malformed result is refused.
    pub(crate) fn read(file: &Path) -> Self {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::of(serde_json::from_str(&text).unwrap_or_default()),
            Err(error) => Self::refused(format!("the load generator left no result: {error}")),
        }
    }

    fn refused(why: String) -> Self {
        Self {
            refused_because: vec![why],
            failure_share: 0.0,
            ramp_failures: 0,
            ramp_viewers: RampViewers::default(),
            viewed: PlaybackQuality::default(),
            asked_for: None,
            delivered: 0.0,
            whole: Value::Null,
        }
    }

    fn of(whole: Value) -> Self {
        let schema = whole["schema"].as_str().unwrap_or("none");
        if schema != SCHEMA {
            let why = format!("the load generator's result has schema {schema}, not {SCHEMA}");
            return Self {
                whole,
                ..Self::refused(why)
            };
        }
        let mut refused_because = Vec::new();
        if whole["valid"] != true {
            let reasons = match &whole["invalid_because"] {
                Value::Array(reasons) => reasons.iter().map(plain).collect(),
                other => vec![plain(other)],
            };
            refused_because.extend(reasons);
        }
        if whole["sessions"]["steady"].as_u64().unwrap_or(0) == 0 {
            refused_because.push("no session was wholly in steady state; measure longer".into());
        }
        Self {
            refused_because,
            failure_share: whole["failure_share"].as_f64().unwrap_or(0.0),
            ramp_failures: ramp_failures(&whole),
            ramp_viewers: ramp_viewers(&whole["sessions"]),
            viewed: PlaybackQuality::of(&whole),
            asked_for: whole["asked_for_bytes_per_second"].as_f64(),
            delivered: whole["bytes_per_second"].as_f64().unwrap_or(0.0),
            whole,
        }
    }
}

/// With a larger share of failed viewers outside the steady state, fewer are present in it than the
/// offered rate stands for, and a pass would not be a limit of that rate.
const RAMP_LOSS_MAX: f64 = 0.05;

/// Viewers that arrived outside the steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RampViewers {
    /// All of them.
    pub(crate) sessions: u64,
    /// Those that failed, and left.
    pub(crate) failed: u64,
}

impl RampViewers {
    /// Why a run is no pass although its steady state is.
    pub(crate) fn shortfall(self) -> Option<String> {
        let share = self.failed as f64 / (self.sessions as f64).max(1.0);
        (share > RAMP_LOSS_MAX).then(|| {
            format!(
                "{:.0} % of the viewers of the ramps failed, so that fewer than the offered rate \
                 remained",
                share.min(1.0) * 100.0
            )
        })
    }
}

/// Failures in the intervals that begin before the steady state.
fn ramp_failures(whole: &Value) -> u64 {
    let from = whole["window_s"]["from"].as_f64().unwrap_or(0.0);
    let points = whole["series"].as_array().into_iter().flatten();
    let before = points.filter(|point| point["t_s"].as_f64().is_some_and(|at| at < from));
    before.filter_map(|point| point["failures"].as_u64()).sum()
}

/// Sessions that did not arrive in the steady state.
fn ramp_viewers(sessions: &Value) -> RampViewers {
    let of = |all: &str, steady: &str| {
        let count = |key: &str| sessions[key].as_u64().unwrap_or(0);
        count(all).saturating_sub(count(steady))
    };
    RampViewers {
        sessions: of("arrived", "steady"),
        failed: of("failed", "steady_failed"),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

// Playback quality: the criterion for adaptive players.
//
// Adaptive players switch to lower bit rates before a call fails, and repeat a failed call, so
// failures do not measure the server's limit. Stalls and the remaining bit rate do.
//
// Invariants: only configured criteria are judged; a configured criterion without data is not a
// pass.

/// Requirements on a run besides its failures.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct QualityRules {
    /// Largest share of the sessions in steady state that may stall, and whose viewers may give up
    /// waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_max: Option<f64>,
    /// Smallest mean over sessions of the bit rate played.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::experiment::as_text"
    )]
    pub bit_rate_min: Option<BitRate>,
}

/// Playback quality in steady state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PlaybackQuality {
    /// Sessions.
    pub(crate) sessions: u64,
    /// Of those, sessions with a stall.
    pub(crate) stalled: u64,
    /// Of those, sessions whose viewers gave up waiting for playback.
    pub(crate) gave_up: u64,
    /// Mean bit rate over sessions, in bits per second; `None` if no session reports it.
    pub(crate) bit_rate: Option<f64>,
}

/// Requirements that a run did not meet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QualityShortfall {
    /// Missed requirements, each with the required value; they fail the run.
    pub(crate) missed: Vec<String>,
    /// Requirements that cannot be judged, and the remedy.
    pub(crate) unknown: Vec<String>,
}

impl PlaybackQuality {
    /// From the load generator's result.
    pub(crate) fn of(result: &Value) -> Self {
        let count = |pointer: &str| result.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        Self {
            sessions: count("/sessions/steady"),
            stalled: count("/stalls/sessions"),
            gave_up: count("/gave_up"),
            bit_rate: result["bit_rate_bps"].as_f64(),
        }
    }
}

impl QualityRules {
    /// Compares with the measured playback quality.
    pub(crate) fn shortfall(&self, viewed: &PlaybackQuality) -> QualityShortfall {
        let mut short = QualityShortfall::default();
        let share = |count: u64| count as f64 / (viewed.sessions as f64).max(1.0);
        let told = [
            (share(viewed.stalled), "stalled"),
            (share(viewed.gave_up), "gave up waiting for playback"),
        ];
        for (share, what) in told {
            if let Some(most) = self.stalled_max.filter(|most| share > *most) {
                let (share, most) = (share * 100.0, most * 100.0);
                let text = format!("{share:.2} % of sessions {what}, at most {most} % may");
                short.missed.push(text);
            }
        }
        match (self.bit_rate_min, viewed.bit_rate) {
            (Some(least), Some(seen)) if seen < least.0 as f64 => {
                let seen = BitRate::from_kbps((seen / 1e3) as u64);
                short.missed.push(format!(
                    "the mean bit rate was {seen}, at least {least} is required"
                ));
            }
            (Some(_), None) => short.unknown.push(
                "no session reported its bit rate; remove bit_rate from [search], or use a \
                 workload with known bit rates, such as dash-vod"
                    .to_owned(),
            ),
            _ => {}
        }
        short
    }
}

// Checks that the emulated drive answered punctually enough to represent the modelled drive.
//
// A late answer delays only its client, not the drive, which continues in its own time. If the
// response time grows by some share, a client with a fixed number of outstanding requests gets
// fewer answers by at most that share (Little's law), and by less the deeper the drive's queue is.
// The criterion is therefore the share that lateness adds to the response time. In addition, a
// single standstill long enough to make a viewer leave invalidates the run, however rare it is.

/// Later answers, in model time, are noticeable: about the time of a short seek.
const LATENESS_MS_MAX: f64 = 5.0;
/// Lateness changes no searched rate if it adds less than this share of a search step to waiting.
const STEP_SHARE_MAX: f64 = 0.5;
/// A single answer this late in model time takes a tenth of a viewer's patience.
const STANDSTILL_MS_MAX: f64 = 1_000.0;

/// Lateness of the answers of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DriveLateness {
    /// 99th percentile of lateness, milliseconds of model time.
    p99_ms: f64,
    /// Largest lateness, milliseconds of model time.
    latest_ms: f64,
    /// Total lateness as a share of the total response time.
    share: f64,
}

impl DriveLateness {
    /// From the counters of `headlong disk emulate`; a missing counter is 0.
    pub(crate) fn of(counters: &Value) -> Self {
        let number = |name: &str| {
            let found = counters.pointer(&format!("/counters/{name}"));
            found.and_then(Value::as_f64).unwrap_or(0.0)
        };
        let scale = number("time_scale");
        let model_ns = |name: &str| number(name) * scale;
        Self {
            p99_ms: model_ns("lateness/p99_ns") / 1e6,
            latest_ms: model_ns("lateness/max_ns") / 1e6,
            share: number("lateness/late_ns") / number("lateness/response_ns").max(1.0),
        }
    }

    /// Why the results of this drive (named `what`) do not represent the modelled one, for a search
    /// with steps of `resolution`.
    pub(crate) fn complaint(self, what: &str, resolution: f64) -> Option<String> {
        if self.latest_ms > STANDSTILL_MS_MAX {
            let latest = self.latest_ms;
            return Some(format!(
                "the emulated {what} answered once {latest:.0} ms of model time late"
            ));
        }
        let is_often = self.share > STEP_SHARE_MAX * resolution;
        (self.p99_ms > LATENESS_MS_MAX && is_often).then(|| {
            format!(
                "1 % of the answers of the emulated {what} were {:.1} ms or more of model time \
                 late, and lateness was {:.1} % of its response time",
                self.p99_ms,
                self.share * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "schema": "headlong-load-1", "valid": true, "invalid_because": [],
            "failure_share": 0.25, "bytes_per_second": 1e6,
            "sessions": { "steady": 8, "steady_failed": 2 },
        })
    }

    #[test]
    fn result_counts_only_if_generator_calls_it_valid() {
        let result = LoadResult::of(good());
        assert_eq!(
            (result.failure_share, result.refused_because.len()),
            (0.25, 0)
        );
        let mut lagged = good();
        lagged["valid"] = json!(false);
        lagged["invalid_because"] = json!(["it lagged", "it ran out of descriptors"]);
        assert_eq!(LoadResult::of(lagged).refused_because.len(), 2);
    }

    #[test]
    fn ramp_failures_are_counted_separately() {
        let mut result = good();
        result["window_s"] = json!({ "from": 300.0, "to": 900.0 });
        let point = |at, failures| json!({ "t_s": at, "failures": failures });
        result["series"] = json!([point(0.0, 3), point(295.0, 4), point(300.0, 5)]);
        assert_eq!(LoadResult::of(result).ramp_failures, 7);
        assert_eq!(LoadResult::of(good()).ramp_failures, 0);
    }

    #[test]
    fn more_than_a_twentieth_lost_in_the_ramps_is_no_pass() {
        let of = |failed| RampViewers {
            sessions: 200,
            failed,
        };
        assert_eq!(of(10).shortfall(), None);
        let text = of(31).shortfall().expect("too many");
        assert!(text.starts_with("16 % of the viewers"), "{text}");
        assert_eq!(RampViewers::default().shortfall(), None);
    }

    #[test]
    fn ramp_viewers_are_those_outside_steady_state() {
        let mut result = good();
        result["sessions"] = json!({ "arrived": 20, "steady": 8, "failed": 5, "steady_failed": 2 });
        let ramp = RampViewers {
            sessions: 12,
            failed: 3,
        };
        assert_eq!(LoadResult::of(result).ramp_viewers, ramp);
    }

    #[test]
    fn refuses_missing_foreign_and_empty_results() {
        let mut empty = good();
        empty["sessions"]["steady"] = json!(0);
        for value in [Value::Null, json!({ "schema": "headlong-load-9" }), empty] {
            assert!(!LoadResult::of(value).refused_because.is_empty());
        }
        assert!(
            !LoadResult::read(Path::new("/nonexistent"))
                .refused_because
                .is_empty()
        );
    }

    fn strict() -> QualityRules {
        QualityRules {
            stalled_max: Some(0.01),
            bit_rate_min: Some(BitRate::from_kbps(2500)),
        }
    }

    fn viewed(stalled: u64, gave_up: u64, kbps: f64) -> PlaybackQuality {
        PlaybackQuality::of(&json!({
            "sessions": { "steady": 200 }, "stalls": { "sessions": stalled }, "gave_up": gave_up,
            "bit_rate_bps": kbps * 1e3,
        }))
    }

    #[test]
    fn judges_stalls_waits_and_bit_rates_separately() {
        assert_eq!(
            strict().shortfall(&viewed(2, 2, 2500.0)),
            QualityShortfall::default()
        );
        let missed = strict().shortfall(&viewed(3, 4, 2400.0)).missed;
        assert_eq!(
            missed,
            [
                "1.50 % of sessions stalled, at most 1 % may",
                "2.00 % of sessions gave up waiting for playback, at most 1 % may",
                "the mean bit rate was 2400kbps, at least 2500kbps is required",
            ]
        );
    }

    #[test]
    fn unconfigured_quality_is_not_judged() {
        let short = QualityRules::default().shortfall(&viewed(200, 200, 1.0));
        assert_eq!(short, QualityShortfall::default());
    }

    #[test]
    fn unknown_bit_rate_does_not_pass() {
        let short = strict().shortfall(&PlaybackQuality::of(&json!({ "bit_rate_bps": null })));
        assert!(short.missed.is_empty() && short.unknown[0].contains("dash-vod"));
    }

    /// At time scale 10, with a total response time of a hundred seconds.
    fn complaint(p99_ns: u64, max_ns: u64, late_ns: u64) -> Option<String> {
        let lateness = json!({
            "p99_ns": p99_ns, "max_ns": max_ns, "late_ns": late_ns, "response_ns": 100e9,
        });
        let sums = json!({"time_scale": 10.0, "lateness": lateness});
        DriveLateness::of(&json!({"counters": sums})).complaint("drive", 0.04)
    }

    #[test]
    fn lateness_below_a_short_seek_is_accepted() {
        assert_eq!(complaint(490_000, 2_000_000, 30_000_000_000), None);
    }

    #[test]
    fn reports_lateness_above_half_a_search_step() {
        assert_eq!(complaint(3_000_000, 40_000_000, 1_900_000_000), None);
        let often = complaint(3_000_000, 40_000_000, 2_200_000_000);
        let text = often.expect("a complaint");
        assert!(text.contains("30.0 ms") && text.contains("2.2 %"), "{text}");
    }

    #[test]
    fn reports_standstill_of_a_second() {
        let text = complaint(10_000, 101_000_000, 200_000_000).expect("a complaint");
        assert!(text.contains("1010 ms"), "{text}");
    }

    #[test]
    fn drive_without_answers_is_not_late() {
        assert_eq!(
            DriveLateness::of(&json!(null)).complaint("drive", 0.04),
            None
        );
    }
}
