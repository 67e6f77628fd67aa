//! `headlong bench` from the command line, where it needs no privileges.

use super::{run, run_in};

#[test]
fn short_ramp_in_virtual_time_is_told_with_server_and_workload() {
    let folder = tempfile::tempdir().expect("a folder");
    let words =
        "simulate youtube-sd --rate 40MiB/s --set phases.ramp_up=2s --set phases.measured=4s";
    let told = run_in(folder.path(), words).stderr;
    assert!(
        told.contains("too few viewers had arrived, which flatters the server: use a longer ramp"),
        "{told}"
    );
}

#[test]
fn plan_shows_given_rate_and_seed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/tiny.toml");
    let plan = ["bench", "run", file, "--plan"];
    let words = ["--server", "headlong", "--rate", "3MiB/s", "--seed", "9"];
    let text = run(&[&plan[..], &words].concat()).stdout;
    assert!(text.contains("from 3.0 MiB/s"), "{text}");
    assert!(
        text.contains("--rate 3145728B/s") && text.contains("--seed 9"),
        "{text}"
    );
}
