//! Runs one plan; a panic counts as a failed check.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use headlong_mutants::{Mutant, activate};
use headlong_units::Instant;

use crate::check::{Check, Violation};
use crate::plan::Plan;
use crate::world::{RunCounts, RunOutcome, World};

thread_local! {
    /// Message of the last panic of this thread; `None` outside of a run.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// How a plan is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// The mutant of the code under test to activate; needs the feature `mutants`.
    pub mutant: Option<Mutant>,
    /// Whether the trace is kept as text.
    pub with_lines: bool,
}

/// Runs a plan with checks after every step; for some plans also checks the isolation of disks.
pub fn run(plan: &Plan, how: RunOptions) -> RunOutcome {
    let mut outcome = run_once(plan, how);
    let is_for_islands = plan.ssds.is_empty() && plan.disks.len() > 1;
    if outcome.violation.is_none() && is_for_islands {
        outcome.violation = (0..plan.disks.len()).find_map(|disk| {
            let alone = run_once(
                &plan.with_trouble_of(disk),
                RunOptions {
                    with_lines: false,
                    ..how
                },
            );
            let is_same = alone.of_disks.get(disk) == outcome.of_disks.get(disk);
            let failed = || Violation {
                check: Check::Island,
                at: Instant::ZERO,
                text: format!("disk {disk} behaves differently without faults elsewhere"),
            };
            alone.violation.or_else(|| (!is_same).then(failed))
        });
    }
    outcome
}

fn run_once(plan: &Plan, how: RunOptions) -> RunOutcome {
    silence_panics();
    let _mutated = activate(how.mutant);
    SAID.with_borrow_mut(|said| *said = Some(String::new()));
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(plan, how.with_lines).run()));
    let said = SAID.with_borrow_mut(Option::take).unwrap_or_default();
    ran.unwrap_or_else(|_| RunOutcome {
        violation: Some(Violation {
            check: Check::Panic,
            at: Instant::ZERO,
            text: said,
        }),
        trace: 0,
        lines: Vec::new(),
        counts: RunCounts::default(),
        of_disks: Vec::new(),
    })
}

/// Captures panics within a run; other panics are printed as usual.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_run = SAID.with_borrow_mut(|said| {
                let is_run = said.is_some();
                if let Some(said) = said {
                    *said = info.to_string().replace('\n', " ");
                }
                is_run
            });
            if !is_run {
                before(info);
            }
        }));
    });
}
