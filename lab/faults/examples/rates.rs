//! How many of some seeds find each planted bug, or those that are named:
//!
//!     cargo run --release -p headlong-faults --example rates -- FIRST_SEED SEEDS [NAME...]

use std::sync::Mutex;

use headlong_faults::{How, Plan, Plant, run};

/// How many seeds find a bug.
fn finds(plant: Plant, seeds: std::ops::Range<u64>) -> usize {
    let how = How {
        plant: Some(plant),
        with_lines: false,
    };
    let is_found = |seed: &u64| run(&Plan::of(*seed), how).violation.is_some();
    seeds.filter(is_found).count()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(count)) = (number(0), number(1)) else {
        eprintln!("which seeds? FIRST_SEED SEEDS [NAME...]");
        return;
    };
    let names = &words[2..];
    let is_meant =
        |plant: &&Plant| names.is_empty() || names.iter().any(|name| name == plant.name());
    let left = Mutex::new(Plant::ALL.iter().filter(is_meant));
    let work = || {
        let next = || left.lock().ok().and_then(|mut left| left.next());
        while let Some(plant) = next() {
            let found = finds(*plant, first..first + count);
            println!("{:<24} {found}", plant.name());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}
