//! Results of the reproduction: the limits of each scenario, the runs in which a controller finds
//! its size, and the published results, numbers and qualitative ones.

use headlong_published::{PublishedComparison, PublishedFigure, PublishedValue, Tolerance};
use headlong_sim::RunFigures;
use serde::{Deserialize, Serialize};

use super::scenarios::{
    MemoryModel, PrefetchSizing, SCALES, SCALES_SIZE_MIB, SQUARE_ROOT_SCALE, Scenario,
};
use crate::claims::{Claim, ClaimRow};

/// Claims that compare figures of scenarios.
const CLAIMS: &str = include_str!("claims.csv");

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
    pub(super) best: Option<PublishedValue>,
    /// Its ratio to vanilla.
    pub(super) by_vanilla: Option<PublishedValue>,
    /// Ratio of the automatic size to it.
    pub(super) auto_by_best: Option<PublishedValue>,
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

impl AutomatedResult {
    pub(super) fn outcome(&self, name: &str) -> Option<&ScenarioOutcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }

    /// The published claims, then the goals of this project; those about scenarios that were not
    /// run are left out.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let mut claims: Vec<Claim> = self.outcomes.iter().flat_map(of_scenario).collect();
        claims.extend(self.stated());
        claims.push(self.falls_off());
        claims.extend(self.scales());
        claims.extend(self.goals());
        claims.retain(|claim| claim.compared.ours.is_some());
        claims
    }

    /// The limit of a fixed size with a page cache.
    fn fixed_of(&self, scenario: &str, size_mib: u64) -> Option<&ConfigurationLimit> {
        let mut limits = self.outcome(scenario)?.fixed(MemoryModel::PageCache);
        limits.find(|limit| limit.size_mib == Some(size_mib))
    }

    /// A figure of a scenario with a page cache, as `claims.csv` names it.
    fn figure(&self, figure: &str, scenario: &str) -> Option<f64> {
        let (figure, size) = match figure.split_once(" of ") {
            Some((figure, size)) => (figure, size.strip_suffix(" MB")?.parse().ok()?),
            None => (figure, 0),
        };
        let limit = || self.fixed_of(scenario, size);
        let table_1 = |column: usize| Some(limit()?.mean(TABLE_1_FIGURES[column]));
        match figure {
            "best size" => {
                let best = self.outcome(scenario)?.best(MemoryModel::PageCache)?;
                Some(best.size_mib? as f64)
            }
            "rate" => Some(limit()?.rate_mib_s),
            "read" => table_1(0),
            "evicted" => table_1(1),
            "wasted" => table_1(2),
            // Bytes of the vanilla server that come from memory, per cent.
            "hits" => {
                let outcome = self.outcome(scenario)?;
                let limit = outcome.automatic(MemoryModel::PageCache, PrefetchSizing::Vanilla)?;
                let miss = limit.mean(|r| r.disk_mib_s / r.served_mib_s.max(1e-9));
                Some((1.0 - miss) * 100.0)
            }
            _ => None,
        }
    }

    /// The published claims that compare one or two figures each.
    fn stated(&self) -> impl Iterator<Item = Claim> {
        ClaimRow::read(CLAIMS).map(|row| {
            let size = |text: &str| self.figure("best size", text.strip_prefix("best size: ")?);
            let (to, from) = row.operands();
            let sizes = size(to).zip(from.and_then(size));
            let words = sizes.map(|(to, from)| format!("{from} to {to} MB"));
            let claim = row.claim(|figure, scenario| self.figure(figure, scenario));
            claim.with_words(words)
        })
    }

    fn falls_off(&self) -> Claim {
        let by_best = |memory| {
            let outcome = self.outcome("SD, 4 GB, Red")?;
            let largest = outcome.fixed(memory).last()?;
            let evicted = largest.mean(|r| r.evicted_mib_s) / largest.mean(|r| r.served_mib_s);
            let share = largest.rate_mib_s / outcome.best(memory)?.rate_mib_s;
            Some((share, evicted))
        };
        let cells = by_best(MemoryModel::PageCache).zip(by_best(MemoryModel::Own));
        let words = cells.map(|((_, evicted), (own, own_evicted))| {
            let own = own * 100.0;
            format!(
                "{evicted:.2} bytes evicted per byte requested; with own memory {own:.0} % and \
                 {own_evicted:.2}"
            )
        });
        let share = cells.map(|((share, _), _)| share);
        let name = "SD: share of the best rate with 12 MB (prefetch evictions)";
        Claim::of(name, share, ("", "0 to 0.75"), "3, Figure 1, Table 1").with_words(words)
    }

    /// Figure 10: sizes of SD prefetches relative to those of HD.
    fn scales(&self) -> Vec<Claim> {
        let rates = |sizing: PrefetchSizing| -> Option<Vec<(f64, f64)>> {
            let outcome = self.outcome("mixed, 4 GB, Red")?;
            let rate = |scale: f64| {
                let mut limits = outcome.limits.iter();
                let limit = limits.find(|limit| {
                    limit.scale == Some(scale)
                        && limit.sizing == sizing.name()
                        && limit.memory == name_of(MemoryModel::PageCache)
                });
                Some((scale, limit?.rate_mib_s))
            };
            SCALES.into_iter().map(rate).collect()
        };
        let best = |rates: &[(f64, f64)], is_root: bool| {
            let chosen = rates
                .iter()
                .filter(|(scale, _)| (*scale == SQUARE_ROOT_SCALE) == is_root);
            chosen.map(|(_, rate)| *rate).fold(0.0, f64::max)
        };
        let claim = |(name, sizing)| {
            let rates = rates(sizing);
            let ratio = rates
                .as_deref()
                .map(|all| best(all, true) / best(all, false));
            let name = format!("mixed, {name}: scale 0.45 by the best other scale");
            Claim::of(
                name,
                ratio,
                ("", "0.98 to 2"),
                "7.4, Figure 10: as good or better",
            )
        };
        let fixed = PrefetchSizing::Fixed(SCALES_SIZE_MIB);
        [("6 MB", fixed), ("automatic", PrefetchSizing::AutoPaper)]
            .map(claim)
            .into()
    }

    /// Ratios of the automatic size to the best fixed one.
    fn automatic(&self, memory: MemoryModel) -> impl Iterator<Item = (f64, &'static str)> {
        self.outcomes.iter().filter_map(move |outcome| {
            Some((outcome.by_best(memory, PrefetchSizing::Auto)?, outcome.name))
        })
    }

    /// Goals of this project, and a check of the instrument.
    fn goals(&self) -> Vec<Claim> {
        let least = |memory| {
            let ratios = self.automatic(memory);
            ratios.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let automatic = |name: &str, memory| {
            let least = least(memory);
            let words = least.map(|(_, scenario)| scenario.to_owned());
            let ratio = least.map(|(ratio, _)| ratio);
            Claim::of(name, ratio, ("> 0.95", ""), "goal")
                .with_words(words)
                .into_goal()
        };
        let memories = [MemoryModel::PageCache, MemoryModel::Own].into_iter();
        let ratios = memories.flat_map(|memory| self.automatic(memory));
        let ratios: Vec<f64> = ratios.map(|(ratio, _)| ratio).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        // A mean over one scenario does not represent the others.
        let is_known = self.outcomes.len() > 1 && !ratios.is_empty();
        vec![
            automatic(
                "page cache: auto by the best fixed size, least of all scenarios",
                MemoryModel::PageCache,
            ),
            automatic(
                "own memory: auto by the best fixed size, least of all scenarios",
                MemoryModel::Own,
            ),
            Claim::of(
                "auto by the best fixed size of the grid, mean over scenarios",
                is_known.then_some(mean),
                ("> 1", ""),
                "goal",
            )
            .into_goal(),
        ]
    }
}

/// Table 1's columns: bytes from the disk, evicted, wasted, by bytes requested.
pub(super) const TABLE_1_FIGURES: [fn(&RunFigures) -> f64; 3] = [
    |r| r.disk_mib_s / r.served_mib_s.max(1e-9),
    |r| r.evicted_mib_s / r.served_mib_s.max(1e-9),
    |r| r.waste_ratio * r.disk_mib_s / r.served_mib_s.max(1e-9),
];

/// The published claims on one scenario.
fn of_scenario(outcome: &ScenarioOutcome) -> Vec<Claim> {
    let said = said(outcome.name);
    let cache = MemoryModel::PageCache;
    let best = outcome.best(cache);
    let share_of_published = || {
        let published = said.best.as_ref()?.number;
        let mut fixed = outcome.fixed(cache);
        let there = fixed.find(|limit| limit.size_mib.map(|mib| mib as f64) == Some(published))?;
        let share = there.rate_mib_s / best?.rate_mib_s * 100.0;
        Some(format!("the published size serves {share:.0} % of it"))
    };
    let claim = |what: &str, ours: Option<f64>, value: &Option<PublishedValue>, share| {
        let value = value.clone()?;
        // Where the paper gives a bound, it decides; where it only implies a number, nothing does.
        let tolerance = match value.bound.is_exact() {
            true => Tolerance::Share(share),
            false => Tolerance::Unstated,
        };
        let figure = PublishedFigure::new(said.source.clone(), Some(value), tolerance);
        let name = format!("{}: {what}", outcome.name);
        Some(Claim::published(PublishedComparison::new(
            name, ours, figure,
        )))
    };
    let size = best.and_then(|best| Some(best.size_mib? as f64));
    let auto = outcome.by_best(cache, PrefetchSizing::AutoPaper);
    let claims = [
        claim("best fixed size", size, &said.best, 0.0)
            .map(|claim| claim.with_words(share_of_published())),
        claim(
            "best by vanilla",
            outcome.by_vanilla(),
            &said.by_vanilla,
            0.2,
        ),
        claim(
            "published controller by best",
            auto,
            &said.auto_by_best,
            0.05,
        ),
    ];
    claims.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use headlong_published::Verdict;

    use super::super::scenarios::SCENARIOS;
    use super::*;
    use crate::claims::Origin;

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
    fn single_scenario_is_judged_by_applicable_claims() {
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
            }],
            in_action: Vec::new(),
        };
        let claims = result.claims();
        let of = |words: &str| {
            let claim = claims
                .iter()
                .find(|claim| claim.compared.name.contains(words));
            claim.map(Claim::verdict)
        };
        // 4 MB is best here, 8 MB in the paper.
        assert_eq!(of("HD, 4 GB, Red: best fixed size"), Some(Verdict::No));
        assert_eq!(of("page cache: auto"), Some(Verdict::Yes));
        assert_eq!(of("mean over scenarios"), None);
        let is_goal = |claim: &Claim| claim.origin == Origin::Headlong;
        assert!(claims.is_sorted_by_key(is_goal), "{claims:#?}");
    }

    #[test]
    fn stated_claims_name_existing_figures_and_scenarios() {
        for row in ClaimRow::read(CLAIMS) {
            let (this, that) = row.operands();
            for text in [Some(this), that].into_iter().flatten() {
                let (_, scenario) = text.split_once(": ").expect("a figure of a scenario");
                assert!(SCENARIOS.iter().any(|s| s.name == scenario), "{row:?}");
            }
        }
    }

    #[test]
    fn published_figures_name_existing_scenarios() {
        let named = published().filter(|row| SCENARIOS.iter().any(|s| s.name == row.scenario));
        assert_eq!(named.count(), 11);
        let hd = said("HD, 8 GB, Red");
        assert_eq!(hd.auto_by_best, Some(0.84.into()));
    }
}
