//! A failing plan made smaller: steps are left out as long as the same check fails.

use crate::check::Violation;
use crate::judge::{How, run};
use crate::plan::Plan;

/// Runs that a shrinking takes at most.
const RUNS_MAX: u32 = 400;

/// A smaller plan that fails by the same check, with the numbers of the steps that it has.
#[derive(Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: Plan,
    /// Which steps of the whole plan it has.
    pub kept: Vec<usize>,
    /// How it fails.
    pub violation: Violation,
}

/// Shrinks a plan that fails; `None` if it does not. Parts of half the steps are tried first, then of
/// a quarter, and so on (delta debugging: Zeller and Hildebrandt 2002).
pub fn shrink(plan: &Plan, how: How) -> Option<Shrunk> {
    let mut violation = run(plan, how).violation?;
    let mut kept: Vec<usize> = (0..plan.len()).collect();
    let mut runs = 0;
    let mut part = kept.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < kept.len() && runs < RUNS_MAX {
            runs += 1;
            let mut fewer = kept.clone();
            fewer.drain(at..(at + part).min(kept.len()));
            let found = run(&plan.with_steps(&fewer), how).violation;
            match found.filter(|found| found.check == violation.check) {
                Some(found) => {
                    violation = found;
                    kept = fewer;
                    has_shrunk = true;
                }
                None => at += part,
            }
        }
        if runs >= RUNS_MAX || (part == 1 && !has_shrunk) {
            break;
        }
        part = part.div_ceil(2).max(1);
    }
    let plan = plan.with_steps(&kept);
    Some(Shrunk {
        plan,
        kept,
        violation,
    })
}
