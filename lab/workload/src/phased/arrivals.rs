//! Arrival times of the sessions of a log.

use alloc::vec::Vec;

use headlong_random::{Empirical, Generator};

use super::specification::PhasedSpecification;

/// Sorted arrivals: order statistics of a density that is constant within each part.
pub(super) struct ArrivalTimes {
    generator: Generator,
    left: u64,
    sum: f64,
    total: f64,
    law: Option<Empirical>,
}

impl ArrivalTimes {
    pub(super) fn new(specification: &PhasedSpecification, seed: u64) -> Self {
        let visits = &specification.sessions;
        let generator = Generator::new(seed).fork("phased arrivals");
        let weight: f64 = visits.arrivals.iter().sum();
        let part = visits.length_s / visits.arrivals.len().max(1) as f64;
        let (mut points, mut sum) = (Vec::from([(0.0, 0.0)]), 0.0);
        for (index, share) in visits.arrivals.iter().enumerate() {
            sum += share / weight;
            points.push(((index + 1) as f64 * part, libm::fmin(sum, 1.0)));
        }
        if let Some(last) = points.last_mut() {
            last.1 = 1.0;
        }
        // Gaps of a Poisson process divided by their sum are distributed like gaps of sorted
        // uniform draws.
        let mut all = generator.clone();
        let total = (0..=visits.count).map(|_| all.exponential(1.0)).sum();
        Self {
            generator,
            left: visits.count,
            sum: 0.0,
            total,
            law: Empirical::new(points).ok(),
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.left = self.left.checked_sub(1)?;
        self.sum += self.generator.exponential(1.0);
        let share = self.sum / self.total;
        Some(self.law.as_ref().map_or(0.0, |law| law.quantile(share)))
    }
}
