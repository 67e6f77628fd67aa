//! Student's t distribution, by means of the incomplete beta function.

use crate::normal::normal_quantile;

/// Above this number of degrees of freedom the normal distribution is the same to nine digits.
const FREEDOM_NORMAL: f64 = 1e7;
/// Maximum number of terms of the continued fraction; it needs about the square root of the degrees
/// of freedom.
const TERMS_MAX: usize = 20_000;
/// Bisection steps for a quantile: more than the number of bits of a value.
const HALVINGS: usize = 128;

/// The probability that a variable with `freedom` degrees of freedom lies above `t` (for `t >= 0`).
///
/// `I_x(v/2, 1/2) / 2` with `x = v / (v + t^2)`: Abramowitz and Stegun 26.7.1. NaN unless `freedom
/// > 0` and `t >= 0`.
pub(crate) fn student_t_tail(t: f64, freedom: f64) -> f64 {
    if !(freedom > 0.0 && t >= 0.0) {
        return f64::NAN;
    }
    let (share, rest) = (freedom / (freedom + t * t), t * t / (freedom + t * t));
    incomplete_beta(share, rest, freedom / 2.0, 0.5) / 2.0
}

/// The value below which a variable with `freedom` degrees of freedom lies with probability
/// `share`. The degrees of freedom need not be an integer (Welch). NaN unless `0 < share < 1` and
/// `freedom > 0`.
pub(crate) fn student_t_quantile(share: f64, freedom: f64) -> f64 {
    if !(share > 0.0 && share < 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if freedom > FREEDOM_NORMAL {
        return normal_quantile(share);
    }
    let tail = share.min(1.0 - share);
    let mut high = 1.0;
    while student_t_tail(high, freedom) > tail && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        if student_t_tail(middle, freedom) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    let t = low + (high - low) / 2.0;
    if share < 0.5 { -t } else { t }
}

/// `I_x(a, b)`, with `x` and `1 - x` given separately so that neither loses digits.
fn incomplete_beta(x: f64, rest: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if rest <= 0.0 {
        return 1.0;
    }
    let beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log(rest) - beta);
    // The fraction converges quickly on one side of the mean; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(rest, b, a) / b
    }
}

/// The continued fraction of Abramowitz and Stegun 26.5.8, by Lentz's method: evaluated from the
/// front, with numerators and denominators kept away from zero.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |value: f64| {
        if libm::fabs(value) < TINY {
            TINY
        } else {
            value
        }
    };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = denominator;
    for term in 1..TERMS_MAX {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            denominator = 1.0 / away(1.0 + coefficient * denominator);
            numerator = away(1.0 + coefficient / numerator);
            change = numerator * denominator;
            fraction *= change;
        }
        if libm::fabs(change - 1.0) < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_match_published_tables() {
        // NIST/SEMATECH e-Handbook 1.3.6.7.2, with additional digits from the closed forms and from
        // R.
        for (share, freedom, value) in [
            (0.975, 1.0, 12.706_204_736),
            (0.975, 2.0, 4.302_652_730),
            (0.975, 4.0, 2.776_445_105),
            (0.975, 9.0, 2.262_157_163),
            (0.975, 10.0, 2.228_138_852),
            (0.975, 30.0, 2.042_272_456),
            (0.975, 100.0, 1.983_971_519),
            (0.975, 1000.0, 1.962_339_081),
            (0.95, 5.0, 2.015_048_373),
            (0.995, 10.0, 3.169_272_673),
            (0.9995, 1.0, 636.619_248_77),
            (0.025, 10.0, -2.228_138_852),
            (0.5, 3.0, 0.0),
        ] {
            let found = student_t_quantile(share, freedom);
            assert!(
                libm::fabs(found - value) < 2e-9 * value.abs().max(1.0),
                "{share} {freedom}: {found}"
            );
        }
    }

    #[test]
    fn many_degrees_of_freedom_give_the_normal_distribution() {
        for freedom in [1e6, 9e6, 1e8, f64::INFINITY] {
            let found = student_t_quantile(0.975, freedom);
            assert!(libm::fabs(found - 1.959_964) < 5e-6, "{freedom}: {found}");
        }
    }

    #[test]
    fn invalid_arguments_give_nan() {
        assert!(student_t_quantile(1.0, 5.0).is_nan());
        assert!(student_t_quantile(0.9, 0.0).is_nan());
        assert!(student_t_quantile(f64::NAN, 5.0).is_nan());
        assert!(student_t_tail(-1.0, 5.0).is_nan());
    }

    proptest! {
        #[test]
        fn tail_and_quantile_are_inverse(share in 0.001..0.999f64, freedom in 0.5..500.0f64) {
            let t = student_t_quantile(share, freedom);
            let tail = share.min(1.0 - share);
            prop_assert!(libm::fabs(student_t_tail(libm::fabs(t), freedom) - tail) < 1e-9);
        }
    }
}
