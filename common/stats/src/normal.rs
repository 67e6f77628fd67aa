//! The quantiles of the normal distribution.

use core::f64::consts::{PI, SQRT_2};

/// The value below which a standard normal variable lies with probability `share`.
///
/// Hastings' rational approximation (Abramowitz and Stegun 26.2.23, error below 4.5e-4), followed
/// by Halley's method on the distribution function, each step of which triples the number of
/// digits. NaN unless `0 < share < 1`.
pub(crate) fn normal_quantile(share: f64) -> f64 {
    if !(share > 0.0 && share < 1.0) {
        return f64::NAN;
    }
    // Computed in the nearer tail, where a probability keeps all its digits.
    let tail = share.min(1.0 - share);
    let t = libm::sqrt(-2.0 * libm::log(tail));
    let mut x = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    for _ in 0..3 {
        let error = libm::erfc(x / SQRT_2) / 2.0 - tail;
        let step = -error * libm::sqrt(2.0 * PI) * libm::exp(x * x / 2.0);
        x -= step / (1.0 + x * step / 2.0);
    }
    if share < 0.5 { -x } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_published_tables() {
        for (share, value) in [
            (0.5, 0.0),
            (0.9, 1.281_551_565_5),
            (0.95, 1.644_853_627_0),
            (0.975, 1.959_963_984_5),
            (0.995, 2.575_829_303_5),
            (0.999_95, 3.890_591_886_4),
            (1e-10, -6.361_340_902_4),
        ] {
            let found = normal_quantile(share);
            assert!(libm::fabs(found - value) < 1e-9, "{share}: {found}");
        }
    }

    #[test]
    fn an_invalid_probability_has_no_quantile() {
        for share in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
            assert!(normal_quantile(share).is_nan());
        }
    }
}
