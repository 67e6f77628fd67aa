//! Thresholds on the figures of a result: `failure_share<=0.003`, `classes.high.whole_ms.p99<9000`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::report::Report;

/// Whether the first figure is to the second as the name says.
type Holds = fn(&f64, &f64) -> bool;

/// Longer ones first, so that `<=` is not read as `<`.
const COMPARISONS: [(&str, Holds); 5] = [
    ("<=", f64::le),
    (">=", f64::ge),
    ("==", f64::eq),
    ("<", f64::lt),
    (">", f64::gt),
];

/// A demand on one figure of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Names of fields, and of network classes, joined by dots.
    figure: String,
    /// A name among [`COMPARISONS`].
    comparison: &'static str,
    bound: f64,
}

/// A demand that was not met.
#[derive(Debug, Clone, PartialEq)]
pub struct Missed {
    /// The threshold.
    pub threshold: Threshold,
    /// The measured value; `None` if there is none.
    pub found: Option<f64>,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.figure, self.comparison, self.bound)
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threshold = &self.threshold;
        match self.found {
            Some(found) => write!(f, "threshold {threshold} not met: it is {found}"),
            None => write!(f, "threshold {threshold} not met: nothing was measured"),
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it like failure_share<=0.003";
        let mut found = COMPARISONS.iter();
        let found = found.find_map(|(comparison, _)| {
            let (figure, bound) = text.split_once(comparison)?;
            Some((figure.trim(), *comparison, bound.trim()))
        });
        let Some((figure, comparison, bound)) = found else {
            return Err(format!("`{text}` compares nothing; {example}"));
        };
        let bound: f64 = match bound.parse() {
            Ok(bound) if f64::is_finite(bound) => bound,
            _ => return Err(format!("`{text}`: `{bound}` is no number; {example}")),
        };
        Ok(Self {
            figure: figure.into(),
            comparison,
            bound,
        })
    }
}

impl Threshold {
    /// Whether a result with these network classes has such a figure.
    ///
    /// # Errors
    /// The names that come closest, if not.
    pub fn check(&self, classes: &[String]) -> Result<(), String> {
        let known = figures(classes);
        if known.contains(&self.figure) {
            return Ok(());
        }
        let mut near: Vec<(f64, &String)> = known
            .iter()
            .map(|name| (strsim::jaro_winkler(name, &self.figure), name))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<&str> = near.iter().take(3).map(|(_, name)| name.as_str()).collect();
        Err(format!(
            "threshold `{self}`: a result has no figure `{}`; the nearest are {}",
            self.figure,
            near.join(", ")
        ))
    }

    /// What is wrong with the result, if anything is. A figure that was not measured misses.
    pub fn missed(&self, report: &Report) -> Option<Missed> {
        let value = serde_json::to_value(report).unwrap_or_default();
        let found = figure(&value, &self.figure);
        let met = found.is_some_and(|found| {
            let mut comparisons = COMPARISONS.iter();
            comparisons.any(|(name, holds)| *name == self.comparison && holds(&found, &self.bound))
        });
        (!met).then(|| Missed {
            threshold: self.clone(),
            found,
        })
    }
}

fn figure(mut value: &Value, path: &str) -> Option<f64> {
    let mut rest = Some(path);
    while let Some(path) = rest {
        // A class may have dots in its name, so it is looked for as a whole.
        if let Value::Array(items) = value {
            let named = items.iter().find_map(|item| {
                let name = item.get("name")?.as_str()?;
                let behind = path.strip_prefix(name)?.strip_prefix('.')?;
                Some((item, behind))
            });
            let (item, behind) = named?;
            (value, rest) = (item, Some(behind));
            continue;
        }
        let (name, behind) = match path.split_once('.') {
            Some((name, behind)) => (name, Some(behind)),
            None => (path, None),
        };
        (value, rest) = (value.get(name)?, behind);
    }
    value.as_f64()
}

/// All figures of a result with these classes.
fn figures(classes: &[String]) -> Vec<String> {
    let mut recording = crate::Recording::new(
        &[],
        Default::default(),
        Default::default(),
        Default::default(),
    );
    recording.classes = classes
        .iter()
        .map(|name| crate::ClassTally {
            name: name.clone(),
            ..Default::default()
        })
        .collect();
    let value = serde_json::to_value(recording.report()).unwrap_or_default();
    let mut names = Vec::new();
    gather(&value, "", &mut names);
    names
}

fn gather(value: &Value, path: &str, names: &mut Vec<String>) {
    let below = |name: &str| match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    };
    match value {
        // Spreads of nothing have no figures yet.
        Value::Number(_) | Value::Null => names.push(path.into()),
        Value::Object(fields) => {
            for (name, value) in fields {
                gather(value, &below(name), names);
            }
        }
        Value::Array(items) => {
            for item in items {
                if let Some(name) = item.get("name").and_then(Value::as_str) {
                    gather(item, &below(name), names);
                }
            }
        }
        Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use headlong_units::{Duration, Instant};

    fn threshold(text: &str) -> Threshold {
        text.parse().expect(text)
    }

    fn recording() -> Recording {
        let mut recording =
            Recording::new(&[], Instant::ZERO, Instant::NEVER, Duration::from_secs(5));
        let mut class = crate::ClassTally {
            name: "2.5 Mbps".into(),
            sessions: 1000,
            failed: 3,
            ..Default::default()
        };
        for ms in 1..=100 {
            class.first_byte.record(Duration::from_millis(ms));
        }
        recording.classes.push(class);
        recording
    }

    #[test]
    fn a_threshold_compares_any_figure_of_the_result() {
        let report = recording().report();
        for (text, met) in [
            ("failure_share<=0.003", true),
            ("failure_share < 0.003", false),
            ("sessions.steady_failed==3", true),
            ("first_byte_ms.p99<99", false),
            ("first_byte_ms.p99<101", true),
            ("classes.2.5 Mbps.first_byte_ms.p50>=50", true),
            ("classes.2.5 Mbps.failed>3", false),
        ] {
            let threshold = threshold(text);
            assert_eq!(threshold.check(&["2.5 Mbps".into()]), Ok(()), "{text}");
            assert_eq!(threshold.missed(&report).is_none(), met, "{text}");
        }
    }

    #[test]
    fn what_was_not_measured_meets_no_threshold() {
        let report = recording().report();
        for text in ["startup_ms.p99<1000", "startup_ms.p99>=0"] {
            let missed = threshold(text).missed(&report).expect("it is missed");
            assert!(missed.to_string().contains("nothing was measured"));
        }
    }

    #[test]
    fn an_unknown_figure_gets_the_nearest_names() {
        let error = threshold("first_byte.p99<500")
            .check(&[])
            .expect_err("unknown");
        assert!(error.contains("first_byte_ms.p99"), "{error}");
    }

    #[test]
    fn what_is_no_threshold_is_told_how_to_write_one() {
        for text in [
            "",
            "failure_share",
            "failure_share<",
            "failure_share<many",
            "a<nan",
        ] {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.contains("failure_share<=0.003"), "{error}");
        }
    }
}
