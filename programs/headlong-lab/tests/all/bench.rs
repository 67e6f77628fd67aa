//! `headlong bench` from the command line, where it needs no privileges.

use super::run_in;

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
