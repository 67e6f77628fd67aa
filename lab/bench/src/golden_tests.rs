//! Comparison with golden files, for tests.

use std::path::Path;

/// Compares with `tests/golden/NAME`; `UPDATE=1` in the environment rewrites the file.
pub(crate) fn compare(name: &str, now: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, now).expect("the golden file can be written");
    }
    let then = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(then, now, "{name} has changed; UPDATE=1 accepts it");
}
