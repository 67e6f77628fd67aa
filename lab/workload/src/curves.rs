//! Named distributions that a specification can use instead of listing points.
//!
//! The thesis shows its distributions of durations and of viewing fractions only as pictures
//! (Figures 3.3 and 3.4). The points below were constructed: they have the features named in the
//! text, and the means of Table 3.3 and section 4.4. See docs/lab/workload.md.

use alloc::string::{String, ToString};

use headlong_random::Empirical;

/// A distribution with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the specification; `inline` if its points were listed.
    pub name: String,
    /// The distribution.
    pub law: Empirical,
}

impl Curve {
    /// A constant.
    pub fn constant(value: f64) -> Self {
        let value = if value.is_finite() { value } else { 0.0 };
        Self::of("constant", &[(value, 0.0), (value, 1.0)])
    }

    /// A curve whose points are listed.
    pub(crate) fn inline(law: &Empirical) -> Self {
        Self {
            name: "inline".to_string(),
            law: law.clone(),
        }
    }

    /// The curve of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        let (_, points) = CURVES.iter().find(|(known, _)| *known == name)?;
        Some(Self::of(name, points))
    }

    /// A curve that exists.
    pub(crate) fn known(name: &str) -> Self {
        Self::named(name).unwrap_or_else(|| Self::constant(1.0))
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CURVES.iter().map(|(name, _)| *name)
    }

    fn of(name: &str, points: &[(f64, f64)]) -> Self {
        let law = Empirical::new(points.to_vec());
        Self {
            name: name.to_string(),
            law: law.expect("a constant is a curve, and a test covers every named one"),
        }
    }
}

/// Name and points of every curve: a value in seconds or a fraction, and its cumulative share.
const CURVES: &[(&str, &[(f64, f64)])] = &[
    ("youtube-2011-duration", YOUTUBE_2011_DURATION),
    ("youtube-2011-fraction", YOUTUBE_2011_FRACTION),
    ("whole", &[(1.0, 0.0), (1.0, 1.0)]),
    ("uniform", &[(0.0, 0.0), (1.0, 1.0)]),
];

/// Durations of titles in seconds (thesis 3.2.1, Figure 3.3): steepest at the 200 s of a music
/// video, a step at YouTube's limit of 600 s, then a long thin tail. Mean 259.3 s: the catalogues
/// of the thesis have means of 258.7 s (Table 3.3) and 267 s (4.4.2).
const YOUTUBE_2011_DURATION: &[(f64, f64)] = &[
    (10.0, 0.0),
    (20.0, 0.02),
    (40.0, 0.065),
    (60.0, 0.12),
    (90.0, 0.2),
    (120.0, 0.28),
    (150.0, 0.36),
    (180.0, 0.435),
    (195.0, 0.485),
    (205.0, 0.535),
    (225.0, 0.59),
    (240.0, 0.63),
    (270.0, 0.695),
    (300.0, 0.745),
    (360.0, 0.81),
    (420.0, 0.85),
    (480.0, 0.88),
    (540.0, 0.905),
    (590.0, 0.925),
    (600.0, 0.96),
    (660.0, 0.967),
    (900.0, 0.979),
    (1800.0, 0.9937),
    (3600.0, 1.0),
];

/// Fraction of a title that a session downloads (thesis 3.2.2, Figure 3.4): many leave early, more
/// than a quarter watch to the end. Mean 0.546, so that sessions of the durations above, rounded up
/// to 10 s, last the 146.3 s of Table 3.3.
const YOUTUBE_2011_FRACTION: &[(f64, f64)] = &[
    (0.0, 0.0),
    (0.05, 0.08),
    (0.1, 0.15),
    (0.2, 0.265),
    (0.3, 0.355),
    (0.4, 0.435),
    (0.5, 0.5),
    (0.6, 0.556),
    (0.7, 0.602),
    (0.8, 0.643),
    (0.9, 0.678),
    (0.98, 0.703),
    (1.0, 0.718),
    (1.0, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Empirical {
        Curve::named(name).expect("a known curve").law
    }

    #[test]
    fn named_curves_are_distribution_functions() {
        for (name, points) in CURVES {
            assert!(Empirical::new(points.to_vec()).is_ok(), "{name}");
        }
        assert_eq!(Curve::named("youtube-2099"), None);
    }

    #[test]
    fn youtube_curves_match_thesis() {
        let duration = named("youtube-2011-duration");
        assert!((257.0..267.0).contains(&duration.mean()), "{duration:?}");
        let per_second =
            |from, to| (duration.share_below(to) - duration.share_below(from)) / (to - from);
        let peak = per_second(195.0, 205.0);
        for from in [10.0, 60.0, 120.0, 150.0, 180.0, 205.0, 240.0, 300.0, 480.0] {
            assert!(peak > per_second(from, from + 10.0), "at {from} s");
        }
        assert!(per_second(590.0, 600.0) > 5.0 * per_second(540.0, 590.0));
        let fraction = named("youtube-2011-fraction");
        assert!((0.53..0.56).contains(&fraction.mean()), "{fraction:?}");
    }

    #[test]
    fn constant_curve_has_one_value() {
        let law = Curve::constant(120.0).law;
        assert_eq!(
            (law.quantile(0.0), law.mean(), law.quantile(1.0)),
            (120.0, 120.0, 120.0)
        );
    }
}
