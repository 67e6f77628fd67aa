//! Writes results into a documentation page, between two marks; the rest of the page is preserved.

use std::io;
use std::path::Path;

use super::{ratios_table, workload_table};
use crate::compare::ComparisonResult;
use crate::experiment::Experiment;

/// Why a page could not be updated.
#[derive(Debug, thiserror::Error)]
pub enum MarkdownError {
    /// The page could not be read or written.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// The end mark of a result is missing.
    #[error("{0} has `{1}` without a later `{2}`; add it where the result ends")]
    NoEnd(String, String, String),
}

/// Writes the tables of a comparison into a page: between `<!-- bench:NAME -->` and
/// `<!-- /bench:NAME -->` if they are there, else at its end, marks included.
///
/// # Errors
/// If the page cannot be read or written, or has only one of the marks.
pub fn write_markdown(
    file: &Path,
    experiment: &Experiment,
    compared: &ComparisonResult,
    command: &str,
) -> Result<(), MarkdownError> {
    let text = format!("    {command}\n\n{}", tables(experiment, compared));
    write_section(file, &experiment.name, &text)
}

/// Inserts a text between the marks of that name, or at the end of the page if there are none.
///
/// # Errors
/// Like [`write_markdown`].
pub fn write_section(file: &Path, name: &str, text: &str) -> Result<(), MarkdownError> {
    let failed = |error| MarkdownError::Io(file.display().to_string(), error);
    let page = match std::fs::read_to_string(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        read => read.unwrap_or_default(),
    };
    let renewed = renewed(&page, name, text)
        .map_err(|(begin, end)| MarkdownError::NoEnd(file.display().to_string(), begin, end))?;
    std::fs::write(file, renewed).map_err(failed)
}

fn renewed(page: &str, name: &str, text: &str) -> Result<String, (String, String)> {
    let (begin, end) = (
        format!("<!-- bench:{name} -->"),
        format!("<!-- /bench:{name} -->"),
    );
    let marked = format!("{begin}\n\n{}\n\n{end}", text.trim());
    let Some((before, rest)) = page.split_once(&begin) else {
        let before = page.trim_end();
        let gap = if before.is_empty() { "" } else { "\n\n" };
        return Ok(format!("{before}{gap}{marked}\n"));
    };
    match rest.split_once(&end) {
        Some((_, after)) => Ok(format!("{before}{marked}{after}")),
        None => Err((begin, end)),
    }
}

/// The ratios, and the limits of each workload.
pub(crate) fn tables(experiment: &Experiment, compared: &ComparisonResult) -> String {
    let ratios = compared.ratios(experiment);
    let ratios = (!ratios.is_empty()).then(|| ratios_table(&ratios));
    let limits = compared.workloads(experiment).map(|workload| {
        workload_table(compared, workload).caption(format!("Workload {workload}:"))
    });
    let tables = ratios.into_iter().chain(limits);
    tables.map(|table| table.to_markdown() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::renewed;

    #[test]
    fn preserves_text_around_marks_and_adds_missing_marks() {
        let page = "# Benchmarks\n\nWhy.\n";
        let once = renewed(page, "a", "one\n").expect("no marks yet");
        let marked = "# Benchmarks\n\nWhy.\n\n<!-- bench:a -->\n\none\n\n<!-- /bench:a -->\n";
        assert_eq!(once, marked);
        let twice = renewed(&format!("{once}\nBehind.\n"), "a", "two").expect("both marks");
        assert!(twice.contains("\n\ntwo\n\n") && !twice.contains("one"));
        assert!(twice.starts_with(page) && twice.ends_with("\nBehind.\n"));
        let other = renewed(&twice, "b", "three").expect("no marks of this name");
        assert!(other.contains("two") && other.contains("three"));
    }

    #[test]
    fn missing_end_mark_changes_nothing() {
        assert!(renewed("<!-- bench:a -->\nwords", "a", "x").is_err());
    }
}
