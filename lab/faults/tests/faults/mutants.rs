//! The simulator finds every mutant of the production code.

use headlong_faults::{Check, Mutant, Plan, RunOptions, run, shrink};

/// Number of seeds tried for each.
const SEEDS: u64 = 1000;

/// The first seed that finds a mutant, and the failed check.
fn first_finder(mutant: Mutant) -> Option<(u64, Check)> {
    let how = RunOptions {
        mutant: Some(mutant),
        with_lines: false,
    };
    (0..SEEDS).find_map(|seed| {
        let violation = run(&Plan::of(seed), how).violation?;
        Some((seed, violation.check))
    })
}

/// On two threads, as the CI machines have.
#[test]
fn every_mutant_is_found_within_thousand_seeds() {
    assert!(Mutant::ALL.len() >= 31);
    let missed: Vec<String> = std::thread::scope(|scope| {
        let half = |from: usize| {
            let mutants = Mutant::ALL.iter().skip(from).step_by(2);
            let missed = |mutant: &&Mutant| {
                let found = first_finder(**mutant);
                println!("{:<24} {found:?}", mutant.name());
                found.is_none()
            };
            let missed = mutants
                .filter(missed)
                .map(|mutant| mutant.name().to_owned());
            missed.collect::<Vec<_>>()
        };
        let other = scope.spawn(move || half(1));
        let mut missed = half(0);
        missed.extend(other.join().expect("no panic"));
        missed
    });
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn names_of_mutants_and_checks_are_unique() {
    for mutant in Mutant::ALL {
        assert_eq!(Mutant::from_name(mutant.name()), Some(*mutant));
    }
    let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Check::ALL.len());
}

#[test]
fn shrunk_plan_fails_same_check() {
    let how = RunOptions {
        mutant: Some(Mutant::SlotKept),
        with_lines: false,
    };
    let found = (0..100).find_map(|seed| {
        let plan = Plan::of(seed);
        let violation = run(&plan, how).violation?;
        (plan.len() > 12).then_some((plan, violation))
    });
    let (plan, violation) = found.expect("a failing seed");
    let shrunk = shrink(&plan, how).expect("a failing plan");
    assert_eq!(shrunk.violation.check, violation.check);
    assert!(
        shrunk.plan.len() * 2 < plan.len(),
        "{} of {}",
        shrunk.plan.len(),
        plan.len()
    );
    assert_eq!(run(&shrunk.plan, how).violation, Some(shrunk.violation));
}
