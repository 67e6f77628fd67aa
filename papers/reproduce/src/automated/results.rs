//! Results of the reproduction: the limits of each scenario, and the runs in which a controller
//! finds its size.

use headlong_sim::RunFigures;
use serde::Serialize;

use super::scenarios::{MemoryModel, PrefetchSizing, SQUARE_ROOT_SCALE, Scenario};

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
        let better = |best: Option<&'_ ConfigurationLimit>, limit: &'_ ConfigurationLimit| {
            best.is_none_or(|best| limit.rate_mib_s > best.rate_mib_s)
        };
        self.fixed(memory)
            .fold(None, |best, limit| match better(best, limit) {
                true => Some(limit),
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

impl ConfigurationLimit {
    pub(super) fn is_usual_scale(&self) -> bool {
        self.scale.is_none_or(|scale| scale == SQUARE_ROOT_SCALE)
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
    pub(super) seeds: u64,
    pub(super) seconds: f64,
    pub(super) outcomes: Vec<ScenarioOutcome>,
    pub(super) in_action: Vec<ControllerRun>,
}
