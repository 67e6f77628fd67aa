//! `headlong simulate faults` from the command line.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headlong-lab"))
        .args(["simulate", "faults"])
        .args(arguments.split_whitespace())
        .output()
        .expect("runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn same_seeds_give_same_trace() {
    let output = run("--seeds 30 --json");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&output);
    assert_eq!(report["seeds"], 30);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0));
    assert!(
        report["bytes_compared"].as_u64() > Some(100_000),
        "{report}"
    );
    assert_eq!(json(&run("--seeds 30 --threads 1 --json")), report);
    let text = String::from_utf8(run("--seeds 30").stdout).expect("text");
    let trace = report["trace"].as_str().expect("a hash");
    assert!(
        text.contains("30 seeds from 0, 0 failed") && text.contains(trace),
        "{text}"
    );
}

#[cfg(feature = "mutants")]
#[test]
fn reports_mutation_with_replay_command() {
    let output = run("--seeds 30 --mutant slot-kept --json");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let failed = json(&output)["failed"][0].clone();
    assert_eq!(failed["check"], "drain");
    let replay = failed["replay"].as_str().expect("a command");
    let arguments = replay
        .strip_prefix("headlong simulate faults ")
        .expect("ours");
    let again = run(arguments);
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    let text = String::from_utf8(again.stdout).expect("text");
    assert!(
        text.contains("drain at") && text.contains("piece"),
        "{text}"
    );
    let seed = format!("--seed {} --mutant slot-kept", failed["seed"]);
    let steps = |arguments: &str| json(&run(arguments))["steps_of_plan"].as_u64();
    assert!(steps(&format!("{seed} --shrink --json")) < steps(&format!("{seed} --json")));
}

#[cfg(feature = "mutants")]
#[test]
fn unknown_mutation_suggests_nearest() {
    let output = run("--mutant slot-keeps");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("slot-kept"), "{text}");
}

#[cfg(not(feature = "mutants"))]
#[test]
fn rejects_mutations_in_build_without_feature() {
    let output = run("--mutant slot-kept");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("--features mutants"), "{text}");
}
