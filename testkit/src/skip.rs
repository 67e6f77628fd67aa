//! Tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Marks `test`, or a part of it, as skipped because of `reason`: what is missing. The caller
/// returns afterwards.
///
/// Prints it to standard error, and appends a line to the file that the environment variable
/// `HEADLONG_SKIPPED` names, if set, so that `scripts/test.sh` can count it.
///
/// # Panics
///
/// Under `CI=true`, because skipped tests would go unnoticed there; and if the file cannot be
/// written.
pub fn skip(test: &str, reason: &str) {
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!is_ci, "{test} cannot run in CI: {reason}");
    eprintln!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("HEADLONG_SKIPPED") else {
        return;
    };
    let line = format!("{test}: {}\n", reason.trim().replace('\n', " "));
    // A single write in append mode: several test processes may write at once.
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
