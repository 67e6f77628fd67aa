//! Documents: every relative link has a target, and no line is too long.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::source::Source;

/// Longest line of a document, in characters. Tables, links and code may be longer.
pub const WIDTH_MAX: usize = 100;

/// Generated documents, with one paragraph in each line.
const GENERATED: &[&str] = &[
    "docs/operate/configuration.md",
    "docs/operate/configuration-expert.md",
    "docs/operate/mount-settings.md",
    "docs/operate/reception.md",
];

/// The lines of a document outside code, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut in_fence = false;
    let mut after_blank = true;
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        // Indented by four after an empty line: also code.
        in_code = line.starts_with("    ") && (after_blank || in_code);
        after_blank = line.trim().is_empty();
        if !in_fence && !in_code {
            lines.push((number, line));
        }
    }
    lines
}

/// The targets of the links in a line, except those in `code`.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for text in line.split('`').step_by(2) {
        let behind = text.split("](").skip(1);
        found.extend(behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)));
    }
    found
}

/// Anchor of a heading, by GitHub's rules.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path without `.` and `..`, from the root of the workspace.
fn plain(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name),
            _ => {}
        }
    }
    parts
}

fn documents(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.extension() == "md")
}

/// Links to files or headings that do not exist. `exists` says whether a path from the root of the
/// workspace exists.
pub fn broken_links(sources: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in documents(sources) {
        let folder = Path::new(&source.path).parent().unwrap_or(Path::new(""));
        for (number, line) in prose(&source.text) {
            for target in targets(line) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => PathBuf::from(&source.path),
                    file => plain(&folder.join(file)),
                };
                let place = format!("{}:{number}: {target}", source.path);
                if !exists(&path) {
                    wrong.push(format!("{place} does not exist; name an existing file"));
                    continue;
                }
                let page = sources.iter().find(|one| Path::new(&one.path) == path);
                let Some(page) = page.filter(|page| page.extension() == "md") else {
                    continue;
                };
                let headings = prose(&page.text).into_iter().map(|(_, line)| line);
                let anchors: BTreeSet<String> = headings
                    .filter(|line| line.starts_with('#'))
                    .map(anchor)
                    .collect();
                if !heading.is_empty() && !anchors.contains(heading) {
                    wrong.push(format!(
                        "{place}: the heading does not exist; name an existing one"
                    ));
                }
            }
        }
    }
    wrong
}

/// The contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages of `docs/` that the contents of the book do not list exactly once; mdBook leaves out the
/// others without a word.
pub fn wrong_in_summary(sources: &[Source]) -> Vec<String> {
    let summary = documents(sources).find(|page| page.path == SUMMARY);
    let lines = summary.map_or(Vec::new(), |page| prose(&page.text));
    let listed: Vec<String> = lines
        .iter()
        .flat_map(|(_, line)| targets(line))
        .map(|target| format!("docs/{target}"))
        .collect();
    let pages = documents(sources).filter(|page| page.path.starts_with("docs/"));
    let pages = pages.filter(|page| page.path != SUMMARY);
    let wrong = pages.filter_map(|page| {
        let count = listed.iter().filter(|path| **path == page.path).count();
        let path = &page.path;
        (count != 1).then(|| format!("{SUMMARY} lists {path} {count} times; list it once"))
    });
    wrong.collect()
}

/// Lines of documents that are too long, except tables, links and code.
pub fn too_wide(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    let written = documents(sources).filter(|page| !GENERATED.contains(&page.path.as_str()));
    for source in written {
        for (number, line) in prose(&source.text) {
            let width = line.chars().count();
            let is_table = line.trim_start().starts_with('|');
            if width > WIDTH_MAX && !is_table && targets(line).is_empty() {
                wrong.push(format!(
                    "{}:{number}: {width} characters, more than {WIDTH_MAX}; wrap the line",
                    source.path
                ));
            }
        }
    }
    wrong
}

/// Files and folders that developers' documents and the coverage of the papers name, but that do not
/// exist: words in backticks with a slash, or with the ending of a source file.
pub fn unknown_files(sources: &[Source]) -> Vec<String> {
    let exists = |word: &str| {
        let (inner, end) = (format!("/{word}/"), format!("/{word}"));
        sources.iter().any(|source| {
            let path = format!("/{}", source.path);
            path.ends_with(&end) || path.contains(&inner)
        })
    };
    let is_file = |word: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let ending = word.rsplit_once('.').map(|(_, ending)| ending);
        let is_source = matches!(ending, Some("rs" | "toml" | "csv"));
        word.chars().all(is_plain) && is_source && !word.starts_with(['/', '.', '-'])
    };
    let names_files = |source: &&Source| {
        source.path == "ARCHITECTURE.md"
            || source.path == "papers/coverage.toml"
            || source.path.starts_with("docs/develop/")
    };
    let mut wrong = Vec::new();
    for page in sources.iter().filter(names_files) {
        for (line, number) in page.text.lines().zip(1..) {
            let words = line.split('`').skip(1).step_by(2);
            let words = words.filter(|word| is_file(word) && !exists(word));
            wrong.extend(words.map(|word| format!("{}:{number}: no file {word}", page.path)));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn reports_links_to_missing_files_and_headings() {
        let pages = [
            page(
                "docs/a/one.md",
                "[b](../b/two.md#what-is-what) [c](../c.md)\n\n    [code](no.md)\n\n`[x](no.md)` \
                 [h](#none) [w](https://example.org/no)\n[here](#top)\n# Top\n",
            ),
            page(
                "docs/b/two.md",
                "# Two\n## What is what?\n[up](../a/one.md#nothing)\n",
            ),
        ];
        let exists = |path: &Path| pages.iter().any(|page| Path::new(&page.path) == path);
        let wrong = broken_links(&pages, exists);
        let told: Vec<_> = wrong
            .iter()
            .filter_map(|text| text.split(' ').nth(1))
            .collect();
        assert_eq!(
            told,
            ["../c.md", "#none:", "../a/one.md#nothing:"],
            "{wrong:?}"
        );
    }

    #[test]
    fn reports_pages_that_summary_lacks_or_repeats() {
        let pages = [
            page(
                SUMMARY,
                "# Summary\n\n- [A](a/a.md)\n- [B](a/b.md)\n- [B](a/b.md)\n",
            ),
            page("docs/a/a.md", "# A\n"),
            page("docs/a/b.md", "# B\n"),
            page("docs/a/c.md", "# C\n"),
            page("README.md", "# D\n"),
        ];
        let wrong = wrong_in_summary(&pages);
        let expected = ["a/b.md 2 times", "a/c.md 0 times"]
            .map(|what| format!("{SUMMARY} lists docs/{what}; list it once"));
        assert_eq!(wrong, expected);
        assert_eq!(wrong_in_summary(&pages[1..]).len(), 3);
    }

    #[test]
    fn reports_lines_of_101_characters_outside_tables_and_code() {
        let long = "x".repeat(WIDTH_MAX + 1);
        let text = format!(
            "{}\n{long}\n| {long} |\n[a]({long})\n\n    {long}\n\n```\n{long}\n```\n",
            &long[1..]
        );
        let wrong = too_wide(&[page("a.md", &text), page("a.rs", &text)]);
        assert_eq!(
            wrong,
            ["a.md:2: 101 characters, more than 100; wrap the line"]
        );
    }
}
