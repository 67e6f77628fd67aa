//! Pages whose rows name tests: every named test exists, and every row without one has a reason.

use std::collections::BTreeSet;

use crate::source::Source;

/// Path of the table of features.
pub const FEATURES: &str = "docs/operate/features.md";
/// Path of the list of reports.
pub const REPORTS: &str = "docs/develop/reports.md";

/// Rows of the table of features that are marked as present without an existing test.
pub fn without_test(sources: &[Source]) -> Vec<String> {
    let tests = tests(sources);
    let mut wrong = Vec::new();
    for row in rows(sources, FEATURES, &mut wrong) {
        let [_, feature, _, ours, test, ..] = row.as_slice() else {
            wrong.push(format!("{FEATURES}: `{row:?}` does not have five cells"));
            continue;
        };
        let exists = tests.contains(test.trim_matches('`'));
        if (*ours == "Y" || !test.is_empty()) && !exists {
            wrong.push(format!(
                "{FEATURES}: {feature}: no test {test}; name an existing one"
            ));
        }
    }
    wrong
}

/// Rows of the list of reports that name a test that does not exist, or neither test nor reason.
pub fn reports_without_test(sources: &[Source]) -> Vec<String> {
    let tests = tests(sources);
    let mut wrong = Vec::new();
    for row in rows(sources, REPORTS, &mut wrong) {
        let [_, report, _, test, ..] = row.as_slice() else {
            wrong.push(format!("{REPORTS}: `{row:?}` does not have three cells"));
            continue;
        };
        // Names are the parts between backquotes.
        let mut names = test.split('`').skip(1).step_by(2).peekable();
        if names.peek().is_none() && !test.starts_with("none: ") {
            wrong.push(format!(
                "{REPORTS}: {report}: name a test, or the reason why there is none (`none: ...`)"
            ));
        }
        let missing = names.filter(|name| !tests.contains(*name));
        wrong
            .extend(missing.map(|name| {
                format!("{REPORTS}: {report}: no test `{name}`; name an existing one")
            }));
    }
    wrong
}

/// The cells of the rows of all tables of a page, without their headings.
fn rows<'a>(sources: &'a [Source], page: &str, wrong: &mut Vec<String>) -> Vec<Vec<&'a str>> {
    let Some(source) = sources.iter().find(|source| source.path == page) else {
        wrong.push(format!("{page}: is not there"));
        return Vec::new();
    };
    let lines: Vec<&str> = source.text.lines().collect();
    let is_heading = |index: usize| {
        lines
            .get(index + 1)
            .is_some_and(|next| next.starts_with("|-"))
    };
    let is_row = |(index, line): &(usize, &&str)| line.starts_with("| ") && !is_heading(*index);
    let rows = lines.iter().enumerate().filter(is_row);
    rows.map(|(_, line)| line.split('|').map(str::trim).collect())
        .collect()
}

/// The names of all tests: functions of Rust, and the titles of tests of the pages.
fn tests(sources: &[Source]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for source in sources {
        let mut is_test = false;
        for line in source.text.lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.contains("test");
                continue;
            }
            let name = match source.extension() {
                "rs" if is_test => {
                    let line = line.strip_prefix("async ").unwrap_or(line);
                    let rest = line.strip_prefix("fn ");
                    rest.and_then(|rest| rest.split_once('('))
                }
                "ts" | "mjs" => {
                    let rest = line.strip_prefix("test('");
                    rest.and_then(|rest| rest.split_once('\''))
                }
                _ => None,
            };
            is_test = false;
            names.extend(name.map(|(name, _)| name));
        }
    }
    names
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
        let sources = [
            file(FEATURES, page),
            file("a.rs", "#[test]\nfn there_is() {}"),
        ];
        let wrong = without_test(&sources);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("B: no test") && wrong[1].contains("C: no test"));
    }

    #[test]
    fn reports_row_without_test_or_reason() {
        let page = "| report | now | test |\n|---|---|---|\n| A | | `a`, `b c` |\n\
                    | B | | `a`, `d` |\n| C | | |\n| D | | none: why |\n";
        let code = [
            file("a.rs", "#[test]\n    fn a() {}\nfn d() {}"),
            file("b.mjs", "test('b c', x)"),
        ];
        let sources = [&[file(REPORTS, page)], &code[..]].concat();
        let wrong = reports_without_test(&sources);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("B: no test `d`") && wrong[1].contains("C: name a test"));
    }
}
