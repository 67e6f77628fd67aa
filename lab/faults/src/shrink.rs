//! Shrinks a failing plan: removes steps as long as the same check fails.

use crate::check::Violation;
use crate::plan::Plan;
use crate::run_plan::{RunOptions, run};

/// Limit on the runs of one shrinking.
const RUNS_MAX: u32 = 400;

/// A smaller plan that fails the same check, with the numbers of its steps.
#[derive(Debug)]
pub struct ShrinkResult {
    /// The plan.
    pub plan: Plan,
    /// Numbers of its steps in the original plan.
    pub kept: Vec<usize>,
    /// Its violation.
    pub violation: Violation,
}

/// Shrinks a failing plan; `None` if it does not fail. Removes halves of the steps first, then
/// quarters, and so on (delta debugging: Zeller and Hildebrandt 2002).
pub fn shrink(plan: &Plan, how: RunOptions) -> Option<ShrinkResult> {
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
    Some(ShrinkResult {
        plan,
        kept,
        violation,
    })
}
