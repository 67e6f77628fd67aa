//! `headlong bench` from the command line, where it needs no privileges.

use std::path::Path;

use serde_json::Value;

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

/// The cells of the first row of a table of a page that begins so.
fn row<'a>(page: &'a str, first: &str) -> Vec<&'a str> {
    let mut rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let row = rows
        .find(|row| row.starts_with(first))
        .expect("in the table");
    row.trim_end_matches('|')
        .split('|')
        .map(str::trim)
        .collect()
}

/// At the highest rate that passes, which the page has found by a search.
#[test]
fn figures_of_getting_started_are_those_of_its_command() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = project.join("docs/operate/getting-started.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let headlong = row(&page, "headlong ");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let [limit, _, asked, delivered, drive, kib] =
        [1, 2, 3, 4, 5, 6].map(|at| number(headlong[at]));
    let experiment = project.join("experiments/server-must-win.toml");
    let words = format!(
        "simulate {} --quick --workload sd --server headlong --rate {limit}MiB/s --json",
        experiment.display()
    );
    let folder = tempfile::tempdir().expect("a folder");
    let run = run_in(folder.path(), &words);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let record = run.json();
    let figure = |pointer: &str| {
        record
            .pointer(pointer)
            .and_then(Value::as_f64)
            .expect("a figure")
    };
    let steady = figure("/phases/2/to_s") - figure("/phases/2/from_s");
    let mib = f64::from(1 << 20);
    let found = [
        figure("/verdict/asked_for") / mib,
        figure("/verdict/delivered") / mib,
        figure("/disk/pattern/bytes") / steady / mib,
        figure("/disk/pattern/bytes_per_sequence") / 1024.0,
    ];
    let said = [asked, delivered, drive, kib];
    // The page says that versions differ by about a percent.
    let are_near = found
        .iter()
        .zip(said)
        .all(|(found, said)| (found / said - 1.0).abs() < 0.02);
    assert!(
        are_near,
        "the page says {said:?}, and the command {found:?}"
    );
}
