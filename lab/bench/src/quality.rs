//! Whether viewers saw what they should: what players that adapt are judged by.
//!
//! The one idea: such players take lower bit rates before a call of theirs fails, and ask again for one
//! that did, so of them no failure says how much a server can. What they see does: pictures that stand
//! still, and the bit rate that was left.
//!
//! Invariants: nothing that was not asked for is judged; what was asked for and cannot be told is no
//! pass.

use headlong_units::BitRate;
use serde::Serialize;
use serde_json::Value;

/// What a run must come to besides its failures.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quality {
    /// Largest share of the sessions in steady state whose picture may stand still, and whose viewers
    /// may give up waiting for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_max: Option<f64>,
    /// Least mean over sessions of the bit rate that they saw.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::experiment::as_text"
    )]
    pub bit_rate_min: Option<BitRate>,
}

/// What was seen in steady state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Viewed {
    /// Sessions.
    pub(crate) sessions: u64,
    /// Of those, sessions whose picture stood still.
    pub(crate) stalled: u64,
    /// Of those, sessions whose viewers did not wait any longer for the picture.
    pub(crate) gave_up: u64,
    /// Mean over sessions of their bit rates, in bits of a second; `None` if it is known of none.
    pub(crate) bit_rate: Option<f64>,
}

/// What viewers did not get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shortfall {
    /// Each with what it should have been; of those a run fails.
    pub(crate) missed: Vec<String>,
    /// What nothing can be said of, and how that can be mended.
    pub(crate) unknown: Vec<String>,
}

impl Viewed {
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

impl Quality {
    /// What of it was not seen.
    pub(crate) fn shortfall(&self, viewed: &Viewed) -> Shortfall {
        let mut short = Shortfall::default();
        let share = |count: u64| count as f64 / (viewed.sessions as f64).max(1.0);
        let told = [
            (share(viewed.stalled), "saw the picture stand still"),
            (share(viewed.gave_up), "gave up waiting for the picture"),
        ];
        for (share, what) in told {
            if let Some(most) = self.stalled_max.filter(|most| share > *most) {
                let (share, most) = (share * 100.0, most * 100.0);
                let text = format!("{share:.2} % of sessions {what}, and at most {most} % may");
                short.missed.push(text);
            }
        }
        match (self.bit_rate_min, viewed.bit_rate) {
            (Some(least), Some(seen)) if seen < least.0 as f64 => {
                let seen = BitRate::from_kbps((seen / 1e3) as u64);
                short.missed.push(format!(
                    "viewers saw {seen} on average, and should see {least}"
                ));
            }
            (Some(_), None) => short.unknown.push(
                "no session told its bit rate; leave [search] bit_rate out, or take a workload that \
                 says what is played, such as dash-vod"
                    .to_owned(),
            ),
            _ => {}
        }
        short
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strict() -> Quality {
        Quality {
            stalled_max: Some(0.01),
            bit_rate_min: Some(BitRate::from_kbps(2500)),
        }
    }

    fn viewed(stalled: u64, gave_up: u64, kbps: f64) -> Viewed {
        Viewed::of(&json!({
            "sessions": { "steady": 200 }, "stalls": { "sessions": stalled }, "gave_up": gave_up,
            "bit_rate_bps": kbps * 1e3,
        }))
    }

    #[test]
    fn stalls_waits_and_bit_rates_are_judged_each() {
        assert_eq!(
            strict().shortfall(&viewed(2, 2, 2500.0)),
            Shortfall::default()
        );
        let missed = strict().shortfall(&viewed(3, 4, 2400.0)).missed;
        assert_eq!(
            missed,
            [
                "1.50 % of sessions saw the picture stand still, and at most 1 % may",
                "2.00 % of sessions gave up waiting for the picture, and at most 1 % may",
                "viewers saw 2400kbps on average, and should see 2500kbps",
            ]
        );
    }

    #[test]
    fn what_nobody_asked_for_is_not_judged() {
        let short = Quality::default().shortfall(&viewed(200, 200, 1.0));
        assert_eq!(short, Shortfall::default());
    }

    #[test]
    fn a_bit_rate_that_nobody_tells_is_no_pass() {
        let short = strict().shortfall(&Viewed::of(&json!({ "bit_rate_bps": null })));
        assert!(short.missed.is_empty() && short.unknown[0].contains("dash-vod"));
    }
}
