//! The table of features and the list of reports: the tests that they name exist.

use crate::source::Source;

/// Path of the page.
pub const PAGE: &str = "docs/operate/features.md";

/// Rows marked as present without an existing test.
pub fn without_test(sources: &[Source]) -> Vec<String> {
    let page = sources.iter().find(|source| source.path == PAGE);
    let Some(page) = page else {
        return vec![format!("{PAGE}: is not there")];
    };
    let rows = page.text.lines().filter(|line| line.starts_with("| "));
    let mut wrong = Vec::new();
    for row in rows.skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, feature, _, ours, test, ..] = cells.as_slice() else {
            wrong.push(format!("{PAGE}: `{row}` does not have five cells"));
            continue;
        };
        let named = format!("fn {}()", test.trim_matches('`'));
        let is_code = |source: &&Source| source.extension() == "rs";
        let mut code = sources.iter().filter(is_code);
        let has_none = test.is_empty() || !code.any(|source| source.text.contains(&named));
        if (*ours == "Y" || !test.is_empty()) && has_none {
            wrong.push(format!(
                "{PAGE}: {feature}: no test {test}; name an existing one"
            ));
        }
    }
    wrong
}

/// Path of the list of reports.
pub const REPORTS: &str = "docs/develop/reports.md";

/// Tests in the last column of the list of reports that do not exist.
pub fn reports_without_test(sources: &[Source]) -> Vec<String> {
    let page = sources.iter().find(|source| source.path == REPORTS);
    let Some(page) = page else {
        return vec![format!("{REPORTS}: is not there")];
    };
    let is_code = |source: &&Source| source.extension() == "rs";
    let is_there = |test: &str| {
        let named = format!("fn {test}(");
        let mut code = sources.iter().filter(is_code);
        code.any(|source| source.text.contains(&named))
    };
    let rows = page.text.lines().filter(|line| line.starts_with("| "));
    let mut wrong = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_end_matches(['|', ' ']).split(" | ").collect();
        let last = cells.last().copied().unwrap_or_default();
        // Between the backticks of the last column; other names are those of files and sentences.
        for test in last.split('`').skip(1).step_by(2) {
            let is_name = test.contains('_')
                && test
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
            if is_name && !is_there(test) {
                wrong.push(format!(
                    "{REPORTS}: {}: no test {test}; name an existing one",
                    cells[0].trim_start_matches("| ")
                ));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn missing_test_of_a_report_is_named_with_its_row() {
        let page = "| report | behaviour now | test |\n|---|---|---|\n\
                    | A | x `no_test` | `there_is`, `there_is_not` |\n| B | y | a sentence, `a.rs` |\n";
        let sources = [file(REPORTS, page), file("a.rs", "fn there_is() {}")];
        let wrong = reports_without_test(&sources);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("A: no test there_is_not"), "{wrong:?}");
    }

    #[test]
    fn reports_feature_without_test() {
        let page = "| feature | nginx | headlong | test | remark |\n|---|---|---|---|---|\n\
                    | A | Y | Y | `there_is` | |\n| B | Y | Y | `there_is_not` | |\n\
                    | C | Y | Y | | |\n| D | Y | - | | why |\n";
        let sources = [file(PAGE, page), file("a.rs", "fn there_is() {}")];
        let wrong = without_test(&sources);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("B: no test") && wrong[1].contains("C: no test"));
    }
}
