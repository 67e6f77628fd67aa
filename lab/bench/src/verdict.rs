//! Judges a run: passed, failed, or refused because the machine was the limit.

use crate::active_run::RunObservation;
use crate::experiment::Experiment;
use crate::load_result::DriveLateness;
use crate::record::{OutcomeName, RunVerdict};
use crate::rig::QueueSettings;
use crate::step_load::StepLoadResult;

/// With a busier machine, the result may be the machine's limit.
const MACHINE_SHARE_MAX: f64 = 0.9;

/// From the results of a run, and the drives' queue settings before and after.
pub(crate) fn verdict(
    experiment: &Experiment,
    seen: &RunObservation,
    before: &[QueueSettings],
    after: &[QueueSettings],
) -> RunVerdict {
    let mut refused_because = seen.load.refused_because.clone();
    let mut limit = None;
    if let Some(how) = &seen.server.died {
        refused_because.push(format!(
            "the server ended during the run ({how}); standard error: {}",
            seen.server.last_words
        ));
    }
    if let Some(how) = &seen.load_died {
        refused_because.push(format!("the load generator failed: {how}"));
    }
    if before != after {
        refused_because.push(format!("the queue was changed during the run: {after:?}"));
    }
    let busy = seen.cpu.machine_share;
    // With rising rates, a drive at full load proves that it was the limit.
    let was_drive = seen
        .climbed
        .as_ref()
        .is_some_and(StepLoadResult::was_limited_by_drive);
    if busy > MACHINE_SHARE_MAX && !was_drive {
        let text = format!("the machine's processors were {:.0} % busy", busy * 100.0);
        limit = Some(text);
    }
    let drives = std::iter::once(&seen.disk.counters).chain(&seen.disk.others);
    let resolution = experiment.search.resolution;
    let of_ssd = seen.disk.ssd_counters.as_ref().map(DriveLateness::of);
    let of_ssd = of_ssd.and_then(|ssd| ssd.complaint("SSD", resolution));
    let of_drive = drives
        .map(DriveLateness::of)
        .find_map(|drive| drive.complaint("drive", resolution));
    limit = of_drive.or(of_ssd).or(limit);
    let rules = &experiment.search;
    let mut short = rules.quality.shortfall(&seen.load.viewed);
    if seen.climbed.is_none() {
        short.missed.extend(seen.load.ramp_viewers.shortfall());
    }
    let has_failed = match &seen.climbed {
        Some(climbed) => climbed.failed().is_some(),
        None => seen.load.failure_share > rules.failures_max || !short.missed.is_empty(),
    };
    refused_because.extend(short.unknown);
    // On a busy machine a pass is valid, but a failure may not be the server's.
    if has_failed && let Some(limit) = &limit {
        refused_because.push(format!("{limit}; choose a smaller time scale"));
    }
    if !refused_because.is_empty() && limit.is_none() {
        limit = Some(refused_because.join("; "));
    }
    let is_lost = match &seen.climbed {
        // A step load always ends with a failure; its result is the number of steps passed.
        Some(climbed) => climbed.passed().is_none(),
        None => has_failed,
    };
    let outcome = match (refused_because.is_empty(), is_lost) {
        (false, _) => OutcomeName::Refused,
        (true, true) => OutcomeName::Failed,
        (true, false) => OutcomeName::Passed,
    };
    RunVerdict {
        outcome,
        refused_because,
        limit,
        failure_share: seen.load.failure_share,
        ramp_failures: seen.load.ramp_failures,
        missed: short.missed,
        asked_for: seen.load.asked_for,
        delivered: seen.load.delivered,
    }
}
