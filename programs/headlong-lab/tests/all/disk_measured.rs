//! `headlong disk probe`, where it needs neither root nor a device.

use headlong_drive::DriveSpec;
use headlong_testkit::ProgramRun;
use serde_json::Value;

use super::{command, run, run_words};

/// The result of a probe.
fn json(words: &str) -> Value {
    let words = format!("disk probe {words} --json");
    run_words(&words).exits_with(0).json()
}

#[test]
fn preset_measures_published_values() {
    // Libception Table 1.
    let probe = json("wd-red-wd10efrx");
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
    let output = run_words("disk probe hp-146-10k-sas");
    std::fs::write(&printed, &output.stdout).expect("written");
    let spec: DriveSpec = toml::from_str(&output.stdout).expect("a drive");
    spec.check().expect("a drive that makes sense");
    let sources = spec.sources();
    assert!(
        sources.starts_with("Fitted to the model hp-146-10k-sas in virtual time, not to a drive"),
        "{sources}"
    );
    let output = run_words(&format!(
        "disk probe hp-146-10k-sas -o {}",
        written.display()
    ));
    assert!(!output.stdout.contains("kind ="));
    let model = std::fs::read_to_string(&written).expect("read");
    assert_eq!(toml::from_str::<DriveSpec>(&model).expect("a drive"), spec);
    let again = json(&printed.display().to_string());
    let first = json("hp-146-10k-sas");
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
    let probe = json(&format!("ssd-ocz-core-v2 --report {}", page.display()));
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
    let small = small.to_str().expect("a name of ours");
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
        let probe = run(&[&["disk", "probe"], &args[..]].concat()).exits_with(64);
        assert!(probe.stdout.is_empty());
        assert!(probe.stderr.contains(words), "{args:?}: {}", probe.stderr);
    }
    assert_eq!(std::fs::read(small).expect("there"), [0; 8192]);
}

#[test]
fn full_stderr_does_not_lose_result() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = command(["disk", "probe", "hp-146-10k-sas"]);
    command.stderr(full.expect("every Linux has it"));
    let output = ProgramRun::of(&mut command).exits_with(0);
    assert!(output.stdout.contains("kind = \"hard-drive\""));
}
