//! Survival functions and their fits agree with direct computation.

use headlong_chains::{FitPoints, LengthCounts, PowerLaw, PowerLawFit, Survival};
use proptest::collection::vec;
use proptest::prelude::*;

fn survival(lengths: impl IntoIterator<Item = u64>) -> Survival {
    Survival::of(LengthCounts::from_iter(lengths).runs())
}

/// Lengths whose survival is exactly `(x / from)^-c` at every length except the last.
fn pareto(from: f64, c: f64, count: u32) -> impl Iterator<Item = u64> {
    (1..=count).map(move |rank| {
        let longer = f64::from(count - rank).max(0.5) / f64::from(count);
        (from * longer.powf(-1.0 / c)).round() as u64
    })
}

fn close(one: f64, other: f64, within: f64) -> bool {
    (one - other).abs() <= within * other.abs()
}

/// A14 computed directly: the slope through all pairs of points, weighted by the squared distance
/// in x.
fn slope(points: &[(f64, f64)]) -> f64 {
    let (mut over, mut under) = (0.0, 0.0);
    for one in points {
        for other in points {
            over += (one.0 - other.0) * (one.1 - other.1);
            under += (one.0 - other.0) * (one.0 - other.0);
        }
    }
    over / under
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn survival_is_the_share_of_longer_chains(
        lengths in vec(0_u64..50, 1..100),
        at in 0_u64..60,
    ) {
        let longer = lengths.iter().filter(|&&length| length > at).count();
        let found = survival(lengths.iter().copied());
        prop_assert_eq!(found.at(at), longer as f64 / lengths.len() as f64);
    }

    #[test]
    fn merged_lengths_equal_the_whole(
        one in vec(0_u64..30, 0..200),
        other in vec(0_u64..30, 0..200),
    ) {
        let mut merged = LengthCounts::from_iter(one.iter().copied());
        merged.merge(LengthCounts::from_iter(other.iter().copied()));
        let mut whole: Vec<u64> = one.iter().chain(&other).copied().collect();
        whole.sort_unstable();
        let whole = whole.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64));
        prop_assert_eq!(merged.runs(), whole.collect::<Vec<_>>());
    }

    #[test]
    fn segments_are_fitted_to_their_own_points(lengths in vec(1_u64..400, 3..80)) {
        // Lengths of 1 to 400 million bytes, and of 1 to 400 bytes.
        let all = || lengths.iter().flat_map(|&length| [length, length * 1_000_000]);
        let found = survival(all());
        let fit = found.fit(FitPoints::Distinct);
        let largest = all().max().expect("there are some");
        for (segment, (from, to)) in fit.segments.iter().zip([
            (0, 1_000_000),
            (1_000_000, 200_000_000),
            (200_000_000, u64::MAX),
        ]) {
            let mut inside: Vec<u64> = all()
                .filter(|&length| length >= from && length < to && length != largest)
                .collect();
            inside.sort_unstable();
            inside.dedup();
            let points: Vec<_> = inside
                .iter()
                .map(|&length| ((length as f64).ln(), found.at(length).ln()))
                .collect();
            match segment {
                None => prop_assert!(points.len() < 2),
                Some(law) => {
                    prop_assert_eq!(law.points, points.len());
                    prop_assert!(close(law.c, -slope(&points), 1e-9), "{:?} {}", law, slope(&points));
                }
            }
        }
    }
}

#[test]
fn repeated_lengths_are_counted_once() {
    let mut lengths = LengthCounts::from_iter((0..200_000).map(|chain| chain % 1000));
    assert_eq!(lengths.runs().len(), 1000);
    assert!(lengths.runs().iter().all(|&(_, count)| count == 200));
}

#[test]
fn fit_recovers_a_power_law_on_both_kinds_of_points() {
    let found = survival(pareto(1.1e6, 0.543, 5_000));
    for points in [FitPoints::Distinct, FitPoints::Grid] {
        let law = found.fit(points).segments[1].expect("enough lengths");
        assert!(close(law.c, 0.543, 0.01), "{law:?}");
        assert!(close(law.at(10e6), found.at(10_000_000), 0.02), "{law:?}");
        assert!(law.r_squared > 0.999);
    }
    let law = found.fit(FitPoints::Grid).segments[1].expect("enough lengths");
    assert_eq!(law.points, 200);
}

#[test]
fn published_law_has_a_multiplier_of_3_35() {
    let law = PowerLaw {
        a: 1.0,
        c: 0.543,
        points: 2,
        r_squared: 1.0,
    };
    assert!(close(law.multiplier(0.45), 3.35, 0.001));
    let fit = PowerLawFit {
        segments: [None, Some(law), None],
    };
    assert_eq!(fit.growth(0.45), Some(law.multiplier(0.45)));
}

#[test]
fn points_are_lengths_with_the_share_of_longer_chains() {
    let found = survival([10, 20, 20, 30, 40]);
    let points: Vec<_> = found.points().collect();
    assert_eq!(points, [(10, 0.8), (20, 0.4), (30, 0.2), (40, 0.0)]);
}

#[test]
fn no_law_with_fewer_than_two_points() {
    for few in [vec![], vec![5], vec![5, 5, 9], vec![0, 0, 3]] {
        let found = survival(few);
        assert_eq!(found.fit(FitPoints::Distinct).segments, [None; 3]);
        assert_eq!(found.fit(FitPoints::Grid).segments, [None; 3]);
    }
    assert_eq!(survival([]).at(0), 0.0);
}
