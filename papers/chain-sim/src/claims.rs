//! Claims of the thesis on the comparison of rules (5.6.3), with our figures.
//!
//! The thesis' percentages belong to one private log. Orders and signs must be reproduced; each
//! percentage is judged on its own, as given by the tolerance. The thesis'
//! utilisation is that of the worst drive in its worst minute, a noisy maximum; every figure is
//! therefore also given for the busiest minute's mean over drives and for the mean over all time.
//!
//! The claims are the lines of `claims.csv`, which name the figure to compute.

use headlong_published::{PublishedFigure, PublishedValue, Tolerance, Verdict};
use serde::{Deserialize, Serialize};

use crate::point::CostPoint;
use crate::sweep::SweepResult;

/// One claim with three numbers, one for each definition of utilisation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Unit of the numbers: `MB`, `%` or `yes/no`, where 1 is yes.
    pub unit: String,
    /// The thesis' number, and the tolerance.
    #[serde(flatten)]
    pub published: PublishedFigure,
    /// By the worst drive in its worst minute, as in the thesis.
    pub worst: Option<f64>,
    /// By the busiest minute's mean over drives.
    pub busiest: Option<f64>,
    /// By the mean over all time.
    pub mean: Option<f64>,
    /// The published order to which it belongs, if any.
    #[serde(skip)]
    pub order: Option<String>,
}

impl Claim {
    /// The verdict by the busiest minute's mean over drives.
    pub fn verdict(&self) -> Verdict {
        self.published.verdict(self.busiest)
    }
}

type Utilisation = fn(&CostPoint) -> f64;

/// A line of `claims.csv`.
#[derive(Debug, Deserialize)]
struct ClaimRow {
    claim: String,
    unit: String,
    published: Option<f64>,
    tolerance: Tolerance,
    figure: ClaimFigure,
    rule: String,
    /// Names of rules, separated by spaces; the best of them counts.
    against: String,
    /// A size, MB.
    at: Option<f64>,
    order: Option<String>,
}

/// Figure of a claim; all but sizes and shapes are per cent above the reference.
#[derive(Debug, Clone, Copy, Deserialize)]
enum ClaimFigure {
    /// The size with the lowest utilisation, MB.
    #[serde(rename = "best size")]
    BestSize,
    /// Whether the lowest utilisation lies between the smallest and the largest size: 1 for yes.
    #[serde(rename = "u-shaped")]
    UShaped,
    /// The lowest utilisation.
    #[serde(rename = "best utilisation")]
    BestUtilisation,
    /// Utilisation at the largest size, relative to the rule's own minimum.
    #[serde(rename = "largest size")]
    LargestSize,
    /// Memory at the same size.
    #[serde(rename = "memory at size")]
    MemoryAtSize,
    /// Smallest memory at the other rule's lowest utilisation.
    #[serde(rename = "memory at its utilisation")]
    MemoryAtUtilisation,
    /// Lowest utilisation with the memory of the other rule's best point.
    #[serde(rename = "utilisation at its memory")]
    UtilisationAtMemory,
    /// Utilisation at a size, relative to the other rule's minimum.
    #[serde(rename = "utilisation against its best")]
    UtilisationAgainstBest,
    /// Memory at a size, relative to that of the other rule's best point.
    #[serde(rename = "memory against its best")]
    MemoryAgainstBest,
    /// Utilisation, mean over sizes.
    #[serde(rename = "mean utilisation")]
    MeanUtilisation,
    /// Memory, mean over sizes.
    #[serde(rename = "mean memory")]
    MeanMemory,
}

impl ClaimRow {
    fn value(&self, swept: &SweepResult, util: Utilisation) -> Option<f64> {
        let curve = RuleCurve::new(swept, &self.rule, util);
        let other = || {
            let rules = self.against.split(' ');
            let bests = rules.filter_map(|rule| RuleCurve::new(swept, rule, util).best());
            bests.min_by(|one, other| one.1.total_cmp(&other.1))
        };
        let at = |rule: &str| swept.at(rule, self.at?);
        let mean = |of: Utilisation| mean_change(swept, (&self.against, &self.rule), of);
        match self.figure {
            ClaimFigure::BestSize => Some(curve.best()?.0),
            ClaimFigure::UShaped => curve.is_u_shaped(),
            ClaimFigure::BestUtilisation => change(other()?.1, curve.best()?.1),
            ClaimFigure::LargestSize => change(curve.best()?.1, curve.0.last()?.1),
            ClaimFigure::MemoryAtSize => change(at(&self.against)?.mem, at(&self.rule)?.mem),
            ClaimFigure::MemoryAtUtilisation => {
                let (_, util, mem) = other()?;
                change(mem, curve.least_mem_at(util)?)
            }
            ClaimFigure::UtilisationAtMemory => {
                let (_, util, mem) = other()?;
                change(util, curve.least_util_within(mem)?)
            }
            ClaimFigure::UtilisationAgainstBest => change(other()?.1, util(at(&self.rule)?)),
            ClaimFigure::MemoryAgainstBest => change(other()?.2, at(&self.rule)?.mem),
            ClaimFigure::MeanUtilisation => mean(util),
            ClaimFigure::MeanMemory => mean(|point| point.mem),
        }
    }
}

/// The claims; one without numbers if rules are missing.
pub fn claims(swept: &SweepResult) -> Vec<Claim> {
    let mut lines = csv::Reader::from_reader(include_str!("claims.csv").as_bytes());
    // The file is part of the program and covered by a test.
    let rows = lines
        .deserialize()
        .map(|row| row.expect("claims.csv is right"));
    rows.map(|row: ClaimRow| Claim {
        worst: row.value(swept, |point| point.util),
        busiest: row.value(swept, |point| point.util_busiest),
        mean: row.value(swept, |point| point.util_mean),
        claim: row.claim,
        published: PublishedFigure::new(
            "thesis 5.6.3",
            row.published
                .map(|number| PublishedValue::new(number, row.unit.as_str())),
            row.tolerance,
        ),
        unit: row.unit,
        order: row.order,
    })
    .collect()
}

/// Increase from `then` to `now` in per cent.
fn change(then: f64, now: f64) -> Option<f64> {
    let percent = 100.0 * (now / then - 1.0);
    percent.is_finite().then_some(percent)
}

/// Mean over sizes of the increase from the first rule to the second.
fn mean_change(swept: &SweepResult, (then, now): (&str, &str), of: Utilisation) -> Option<f64> {
    let changes: Vec<f64> = swept
        .of(then)
        .filter_map(|plain| change(of(plain), of(swept.at(now, plain.size)?)))
        .collect();
    (!changes.is_empty()).then(|| changes.iter().sum::<f64>() / changes.len() as f64)
}

/// A rule's sizes, utilisations and memories, interpolated linearly between sizes.
struct RuleCurve(Vec<(f64, f64, f64)>);

impl RuleCurve {
    fn new(swept: &SweepResult, algorithm: &str, util: Utilisation) -> Self {
        let points = swept.of(algorithm);
        Self(
            points
                .map(|point| (point.size, util(point), point.mem))
                .collect(),
        )
    }

    /// The point with the lowest utilisation.
    fn best(&self) -> Option<(f64, f64, f64)> {
        let points = self.0.iter().copied();
        points.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn is_u_shaped(&self) -> Option<f64> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let best = self.best()?;
        let inside = best.0 > first.0 && best.0 < last.0;
        Some(f64::from(u8::from(
            inside && best.1 < first.1 && best.1 < last.1,
        )))
    }

    /// Smallest memory with at most this utilisation.
    fn least_mem_at(&self, util: f64) -> Option<f64> {
        self.least(|point| (point.1, point.2), util)
    }

    /// Lowest utilisation with at most this memory.
    fn least_util_within(&self, mem: f64) -> Option<f64> {
        self.least(|point| (point.2, point.1), mem)
    }

    /// Smallest `wanted` value over points and interpolated segments whose `limited` value is
    /// within the limit.
    fn least(&self, of: fn(&(f64, f64, f64)) -> (f64, f64), limit: f64) -> Option<f64> {
        let within = |point: &(f64, f64)| point.0 <= limit;
        let points: Vec<(f64, f64)> = self.0.iter().map(of).collect();
        let exact = points
            .iter()
            .filter(|point| within(point))
            .map(|point| point.1);
        let crossings = points.windows(2).filter_map(|pair| {
            let (one, other) = (pair[0], pair[1]);
            (within(&one) != within(&other)).then(|| {
                let share = (limit - one.0) / (other.0 - one.0);
                one.1 + share * (other.1 - one.1)
            })
        });
        exact.chain(crossings).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(algorithm: &str, size: f64, util: f64, mem: f64) -> CostPoint {
        CostPoint {
            algorithm: algorithm.into(),
            size,
            size_bytes: 0,
            prefetches: 0,
            read: 0,
            util,
            util_drive: 0,
            util_minute: 0,
            util_mean: util / 2.0,
            util_busiest: util / 1.5,
            util_busiest_minute: 0,
            mem,
            mem_minute: 0,
            mem_touch: mem,
            mem_peak: mem,
        }
    }

    #[test]
    fn published_figures_reproduce_published_claims() {
        let swept = SweepResult {
            points: vec![
                point("fixed", 1.0, 0.9, 10.0),
                point("fixed", 7.0, 0.57, 47.0),
                point("fixed", 16.0, 0.7, 100.0),
                point("square-root", 6.0, 0.57, 27.26),
                point("square-root", 8.0, 0.54, 36.0),
                point("first-grow-sr", 14.0, 0.513, 47.0),
                point("first-grow-sr", 16.0, 0.5, 52.0),
            ],
        };
        let claims = claims(&swept);
        let of = |words: &str| {
            let found = claims.iter().find(|claim| claim.claim.contains(words));
            found.and_then(|claim| claim.worst)
        };
        let near = |words: &str, expected: f64| {
            let found = of(words).unwrap_or(f64::NAN);
            assert!((found - expected).abs() < 0.1, "{words}: {found}");
        };
        near("Fixed is best at", 7.0);
        near("U-shaped", 1.0);
        near("best utilisation: Square-Root", -5.26);
        near("memory at Fixed's best utilisation: Square-Root", -42.0);
        near("memory of Fixed's best: First-Grow-SR", -10.0);
        near("utilisation of First-Grow-SR at 16 MB", -12.28);
        near("memory of First-Grow-SR at 16 MB", 10.64);
        assert_eq!(of("Proportional against Fixed (the thesis: higher)"), None);
    }

    #[test]
    fn interpolates_linearly_between_sizes() {
        let swept = SweepResult {
            points: vec![
                point("fixed", 1.0, 0.8, 10.0),
                point("fixed", 2.0, 0.6, 20.0),
            ],
        };
        let curve = RuleCurve::new(&swept, "fixed", |point| point.util);
        assert_eq!(
            curve.least_mem_at(0.7).map(|mem| (mem * 10.0).round()),
            Some(150.0)
        );
        assert_eq!(curve.least_mem_at(0.5), None);
        assert_eq!(curve.is_u_shaped(), Some(0.0));
    }
}
