//! How long chains live: power laws in three segments (thesis 5.3.3, Eq. 5.1, rule A14).

/// Where one segment ends and the next begins, bytes.
const BREAKS: [f64; 2] = [1e6, 200e6];

/// Exponents c of S(x) = A x^-c in the three segments, from lengths in ascending order: least
/// squares of ln S on ln x over every distinct length but the largest. 0 where there are too few.
pub(super) fn slopes(sorted: &[u64]) -> [f64; 3] {
    let count = sorted.len() as f64;
    let mut sums = [[0.0f64; 5]; 3];
    for (index, pair) in sorted.windows(2).enumerate() {
        if pair[0] == pair[1] || pair[0] == 0 {
            continue;
        }
        let length = pair[0] as f64;
        let survive = (count - index as f64 - 1.0) / count;
        let (x, y) = (libm::log(length), libm::log(survive));
        let segment = BREAKS.iter().filter(|end| length >= **end).count();
        for (sum, term) in sums[segment].iter_mut().zip([1.0, x, y, x * x, x * y]) {
            *sum += term;
        }
    }
    sums.map(|[n, x, y, xx, xy]| {
        let spread = n * xx - x * x;
        if n < 3.0 || spread <= 0.0 {
            0.0
        } else {
            -(n * xy - x * y) / spread
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn lengths_of_a_power_law_give_its_exponent() {
        let count = 20_000;
        // Quantiles of S(x) = (x / 1e6)^-0.543 from 1 MB.
        let mut lengths: Vec<u64> = (1..count)
            .map(|index| {
                let share = index as f64 / count as f64;
                libm::round(1e6 * libm::pow(share, -1.0 / 0.543)) as u64
            })
            .collect();
        lengths.sort_unstable();
        let [_, middle, end] = slopes(&lengths);
        assert!(libm::fabs(middle - 0.543) < 0.01, "{middle}");
        assert!(libm::fabs(end - 0.543) < 0.05, "{end}");
    }
}
