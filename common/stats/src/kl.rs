//! The Kullback-Leibler divergence of two distributions (1951), from which FlashStream 3.1
//! determines the optimal block size of an SSD.
//!
//! Samples are counted in common bins. The paper does not specify its bins; here the bins have
//! equal *ratios* of their edges (latencies that differ by a tenth differ equally at 1 ms and at 1
//! s), are not finer than [`RESOLUTION`], and number at most [`BINS`]. The limit reduces noise: two
//! samples of n values each from the same distribution over k bins diverge by about (k - 1) / n,
//! and 19 / 640 writes is 0.03, well below the paper's threshold of 0.1.
//!
//! Values closer than the resolution must not appear different because a bin edge lies between
//! them, so the divergence is computed for two sets of bins, offset by half a bin, and the smaller
//! result is used.

use alloc::vec::Vec;

use crate::sample_error::SampleError;

/// Maximum number of bins.
pub const BINS: usize = 20;

/// The smallest ratio of the upper edge of a bin to its lower edge: values closer than half of it
/// count as equal.
pub const RESOLUTION: f64 = 1.2;

/// The initial count of every bin (Jeffreys' half an observation). Without it, one value of `first`
/// in a bin where `second` has none would make the divergence infinite.
const SMOOTHING: f64 = 0.5;

/// The divergence in nats of the distribution of `first` from that of `second` (`D(first ||
/// second)`: the information lost when the second is used in place of the first). Zero means equal.
///
/// # Errors
/// If either list is empty or contains a value that is not finite and above zero.
pub fn kl_divergence(first: &[f64], second: &[f64]) -> Result<f64, SampleError> {
    let (mut min, mut max) = (f64::INFINITY, 0.0f64);
    for samples in [first, second] {
        if samples.is_empty() {
            return Err(SampleError::TooFew {
                found: 0,
                needed: 1,
            });
        }
        for (index, &value) in samples.iter().enumerate() {
            if !value.is_finite() {
                return Err(SampleError::NotFinite { index });
            }
            if value <= 0.0 {
                return Err(SampleError::NotPositive { index });
            }
            min = min.min(value);
            max = max.max(value);
        }
    }
    let span = libm::log(max) - libm::log(min);
    let width = (span / (BINS - 1) as f64).max(libm::log(RESOLUTION));
    let count = libm::floor(span / width) as usize + 2;
    let laid = [0.0, 0.5].map(|shift| {
        // At most half a bin lower, so that the smallest value is in the first bin in both cases.
        let origin = libm::log(min) - shift * width;
        let shares = |samples: &[f64]| shares(samples, origin, width, count);
        kl_of_shares(&shares(first), &shares(second))
    });
    Ok(laid[0].min(laid[1]))
}

/// The divergence in nats of two lists of probabilities over the same bins; infinite if the second
/// list has zero where the first does not.
pub fn kl_of_shares(first: &[f64], second: &[f64]) -> f64 {
    let pairs = first.iter().zip(second).filter(|(share, _)| **share > 0.0);
    let parts = pairs.map(|(first, second)| first * libm::log(first / second));
    // Rounding can give a result slightly below zero, which is impossible for a divergence.
    parts.sum::<f64>().max(0.0)
}

fn shares(samples: &[f64], origin: f64, width: f64, count: usize) -> Vec<f64> {
    let mut bins = alloc::vec![SMOOTHING; count];
    for value in samples {
        let bin = ((libm::log(*value) - origin) / width) as usize;
        bins[bin.min(count - 1)] += 1.0;
    }
    let total = samples.len() as f64 + SMOOTHING * count as f64;
    bins.iter_mut().for_each(|bin| *bin /= total);
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    #[test]
    fn the_divergence_of_shares_matches_the_published_value() {
        // The worked example of the encyclopaedia article on the divergence: binomial(2, 0.4)
        // against uniform, in both directions.
        let (p, q) = ([9.0 / 25.0, 12.0 / 25.0, 4.0 / 25.0], [1.0 / 3.0; 3]);
        assert!(libm::fabs(kl_of_shares(&p, &q) - 0.085_299_6) < 1e-7);
        assert!(libm::fabs(kl_of_shares(&q, &p) - 0.097_455_0) < 1e-7);
        assert_eq!(kl_of_shares(&[1.0, 0.0], &[0.0, 1.0]), f64::INFINITY);
    }

    #[test]
    fn garbage_collection_spikes_are_far_above_the_threshold() {
        // FlashStream Figure 1: 8 MB writes of about 100 ms; at random, one in ten takes 800 to
        // 1000 ms.
        let steady: Vec<f64> = (0..640).map(|i| 90.0 + f64::from(i % 20)).collect();
        let spiky = steady.iter().enumerate().map(|(i, value)| match i % 10 {
            0 => 800.0 + (i % 200) as f64,
            _ => *value,
        });
        let divergence = kl_divergence(&spiky.collect::<Vec<_>>(), &steady).expect("samples");
        assert!(divergence > 0.2, "{divergence}");
    }

    #[test]
    fn a_bin_edge_between_close_values_makes_no_difference() {
        // For any smallest value that determines the position of the bins.
        for least in [10.0, 11.0, 12.0, 13.0, 14.0] {
            let with_least = |value: f64| {
                let mut samples = vec![value; 639];
                samples.push(least);
                samples
            };
            let divergence = kl_divergence(&with_least(40.0), &with_least(41.0)).expect("samples");
            assert!(divergence < 0.01, "{least}: {divergence}");
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        let fine = [1.0];
        assert!(kl_divergence(&[], &fine).is_err());
        assert_eq!(
            kl_divergence(&[1.0, 0.0], &fine),
            Err(SampleError::NotPositive { index: 1 })
        );
        assert_eq!(
            kl_divergence(&fine, &[f64::NAN]),
            Err(SampleError::NotFinite { index: 0 })
        );
    }

    proptest! {
        #[test]
        fn the_divergence_is_finite_and_never_negative(
            a in prop::collection::vec(1e-9..1e9f64, 1..50), b in prop::collection::vec(1e-9..1e9f64, 1..50),
        ) {
            let divergence = kl_divergence(&a, &b).expect("samples");
            prop_assert!(divergence.is_finite() && divergence >= 0.0);
            prop_assert!(kl_divergence(&a, &a).expect("samples") < 1e-12);
        }

        #[test]
        fn halves_of_one_distribution_stay_below_the_threshold(seed: u64) {
            // A multiplicative sequence: any even distribution over a decade is suitable.
            let draw = |i: u64| {
                let x = (seed | 1).wrapping_mul(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                libm::exp2((x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / u64::MAX as f64 * 3.3)
            };
            let first: Vec<f64> = (0..640).map(draw).collect();
            let second: Vec<f64> = (640..1280).map(draw).collect();
            let divergence = kl_divergence(&first, &second).expect("samples");
            prop_assert!(divergence < 0.1, "{}", divergence);
        }
    }
}
