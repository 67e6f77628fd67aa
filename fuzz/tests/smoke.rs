//! Runs every target on its committed corpus and on seeded mutations of it.
//!
//! This finds failures on ordinary mutations; `cargo fuzz` searches further. The inputs are the
//! same in every run, and a failure prints its input.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use headlong_fuzz::{TARGETS, Target};

/// Generated inputs per target, unless `HEADLONG_FUZZ_INPUTS` is set; all targets together take a few
/// seconds.
const INPUTS_COUNT: u64 = 4_000;
const INPUT_BYTES_MAX: usize = 4096;

/// splitmix64 (Steele, Lea, Flood 2014).
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The corpus of a target, in the order of its file names.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("corpus").join(target.name);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}; add at least one input", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("a readable input"));
    paths.into_iter().map(read).collect()
}

fn try_input(target: &Target, input: &[u8], origin: &dyn std::fmt::Display) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    assert!(
        outcome.is_ok(),
        "{} fails on {origin}: b\"{}\"",
        target.name,
        input.escape_ascii()
    );
}

/// A seed with a few bytes flipped, repeated, removed, or copied from another seed; or noise.
fn mutate(generator: &mut Generator, seeds: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let any_seed = |generator: &mut Generator| {
        let index = generator.below(seeds.len());
        seeds[index].1.clone()
    };
    if generator.below(10) == 0 {
        let length = generator.below(64);
        return (0..length).map(|_| generator.byte()).collect();
    }
    let mut input = any_seed(generator);
    for _ in 0..=generator.below(6) {
        let at = generator.below(input.len());
        match generator.below(6) {
            0 if !input.is_empty() => input[at] ^= 1 << generator.below(8),
            1 if !input.is_empty() => input[at] = generator.byte(),
            2 if !input.is_empty() => drop(input.remove(at)),
            3 => {
                let end = (at + 1 + generator.below(16)).min(input.len());
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            4 => {
                let other = any_seed(generator);
                input.truncate(at);
                input.extend_from_slice(&other[generator.below(other.len())..]);
            }
            _ => {
                const SPICE: &[u8] = b"\0\n%.,-=;:\"\\/()* 0159\xff";
                input.insert(at, SPICE[generator.below(SPICE.len())]);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

#[test]
fn targets_accept_their_corpus() {
    for target in TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "corpus/{} is empty", target.name);
        for (path, input) in corpus {
            try_input(target, &input, &path.display());
        }
    }
}

#[test]
fn targets_accept_generated_mutations() {
    let wanted = std::env::var("HEADLONG_FUZZ_INPUTS").ok();
    let inputs_count = wanted.map_or(INPUTS_COUNT, |count| count.parse().expect("a count"));
    for (index, target) in TARGETS.iter().enumerate() {
        let seeds = corpus(target);
        let mut generator = Generator(index as u64);
        for count in 0..inputs_count {
            let input = mutate(&mut generator, &seeds);
            try_input(target, &input, &format_args!("generated input {count}"));
        }
    }
}

#[test]
fn target_is_registered_everywhere() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    for target in TARGETS {
        let name = target.name;
        let entry = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(
            manifest.contains(&entry),
            "Cargo.toml has no [[bin]] {name}"
        );
        let path = root().join(format!("fuzz_targets/{name}.rs"));
        let source = fs::read_to_string(&path).unwrap_or_default();
        let call = format!("headlong_fuzz::{name}::run(data)");
        assert!(
            source.contains(&call),
            "{} does not call {call}",
            path.display()
        );
    }
    let bins = manifest.matches("[[bin]]").count();
    assert_eq!(
        bins,
        TARGETS.len(),
        "a [[bin]] is not in TARGETS (src/lib.rs)"
    );
}

#[test]
fn failing_target_is_reported() {
    let canary = Target {
        name: "canary",
        run: |data| assert!(!data.contains(&b'%')),
    };
    let outcome = catch_unwind(|| try_input(&canary, b"50%", &"the canary's input"));
    let message = outcome.expect_err("the target fails");
    let message = message.downcast_ref::<String>().expect("a message");
    assert!(message.contains("canary fails on the canary's input: b\"50%\""));
}
