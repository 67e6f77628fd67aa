//! Checks that the emulated drive answered punctually enough to represent the modelled drive.
//!
//! A late answer delays only its client, not the drive, which continues in its own time. If the
//! response time grows by some share, a client with a fixed number of outstanding requests gets
//! fewer answers by at most that share (Little's law), and by less the deeper the drive's queue is.
//! The criterion is therefore the share that lateness adds to the response time. In addition, a
//! single standstill long enough to make a viewer leave invalidates the run, however rare it is.

use serde_json::Value;

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
