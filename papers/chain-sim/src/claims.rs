//! What the thesis says of the rules beside one another (5.6.3), and what is so here.
//!
//! The one idea: its percentages belong to one private log, so each is told beside ours and none is
//! a goal. The utilisation that the thesis tells is that of the worst drive in its worst minute, a
//! noisy maximum; every figure is therefore also told for the busiest minute's mean over drives and
//! for the mean over all time.

use serde::Serialize;

use crate::point::Point;
use crate::sweep::Swept;

/// One claim: three numbers, one for each way to take utilisation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub claim: &'static str,
    /// Unit of the numbers: `MB`, `%` or `yes/no`, where 1 is yes.
    pub unit: &'static str,
    /// The thesis' number.
    pub published: Option<f64>,
    /// By the worst drive in its worst minute, as the thesis has it.
    pub worst: Option<f64>,
    /// By the busiest minute's mean over drives.
    pub busiest: Option<f64>,
    /// By the mean over all time.
    pub mean: Option<f64>,
}

type Util = fn(&Point) -> f64;

/// The claims that the points can answer; a claim of which rules are missing has no numbers.
pub fn claims(swept: &Swept) -> Vec<Claim> {
    let claim = |claim, unit, published, of: &dyn Fn(Util) -> Option<f64>| Claim {
        claim,
        unit,
        published,
        worst: of(|point| point.util),
        busiest: of(|point| point.util_busiest),
        mean: of(|point| point.util_mean),
    };
    let curve = |algorithm, util| Curve::new(swept, algorithm, util);
    let best = |algorithm| move |util: Util| Some(curve(algorithm, util).best()?.0);
    let best_against_fixed = |algorithm| {
        move |util: Util| {
            change(
                curve("fixed", util).best()?.1,
                curve(algorithm, util).best()?.1,
            )
        }
    };
    let memory_at_fixed = |algorithm| {
        move |util: Util| {
            let fixed = curve("fixed", util).best()?;
            let mem = curve(algorithm, util).least_mem_at(fixed.1)?;
            change(fixed.2, mem)
        }
    };
    let util_at_fixed = |algorithm| {
        move |util: Util| {
            let fixed = curve("fixed", util).best()?;
            change(fixed.1, curve(algorithm, util).least_util_within(fixed.2)?)
        }
    };
    let memory_at_7 = |algorithm: &'static str| {
        move |_: Util| change(swept.at("fixed", 7.0)?.mem, swept.at(algorithm, 7.0)?.mem)
    };
    let at_16 = |of: fn(&Point, &Point, Util) -> Option<f64>| {
        move |util: Util| {
            let fixed = curve("fixed", util).best()?;
            of(
                swept.at("fixed", fixed.0)?,
                swept.at("first-grow-sr", 16.0)?,
                util,
            )
        }
    };
    vec![
        claim("Fixed is best at", "MB", Some(7.0), &best("fixed")),
        claim(
            "Fixed is U-shaped: worse at both ends",
            "yes/no",
            Some(1.0),
            &|util| curve("fixed", util).is_u_shaped(),
        ),
        claim(
            "Square-Root is best at",
            "MB",
            Some(8.0),
            &best("square-root"),
        ),
        claim(
            "best utilisation: Square-Root against Fixed",
            "%",
            Some(-5.0),
            &best_against_fixed("square-root"),
        ),
        claim(
            "best utilisation: Proportional against Fixed (the thesis: higher)",
            "%",
            None,
            &best_against_fixed("proportional"),
        ),
        claim(
            "memory at nominal 7 MB: Proportional against Fixed",
            "%",
            Some(100.0 * (29.0 / 47.0 - 1.0)),
            &memory_at_7("proportional"),
        ),
        claim(
            "memory at nominal 7 MB: Square-Root against Fixed",
            "%",
            Some(100.0 * (31.0 / 47.0 - 1.0)),
            &memory_at_7("square-root"),
        ),
        claim(
            "memory at Fixed's best utilisation: Square-Root",
            "%",
            Some(-42.0),
            &memory_at_fixed("square-root"),
        ),
        claim(
            "memory at Fixed's best utilisation: First-Grow-SR",
            "%",
            Some(-48.0),
            &memory_at_fixed("first-grow-sr"),
        ),
        claim(
            "utilisation at the memory of Fixed's best: First-Grow",
            "%",
            Some(-5.0),
            &util_at_fixed("first-grow"),
        ),
        claim(
            "utilisation at the memory of Fixed's best: First-Grow-SR",
            "%",
            Some(-10.0),
            &util_at_fixed("first-grow-sr"),
        ),
        claim(
            "First-Grow is best at",
            "MB",
            Some(16.0),
            &best("first-grow"),
        ),
        claim(
            "First-Grow-SR is best at",
            "MB",
            Some(16.0),
            &best("first-grow-sr"),
        ),
        claim(
            "utilisation of First-Grow-SR at 16 MB against Fixed's best",
            "%",
            Some(100.0 * (50.0 / 57.0 - 1.0)),
            &at_16(|fixed, grown, util| change(util(fixed), util(grown))),
        ),
        claim(
            "memory of First-Grow-SR at 16 MB against Fixed's best",
            "%",
            Some(11.0),
            &at_16(|fixed, grown, _| change(fixed.mem, grown.mem)),
        ),
        claim(
            "First-Grow-SR against First-Grow, utilisation, mean over sizes (nearly identical)",
            "%",
            None,
            &|util| mean_change(swept, util),
        ),
        claim(
            "First-Grow-SR against First-Grow, memory, mean over sizes (less)",
            "%",
            None,
            &|_| mean_change(swept, |point| point.mem),
        ),
    ]
}

/// Per cent by which `now` is more than `then`.
fn change(then: f64, now: f64) -> Option<f64> {
    let percent = 100.0 * (now / then - 1.0);
    percent.is_finite().then_some(percent)
}

fn mean_change(swept: &Swept, of: Util) -> Option<f64> {
    let changes: Vec<f64> = swept
        .of("first-grow")
        .filter_map(|plain| change(of(plain), of(swept.at("first-grow-sr", plain.size)?)))
        .collect();
    (!changes.is_empty()).then(|| changes.iter().sum::<f64>() / changes.len() as f64)
}

/// A rule's sizes, utilisations and memories, straight between sizes.
struct Curve(Vec<(f64, f64, f64)>);

impl Curve {
    fn new(swept: &Swept, algorithm: &str, util: Util) -> Self {
        let points = swept.of(algorithm);
        Self(
            points
                .map(|point| (point.size, util(point), point.mem))
                .collect(),
        )
    }

    /// Size, utilisation and memory where utilisation is least.
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

    /// Least memory with which utilisation is no more than this.
    fn least_mem_at(&self, util: f64) -> Option<f64> {
        self.least(|point| (point.1, point.2), util)
    }

    /// Least utilisation with no more memory than this.
    fn least_util_within(&self, mem: f64) -> Option<f64> {
        self.least(|point| (point.2, point.1), mem)
    }

    /// The least `wanted` among points, and between neighbours, whose `limited` is within a limit.
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

    fn point(algorithm: &str, size: f64, util: f64, mem: f64) -> Point {
        Point {
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
    fn the_published_figures_give_the_published_claims() {
        let swept = Swept {
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
    fn what_lies_between_two_sizes_is_straight() {
        let swept = Swept {
            points: vec![
                point("fixed", 1.0, 0.8, 10.0),
                point("fixed", 2.0, 0.6, 20.0),
            ],
        };
        let curve = Curve::new(&swept, "fixed", |point| point.util);
        assert_eq!(
            curve.least_mem_at(0.7).map(|mem| (mem * 10.0).round()),
            Some(150.0)
        );
        assert_eq!(curve.least_mem_at(0.5), None);
        assert_eq!(curve.is_u_shaped(), Some(0.0));
    }
}
