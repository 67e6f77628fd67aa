//! Results of each load, and their verdict.

use headlong_bench::RunRecord;
use headlong_bench::grid::GridRow;
use headlong_sim::RunFigures;
use serde::Serialize;

/// Share of the best of its row that must be delivered at every load.
pub(super) const SHARE_MIN: f64 = 0.97;

/// One set of viewers at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ViewerSet {
    pub(super) seed: u64,
    /// Bytes of calls answered completely in time, MiB/s.
    pub(super) goodput_mib_s: f64,
    /// Admitted calls that failed.
    pub(super) failures: u64,
    /// Refused calls.
    pub(super) refused: u64,
    /// Finished calls.
    pub(super) calls: u64,
}

impl ViewerSet {
    fn of(record: &RunFigures) -> Self {
        Self {
            seed: record.seed,
            goodput_mib_s: record.served_mib_s,
            failures: record.failures - record.refused,
            refused: record.refused,
            calls: record.calls,
        }
    }

    /// Whether everything requested was delivered.
    fn is_all(&self) -> bool {
        self.failures + self.refused == 0
    }
}

/// One load, all sets of viewers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OfferedLoad {
    /// Relative to the limit.
    pub(super) load: f64,
    pub(super) offered_mib_s: f64,
    pub(super) sets: Vec<ViewerSet>,
}

impl OfferedLoad {
    pub(super) fn of(load: f64, row: &GridRow) -> Self {
        let records = row.records.iter().filter_map(RunRecord::figures);
        Self {
            load,
            offered_mib_s: row.rate_mib_s.unwrap_or(0.0),
            sets: records.map(ViewerSet::of).collect(),
        }
    }

    pub(super) fn mean(&self, figure: impl Fn(&ViewerSet) -> f64) -> f64 {
        let sum: f64 = self.sets.iter().map(figure).sum();
        sum / self.sets.len().max(1) as f64
    }
}

/// One row of the tables: the loads of a workload with one admission rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct AdmissionSeries {
    pub(super) workload: &'static str,
    pub(super) identity: String,
    pub(super) admission: String,
    pub(super) limit_mib_s: f64,
    pub(super) loads: Vec<OfferedLoad>,
}

impl AdmissionSeries {
    /// Each set's goodput at a load relative to its maximum over all loads; a set that got
    /// everything counts as 1.
    pub(super) fn shares<'s>(&'s self, load: &'s OfferedLoad) -> impl Iterator<Item = f64> + 's {
        load.sets.iter().enumerate().map(|(index, set)| {
            let same = self.loads.iter().filter_map(|load| load.sets.get(index));
            let best = same.map(|set| set.goodput_mib_s).fold(0.0, f64::max);
            match set.is_all() || best == 0.0 {
                true => 1.0,
                false => set.goodput_mib_s / best,
            }
        })
    }

    /// The smallest share of any set at a load.
    pub(super) fn least(&self, load: &OfferedLoad) -> f64 {
        self.shares(load).fold(1.0, f64::min)
    }

    /// The smallest share over the sets at a load, relative to each set's maximum with as many
    /// viewers or fewer.
    pub(super) fn kept(&self, load: &OfferedLoad) -> f64 {
        let shares = load.sets.iter().enumerate().map(|(index, set)| {
            let fewer = self.loads.iter().filter(|other| other.load <= load.load);
            let same = fewer.filter_map(|other| other.sets.get(index));
            let most = same.map(|set| set.goodput_mib_s).fold(0.0, f64::max);
            match most > 0.0 {
                true => set.goodput_mib_s / most,
                false => 1.0,
            }
        });
        shares.fold(1.0, f64::min)
    }

    /// The smallest share of any set at any load.
    pub(super) fn worst(&self) -> f64 {
        let least = self.loads.iter().map(|load| self.least(load));
        least.fold(1.0, f64::min)
    }
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OverloadResult {
    pub(super) schema: &'static str,
    pub(super) is_quick: bool,
    pub(super) seeds: Vec<u64>,
    pub(super) seconds: f64,
    pub(super) series: Vec<AdmissionSeries>,
}

impl OverloadResult {
    /// Whether every set of viewers got the required share at every load.
    pub(super) fn holds(&self) -> bool {
        self.series.iter().all(|series| series.worst() >= SHARE_MIN)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rows of one set of viewers with these goodputs and failures.
    pub(in crate::overload) fn held(goodputs: &[(f64, u64)]) -> OverloadResult {
        let load = |(index, (goodput_mib_s, failures)): (usize, &(f64, u64))| OfferedLoad {
            load: 1.0 + index as f64,
            offered_mib_s: 90.0 * (1.0 + index as f64),
            sets: vec![ViewerSet {
                seed: 7,
                goodput_mib_s: *goodput_mib_s,
                failures: *failures,
                refused: 0,
                calls: 1000,
            }],
        };
        OverloadResult {
            schema: "headlong-hold-1",
            is_quick: true,
            seeds: vec![7],
            seconds: 1.0,
            series: vec![AdmissionSeries {
                workload: "SD",
                identity: "session ids".to_owned(),
                admission: "accept".to_owned(),
                limit_mib_s: 90.0,
                loads: goodputs.iter().enumerate().map(load).collect(),
            }],
        }
    }

    #[test]
    fn load_is_compared_with_best_of_row() {
        let held = held(&[(88.0, 4), (100.0, 9), (97.5, 9)]);
        let series = &held.series[0];
        let least: Vec<f64> = series.loads.iter().map(|load| series.least(load)).collect();
        assert_eq!(least, [0.88, 1.0, 0.975]);
        assert!(!held.holds());
    }

    #[test]
    fn kept_share_is_relative_to_smaller_loads() {
        let held = held(&[(88.0, 4), (100.0, 9), (97.5, 9)]);
        let series = &held.series[0];
        let kept: Vec<f64> = series.loads.iter().map(|load| series.kept(load)).collect();
        assert_eq!(kept, [1.0, 1.0, 0.975]);
    }

    #[test]
    fn set_that_gets_everything_counts_as_full_share() {
        assert!(held(&[(80.0, 0), (100.0, 9), (98.0, 9)]).holds());
    }
}
