//! Survival function of chain lengths, its power-law fit, and the predicted remaining length of a
//! chain (thesis 5.3.3).
//!
//! `S(x) = P(X > x) = A x^-c` is a straight line on logarithmic axes; three segments, split at 1 MB
//! and 200 MB, describe the published log.

use alloc::vec::Vec;

use libm::{exp, log, pow};

/// Starts of the segments, bytes; each ends where the next starts (thesis 5.3.3).
pub const SEGMENT_STARTS: [u64; 3] = [0, 1_000_000, 200_000_000];

/// Grid points in each segment (A14).
pub const GRID_POINTS: usize = 200;

/// Points that a line is fitted to; this choice alone changes the multiplier by 3-7 % (A14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FitPoints {
    /// Every distinct length except the largest, with equal weights.
    #[default]
    Distinct,
    /// [`GRID_POINTS`] points of each segment, equally spaced in ln x from its smallest to its
    /// largest length (excluding the largest of all).
    Grid,
}

/// The survival function of chain lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Survival {
    /// Each distinct length, ascending, and the number of longer chains.
    longer: Vec<(u64, u64)>,
    total: u64,
}

impl Survival {
    /// Takes lengths in ascending order with their counts
    /// ([`LengthCounts::runs`](crate::LengthCounts::runs)).
    pub fn of(counted: &[(u64, u64)]) -> Self {
        let total = counted.iter().map(|&(_, count)| count).sum();
        let mut left = total;
        let longer = counted.iter().map(|&(length, count)| {
            left -= count;
            (length, left)
        });
        Self {
            longer: longer.collect(),
            total,
        }
    }

    /// Eq. 5.1, left: the share of chains longer than `length` bytes; 0 without chains.
    pub fn at(&self, length: u64) -> f64 {
        let shorter = self.longer.partition_point(|&(other, _)| other <= length);
        let longer = match shorter.checked_sub(1) {
            Some(place) => self.longer[place].1,
            None => self.total,
        };
        self.share(longer)
    }

    /// Each distinct length, ascending, and the share of longer chains.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (u64, f64)> {
        let share = |&(length, longer): &(u64, u64)| (length, self.share(longer));
        self.longer.iter().map(share)
    }

    /// Least squares of ln S on ln x in each segment (A14).
    pub fn fit(&self, points: FitPoints) -> PowerLawFit {
        let mut segments = [None; SEGMENT_STARTS.len()];
        for (place, segment) in segments.iter_mut().enumerate() {
            let from = SEGMENT_STARTS[place];
            let to = SEGMENT_STARTS.get(place + 1).copied();
            // The largest length has S = 0, which has no logarithm.
            let inside: Vec<_> = self
                .points()
                .filter(|&(x, share)| {
                    x > 0 && x >= from && to.is_none_or(|to| x < to) && share > 0.0
                })
                .map(|(x, share)| (log(x as f64), log(share)))
                .collect();
            *segment = match points {
                FitPoints::Distinct => PowerLaw::through(&inside),
                FitPoints::Grid => PowerLaw::through(&on_grid(&inside)),
            };
        }
        PowerLawFit { segments }
    }

    fn share(&self, longer: u64) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        longer as f64 / self.total as f64
    }
}

/// The step function given by `inside`, sampled at points equally spaced between its first and
/// last.
fn on_grid(inside: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(&(first, _)), Some(&(last, _))) = (inside.first(), inside.last()) else {
        return Vec::new();
    };
    if first == last {
        return Vec::new();
    }
    let steps = (GRID_POINTS - 1) as f64;
    let mut place = 0;
    (0..GRID_POINTS)
        .map(|step| {
            let is_last = step + 1 == GRID_POINTS;
            let x = if is_last {
                last
            } else {
                first + (last - first) * (step as f64 / steps)
            };
            while inside.get(place + 1).is_some_and(|next| next.0 <= x) {
                place += 1;
            }
            (x, inside[place].1)
        })
        .collect()
}

/// The three power laws of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLawFit {
    /// One for each of [`SEGMENT_STARTS`]; `None` with fewer than two points.
    pub segments: [Option<PowerLaw>; SEGMENT_STARTS.len()],
}

impl PowerLawFit {
    /// Growth factor of prefetches: the multiplier of the middle segment, 1 MB to 200 MB. 3.35 for
    /// the published log at a survival of 0.45 (thesis 5.3.3).
    pub fn growth(&self, survival: f64) -> Option<f64> {
        Some(self.segments[1]?.multiplier(survival))
    }
}

/// `S(x) = A x^-c` (Eq. 5.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLaw {
    /// Factor A.
    pub a: f64,
    /// Exponent c.
    pub c: f64,
    /// Number of points fitted.
    pub points: usize,
    /// Share of the variance of ln S that it explains.
    pub r_squared: f64,
}

impl PowerLaw {
    /// Least squares through logarithms of lengths and shares; `None` with fewer than two points.
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let x_mean = points.iter().map(|point| point.0).sum::<f64>() / count;
        let y_mean = points.iter().map(|point| point.1).sum::<f64>() / count;
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for &(x, y) in points {
            xx += (x - x_mean) * (x - x_mean);
            xy += (x - x_mean) * (y - y_mean);
            yy += (y - y_mean) * (y - y_mean);
        }
        if points.len() < 2 {
            return None;
        }
        let slope = xy / xx;
        Some(Self {
            a: exp(y_mean - slope * x_mean),
            c: -slope,
            points: points.len(),
            r_squared: if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 },
        })
    }

    /// Eq. 5.1, right: the share of chains longer than `length` bytes.
    pub fn at(&self, length: f64) -> f64 {
        self.a * pow(length, -self.c)
    }

    /// Eq. 5.3 divided by x: the distance that a chain continues with probability `survival`, as a
    /// multiple of its length. (The thesis once calls it the total length; the formula gives the
    /// added length.)
    pub fn multiplier(&self, survival: f64) -> f64 {
        pow(survival, -1.0 / self.c) - 1.0
    }
}
