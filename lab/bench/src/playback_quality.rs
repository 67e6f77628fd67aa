//! Playback quality: the criterion for adaptive players.
//!
//! Adaptive players switch to lower bit rates before a call fails, and repeat a failed call, so
//! failures do not measure the server's limit. Stalls and the remaining bit rate do.
//!
//! Invariants: only configured criteria are judged; a configured criterion without data is not a
//! pass.

use headlong_units::BitRate;
use serde::Serialize;
use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
