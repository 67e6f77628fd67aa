//! Compares the rules on a synthetic table with the published shapes: the orders of thesis 5.6.3,
//! by steady figures (the busiest minute's mean over drives, and all time), not the noisy maximum.

mod synthetic;

use headlong_chain_sim::{
    Algorithm, ChainTable, CostPoint, SimulationSettings, Sweep, SweepResult,
};
use headlong_engine::Policy;

fn swept() -> SweepResult {
    let table = ChainTable::new(synthetic::rows(60_000, 1)).expect("chains");
    let sweep = Sweep {
        algorithms: Policy::ALL.iter().copied().map(Algorithm::plain).collect(),
        sizes_mb: (1..=16).map(f64::from).collect(),
    };
    let swept = sweep.run(&table, &SimulationSettings::default(), |_| ());
    swept.expect("points")
}

fn best<'s>(swept: &'s SweepResult, algorithm: &'s str) -> &'s CostPoint {
    let points = swept.of(algorithm);
    points
        .min_by(|one, other| one.util_mean.total_cmp(&other.util_mean))
        .expect("points")
}

#[test]
fn reproduces_orders_of_thesis() {
    let swept = swept();
    let at = |algorithm, size| swept.at(algorithm, size).expect("a point");
    let fixed = best(&swept, "fixed");
    assert!(
        (3.0..=12.0).contains(&fixed.size),
        "fixed is best at {}",
        fixed.size
    );
    assert!(at("fixed", 1.0).util_mean > fixed.util_mean);
    assert!(at("fixed", 16.0).util_mean > fixed.util_mean);
    let root = best(&swept, "square-root");
    assert!(root.util_mean < fixed.util_mean);
    assert!(best(&swept, "proportional").util_mean > root.util_mean);
    let grown = best(&swept, "first-grow");
    assert!(grown.util_mean < root.util_mean);
    assert_eq!(grown.size, 16.0);
    assert_eq!(best(&swept, "first-grow-sr").size, 16.0);
    for size in [8.0, 16.0] {
        let (plain, rooted) = (at("first-grow", size), at("first-grow-sr", size));
        assert!((rooted.util_mean / plain.util_mean - 1.0).abs() < 0.03);
        assert!(rooted.mem < plain.mem);
    }
    for size in [7.0, 8.0] {
        assert!(at("proportional", size).mem < at("fixed", size).mem);
        assert!(at("square-root", size).mem < at("fixed", size).mem);
    }
}
