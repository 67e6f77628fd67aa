//! The test of Kolmogorov and Smirnov: could these samples be of that distribution?

use crate::cdf::Cdf;

/// The greatest vertical distance between two distributions of samples (0 to 1).
pub fn ks_distance(first: &Cdf, second: &Cdf) -> f64 {
    // Both are flat between their steps, so the greatest distance is at a step of one of them.
    let values = first.steps().iter().chain(second.steps());
    let apart = values.map(|(x, _)| libm::fabs(first.share_up_to(*x) - second.share_up_to(*x)));
    apart.fold(0.0, f64::max)
}

/// The greatest vertical distance between samples and a continuous distribution function.
pub fn ks_distance_to(samples: &Cdf, function: impl Fn(f64) -> f64) -> f64 {
    let mut below = 0.0;
    let mut greatest = 0.0f64;
    for &(value, weight) in samples.steps() {
        let (share, expected) = (weight / samples.weight(), function(value));
        // Just before the step, and on it.
        greatest = greatest
            .max(libm::fabs(expected - below))
            .max(libm::fabs(share - expected));
        below = share;
    }
    greatest
}

/// The distance that `count` unweighted samples of the very distribution exceed with probability
/// `significance` only (0.05, say): Kolmogorov's limit with the correction of Stephens (1970),
/// within 1 % of the exact values from 8 samples on.
pub fn ks_critical_of_one(count: usize, significance: f64) -> f64 {
    let root = libm::sqrt(count as f64);
    limit(significance) / (root + 0.12 + 0.11 / root)
}

/// The distance that two sets of samples of one distribution exceed with probability
/// `significance` only: Smirnov's limit, good from some twenty samples each.
pub fn ks_critical_of_two(first: usize, second: usize, significance: f64) -> f64 {
    let (first, second) = (first as f64, second as f64);
    limit(significance) * libm::sqrt((first + second) / (first * second))
}

/// Where the tail of Kolmogorov's distribution is `significance`: the first term of its series,
/// `2 exp(-2 c^2)`, is all of it to four digits below 0.2.
fn limit(significance: f64) -> f64 {
    libm::sqrt(-libm::log(significance / 2.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn critical_distances_are_those_of_the_tables() {
        // Exact values: Miller 1956.
        for (count, significance, exact) in [
            (10, 0.05, 0.409_25),
            (20, 0.05, 0.294_08),
            (20, 0.01, 0.352_41),
            (40, 0.05, 0.210_12),
        ] {
            let found = ks_critical_of_one(count, significance);
            assert!(
                libm::fabs(found / exact - 1.0) < 0.01,
                "{count} {significance}: {found}"
            );
        }
        // 1.36 sqrt((m + n) / mn) at 5 %, 1.63 at 1 %: Smirnov 1948.
        assert!(libm::fabs(ks_critical_of_two(50, 200, 0.05) - 1.358 * 0.158_114) < 1e-4);
        assert!(libm::fabs(ks_critical_of_two(50, 200, 0.01) - 1.628 * 0.158_114) < 1e-4);
    }

    #[test]
    fn distances_are_vertical_and_the_greatest() {
        let few = Cdf::of([1.0, 2.0]).expect("samples");
        let more = Cdf::of([1.0, 2.0, 3.0, 4.0]).expect("samples");
        assert_eq!(ks_distance(&few, &more), 0.5);
        assert_eq!(ks_distance(&few, &few), 0.0);
        // One sample in the middle of the unit interval is half away from uniform on both sides.
        let one = Cdf::of([0.5]).expect("a sample");
        assert_eq!(ks_distance_to(&one, |x| x), 0.5);
        let four = Cdf::of([0.125, 0.375, 0.625, 0.875]).expect("samples");
        assert_eq!(ks_distance_to(&four, |x| x), 0.125);
    }

    proptest! {
        #[test]
        fn distance_is_the_same_both_ways_and_a_share(
            a in prop::collection::vec(-50i8..50, 1..40), b in prop::collection::vec(-50i8..50, 1..40),
        ) {
            let cdf = |values: &[i8]| Cdf::of(values.iter().map(|v| f64::from(*v))).expect("samples");
            let (a, b) = (cdf(&a), cdf(&b));
            let there = ks_distance(&a, &b);
            prop_assert_eq!(there, ks_distance(&b, &a));
            prop_assert!((0.0..=1.0).contains(&there));
        }
    }
}
