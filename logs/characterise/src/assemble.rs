//! Builds [`Observations`] from the accumulators that hold its numbers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::behaviour::Behaviour;
use crate::catalogue::CatalogueUse;
use crate::chain_statistics::{ChainStatistics, segments};
use crate::observations::{
    ChainObservations, DistributionPoints, LENGTHS, Observations, PhaseObservations, Popularity,
    TitleObservations, distribution, length_at,
};
use crate::phase_shares::PhaseShares;
use crate::requests::RequestKinds;
use crate::tables::per_cent;
use crate::view::LogContext;
use crate::volume::{BINS_MAX, LogVolume};

/// The accumulators it is built from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccumulatorRefs<'a> {
    /// Arrivals.
    pub(crate) volume: &'a LogVolume,
    /// Titles.
    pub(crate) catalogue: &'a CatalogueUse,
    /// Chains.
    pub(crate) chaining: &'a ChainStatistics,
    /// Phases.
    pub(crate) phases: &'a PhaseShares,
    /// Requests.
    pub(crate) requests: &'a RequestKinds,
    /// Viewers and devices.
    pub(crate) behaviour: &'a Behaviour,
    /// Shares of later transient phases after which the bit rate decreases, remains, increases.
    pub(crate) changes: [f64; 3],
}

/// Titles in the head of the popularity distribution (thesis Figure 5.4).
const HEAD_TITLES: u64 = 20;

impl Observations {
    /// Reads the values from these accumulators.
    pub(crate) fn of(log: &LogContext, sums: AccumulatorRefs<'_>) -> Self {
        let (starts, width_ms) = sums.volume.arrivals();
        Self {
            name: String::new(),
            length_s: (log.span_ms.1 - log.span_ms.0) as f64 / 1000.0,
            sessions: sums.volume.sessions().0,
            sessions_kept: sums.phases.sessions(),
            arrivals: arrivals(starts, width_ms, log),
            titles: titles(log, sums.catalogue),
            renditions: sums.behaviour.renditions(log, sums.catalogue),
            viewing: sums.behaviour.viewing(sums.changes),
            devices: sums.behaviour.devices.finish(log),
            phases: phases(sums.phases),
            chains: chains(sums.chaining, sums.requests),
        }
    }
}

/// Sessions per hour; per sixteenth of a log shorter than four hours; per longer interval if the
/// log spans more than two years.
fn arrivals(starts: &[u64], width_ms: i64, log: &LogContext) -> Vec<u64> {
    let span = (log.span_ms.1 - log.span_ms.0).max(1);
    let parts = if span < 4 * 3_600_000 {
        16
    } else {
        ((span + 1_799_999) / 3_600_000).min(BINS_MAX)
    };
    let mut sums = vec![0; parts as usize];
    for (bin, count) in starts.iter().enumerate() {
        let middle = (bin as i64 * width_ms + width_ms / 2).min(span - 1);
        let part = i128::from(middle) * i128::from(parts) / i128::from(span);
        sums[part as usize] += count;
    }
    sums
}

fn titles(log: &LogContext, catalogue: &CatalogueUse) -> TitleObservations {
    let counts = catalogue.title_counts();
    let mut sessions: Vec<u64> = counts.iter().map(|count| u64::from(*count)).collect();
    let drives = log.files.iter().map(|file| file.disk).max();
    let listed = log.listed_titles() as u64;
    TitleObservations {
        listed,
        requested: counts.len() as u64,
        files_requested: catalogue.files_requested() as u64,
        drives: drives.map_or(0, |last| last.saturating_add(1)),
        popularity: Popularity::of(&mut sessions, HEAD_TITLES, listed),
        durations_s: distribution(&mut catalogue.durations(log)),
        duration_shares: catalogue.duration_shares(log),
    }
}

fn phases(phases: &PhaseShares) -> PhaseObservations {
    let [content, all] = &phases.readings;
    let seconds = |mean: Option<f64>| mean.unwrap_or(0.0) / 1000.0;
    let shares = [phases.time_shares(0), phases.time_shares(1)];
    PhaseObservations {
        clusters: content.lengths_ms[0].count(),
        stable: content.lengths_ms[1].count(),
        stable_s_mean: seconds(content.lengths_ms[1].mean()),
        clusters_all: all.lengths_ms[0].count(),
        stable_all: all.lengths_ms[1].count(),
        stable_all_s_mean: seconds(all.lengths_ms[1].mean()),
        sessions_with_stable: per_cent(content.with_stable as f64, phases.sessions() as f64)
            / 100.0,
        transient_share: shares[0][0],
        stable_share: shares[0][1],
        inactive_share: shares[0][2],
        stable_all_share: shares[1][1],
        transient_all_share: shares[1][0],
        transient_bytes_share: phases.transient_bytes_share(),
    }
}

fn chains(chaining: &ChainStatistics, requests: &RequestKinds) -> ChainObservations {
    let mut all = chaining.all_lengths();
    let runs = all.runs().to_vec();
    let weight = |from: f64, bytes: bool| -> f64 {
        let longer = runs.iter().filter(|(length, _)| *length as f64 > from);
        longer
            .map(|(length, count)| *count as f64 * if bytes { *length as f64 } else { 1.0 })
            .sum()
    };
    let survival = |bytes: bool| -> DistributionPoints {
        let total = weight(-1.0, bytes);
        let at = |index| {
            let length = length_at(index);
            (length, per_cent(weight(length, bytes), total) / 100.0)
        };
        if total > 0.0 {
            (0..LENGTHS).map(at).collect()
        } else {
            DistributionPoints::new()
        }
    };
    let mut slopes = [0.0; 3];
    for segment in segments(&runs) {
        slopes[segment.place] = segment.law.c;
    }
    let zero = chaining.zero_shares().map(|share| share / 100.0);
    let [open, chunk] = chaining.rows();
    let [open_requests, chunk_requests] = requests.rows();
    ChainObservations {
        open,
        chunk,
        open_requests,
        chunk_requests,
        survival: survival(false),
        bytes_survival: survival(true),
        slopes,
        at_zero: zero[0],
        open_zero_lump: [zero[1], zero[2]],
        chunk_zero_below: [zero[3], zero[4]],
        later_below: zero[5],
        parallel: requests.connection_shares(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_bins_are_limited_for_wrong_dates() {
        let of = |hours: i64| {
            let log = LogContext::new(Vec::new(), (0, hours * 3_600_000));
            arrivals(&[1, 2, 3], 300_000, &log)
        };
        assert_eq!((of(1).len(), of(48).len()), (16, 48));
        let ages = of(8000 * 365 * 24);
        assert_eq!((ages.len(), ages[0]), (BINS_MAX as usize, 6));
    }
}
