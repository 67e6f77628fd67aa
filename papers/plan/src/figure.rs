//! Figures with intervals: the totals of a log, and of samples of its sessions.

use headlong_chain_sim::{LoadSums, SessionGroups};
use headlong_random::Generator;
use headlong_stats::{ConfidenceInterval, Resamples, USUAL_CONFIDENCE};
use serde::Serialize;

/// Samples of sessions: enough for the ends of an interval to be accurate to a tenth of its width.
const SAMPLES: usize = 400;
/// Seed of the samples; fixed, for reproducible results.
const SEED: u64 = 1;

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlannedFigure {
    /// The estimate.
    pub value: f64,
    /// Lower end; at most the estimate.
    pub low: f64,
    /// Upper end; at least the estimate.
    pub high: f64,
}

impl PlannedFigure {
    /// As text: `4.3 (4.1 to 4.6)`, with this number of decimals.
    pub fn text(&self, decimals: usize) -> String {
        let [value, low, high] =
            [self.value, self.low, self.high].map(|number| format!("{number:.decimals$}"));
        match low == value && high == value {
            true => value,
            false => format!("{value} ({low} to {high})"),
        }
    }
}

/// Sums over all sessions, or over a sample of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoadTotals {
    pub(crate) consumed_bytes: [f64; 2],
    pub(crate) read_bytes: [f64; 2],
    pub(crate) seeks: [f64; 2],
    pub(crate) held_byte_s: f64,
    pub(crate) present_s: f64,
}

impl LoadTotals {
    fn of(sums: &[LoadSums], groups: &SessionGroups, times: impl Fn(usize) -> f64) -> Self {
        let mut totals = Self::default();
        for (group, (sums, present_ms)) in sums.iter().zip(groups.present_ms()).enumerate() {
            let times = times(group);
            for place in 0..2 {
                totals.consumed_bytes[place] += times * sums.consumed_bytes[place] as f64;
                totals.read_bytes[place] += times * sums.read_bytes[place] as f64;
                totals.seeks[place] += times * sums.seeks[place] as f64;
            }
            totals.held_byte_s += times * sums.held_byte_ms as f64 / 1000.0;
            totals.present_s += times * *present_ms as f64 / 1000.0;
        }
        totals
    }

    /// Bytes consumed from everywhere.
    pub(crate) fn consumed(&self) -> f64 {
        self.consumed_bytes.iter().sum()
    }
}

/// Draws sessions, in groups, with replacement.
#[derive(Debug)]
pub(crate) struct SessionSamples {
    pub(crate) groups: SessionGroups,
    resamples: Resamples,
}

impl SessionSamples {
    pub(crate) fn new(groups: SessionGroups) -> Self {
        let mut draws = Generator::new(SEED).fork("sessions of a plan");
        let resamples = Resamples::new(groups.count(), SAMPLES, |count| draws.below(count));
        Self { groups, resamples }
    }

    /// The totals of all sessions.
    pub(crate) fn totals(&self, sums: &[LoadSums]) -> LoadTotals {
        LoadTotals::of(sums, &self.groups, |_| 1.0)
    }

    /// The totals of each sample.
    pub(crate) fn resampled(&self, sums: &[LoadSums]) -> Vec<LoadTotals> {
        let of =
            |times: &[u32]| LoadTotals::of(sums, &self.groups, |group| f64::from(times[group]));
        self.resamples.samples().map(of).collect()
    }
}

/// The estimate and its interval, which covers those of all readings of the log.
pub(crate) fn figure<T>(
    estimate: &T,
    readings: &[Vec<T>],
    of: impl Fn(&T) -> f64,
) -> PlannedFigure {
    let value = of(estimate);
    let mut figure = PlannedFigure {
        value,
        low: value,
        high: value,
    };
    for samples in readings {
        let figures = samples.iter().map(&of);
        let found = ConfidenceInterval::of_resamples(value, figures, USUAL_CONFIDENCE);
        if let Some(found) = found {
            figure.low = figure.low.min(found.low);
            figure.high = figure.high.max(found.high);
        }
    }
    figure
}
