//! `headlong disk probe`, where it needs neither root nor a device.

use std::path::Path;
use std::process::{Command, Output};

use headlong_drive::DriveSpec;
use headlong_report::read_disk_trace;
use serde_json::Value;

fn headlong(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headlong-lab"));
    command.args(args).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = headlong(args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The error text of a usage error: exit code 64 and empty standard output.
fn run_lab(args: &[&str]) -> String {
    let output = headlong(args);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    text(&output.stderr)
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name of ours")
}

#[test]
fn preset_measures_published_values() {
    // Libception Table 1.
    let probe = json(&["disk", "probe", "wd-red-wd10efrx", "--json"]);
    let measured = &probe["measured"];
    for (figure, published) in [
        (&measured["full_stroke_us"], 32_600.0),
        (&measured["half_stroke_us"], 23_100.0),
        (&measured["quarter_stroke_us"], 18_900.0),
        (&measured["rates"]["outer_bytes_per_s"], 133e6),
        (&measured["rates"]["middle_bytes_per_s"], 115e6),
        (&measured["rates"]["inner_bytes_per_s"], 67e6),
    ] {
        let figure = figure.as_f64().expect("a number");
        assert!(
            (figure / published - 1.0).abs() < 0.02,
            "{figure} {published}"
        );
    }
    assert!(probe["blocks"].is_null() && probe["turns"] == true);
}

#[test]
fn printed_model_measures_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let (printed, written) = (folder.path().join("a.toml"), folder.path().join("b.toml"));
    let output = headlong(&["disk", "probe", "hp-146-10k-sas"]);
    std::fs::write(&printed, &output.stdout).expect("written");
    let spec: DriveSpec = toml::from_str(&text(&output.stdout)).expect("a drive");
    spec.check().expect("a drive that makes sense");
    let sources = spec.sources();
    assert!(
        sources.starts_with("Fitted to the model hp-146-10k-sas in virtual time, not to a drive"),
        "{sources}"
    );
    let output = headlong(&["disk", "probe", "hp-146-10k-sas", "-o", name(&written)]);
    assert!(!text(&output.stdout).contains("kind ="));
    let model = std::fs::read_to_string(&written).expect("read");
    assert_eq!(toml::from_str::<DriveSpec>(&model).expect("a drive"), spec);
    let again = json(&["disk", "probe", name(&printed), "--json"]);
    let first = json(&["disk", "probe", "hp-146-10k-sas", "--json"]);
    for stroke in ["full_stroke_us", "quarter_stroke_us"] {
        let of = |probe: &Value| probe["measured"][stroke].as_f64().expect("a number");
        assert!((of(&again) / of(&first) - 1.0).abs() < 0.05, "{stroke}");
    }
}

#[test]
fn flashstream_ssd_has_optimal_block_of_16_mib() {
    // Flashstream 3.1 and Figure 3.
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let report = name(&page);
    let probe = json(&[
        "disk",
        "probe",
        "ssd-ocz-core-v2",
        "--json",
        "--report",
        report,
    ]);
    assert_eq!(probe["blocks"]["optimal_bytes"], 16 << 20);
    assert!(probe["model"].is_null() && probe["turns"] == false);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("The optimal block size is 16MiB") && html.contains("Writes of 128MiB"));
}

#[test]
fn reports_unprobeable_targets_with_alternatives() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = folder.path().join("small");
    std::fs::write(&small, [0; 8192]).expect("written");
    let small = name(&small);
    for (args, words) in [
        (vec!["wd-redd"], "nearest names are wd-red-wd10efrx"),
        (vec!["/no/such"], "/no/such: No such file"),
        (vec!["/dev/null"], "a character device"),
        (vec![small, "--write"], "--yes-destroy-data"),
        (vec![small, "--settle=-1"], "--settle"),
        (vec!["hp-146-10k-sas", "--threshold", "nan"], "--threshold"),
        (
            vec!["hp-146-10k-sas", "--report", "/no/such/page.html"],
            "folder that does not exist",
        ),
        (
            vec!["hp-146-10k-sas", "--region", "1GiB"],
            "--region: nothing is written; add --write",
        ),
        (
            vec!["hp-146-10k-sas", "--settle", "1"],
            "--settle: nothing is written; add --write",
        ),
        (vec!["ssd-ocz-core-v2", "--writes", "3"], "200"),
        (
            vec!["ssd-ocz-core-v2", "--region", "512KiB"],
            "--region: 524288 bytes are too few",
        ),
        (
            vec!["ssd-ocz-core-v2", "--region", "9TiB"],
            "--region 9TiB: ssd-ocz-core-v2 has ",
        ),
        (
            vec!["ssd-ocz-core-v2", "-o", "never.toml"],
            "only models of rotating disks",
        ),
    ] {
        let told = run_lab(&[&["disk", "probe"], &args[..]].concat());
        assert!(told.contains(words), "{args:?}: {told}");
    }
    assert_eq!(std::fs::read(small).expect("there"), [0; 8192]);
}

#[test]
fn full_stderr_does_not_lose_result() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headlong-lab"));
    command.args(["disk", "probe", "hp-146-10k-sas"]);
    command.stderr(full.expect("every Linux has it"));
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("kind = \"hard-drive\""));
}

#[test]
fn reports_read_traces_of_emulated_disks() {
    let line = "1,2,33,34,2048,8,R,3,0,30,0,1,0,0,0";
    let trace = format!("{}\n{line}\n", headlong_vdisk::TRACE_HEADER);
    let accesses = read_disk_trace(trace.as_bytes()).expect("a trace");
    assert_eq!(
        (accesses[0].lba(), accesses[0].access.length_bytes),
        (2048, 4096)
    );
    assert_eq!(accesses[0].started_ns, 2);
}
