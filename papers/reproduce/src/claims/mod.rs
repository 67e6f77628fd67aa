//! Claims of the papers: each with our result, the verdict, and the command that made it.
//!
//! A reproduction returns its claims; the stored ones are printed, made into a page, and compared
//! with a run.

mod claim;
mod groups;
mod row;
mod stored;
mod table;

use headlong_bench::{BenchError, BenchOptions};
use headlong_report::say;

pub use claim::{Claim, Origin};
pub(crate) use claim::{claims_table, outcome_of};
pub use groups::ClaimsSize;
use groups::{ClaimGroup, GROUPS};
pub(crate) use row::ClaimRow;
use stored::StoredClaim;
pub use table::{claims_page, stored_claims};

use crate::report::RunChoice;

/// A run of the claims.
#[derive(Debug, Clone)]
pub struct ClaimsRun {
    size: ClaimsSize,
    groups: Vec<ClaimGroup>,
    made: Vec<StoredClaim>,
}

/// Keys of all groups of claims.
pub fn claim_groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|group| group.key)
}

/// Runs the claims of these groups, or of all if there are none.
///
/// # Errors
/// If a record cannot be written.
pub fn run_claims(
    size: ClaimsSize,
    keys: &[String],
    choice: &RunChoice,
    options: &BenchOptions,
) -> Result<ClaimsRun, BenchError> {
    let is_meant = |group: &&ClaimGroup| keys.is_empty() || keys.iter().any(|key| key == group.key);
    let groups: Vec<ClaimGroup> = GROUPS.iter().filter(is_meant).copied().collect();
    let mut made = Vec::new();
    for group in &groups {
        let started = std::time::Instant::now();
        let claims = group.claims(size, choice, options)?;
        made.extend(
            claims
                .iter()
                .map(|claim| StoredClaim::of(group, size, claim)),
        );
        let seconds = started.elapsed().as_secs_f64();
        say!("{}: {} claims in {seconds:.0} s", group.key, claims.len());
    }
    Ok(ClaimsRun { size, groups, made })
}

impl ClaimsRun {
    fn has(&self, row: &StoredClaim) -> bool {
        let mut groups = self.groups.iter();
        row.size == self.size.name() && groups.any(|group| group.key == row.group)
    }

    /// Differences from the stored claims of the same groups and size; one line for each.
    pub fn differences(&self) -> Vec<String> {
        stored::differences(&self.made, |row| self.has(row))
    }

    /// The stored table with the claims of this run in place of the earlier ones.
    pub fn stored(&self) -> String {
        stored::replaced(&self.made, |row| self.has(row))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The claims that the tests run. All: `headlong reproduce claims --check`.
    const CHECKED: &str = "netflix";

    /// Runs the claims of `CHECKED`, or of the groups named by the variable `CLAIMS`; `UPDATE=1`
    /// stores them.
    #[test]
    fn claims_of_small_run_are_as_stored() {
        let keys = std::env::var("CLAIMS").unwrap_or_else(|_| CHECKED.to_owned());
        let keys: Vec<String> = keys.split(',').map(str::to_owned).collect();
        let size = std::env::var("CLAIMS_SIZE").ok();
        let size = size.and_then(|name| ClaimsSize::from_name(&name));
        let results = tempfile::tempdir().expect("a folder");
        let options = BenchOptions {
            headlong: PathBuf::new(),
            store: PathBuf::new(),
            results: results.path().into(),
            resumes: false,
            report: None,
            json: false,
            command_line: String::new(),
        };
        let size = size.unwrap_or(ClaimsSize::Small);
        let run = run_claims(size, &keys, &RunChoice::default(), &options);
        let run = run.expect("results can be written");
        if std::env::var_os("UPDATE").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/claims/stored.csv");
            std::fs::write(file, run.stored()).expect("written");
            return;
        }
        let differences = run.differences();
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
