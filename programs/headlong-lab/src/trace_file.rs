//! Traces in files.

use std::io::Read as _;
use std::path::Path;

use headlong_workload::Trace;

/// Reads a trace, from standard input if the file is `-`.
///
/// # Errors
/// All mistakes, each with its place.
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
    Trace::read(&text).map_err(|errors| {
        let mut mistakes: Vec<String> = errors.iter().map(|e| format!("{name}:{e}")).collect();
        if errors.untold() > 0 {
            mistakes.push(format!("{name}: and {} more mistakes", errors.untold()));
        }
        mistakes
    })
}
