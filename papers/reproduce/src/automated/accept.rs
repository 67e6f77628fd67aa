//! Qualitative results that must be reproduced, independent of numbers.

use serde::Serialize;

use super::results::{AutomatedResult, ConfigurationLimit, ScenarioOutcome};
use super::scenarios::{MemoryModel, PrefetchSizing};

/// One criterion with its verdict.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Criterion {
    /// The criterion and its source.
    pub(super) demanded: &'static str,
    /// Our result.
    pub(super) found: String,
    /// Whether it holds; `None` if its scenarios were not run.
    pub(super) holds: Option<bool>,
}

/// Share of the best fixed size's rate in the grid that an automatic size must reach.
pub(super) const AUTO_MIN: f64 = 0.95;

fn size_of(limit: Option<&ConfigurationLimit>) -> Option<u64> {
    limit.and_then(|limit| limit.size_mib)
}

impl AutomatedResult {
    fn outcome(&self, name: &str) -> Option<&ScenarioOutcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }

    /// Best sizes of the named scenarios that were run, if there are at least two.
    fn best_sizes(&self, names: &[&'static str]) -> Option<Vec<(&'static str, u64)>> {
        let size = |name: &&'static str| {
            let size = size_of(self.outcome(name)?.best(MemoryModel::PageCache))?;
            Some((*name, size))
        };
        let sizes: Vec<_> = names.iter().filter_map(size).collect();
        (sizes.len() > 1).then_some(sizes)
    }

    /// All criteria that apply to the scenarios run.
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
        ];
        for (memory, sizing, demanded) in [
            (
                MemoryModel::PageCache,
                PrefetchSizing::Auto,
                "page cache: auto reaches 95 % of the best fixed size in every scenario",
            ),
            (
                MemoryModel::Own,
                PrefetchSizing::Auto,
                "own memory: auto reaches 95 % of the best fixed size in every scenario",
            ),
        ] {
            lines.push(self.automatic_min(memory, sizing, demanded));
        }
        lines.push(self.automatic_mean());
        lines.push(self.no_rate_above_the_bound());
        // Criteria about scenarios that were not run are left out.
        lines.retain(|line| line.holds.is_some());
        lines
    }

    fn sizes_within(&self) -> Criterion {
        let bests = self.outcomes.iter().filter_map(|outcome| {
            let size = size_of(outcome.best(MemoryModel::PageCache))?;
            Some((outcome.name, size))
        });
        let bests: Vec<_> = bests.collect();
        let words: Vec<String> = bests
            .iter()
            .map(|(name, size)| format!("{name}: {size}"))
            .collect();
        Criterion {
            demanded: "page cache: the best fixed size is between 2 and 12 MB (abstract), and not \
                       the same everywhere",
            found: words.join("; "),
            holds: (!bests.is_empty()).then(|| {
                let (first, within) = (bests[0].1, bests.iter().all(|(_, s)| (2..=12).contains(s)));
                // A single size is always the same.
                let varies = bests.len() == 1 || bests.iter().any(|(_, size)| *size != first);
                within && varies
            }),
        }
    }

    fn sizes_move(&self, demanded: &'static str, names: &[&'static str]) -> Criterion {
        let sizes = self.best_sizes(names);
        let words = |sizes: &Vec<(&str, u64)>| {
            let named = sizes.iter();
            let named: Vec<String> = named
                .map(|(name, size)| format!("{name}: {size} MB"))
                .collect();
            named.join("; ")
        };
        Criterion {
            demanded,
            found: sizes.as_ref().map_or("not run".to_owned(), words),
            holds: sizes.map(|sizes| sizes.is_sorted_by_key(|(_, size)| *size)),
        }
    }

    fn falls_off(&self) -> Criterion {
        let by_best = |memory| {
            let outcome = self.outcome("SD, 4 GB, Red")?;
            let largest = outcome.fixed(memory).last()?;
            let evicted = largest.mean(|r| r.evicted_mib_s) / largest.mean(|r| r.served_mib_s);
            Some((
                largest.rate_mib_s / outcome.best(memory)?.rate_mib_s,
                evicted,
            ))
        };
        let cells = by_best(MemoryModel::PageCache).zip(by_best(MemoryModel::Own));
        Criterion {
            demanded: "page cache: SD with 12 MB falls below three quarters of the best through \
                       prefetch evictions (3, Figure 1, Table 1)",
            found: cells.map_or("not run".to_owned(), |((cache, evicted), (own, own_evicted))| {
                format!(
                    "{:.0} % of the best, {evicted:.2} bytes evicted per byte requested; with own \
                     memory {:.0} % and {own_evicted:.2}",
                    cache * 100.0,
                    own * 100.0
                )
            }),
            holds: cells.map(|((cache, evicted), _)| cache < 0.75 && evicted > 0.05),
        }
    }

    fn automatic_min(
        &self,
        memory: MemoryModel,
        sizing: PrefetchSizing,
        demanded: &'static str,
    ) -> Criterion {
        let ratios = self.outcomes.iter();
        let ratios: Vec<(f64, &str)> = ratios
            .filter_map(|outcome| Some((outcome.by_best(memory, sizing)?, outcome.name)))
            .collect();
        let least = ratios.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0));
        Criterion {
            demanded,
            found: least.map_or("not run".to_owned(), |(ratio, name)| {
                format!("at least {:.1} % ({name})", ratio * 100.0)
            }),
            holds: least.map(|(ratio, _)| ratio >= AUTO_MIN),
        }
    }

    fn automatic_mean(&self) -> Criterion {
        let ratios: Vec<f64> = [MemoryModel::PageCache, MemoryModel::Own]
            .into_iter()
            .flat_map(|memory| {
                let outcomes = self.outcomes.iter();
                outcomes.filter_map(move |outcome| outcome.by_best(memory, PrefetchSizing::Auto))
            })
            .collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        Criterion {
            demanded: "auto is above the best fixed size of the grid on average",
            found: format!("{:.1} % on average", mean * 100.0),
            // A mean over one scenario does not represent the others.
            holds: (self.outcomes.len() > 1 && !ratios.is_empty()).then_some(mean > 1.0),
        }
    }

    fn no_rate_above_the_bound(&self) -> Criterion {
        let shares = self.outcomes.iter().filter_map(|outcome| {
            let bound = outcome.bound_mib_s?;
            let rates = outcome.limits.iter().map(|limit| limit.rate_mib_s);
            Some((rates.fold(0.0, f64::max) / bound, outcome.name))
        });
        let largest = shares.max_by(|a, b| a.0.total_cmp(&b.0));
        Criterion {
            demanded: "no rate is above the clairvoyant bound",
            found: largest.map_or("not run".to_owned(), |(share, name)| {
                format!("at most {:.0} % of it ({name})", share * 100.0)
            }),
            holds: largest.map(|(share, _)| share <= 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::SCENARIOS;
    use super::*;

    fn limit(memory: MemoryModel, sizing: PrefetchSizing, rate_mib_s: f64) -> ConfigurationLimit {
        ConfigurationLimit {
            scenario: SCENARIOS[0].name,
            memory: super::super::results::name_of(memory),
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
}
