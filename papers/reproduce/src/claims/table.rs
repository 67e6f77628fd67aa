//! The stored claims as text and as a page of the documentation.

use headlong_published::Verdict;
use headlong_report::Table;

use super::groups::{ClaimGroup, ClaimsSize, GROUPS};
use super::stored::{StoredClaim, largest};
use crate::published::{Paper, PublishedRow};

const HEAD: &str = "\
# Claims of the papers

This page is generated from the stored results (`UPDATE=1 cargo test -p headlong-reproduce claims`
updates it); `headlong reproduce` prints the same tables, and `headlong reproduce claims --check`
compares them with a run ([bench.md](bench.md#claims)).

- *Published* is the number as printed, with its bound. *Tolerance* is what counts as coming out.
- *Virtual* is the result of the command above the table. Ratios of throughputs compare what viewers
  received, ratios of request rates what was offered.
- *Emulated* is a stored result on emulated drives with its own verdict; the note says which command
  made it, and when. No result on this page is of a physical disk or SSD.
- *Comes out*, in virtual time: `yes`; `no`; `shown`: the paper gives no bound and none is set;
  `fitted`: the model was fitted to the number, so that agreement says nothing; `not run`: there is
  no result in this size, or no model.
";

/// The table of a group, and the size in which it was run.
fn group_table(group: &ClaimGroup) -> (Option<ClaimsSize>, Table) {
    let (size, mut rows) = largest(group);
    rows.sort_by_key(|row| row.origin == "headlong");
    let table = Table::of(
        rows,
        &[
            ("Claim", &|row: &&StoredClaim| claim_name(row).into()),
            ("Published", &|row| row.published.as_str().into()),
            ("Tolerance", &|row| row.tolerance.as_str().into()),
            ("Virtual", &|row| row.here.as_str().into()),
            ("Emulated", &|row| row.emulated().into()),
            ("Comes out", &|row| row.verdict.as_str().into()),
            ("Why not, and notes", &|row| notes_on(row).into()),
            ("Where", &|row| row.source.as_str().into()),
        ],
    );
    (size, table)
}

fn claim_name(row: &StoredClaim) -> String {
    match row.origin.as_str() {
        "headlong" => format!("(Headlong's) {}", row.claim),
        _ => row.claim.clone(),
    }
}

fn notes_on(row: &StoredClaim) -> Option<String> {
    let note = row.note()?;
    let why = note.why.iter().cloned();
    let made = note.made.iter().map(|made| format!("Emulated: {made}."));
    Some(why.chain(made).collect::<Vec<_>>().join(" "))
}

/// The tables of all groups.
fn sections() -> String {
    let section = |group: &ClaimGroup| {
        let (size, table) = group_table(group);
        let command = group.command(size.unwrap_or(ClaimsSize::Full));
        let counted = counted(group);
        let table = table.to_markdown();
        format!(
            "\n## {}\n\n    {command}\n\n{counted}\n\n{table}",
            group.paper
        )
    };
    GROUPS.iter().map(section).collect()
}

/// How many published claims of a group come out.
fn counted(group: &ClaimGroup) -> String {
    let (_, rows) = largest(group);
    let count = |verdict: Verdict| {
        let of = rows.iter().filter(|row| row.origin == "paper");
        of.filter(|row| row.verdict == verdict.word()).count()
    };
    let (yes, no) = (count(Verdict::Yes), count(Verdict::No));
    match yes + no {
        0 => "no result is stored.".to_owned(),
        judged => format!("{yes} of {judged} judged claims come out."),
    }
}

/// The stored tables as text.
pub fn stored_claims() -> String {
    let tables = sections() + &only_published();
    tables.trim_start().to_owned()
}

/// Published numbers that have no counterpart here.
fn only_published() -> String {
    let papers = Paper::ALL.into_iter();
    let rows = papers.flat_map(|paper| paper.said().only_published.iter());
    let table = Table::of(
        rows,
        &[
            ("Of", &|row: &&PublishedRow| row.name.as_str().into()),
            ("Published", &|row| {
                let values: Vec<String> = row.values.iter().map(ToString::to_string).collect();
                values.join("; ").into()
            }),
            ("Where", &|row| row.source.as_str().into()),
        ],
    );
    format!(
        "\n## Published numbers without a measurement here\n\n{}",
        table.to_markdown()
    )
}

/// The page `docs/lab/claims.md`.
pub fn claims_page() -> String {
    HEAD.to_owned() + &sections() + &only_published()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn lab() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab")
    }

    /// Writes a file with `UPDATE=1`, and otherwise requires it to be as it would be written.
    fn is_current(path: &Path, expected: &str) -> bool {
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, expected).expect("written");
        }
        std::fs::read_to_string(path).unwrap_or_default() == expected
    }

    #[test]
    fn claims_page_is_current() {
        let path = lab().join("claims.md");
        assert!(
            is_current(&path, &claims_page()),
            "renew {path:?} with UPDATE=1"
        );
    }

    /// The text with the sentence of each mark `<!-- claims:KEY -->` renewed.
    fn renewed(text: &str) -> String {
        let (begin, end) = ("<!-- claims:", "<!-- /claims -->");
        let mut parts = text.split(begin);
        let mut made = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (key, rest) = part.split_once(" -->").expect("an end of the mark");
            let (_, after) = rest.split_once(end).expect("a closing mark");
            let group = GROUPS.iter().find(|group| group.key == key);
            let counted = counted(group.unwrap_or_else(|| panic!("no claims of {key}")));
            made += &format!("{begin}{key} -->\nIn virtual time, {counted}\n{end}{after}");
        }
        made
    }

    #[test]
    fn verdicts_in_pages_are_those_of_the_table() {
        let mut marks = 0;
        for entry in std::fs::read_dir(lab()).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|end| end != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("readable");
            marks += text.matches("<!-- claims:").count();
            assert!(
                is_current(&path, &renewed(&text)),
                "renew {path:?} with UPDATE=1"
            );
        }
        assert!(marks > 5, "{marks}");
    }
}
