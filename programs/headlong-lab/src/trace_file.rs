//! Reads trace files.

use std::io::Read as _;
use std::path::Path;

use headlong_workload::Trace;

/// Reads a trace, from standard input if the file is `-`.
///
/// # Errors
/// All mistakes, with their positions.
pub(crate) fn read_trace(file: &Path) -> Result<Trace, Vec<String>> {
    let mut text = Vec::new();
    let (name, read) = match file.to_str() {
        Some("-") => {
            let read = std::io::stdin().read_to_end(&mut text).map(drop);
            ("standard input".to_string(), read)
        }
        _ => {
            let read = std::fs::read(file).map(|bytes| text = bytes);
            (file.display().to_string(), read)
        }
    };
    read.map_err(|error| vec![format!("{name}: cannot be read: {error}")])?;
    if is_toml(&text) {
        return Err(vec![format!(
            "{name}: this is a specification, not a trace; use `headlong workload generate` to \
             make a trace of it"
        )]);
    }
    Trace::read(&text).map_err(|errors| {
        let mut mistakes: Vec<String> = errors.iter().map(|e| format!("{name}:{e}")).collect();
        if errors.untold() > 0 {
            mistakes.push(format!("{name}: and {} more mistakes", errors.untold()));
        }
        mistakes
    })
}

/// Whether a text looks like TOML, which no trace does.
fn is_toml(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    toml::from_str::<toml::Table>(text).is_ok_and(|table| !table.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_specification_instead_of_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("spec.toml");
        let text = "[sessions]\ncount = 100\n";
        std::fs::write(&file, text).expect("written");
        let mistakes = read_trace(&file).expect_err("no trace");
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].contains("spec.toml: this is a specification"));
    }
}
