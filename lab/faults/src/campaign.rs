//! Runs many seeds on several threads and sums up the results.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::check::Violation;
use crate::plan::Plan;
use crate::run_plan::{RunOptions, run};
use crate::world::RunCounts;

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
