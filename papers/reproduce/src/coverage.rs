//! Contents of the papers, and their places here: the page made from `papers/coverage.toml`.

use std::collections::BTreeMap;

use headlong_report::Table;
use serde::Deserialize;

const HEAD: &str = "\
# Coverage of the papers

This page is generated from `papers/coverage.toml` (`UPDATE=1 cargo test -p headlong-reproduce
coverage` updates it). It lists every system, mechanism, experiment, table and figure of the five
papers. *Works* says that the thing exists and does what the paper describes; whether the paper's
number comes out is on the page of [claims](claims.md). Options are those of `headlong reproduce`,
`headlong disk probe`, `headlong simulate`, `headlong bench` and, on an operator's machine, of
`headlong tune`, `headlong run` and `headlong reception`.

| | paper |
|---|---|
| ch | To chunk or not to chunk, NOSSDAV 2012 |
| fs | FlashStream, ACM Multimedia 2013 |
| ap | Automated control of aggressive prefetching, SYSTOR 2014 |
| lc | Libception, TOMPECS 2018 |
| th | Summers' thesis, 2016 |
";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coverage {
    section: Vec<CoverageSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoverageSection {
    name: String,
    rows: Vec<CoverageRow>,
}

/// A part of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoverageRow {
    id: u32,
    /// Paper and section, table or figure.
    r#where: String,
    what: String,
    state: CoverageState,
    /// Where it is in this repository.
    here: String,
    /// Why it is not complete.
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CoverageState {
    Works,
    Partly,
    Missing,
    #[serde(rename = "not applicable")]
    NotApplicable,
}

impl CoverageState {
    const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "partly",
            Self::Missing => "missing",
            Self::NotApplicable => "not applicable",
        }
    }
}

fn coverage() -> Coverage {
    // The file is part of the program and covered by a test.
    toml::from_str(include_str!("../../coverage.toml")).expect("coverage.toml is right")
}

/// The page `docs/lab/coverage.md`.
pub fn coverage_page() -> String {
    let coverage = coverage();
    let mut counts = BTreeMap::new();
    for row in coverage.section.iter().flat_map(|section| &section.rows) {
        *counts.entry(row.state).or_insert(0) += 1;
    }
    let counts: Vec<String> = counts
        .into_iter()
        .map(|(state, count)| format!("{count} {}", state.name()))
        .collect();
    let mut page = format!("{HEAD}\nRows by state: {}.\n", counts.join(", "));
    for section in &coverage.section {
        let table = Table::of(
            &section.rows,
            &[
                ("", &|row| row.id.to_string().into()),
                ("Where", &|row| row.r#where.as_str().into()),
                ("What", &|row| row.what.as_str().into()),
                ("State", &|row| row.state.name().into()),
                ("Here", &|row| row.here.as_str().into()),
                ("Reason", &|row| row.reason.as_str().into()),
            ],
        );
        page += &format!("\n## {}\n\n{}", section.name, table.to_markdown());
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rows_are_numbered_and_incomplete_ones_have_reasons() {
        let coverage = coverage();
        let rows: Vec<&CoverageRow> = coverage.section.iter().flat_map(|s| &s.rows).collect();
        let ids: Vec<u32> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, (1..=185).collect::<Vec<u32>>());
        for row in rows {
            let needs_reason = matches!(row.state, CoverageState::Partly | CoverageState::Missing);
            assert!(!needs_reason || !row.reason.is_empty(), "{row:?}");
            assert!(
                row.state != CoverageState::Works || !row.here.is_empty(),
                "{row:?}"
            );
        }
    }

    #[test]
    fn coverage_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/coverage.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, coverage_page()).expect("written");
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(page == coverage_page(), "renew {path:?} with UPDATE=1");
    }
}
