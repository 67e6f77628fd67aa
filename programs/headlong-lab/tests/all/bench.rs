//! `headlong bench` from the command line, where it needs no privileges.

use std::process::Command;

#[test]
fn short_ramp_in_virtual_time_is_told_with_server_and_workload() {
    let folder = tempfile::tempdir().expect("a folder");
    let words =
        "simulate youtube-sd --rate 40MiB/s --set phases.ramp_up=2s --set phases.measured=4s";
    let output = Command::new(env!("CARGO_BIN_EXE_headlong-lab"))
        .args(words.split(' '))
        .current_dir(folder.path())
        .output()
        .expect("runs");
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(
        told.contains("too few viewers had arrived, which flatters the server: use a longer ramp"),
        "{told}"
    );
}

#[test]
fn plan_shows_given_rate_and_seed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/tiny.toml");
    let words = "--plan --server headlong --rate 3MiB/s --seed 9";
    let output = Command::new(env!("CARGO_BIN_EXE_headlong-lab"))
        .args(["bench", "run", file])
        .args(words.split(' '))
        .output()
        .expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("from 3.0 MiB/s"), "{text}");
    assert!(
        text.contains("--rate 3145728B/s") && text.contains("--seed 9"),
        "{text}"
    );
}
