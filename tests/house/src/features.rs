//! The table of features: every feature marked as present names an existing test.

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
