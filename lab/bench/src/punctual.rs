//! Whether the emulated drive was on time enough to be the drive it stands for.
//!
//! A late answer does not hold up the drive, which goes on in its own time, only whoever waits for it. If
//! waiting is longer by some share, whoever keeps a number of requests outstanding gets fewer answers by at most that
//! share (Little's law), and by less the deeper the drive's queue is. So what counts is what lateness adds
//! to the time from request to answer. And a drive that stood still once, for long enough to make a viewer leave, is
//! not itself however rare that is.

use serde_json::Value;

/// Answers later than this, in model time, are no longer that drive's: about what one short seek takes.
const LATENESS_MS_MAX: f64 = 5.0;
/// They change no rate that is looked for if they add less to waiting than this part of a search's step.
const STEP_SHARE_MAX: f64 = 0.5;
/// One answer as late as this in model time is a tenth of what a viewer waits for.
const STANDSTILL_MS_MAX: f64 = 1_000.0;

/// What the answers of a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Punctuality {
    /// How late 99 of 100 answers were at most, milliseconds of model time.
    p99_ms: f64,
    /// How late the latest was, milliseconds of model time.
    latest_ms: f64,
    /// Lateness as a part of the time from request to answer, both summed over all.
    share: f64,
}

impl Punctuality {
    /// From the counters of `headlong disk emulate`; what they do not have counts as nothing.
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

    /// Why what this drive, or `what` it is, served does not say what the one it stands for would have,
    /// to somebody who looks for rates in steps of `resolution`.
    pub(crate) fn complaint(self, what: &str, resolution: f64) -> Option<String> {
        if self.latest_ms > STANDSTILL_MS_MAX {
            let latest = self.latest_ms;
            return Some(format!(
                "the emulated {what} once answered {latest:.0} ms of model time late"
            ));
        }
        let is_often = self.share > STEP_SHARE_MAX * resolution;
        (self.p99_ms > LATENESS_MS_MAX && is_often).then(|| {
            format!(
                "one in a hundred answers of the emulated {what} was {:.1} ms of model time late, and \
                 lateness {:.1} % of all waiting for it",
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

    /// At ten times life, after a hundred seconds of waiting in all.
    fn complaint(p99_ns: u64, max_ns: u64, late_ns: u64) -> Option<String> {
        let lateness = json!({
            "p99_ns": p99_ns, "max_ns": max_ns, "late_ns": late_ns, "response_ns": 100e9,
        });
        let sums = json!({"time_scale": 10.0, "lateness": lateness});
        Punctuality::of(&json!({"counters": sums})).complaint("drive", 0.04)
    }

    #[test]
    fn answers_late_by_less_than_a_short_seek_are_on_time_however_many() {
        assert_eq!(complaint(490_000, 2_000_000, 30_000_000_000), None);
    }

    #[test]
    fn late_answers_count_when_they_lengthen_waiting_by_more_than_half_a_step_of_the_search() {
        assert_eq!(complaint(3_000_000, 40_000_000, 1_900_000_000), None);
        let often = complaint(3_000_000, 40_000_000, 2_200_000_000);
        let text = often.expect("a complaint");
        assert!(text.contains("30.0 ms") && text.contains("2.2 %"), "{text}");
    }

    #[test]
    fn a_drive_that_stood_still_for_a_second_is_not_that_drive() {
        let text = complaint(10_000, 101_000_000, 200_000_000).expect("a complaint");
        assert!(text.contains("1010 ms"), "{text}");
    }

    #[test]
    fn a_drive_that_never_answered_was_never_late() {
        assert_eq!(Punctuality::of(&json!(null)).complaint("drive", 0.04), None);
    }
}
