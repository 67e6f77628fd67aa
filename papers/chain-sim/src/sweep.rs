//! Sweep over rules and sizes.

use serde::Serialize;

use crate::point::{CostPoint, SimulationError, SimulationSettings};
use crate::sizes::{Algorithm, SizingRule};
use crate::table::ChainTable;

/// The rules and sizes to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Rules, in output order.
    pub algorithms: Vec<Algorithm>,
    /// Sizes, MB, ascending.
    pub sizes_mb: Vec<f64>,
}

/// The results: every rule at every size, rules in their order and sizes ascending.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SweepResult {
    /// The points.
    pub points: Vec<CostPoint>,
}

impl Sweep {
    /// Number of points of a report, with those of fitted rules if `is_fitted`.
    pub fn points(&self, is_fitted: bool) -> usize {
        let fitted = self
            .algorithms
            .iter()
            .filter(|one| Algorithm::grows(one.policy));
        let fitted = usize::from(is_fitted) * fitted.count();
        (self.algorithms.len() + fitted) * self.sizes_mb.len()
    }

    /// Simulates every rule at every size. `seen` receives each point when it is done.
    ///
    /// # Errors
    /// The first error of [`CostPoint::simulate`].
    pub fn run(
        &self,
        table: &ChainTable,
        settings: &SimulationSettings,
        mut seen: impl FnMut(&CostPoint),
    ) -> Result<SweepResult, SimulationError> {
        let mut points = Vec::new();
        for algorithm in &self.algorithms {
            for size_mb in &self.sizes_mb {
                let rule = SizingRule::new(*algorithm, *size_mb, settings.megabyte);
                let point = CostPoint::simulate(table, &rule, settings)?;
                seen(&point);
                points.push(point);
            }
        }
        Ok(SweepResult { points })
    }
}

impl SweepResult {
    /// The points of a rule, sizes ascending.
    pub fn of<'s>(
        &'s self,
        algorithm: &'s str,
    ) -> impl Iterator<Item = &'s CostPoint> + Clone + 's {
        let points = self.points.iter();
        points.filter(move |point| point.algorithm == algorithm)
    }

    /// Names of the rules, in their order.
    pub fn algorithms(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in &self.points {
            if names.last() != Some(&point.algorithm.as_str()) {
                names.push(&point.algorithm);
            }
        }
        names
    }

    /// The point of a rule at a size.
    pub fn at(&self, algorithm: &str, size_mb: f64) -> Option<&CostPoint> {
        let mut points = self.points.iter();
        points.find(|point| point.algorithm == algorithm && (point.size - size_mb).abs() < 1e-6)
    }
}
