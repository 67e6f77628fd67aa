//! Many seeds on several threads, as one count.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::check::Violation;
use crate::judge::{How, run};
use crate::plan::Plan;
use crate::world::Counts;

/// Seeds that failed beyond this are not run for: there is enough to do.
const FAILED_MAX: usize = 20;

/// Which seeds are run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The first.
    pub first_seed: u64,
    /// How many.
    pub seeds: u64,
    /// Threads; what is found does not depend on them.
    pub threads: NonZeroUsize,
    /// How each is run.
    pub how: How,
}

/// What came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that failed, in order, and how: twenty or a few more at most.
    pub failed: Vec<(u64, Violation)>,
    /// All that was done.
    pub counts: Counts,
    /// Seeds that had each kind of fault, by its number in docs/develop/faults.md.
    pub with_fault: BTreeMap<u8, u64>,
    /// The sum of the hashes of all traces.
    pub trace: u64,
}

impl Campaign {
    /// Runs the seeds, until `is_over` says that it is enough. `note` is told how many have been run,
    /// from any thread.
    pub fn run(&self, is_over: &(dyn Fn() -> bool + Sync), note: &(dyn Fn(u64) + Sync)) -> Report {
        let next = AtomicU64::new(0);
        let is_enough = AtomicBool::new(false);
        let report = Mutex::new(Report::default());
        let work = || {
            while !is_enough.load(Ordering::Relaxed) && !is_over() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.seeds {
                    return;
                }
                let seed = self.first_seed.wrapping_add(index);
                let plan = Plan::of(seed);
                let outcome = run(&plan, self.how);
                // A count and a push: what a panic in between could leave behind is whole.
                let mut report = report
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
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
        let mut report = report
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        report.failed.sort_by_key(|(seed, _)| *seed);
        report
    }
}

impl Counts {
    /// Adds those of another run.
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
