//! The load generator's result of a run.

use std::path::Path;

use serde_json::Value;

use crate::playback_quality::PlaybackQuality;

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
            viewed: PlaybackQuality::of(&whole),
            asked_for: whole["asked_for_bytes_per_second"].as_f64(),
            delivered: whole["bytes_per_second"].as_f64().unwrap_or(0.0),
            whole,
        }
    }
}

/// Failures in the intervals that begin before the steady state.
fn ramp_failures(whole: &Value) -> u64 {
    let from = whole["window_s"]["from"].as_f64().unwrap_or(0.0);
    let points = whole["series"].as_array().into_iter().flatten();
    let before = points.filter(|point| point["t_s"].as_f64().is_some_and(|at| at < from));
    before.filter_map(|point| point["failures"].as_u64()).sum()
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
}
