//! Number of seeds, out of a range, that find each mutant, or the named ones:
//!
//!     cargo run --release -p headlong-faults --features mutants --example rates -- FIRST_SEED
//!     SEEDS [NAME...]

use std::sync::Mutex;

use headlong_faults::{Mutant, Plan, RunOptions, run};

/// Number of seeds that find a mutant.
fn finds(mutant: Mutant, seeds: std::ops::Range<u64>) -> usize {
    let how = RunOptions {
        mutant: Some(mutant),
        with_lines: false,
    };
    let is_found = |seed: &u64| run(&Plan::of(*seed), how).violation.is_some();
    seeds.filter(is_found).count()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(count)) = (number(0), number(1)) else {
        eprintln!("usage: rates FIRST_SEED SEEDS [NAME...]");
        return;
    };
    let names = &words[2..];
    let is_meant =
        |mutant: &&Mutant| names.is_empty() || names.iter().any(|name| name == mutant.name());
    let left = Mutex::new(Mutant::ALL.iter().filter(is_meant));
    let work = || {
        let next = || left.lock().ok().and_then(|mut left| left.next());
        while let Some(mutant) = next() {
            let found = finds(*mutant, first..first + count);
            println!("{:<24} {found}", mutant.name());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}
