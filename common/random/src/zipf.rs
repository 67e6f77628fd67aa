//! Zipf's law for a finite catalogue, by its exact distribution function.

use alloc::vec::Vec;

use crate::Generator;

/// Popularity of `count` titles: the title of rank r (from 1) is requested with a probability
/// proportional to 1 / r^alpha (thesis 3.2.1: alpha 0.8; FlashStream 5.1: 0.2).
///
/// It uses eight bytes per title: catalogues have thousands of titles, and an exact table needs no
/// rejection.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    /// The fraction of requests for ranks up to and including this one.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The distribution for `count` titles, at least one.
    pub fn new(count: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count.max(1)).map(|rank| {
            sum += libm::pow(rank as f64, -alpha);
            sum
        });
        let mut cumulative: Vec<f64> = weights.collect();
        cumulative.iter_mut().for_each(|value| *value /= sum);
        Self { cumulative }
    }

    /// A random rank, from 0.
    pub fn sample(&self, generator: &mut Generator) -> usize {
        let unit = generator.unit();
        let rank = self.cumulative.partition_point(|&value| value <= unit);
        rank.min(self.cumulative.len() - 1)
    }

    /// The probability of `rank`, from 0; zero beyond the catalogue.
    pub fn probability(&self, rank: usize) -> f64 {
        let Some(&upper) = self.cumulative.get(rank) else {
            return 0.0;
        };
        upper
            - rank
                .checked_sub(1)
                .map_or(0.0, |before| self.cumulative[before])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn probabilities_decrease_with_the_power_of_the_rank() {
        let zipf = Zipf::new(10_000, 0.8);
        let ratio = zipf.probability(0) / zipf.probability(9);
        assert!(libm::fabs(ratio - libm::pow(10.0, 0.8)) < 1e-6, "{ratio}");
        let sum: f64 = (0..10_000).map(|rank| zipf.probability(rank)).sum();
        assert!(libm::fabs(sum - 1.0) < 1e-9);
        assert_eq!(zipf.probability(10_000), 0.0);
    }

    #[test]
    fn samples_follow_the_distribution() {
        let zipf = Zipf::new(500, 0.8);
        let mut generator = Generator::new(42);
        let mut counts = vec![0u64; 500];
        for _ in 0..100_000 {
            counts[zipf.sample(&mut generator)] += 1;
        }
        let (mut expected, mut seen, mut distance) = (0.0, 0u64, 0.0f64);
        for (rank, count) in counts.iter().enumerate() {
            expected += zipf.probability(rank);
            seen += count;
            distance = distance.max(libm::fabs(expected - seen as f64 / 100_000.0));
        }
        assert!(distance < 1.95 / libm::sqrt(100_000.0), "{distance}");
    }

    #[test]
    fn an_empty_catalogue_counts_as_one_title() {
        assert_eq!(Zipf::new(0, 0.8).sample(&mut Generator::new(1)), 0);
    }
}
