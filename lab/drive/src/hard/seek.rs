//! Seek curve: the time of the arm as a function of distance.
//!
//! Settle time, then a square root of the distance while the arm accelerates and brakes, then
//! straight lines once it coasts. The lines go through measured points, so that three strokes of a
//! seek test are matched exactly for any drive.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Settle time as a fraction of the arm's time for a quarter of the stroke, where only longer
/// strokes were measured.
///
/// Over the five seek curves extracted for DiskSim (Atlas 10K, Cheetah 9LP, Barracuda, Atlas III,
/// 18ES) 0.24 gives the closest fit, 2 to 7 % root mean square from 0.1 % of the stroke to all of
/// it.
pub(crate) const SETTLE_PER_QUARTER: f64 = 0.24;

/// A measured point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekKnot {
    /// Distance as a fraction of the full stroke, by cylinders, from 0 (excluded) to 1.
    pub stroke: f64,
    /// Time of the arm alone, without rotation and overhead, in microseconds.
    pub arm_us: u32,
}

/// Time of the arm as a function of distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekCurve {
    /// Time of the shortest seek to another cylinder, in microseconds.
    pub settle_us: u32,
    /// Points in order of increasing distance. Up to the first the curve is a square root, then
    /// straight lines; the last line extends beyond the last point.
    pub knots: Vec<SeekKnot>,
}

impl SeekCurve {
    /// The curve through three measured strokes, given as (fraction of the full stroke,
    /// microseconds of the arm alone) in increasing order. The settle time follows from the first.
    pub fn through(points: [(f64, f64); 3]) -> Self {
        let knots = points.map(|(stroke, arm_us)| SeekKnot {
            stroke,
            arm_us: libm::round(arm_us.max(0.0)) as u32,
        });
        Self {
            settle_us: libm::round(points[0].1.max(0.0) * SETTLE_PER_QUARTER) as u32,
            knots: knots.to_vec(),
        }
    }

    /// The curve for a given average seek in microseconds: the mean shape of the five DiskSim
    /// curves, in which a third of the stroke (the average of random seeks) takes 0.556 of the full
    /// stroke, a quarter 0.499 and half 0.661.
    pub fn from_average(average_us: f64) -> Self {
        let full = average_us / 0.556;
        Self::through([(0.25, full * 0.499), (0.5, full * 0.661), (1.0, full)])
    }

    /// The same curve with all times multiplied by a factor.
    pub fn scaled(&self, factor: f64) -> Self {
        let scaled = |us: u32| libm::round(f64::from(us) * factor.max(0.0)) as u32;
        let knot = |knot: &SeekKnot| SeekKnot {
            arm_us: scaled(knot.arm_us),
            ..*knot
        };
        Self {
            settle_us: scaled(self.settle_us),
            knots: self.knots.iter().map(knot).collect(),
        }
    }

    /// Lower bound of seeks to another cylinder, in nanoseconds; zero if the curve decreases
    /// anywhere.
    pub(crate) fn least_ns(&self) -> u64 {
        let mut last_us = self.settle_us;
        for knot in &self.knots {
            if knot.arm_us < last_us {
                return 0;
            }
            last_us = knot.arm_us;
        }
        u64::from(self.settle_us) * 1_000
    }

    /// Time of the arm for a fraction of the stroke, in nanoseconds; zero for no distance.
    pub fn time_ns(&self, stroke: f64) -> u64 {
        if stroke.is_nan() || stroke <= 0.0 {
            return 0;
        }
        let settle = f64::from(self.settle_us) * 1e3;
        let Some(first) = self.knots.first() else {
            return settle as u64;
        };
        if stroke <= first.stroke {
            let rise = f64::from(first.arm_us) * 1e3 - settle;
            return (settle + rise * libm::sqrt(stroke / first.stroke)).max(0.0) as u64;
        }
        let mut line = (*first, *first);
        for pair in self.knots.windows(2) {
            line = (pair[0], pair[1]);
            if stroke <= line.1.stroke {
                break;
            }
        }
        let (from, to) = (
            f64::from(line.0.arm_us) * 1e3,
            f64::from(line.1.arm_us) * 1e3,
        );
        let span = line.1.stroke - line.0.stroke;
        if span <= 0.0 {
            return to as u64;
        }
        (from + (to - from) * (stroke - line.0.stroke) / span).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fractions of the stroke, and seek times in milliseconds of the curves extracted for DiskSim
    /// (the .seek files of its validation folder).
    const STROKES: [f64; 9] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.33, 0.5, 0.75, 1.0];
    const EXTRACTED: [(&str, [f64; 9]); 5] = [
        (
            "Atlas 10K",
            [1.53, 2.01, 3.21, 3.82, 5.22, 5.63, 6.81, 8.55, 10.83],
        ),
        (
            "Cheetah 9LP",
            [1.27, 1.95, 2.87, 3.64, 4.93, 5.62, 6.85, 8.66, 10.63],
        ),
        (
            "Barracuda",
            [2.18, 3.77, 5.49, 6.14, 8.70, 9.48, 11.28, 14.01, 16.68],
        ),
        (
            "Atlas III",
            [2.20, 3.31, 4.79, 5.65, 7.64, 8.60, 10.16, 12.85, 15.36],
        ),
        (
            "18ES",
            [1.82, 2.94, 4.45, 5.05, 6.84, 7.73, 8.91, 10.74, 12.85],
        ),
    ];

    #[test]
    fn three_strokes_fit_measured_curve_within_ten_percent() {
        for (name, times) in EXTRACTED {
            let points = [(0.25, times[4]), (0.5, times[6]), (1.0, times[8])];
            let curve = SeekCurve::through(points.map(|(x, ms)| (x, ms * 1e3)));
            let error = |(stroke, ms): (&f64, &f64)| {
                let relative = curve.time_ns(*stroke) as f64 / (ms * 1e6) - 1.0;
                relative * relative
            };
            let squares: f64 = STROKES.iter().zip(&times).map(error).sum();
            let rms = libm::sqrt(squares / STROKES.len() as f64);
            assert!(rms <= 0.10, "{name}: {rms}");
        }
    }

    #[test]
    fn average_seek_is_seek_over_third_of_stroke() {
        let curve = SeekCurve::from_average(7_400.0);
        let third = curve.time_ns(1.0 / 3.0) as f64 / 1e3;
        assert!((third / 7_400.0 - 1.0).abs() < 0.02, "{third}");
    }

    #[test]
    fn curve_without_knots_is_settle_time() {
        let curve = SeekCurve {
            settle_us: 900,
            knots: Vec::new(),
        };
        assert_eq!((curve.time_ns(0.0), curve.time_ns(0.7)), (0, 900_000));
        assert_eq!(curve.time_ns(f64::NAN), 0);
    }
}
