//! Every planted bug is found: the tool bites.

use headlong_faults::{Check, How, Plan, Plant, run};

/// So many seeds are tried for each.
const SEEDS: u64 = 1000;

/// The first seed that finds a bug, and the check by which it does.
fn first_finder(plant: Plant) -> Option<(u64, Check)> {
    let how = How {
        plant: Some(plant),
        with_lines: false,
    };
    (0..SEEDS).find_map(|seed| {
        let violation = run(&Plan::of(seed), how).violation?;
        Some((seed, violation.check))
    })
}

/// On two threads, as the machines of CI have.
#[test]
fn every_planted_bug_is_found_within_a_thousand_seeds() {
    assert!(Plant::ALL.len() >= 20);
    let missed: Vec<String> = std::thread::scope(|scope| {
        let half = |from: usize| {
            let plants = Plant::ALL.iter().skip(from).step_by(2);
            let missed = |plant: &&Plant| {
                let found = first_finder(**plant);
                println!("{:<24} {found:?}", plant.name());
                found.is_none()
            };
            let missed = plants.filter(missed).map(|plant| plant.name().to_owned());
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
fn names_of_planted_bugs_and_of_checks_are_told_apart() {
    for plant in Plant::ALL {
        assert_eq!(Plant::from_name(plant.name()), Some(*plant));
    }
    let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Check::ALL.len());
}
