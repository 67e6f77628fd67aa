//! Results of the reproduction: the limits of each scenario, the runs in which a controller finds
//! its size, and the published results, numbers and qualitative ones.

use headlong_sim::RunFigures;
use serde::{Deserialize, Serialize};

use super::scenarios::{MemoryModel, PrefetchSizing, SQUARE_ROOT_SCALE, Scenario};
use crate::report::Criterion;

/// Share of the best fixed size's rate in the grid that an automatic size must reach.
const AUTO_MIN: f64 = 0.95;

/// Table 1 (thesis Table 4.1): SD titles, 4 GB; prefetch size in MB; bytes from the disk, evicted
/// and wasted, by bytes requested.
pub(super) const TABLE_1: [(u64, [f64; 3]); 6] = [
    (2, [0.90, 0.00, 0.03]),
    (4, [1.10, 0.10, 0.08]),
    (6, [1.62, 0.52, 0.12]),
    (8, [2.04, 0.86, 0.16]),
    (10, [2.36, 1.12, 0.18]),
    (12, [2.63, 1.34, 0.20]),
];

/// Published figures of a scenario in the text; the charts are pictures, from which no numbers are
/// taken.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub(super) struct PublishedSizes {
    scenario: String,
    /// The best size.
    pub(super) best_mib: Option<u64>,
    /// Its ratio to vanilla.
    pub(super) by_vanilla: Option<f64>,
    /// Ratio of the automatic size to it.
    pub(super) auto_by_best: Option<f64>,
    pub(super) source: String,
}

fn published() -> impl Iterator<Item = PublishedSizes> {
    let rows = csv::Reader::from_reader(include_str!("published.csv").as_bytes());
    // The file is part of the program and covered by a test.
    rows.into_deserialize()
        .map(|row| row.expect("published.csv is right"))
}

/// Published figures of the scenario with this name.
pub(super) fn said(scenario: &str) -> PublishedSizes {
    let said = published().find(|row| row.scenario == scenario);
    said.unwrap_or_default()
}

/// The highest rate of one configuration, as the mean over all seeds, and one record for each seed
/// at that rate.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ConfigurationLimit {
    pub(super) scenario: &'static str,
    pub(super) memory: &'static str,
    pub(super) sizing: String,
    /// SD size divided by HD size, where it matters.
    pub(super) scale: Option<f64>,
    #[serde(skip)]
    pub(super) size_mib: Option<u64>,
    pub(super) rate_mib_s: f64,
    pub(super) worlds: usize,
    pub(super) records: Vec<RunFigures>,
}

impl ConfigurationLimit {
    fn is_usual_scale(&self) -> bool {
        self.scale.is_none_or(|scale| scale == SQUARE_ROOT_SCALE)
    }

    pub(super) fn mean(&self, figure: impl Fn(&RunFigures) -> f64) -> f64 {
        let sum: f64 = self.records.iter().map(figure).sum();
        sum / self.records.len() as f64
    }
}

/// Result of a scenario.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ScenarioOutcome {
    #[serde(skip)]
    pub(super) scenario: Scenario,
    pub(super) name: &'static str,
    pub(super) limits: Vec<ConfigurationLimit>,
    /// The bound that no server can exceed.
    pub(super) bound_mib_s: Option<f64>,
}

impl ScenarioOutcome {
    pub(super) fn of(&self, memory: MemoryModel) -> impl Iterator<Item = &ConfigurationLimit> {
        let name = name_of(memory);
        let limits = self.limits.iter();
        limits.filter(move |limit| limit.memory == name && limit.is_usual_scale())
    }

    pub(super) fn fixed(&self, memory: MemoryModel) -> impl Iterator<Item = &ConfigurationLimit> {
        self.of(memory).filter(|limit| limit.size_mib.is_some())
    }

    /// The fixed size with the highest rate; the smallest of equal ones.
    pub(super) fn best(&self, memory: MemoryModel) -> Option<&ConfigurationLimit> {
        self.fixed(memory)
            .reduce(|best, limit| match limit.rate_mib_s > best.rate_mib_s {
                true => limit,
                false => best,
            })
    }

    pub(super) fn automatic(
        &self,
        memory: MemoryModel,
        sizing: PrefetchSizing,
    ) -> Option<&ConfigurationLimit> {
        let name = sizing.name();
        self.of(memory).find(|limit| limit.sizing == name)
    }

    /// Ratio of the best fixed size to a server that leaves readahead to the kernel.
    pub(super) fn by_vanilla(&self) -> Option<f64> {
        let vanilla = self.automatic(MemoryModel::PageCache, PrefetchSizing::Vanilla)?;
        Some(self.best(MemoryModel::PageCache)?.rate_mib_s / vanilla.rate_mib_s)
    }

    /// Ratio of an automatic size to the best fixed one of the grid.
    pub(super) fn by_best(&self, memory: MemoryModel, sizing: PrefetchSizing) -> Option<f64> {
        let best = self.best(memory)?.rate_mib_s;
        Some(self.automatic(memory, sizing)?.rate_mib_s / best)
    }
}

pub(super) const fn name_of(memory: MemoryModel) -> &'static str {
    match memory {
        MemoryModel::PageCache => "page cache",
        MemoryModel::Own => "own",
    }
}

/// A run in which a controller finds its size.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ControllerRun {
    pub(super) figure: &'static str,
    pub(super) controller: String,
    pub(super) start_mib: u64,
    pub(super) rate_mib_s: f64,
    pub(super) record: RunFigures,
}

/// The whole result.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AutomatedResult {
    pub(super) schema: &'static str,
    pub(super) is_quick: bool,
    pub(super) seeds: u32,
    pub(super) seconds: f64,
    pub(super) outcomes: Vec<ScenarioOutcome>,
    pub(super) in_action: Vec<ControllerRun>,
}

/// A criterion with our result and verdict; without both if its scenarios were not run.
fn criterion(demanded: &str, result: Option<(String, bool)>) -> Criterion {
    let (found, holds) = result.unzip();
    Criterion {
        demanded: demanded.to_owned(),
        found,
        holds,
    }
}

/// `SD, 4 GB, Red: 4 MB; HD, 4 GB, Red: 8 MB`.
fn listed(sizes: &[(&str, u64)], unit: &str) -> String {
    let named = sizes
        .iter()
        .map(|(name, size)| format!("{name}: {size}{unit}"));
    named.collect::<Vec<_>>().join("; ")
}

impl AutomatedResult {
    pub(super) fn outcome(&self, name: &str) -> Option<&ScenarioOutcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }

    /// Qualitative results that must be reproduced, independent of numbers; those about scenarios
    /// that were not run are left out.
    pub(super) fn judged(&self) -> Vec<Criterion> {
        let mut lines = vec![
            self.sizes_within(),
            self.sizes_move(
                "the best size is no smaller for HD than for SD (3)",
                &["SD, 4 GB, Red", "HD, 4 GB, Red"],
            ),
            self.sizes_move(
                "SD: the best size grows with memory, 2, 4, 8 GB (7.1)",
                &["SD, 2 GB, Red", "SD, 4 GB, Red", "SD, 8 GB, Red"],
            ),
            self.sizes_move(
                "HD: the best size grows with memory, 2, 4, 8 GB (7.1)",
                &["HD, 2 GB, Red", "HD, 4 GB, Red", "HD, 8 GB, Red"],
            ),
            self.sizes_move(
                "SD: the faster drive has no larger best size (7.3)",
                &["SD, 4 GB, Seagate", "SD, 4 GB, Red"],
            ),
            self.falls_off(),
            self.automatic_min(
                MemoryModel::PageCache,
                "page cache: auto reaches 95 % of the best fixed size in every scenario",
            ),
            self.automatic_min(
                MemoryModel::Own,
                "own memory: auto reaches 95 % of the best fixed size in every scenario",
            ),
            self.automatic_mean(),
            self.no_rate_above_the_bound(),
        ];
        lines.retain(|line| line.holds.is_some());
        lines
    }

    /// Best sizes with a page cache of the outcomes that were found.
    fn best_sizes<'o>(
        outcomes: impl Iterator<Item = &'o ScenarioOutcome>,
    ) -> Vec<(&'static str, u64)> {
        let size = |outcome: &ScenarioOutcome| {
            Some((
                outcome.name,
                outcome.best(MemoryModel::PageCache)?.size_mib?,
            ))
        };
        outcomes.filter_map(size).collect()
    }

    fn sizes_within(&self) -> Criterion {
        let bests = Self::best_sizes(self.outcomes.iter());
        let result = bests.first().map(|(_, first)| {
            let within = bests.iter().all(|(_, size)| (2..=12).contains(size));
            // A single size is always the same.
            let varies = bests.len() == 1 || bests.iter().any(|(_, size)| size != first);
            (listed(&bests, ""), within && varies)
        });
        criterion(
            "page cache: the best fixed size is between 2 and 12 MB (abstract), and not the same \
             everywhere",
            result,
        )
    }

    fn sizes_move(&self, demanded: &str, names: &[&str]) -> Criterion {
        let sizes = Self::best_sizes(names.iter().filter_map(|name| self.outcome(name)));
        let is_sorted = sizes.is_sorted_by_key(|(_, size)| *size);
        let result = (sizes.len() > 1).then(|| (listed(&sizes, " MB"), is_sorted));
        criterion(demanded, result)
    }

    fn falls_off(&self) -> Criterion {
        let by_best = |memory| {
            let outcome = self.outcome("SD, 4 GB, Red")?;
            let largest = outcome.fixed(memory).last()?;
            let evicted = largest.mean(|r| r.evicted_mib_s) / largest.mean(|r| r.served_mib_s);
            let share = largest.rate_mib_s / outcome.best(memory)?.rate_mib_s;
            Some((share, evicted))
        };
        let cells = by_best(MemoryModel::PageCache).zip(by_best(MemoryModel::Own));
        let result = cells.map(|((cache, evicted), (own, own_evicted))| {
            let (percent, own) = (cache * 100.0, own * 100.0);
            let found = format!(
                "{percent:.0} % of the best, {evicted:.2} bytes evicted per byte requested; with \
                 own memory {own:.0} % and {own_evicted:.2}"
            );
            (found, cache < 0.75 && evicted > 0.05)
        });
        criterion(
            "page cache: SD with 12 MB falls below three quarters of the best through prefetch \
             evictions (3, Figure 1, Table 1)",
            result,
        )
    }

    /// Ratios of the automatic size to the best fixed one.
    fn automatic(&self, memory: MemoryModel) -> impl Iterator<Item = (f64, &'static str)> {
        self.outcomes.iter().filter_map(move |outcome| {
            Some((outcome.by_best(memory, PrefetchSizing::Auto)?, outcome.name))
        })
    }

    fn automatic_min(&self, memory: MemoryModel, demanded: &str) -> Criterion {
        let least = self.automatic(memory).min_by(|a, b| a.0.total_cmp(&b.0));
        let result = least.map(|(ratio, name)| {
            let found = format!("at least {:.1} % ({name})", ratio * 100.0);
            (found, ratio >= AUTO_MIN)
        });
        criterion(demanded, result)
    }

    fn automatic_mean(&self) -> Criterion {
        let memories = [MemoryModel::PageCache, MemoryModel::Own].into_iter();
        let ratios = memories.flat_map(|memory| self.automatic(memory));
        let ratios: Vec<f64> = ratios.map(|(ratio, _)| ratio).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        // A mean over one scenario does not represent the others.
        let is_known = self.outcomes.len() > 1 && !ratios.is_empty();
        criterion(
            "auto is above the best fixed size of the grid on average",
            is_known.then(|| (format!("{:.1} % on average", mean * 100.0), mean > 1.0)),
        )
    }

    fn no_rate_above_the_bound(&self) -> Criterion {
        let shares = self.outcomes.iter().filter_map(|outcome| {
            let rates = outcome.limits.iter().map(|limit| limit.rate_mib_s);
            Some((
                rates.fold(0.0, f64::max) / outcome.bound_mib_s?,
                outcome.name,
            ))
        });
        let largest = shares.max_by(|a, b| a.0.total_cmp(&b.0));
        let result = largest.map(|(share, name)| {
            let found = format!("at most {:.0} % of it ({name})", share * 100.0);
            (found, share <= 1.0)
        });
        criterion("no rate is above the clairvoyant bound", result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::SCENARIOS;
    use super::*;

    fn limit(memory: MemoryModel, sizing: PrefetchSizing, rate_mib_s: f64) -> ConfigurationLimit {
        ConfigurationLimit {
            scenario: SCENARIOS[0].name,
            memory: name_of(memory),
            sizing: sizing.name(),
            scale: None,
            size_mib: match sizing {
                PrefetchSizing::Fixed(mib) => Some(mib),
                _ => None,
            },
            rate_mib_s,
            worlds: 1,
            records: Vec::new(),
        }
    }

    #[test]
    fn single_scenario_is_judged_by_applicable_criteria() {
        let of = |memory| {
            [
                (PrefetchSizing::Fixed(4), 50.0),
                (PrefetchSizing::Auto, 49.0),
            ]
            .map(|(sizing, rate)| limit(memory, sizing, rate))
        };
        let scenario = SCENARIOS[1];
        let result = AutomatedResult {
            schema: "a schema",
            is_quick: true,
            seeds: 1,
            seconds: 1.0,
            outcomes: vec![ScenarioOutcome {
                scenario,
                name: scenario.name,
                limits: [of(MemoryModel::PageCache), of(MemoryModel::Own)].concat(),
                bound_mib_s: Some(90.0),
            }],
            in_action: Vec::new(),
        };
        let judged = result.judged();
        assert!(
            judged.iter().all(|line| line.holds == Some(true)),
            "{judged:#?}"
        );
        assert_eq!(judged.len(), 4);
    }

    #[test]
    fn published_figures_name_existing_scenarios() {
        let named = published().filter(|row| SCENARIOS.iter().any(|s| s.name == row.scenario));
        assert_eq!(named.count(), 10);
        assert_eq!(said("HD, 8 GB, Red").auto_by_best, Some(0.84));
    }
}
