//! `headlong simulate faults` from the command line.

use headlong_testkit::ProgramRun;

use super::run_words;

fn run(words: &str) -> ProgramRun {
    run_words(&format!("simulate faults {words}"))
}

#[test]
fn same_seeds_give_same_trace() {
    let report = run("--seeds 30 --json").exits_with(0).json();
    assert_eq!(report["seeds"], 30);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0));
    assert!(
        report["bytes_compared"].as_u64() > Some(100_000),
        "{report}"
    );
    assert_eq!(run("--seeds 30 --threads 1 --json").json(), report);
    let text = run("--seeds 30").stdout;
    let trace = report["trace"].as_str().expect("a hash");
    assert!(
        text.contains("30 seeds from 0, 0 failed") && text.contains(trace),
        "{text}"
    );
}

#[cfg(feature = "mutants")]
#[test]
fn reports_mutation_with_replay_command() {
    let output = run("--seeds 30 --mutant slot-kept --json").exits_with(4);
    let failed = output.json()["failed"][0].clone();
    assert_eq!(failed["check"], "drain");
    let replay = failed["replay"].as_str().expect("a command");
    let arguments = replay
        .strip_prefix("headlong simulate faults ")
        .expect("ours");
    let text = run(arguments).exits_with(4).stdout;
    assert!(
        text.contains("drain at") && text.contains("piece"),
        "{text}"
    );
    let seed = format!("--seed {} --mutant slot-kept", failed["seed"]);
    let steps = |arguments: &str| run(arguments).json()["steps_of_plan"].as_u64();
    assert!(steps(&format!("{seed} --shrink --json")) < steps(&format!("{seed} --json")));
}

#[cfg(feature = "mutants")]
#[test]
fn unknown_mutation_suggests_nearest() {
    let text = run("--mutant slot-keeps").exits_with(64).stderr;
    assert!(text.contains("slot-kept"), "{text}");
}

#[cfg(not(feature = "mutants"))]
#[test]
fn rejects_mutations_in_build_without_feature() {
    let text = run("--mutant slot-kept").exits_with(64).stderr;
    assert!(text.contains("--features mutants"), "{text}");
}
