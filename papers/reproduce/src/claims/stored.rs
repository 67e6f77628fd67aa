//! Stored results of the claims, the notes on them, and the comparison of a run with what is stored.

use std::sync::LazyLock;

use headlong_published::{PublishedFigure, PublishedValue, Tolerance, Verdict, number};
use serde::{Deserialize, Serialize};

use super::groups::{ClaimGroup, ClaimsSize, GROUPS};
use super::{Claim, Origin};

/// A claim as it is stored: texts only, so that the stored table can be printed without a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredClaim {
    /// Name of the size.
    pub(crate) size: String,
    /// Key of the group.
    pub(crate) group: String,
    /// `paper` or `headlong`.
    pub(crate) origin: String,
    /// The claim.
    pub(crate) claim: String,
    /// The published number as printed; empty if there is none.
    pub(crate) published: String,
    /// The tolerance.
    pub(crate) tolerance: String,
    /// Our result in virtual time; empty if it was not run in this size.
    pub(crate) here: String,
    /// The verdict's word.
    pub(crate) verdict: String,
    /// Paper and section.
    pub(crate) source: String,
}

/// Facts about a claim besides its run in virtual time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimNote {
    pub(crate) group: String,
    pub(crate) claim: String,
    /// Why it does not come out.
    pub(crate) why: Option<String>,
    /// The result on emulated drives.
    pub(crate) emulated: Option<f64>,
    /// The command that made that result, and its date.
    pub(crate) made: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimNotes {
    note: Vec<ClaimNote>,
}

static STORED: LazyLock<Vec<StoredClaim>> = LazyLock::new(|| read(include_str!("stored.csv")));

static NOTES: LazyLock<Vec<ClaimNote>> = LazyLock::new(|| {
    // The file is part of the program and covered by a test.
    let notes: ClaimNotes = toml::from_str(include_str!("notes.toml")).expect("right notes");
    notes.note
});

/// Rows of a stored table.
fn read(text: &str) -> Vec<StoredClaim> {
    let rows = csv::Reader::from_reader(text.as_bytes());
    // The file is part of the program and covered by a test.
    rows.into_deserialize()
        .map(|row| row.expect("stored.csv is right"))
        .collect()
}

/// The stored claims of a group in the largest size in which it was run.
pub(crate) fn largest(group: &ClaimGroup) -> (Option<ClaimsSize>, Vec<&'static StoredClaim>) {
    for size in ClaimsSize::ALL.iter().rev() {
        let is_it = |row: &&StoredClaim| row.size == size.name() && row.group == group.key;
        let rows: Vec<&StoredClaim> = STORED.iter().filter(is_it).collect();
        if !rows.is_empty() {
            return (Some(*size), rows);
        }
    }
    (None, Vec::new())
}

impl StoredClaim {
    /// A claim of a run.
    pub(crate) fn of(group: &ClaimGroup, size: ClaimsSize, claim: &Claim) -> Self {
        let figure = &claim.compared.published;
        Self {
            size: size.name().to_owned(),
            group: group.key.to_owned(),
            origin: match claim.origin {
                Origin::Paper => "paper",
                Origin::Headlong => "headlong",
            }
            .to_owned(),
            claim: claim.compared.name.clone(),
            published: figure
                .value
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            tolerance: figure.tolerance.to_string(),
            here: claim.here().unwrap_or_default(),
            verdict: claim.verdict().word().to_owned(),
            source: figure.source.to_string(),
        }
    }

    /// The note on it, if there is one.
    pub(crate) fn note(&self) -> Option<&'static ClaimNote> {
        let mut notes = NOTES.iter();
        notes.find(|note| note.group == self.group && note.claim == self.claim)
    }

    /// The verdict on another result of the same claim.
    fn verdict_on(&self, ours: f64) -> Verdict {
        let value: Option<PublishedValue> = self.published.parse().ok();
        let tolerance: Tolerance = self.tolerance.parse().unwrap_or_default();
        PublishedFigure::new("", value, tolerance).verdict(Some(ours))
    }

    /// The result on emulated drives, with its verdict.
    pub(crate) fn emulated(&self) -> Option<String> {
        let ours = self.note()?.emulated?;
        Some(format!("{}, {}", number(ours), self.verdict_on(ours)))
    }
}

/// The stored table with new rows in place of those for which `is_old` holds.
pub(crate) fn replaced(made: &[StoredClaim], is_old: impl Fn(&StoredClaim) -> bool) -> String {
    let kept = STORED.iter().filter(|row| !is_old(row));
    let mut rows: Vec<&StoredClaim> = kept.chain(made).collect();
    rows.sort_by_key(|row| {
        let size = ClaimsSize::ALL
            .iter()
            .position(|size| size.name() == row.size);
        let group = GROUPS.iter().position(|group| group.key == row.group);
        (size, group)
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        // Text into memory cannot fail.
        writer.serialize(row).expect("a row");
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Differences of a run from the stored rows for which `is_same_run` holds; one line for each.
pub(crate) fn differences(
    made: &[StoredClaim],
    is_same_run: impl Fn(&StoredClaim) -> bool,
) -> Vec<String> {
    let stored: Vec<&StoredClaim> = STORED.iter().filter(|row| is_same_run(row)).collect();
    differing(&stored, made)
}

fn differing(stored: &[&StoredClaim], made: &[StoredClaim]) -> Vec<String> {
    let same = |one: &StoredClaim, other: &StoredClaim| {
        (&one.group, &one.claim) == (&other.group, &other.claim)
    };
    let name = |row: &StoredClaim| format!("{}: {}", row.group, row.claim);
    let mut lines = Vec::new();
    for row in stored {
        match made.iter().find(|other| same(row, other)) {
            None => lines.push(format!("{}: stored, but not in this run", name(row))),
            Some(other) if other == *row => {}
            Some(other) => lines.push(format!(
                "{}: stored {} ({}), now {} ({})",
                name(row),
                row.here,
                row.verdict,
                other.here,
                other.verdict
            )),
        }
    }
    let is_new = |row: &&StoredClaim| !stored.iter().any(|other| same(row, other));
    let new = made.iter().filter(is_new);
    lines.extend(new.map(|row| format!("{}: not stored", name(row))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(claim: &str, here: &str) -> StoredClaim {
        StoredClaim {
            size: "small".into(),
            group: "to-chunk".into(),
            origin: "paper".into(),
            claim: claim.into(),
            published: "about 2".into(),
            tolerance: "1.5 to 3".into(),
            here: here.into(),
            verdict: "yes".into(),
            source: "nowhere".into(),
        }
    }

    #[test]
    fn differences_name_changed_missing_and_new_claims() {
        let stored = [row("a", "1.6"), row("b", "1.7"), row("c", "1.8")];
        let stored: Vec<&StoredClaim> = stored.iter().collect();
        let made = [row("a", "1.6"), row("b", "1.75"), row("d", "2")];
        let lines = differing(&stored, &made).join("\n");
        let expected = "to-chunk: b: stored 1.7 (yes), now 1.75 (yes)\nto-chunk: c: stored, but \
                        not in this run\nto-chunk: d: not stored";
        assert_eq!(lines, expected);
        assert_eq!(row("a", "").verdict_on(3.5), Verdict::No);
    }

    #[test]
    fn notes_are_about_stored_claims() {
        for note in NOTES.iter() {
            let is_it = |row: &&StoredClaim| row.group == note.group && row.claim == note.claim;
            assert!(STORED.iter().any(|row| is_it(&row)), "{note:?}");
            assert_eq!(note.emulated.is_some(), note.made.is_some(), "{note:?}");
        }
    }

    #[test]
    fn claims_that_do_not_come_out_say_why() {
        let groups = GROUPS.iter().flat_map(|group| largest(group).1);
        let failed = groups.filter(|row| row.verdict == "no" && row.origin == "paper");
        let silent: Vec<_> = failed
            .filter(|row| row.note().is_none_or(|note| note.why.is_none()))
            .map(|row| format!("{}: {}: {}", row.group, row.claim, row.here))
            .collect();
        assert!(silent.is_empty(), "{}", silent.join("\n"));
    }
}
