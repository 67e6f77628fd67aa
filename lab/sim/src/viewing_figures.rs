//! Viewing quality in the record of a run.

use serde::{Deserialize, Serialize};

use crate::distribution_summary::{DistributionSummary, ratio, round};
use crate::measure::ViewingQuality;

/// Viewing quality in one network class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewingRecord {
    /// Name of the class.
    pub class: String,
    /// Sessions.
    pub sessions: u64,
    /// Sessions whose viewers left before playback started.
    pub gave_up: u64,
    /// From arrival to the start of playback.
    pub startup_ms: DistributionSummary,
    /// Sessions with at least one stall.
    pub stalled: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Time stalled, by the sum of time stalled and time played.
    pub stall_ratio: f64,
    /// Mean over sessions of the mean bit rate received; none if no session has one.
    pub kbps_mean: Option<f64>,
    /// Mean number of bit rate changes in a session.
    pub switches_mean: f64,
}

impl ViewingRecord {
    pub(crate) fn of(seen: &ViewingQuality) -> Self {
        let stalled_s = seen.stall_time.as_secs_f64();
        let (rated, sum) = seen.bit_rates;
        Self {
            class: seen.class.clone(),
            sessions: seen.sessions,
            gave_up: seen.gave_up,
            startup_ms: DistributionSummary::of(&seen.startup),
            stalled: seen.stalled,
            stalls: seen.stalls,
            stall_ratio: ratio(stalled_s, stalled_s + seen.played.as_secs_f64()),
            kbps_mean: (rated > 0).then(|| round(sum as f64 / rated as f64 / 1e3, 1)),
            switches_mean: ratio(seen.switches as f64, seen.sessions as f64),
        }
    }

    /// Column headings for [`Self::line`].
    pub fn heading() -> &'static str {
        "  class         sessions gave_up startup_p50/p99_ms stalled stalls of_time     kbps switches"
    }

    /// One line of a table for people.
    pub fn line(&self) -> String {
        let startup = format!("{:.0}/{:.0}", self.startup_ms.p50, self.startup_ms.p99);
        let kbps = self.kbps_mean;
        let kbps = kbps.map_or("-".to_owned(), |kbps| format!("{kbps:.1}"));
        format!(
            "  {:<13} {:8} {:7} {startup:>18} {:7} {:6} {:6.2}% {kbps:>8} {:8.2}",
            self.class,
            self.sessions,
            self.gave_up,
            self.stalled,
            self.stalls,
            self.stall_ratio * 100.0,
            self.switches_mean,
        )
    }
}
