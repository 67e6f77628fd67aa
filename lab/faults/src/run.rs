//! Runs plans: one, in which a panic counts as a failed check; variants of a failing one with fewer
//! steps; and many seeds on several threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

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

/// Limit on the runs of one shrinking.
const SHRINK_RUNS_MAX: u32 = 400;

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
        while at < kept.len() && runs < SHRINK_RUNS_MAX {
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
        if runs >= SHRINK_RUNS_MAX || (part == 1 && !has_shrunk) {
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

/// The campaign stops after this many failed seeds.
const FAILED_MAX: usize = 20;

/// A range of seeds to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Number of threads; the result does not depend on it.
    pub threads: NonZeroUsize,
    /// How each seed is run.
    pub how: RunOptions,
}

/// Result of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CampaignReport {
    /// Number of seeds run.
    pub seeds: u64,
    /// Failed seeds in order, with the violations: twenty or a few more at most.
    pub failed: Vec<(u64, Violation)>,
    /// Sum of the counts of all runs.
    pub counts: RunCounts,
    /// Number of seeds with each kind of fault, by its number in docs/develop/faults.md.
    pub with_fault: BTreeMap<u8, u64>,
    /// Sum of the hashes of all traces.
    pub trace: u64,
}

impl Campaign {
    /// Runs the seeds until `is_over` returns true. `note` receives the number of seeds run so far,
    /// from any thread.
    pub fn run(
        &self,
        is_over: &(dyn Fn() -> bool + Sync),
        note: &(dyn Fn(u64) + Sync),
    ) -> CampaignReport {
        let next = AtomicU64::new(0);
        let is_enough = AtomicBool::new(false);
        let report = Mutex::new(CampaignReport::default());
        let work = || {
            while !is_enough.load(Ordering::Relaxed) && !is_over() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.seeds {
                    return;
                }
                let seed = self.first_seed.wrapping_add(index);
                let plan = Plan::of(seed);
                let outcome = run(&plan, self.how);
                // A count and a push: the report stays consistent if another thread panics in
                // between.
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.seeds += 1;
                report.counts.add(&outcome.counts);
                for fault in plan.faults() {
                    *report.with_fault.entry(fault).or_default() += 1;
                }
                report.trace = report.trace.wrapping_add(outcome.trace);
                if let Some(violation) = outcome.violation {
                    report.failed.push((seed, violation));
                }
                if report.failed.len() >= FAILED_MAX {
                    is_enough.store(true, Ordering::Relaxed);
                }
                note(report.seeds);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.get() {
                scope.spawn(work);
            }
            work();
        });
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failed.sort_by_key(|(seed, _)| *seed);
        report
    }
}

impl RunCounts {
    /// Adds the counts of another run.
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.requests += other.requests;
        self.whole += other.whole;
        self.bytes += other.bytes;
        self.flash_reads += other.flash_reads;
        self.found_records += other.found_records;
        self.starts += other.starts;
    }
}
