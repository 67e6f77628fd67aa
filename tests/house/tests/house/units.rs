//! Checks of the systemd units in packaging/.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use headlong_house_tests::units::{exposure, wrong_settings};
use headlong_house_tests::workspace::root;

/// The units, with the highest rating of each (docs/operate/install.md).
const UNITS: [(&str, f64); 3] = [
    ("headlong.service", 1.7),
    ("headlong-reception.service", 1.3),
    ("headlong-mount@.service", 3.7),
];

fn folder() -> PathBuf {
    root().join("packaging")
}

#[test]
fn units_have_required_settings() {
    let files = std::fs::read_dir(folder()).expect("the folder");
    let mut names: Vec<String> = files
        .map(|file| file.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".service"))
        .collect();
    names.sort();
    let mut known = UNITS.map(|(name, _)| name);
    known.sort_unstable();
    assert_eq!(names, known);
    let mut wrong = Vec::new();
    for name in names {
        let unit = std::fs::read_to_string(folder().join(&name)).expect("a unit");
        wrong.extend(wrong_settings(&name, &unit));
    }
    super::pass(wrong);
}

#[test]
fn units_are_rated_as_documented() {
    for (name, most) in UNITS {
        let mut analysis = Command::new("systemd-analyze");
        analysis.args(["security", "--offline=yes", "--no-pager"]);
        let output = match analysis.arg(folder().join(name)).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("skipped: systemd-analyze is not installed");
                return;
            }
            output => output.expect("it starts"),
        };
        if String::from_utf8_lossy(&output.stderr).contains("unrecognized option") {
            eprintln!("skipped: systemd-analyze is older than 250");
            return;
        }
        let told = String::from_utf8_lossy(&output.stdout);
        // Later versions rate further settings.
        let rating = exposure(&told).unwrap_or_else(|| panic!("{name}: no rating: {output:?}"));
        assert!(rating <= most + 0.3, "{name} is rated {rating}:\n{told}");
    }
}
