//! `auto-paper`: the controller of automated-prefetching section 4 (thesis 4.2).
//!
//! Gradient descent on a score, disk time per byte times miss ratio, with one remembered score per
//! size. Every interval the size in use gets its score and moves one step towards the neighbour
//! with a lower one; an unknown neighbour is tried, the larger first; at a minimum the other scores
//! shrink a little, so that rejected sizes are tried again. A device with spare time keeps its
//! size. Evictions of unread pieces cause more than a step: the size becomes what viewers read
//! within the time that a prefetch stays in memory.
//!
//! Choices where the paper is silent: a change takes a third of an interval; an interval begins
//! when the size in use has reached its target; a size beyond the bounds has a score that is never
//! lower; the start size is set once the device is measured, before the first score.
//!
//! Invariants: every size is a whole number of steps within the bounds, and one step from the last
//! except for [`SizeReason::Evictions`], which only decreases it, and [`SizeReason::Measured`],
//! which occurs once.

use alloc::collections::BTreeMap;

use headlong_units::{Duration, Instant};

use super::interface::{
    ControllerInput, ControllerLimits, SizeDecision, SizeReason, is_share, score,
};
use super::ramp::Ramp;
use crate::stats::Stats;

/// The fraction of an interval over which a change is spread.
const CHANGE_PART: u64 = 3;

/// State of the controller.
#[derive(Debug)]
pub(crate) struct PaperController {
    limits: ControllerLimits,
    /// Scores by size: disk time per MiB sent.
    scores: BTreeMap<u64, Duration>,
    /// Start of the present interval, and the counters at that time.
    since: Option<(Instant, Stats)>,
    has_start: bool,
}

impl PaperController {
    pub(crate) fn new(limits: ControllerLimits) -> Self {
        Self {
            limits,
            scores: BTreeMap::new(),
            since: None,
            has_start: limits.rules.start_bytes.is_some(),
        }
    }

    /// A tick; `ramp` is the size in transition.
    pub(crate) fn handle_tick(
        &mut self,
        seen: &ControllerInput,
        ramp: &Ramp,
    ) -> Option<SizeDecision> {
        let in_use = ramp.bytes(seen.now);
        if let Some(start) = self.start(seen, in_use) {
            return Some(start);
        }
        let (began, before) = match self.since {
            Some(since) if ramp.is_settled(seen.now) => since,
            _ => {
                self.since = Some((seen.now, seen.stats));
                return None;
            }
        };
        let length = seen.now.since(began);
        if length < self.limits.rules.adjust_interval {
            return None;
        }
        self.since = Some((seen.now, seen.stats));
        let counted = seen.stats - before;
        Some(self.judge(seen, &counted, length, in_use))
    }

    /// The size at which transfer takes as long as repositioning, once.
    fn start(&mut self, seen: &ControllerInput, in_use: u64) -> Option<SizeDecision> {
        if self.has_start {
            return None;
        }
        let drive = seen.drive.filter(|_| seen.size_mean_bytes > 0)?;
        self.has_start = true;
        // The balanced size applies to the mean of the sizes in use; it is scaled to the reference
        // bit rate.
        let reference = u128::from(drive.balanced_bytes()) * u128::from(in_use)
            / u128::from(seen.size_mean_bytes);
        let reference = u64::try_from(reference).unwrap_or(u64::MAX);
        Some(self.verdict(self.limits.on_grid(reference), SizeReason::Measured, None))
    }

    fn judge(
        &mut self,
        seen: &ControllerInput,
        counted: &Stats,
        length: Duration,
        in_use: u64,
    ) -> SizeDecision {
        let rules = self.limits.rules;
        let Some(score) = score(counted) else {
            return self.verdict(in_use, SizeReason::LightLoad, None);
        };
        if !is_share(counted.busy_time.0, length.0, rules.busy_percent) {
            return self.verdict(in_use, SizeReason::LightLoad, Some(score));
        }
        self.scores.insert(in_use, score);
        let evicted = counted.prefetch_evicted_bytes;
        if is_share(evicted, counted.bytes_sent, rules.evict_percent)
            && let Some(bytes) = self.before_eviction(seen, counted, in_use)
        {
            return self.verdict(bytes, SizeReason::Evictions, Some(score));
        }
        self.descend(in_use, score)
    }

    /// The size that viewers read in the time a prefetch stays in memory, if it is smaller than the
    /// one in use.
    fn before_eviction(&self, seen: &ControllerInput, counted: &Stats, in_use: u64) -> Option<u64> {
        let stay = Duration(counted.prefetch_eviction_time.0 / counted.prefetch_evictions.max(1));
        let mean = u128::from(seen.pace_mean.bytes_in(stay));
        let reference = mean * u128::from(in_use) / u128::from(seen.size_mean_bytes.max(1));
        let bytes = u64::try_from(reference).unwrap_or(u64::MAX);
        let bytes = self.limits.on_grid(bytes);
        (bytes < in_use).then_some(bytes)
    }

    fn descend(&mut self, in_use: u64, score: Duration) -> SizeDecision {
        let step = self.limits.rules.step_bytes;
        let is_within = |bytes: &u64| *bytes == self.limits.on_grid(*bytes);
        let smaller = in_use.checked_sub(step).filter(is_within);
        let larger = in_use.checked_add(step).filter(is_within);
        let known = |bytes: Option<u64>| bytes.and_then(|bytes| self.scores.get(&bytes).copied());
        let (smaller_score, larger_score) = (known(smaller), known(larger));
        let lower = |score_beside: Option<Duration>| score_beside.filter(|beside| *beside < score);
        let (to, reason) = match (lower(smaller_score), lower(larger_score)) {
            (Some(small), Some(large)) if small < large => (smaller, SizeReason::LowerScore),
            (_, Some(_)) => (larger, SizeReason::LowerScore),
            (Some(_), None) => (smaller, SizeReason::LowerScore),
            (None, None) if larger_score.is_none() && larger.is_some() => {
                (larger, SizeReason::Untried)
            }
            (None, None) if smaller_score.is_none() && smaller.is_some() => {
                (smaller, SizeReason::Untried)
            }
            (None, None) => (None, SizeReason::Minimum),
        };
        if to.is_none() {
            self.deflate(in_use);
        }
        self.verdict(to.unwrap_or(in_use), reason, Some(score))
    }

    /// Shrinks the scores of the other sizes, so that they will be tried again.
    fn deflate(&mut self, in_use: u64) {
        let keep = 100 - u64::from(self.limits.rules.score_deflation_percent.min(100));
        for (bytes, score) in &mut self.scores {
            if *bytes != in_use {
                *score = Duration(score.0 / 100 * keep);
            }
        }
    }

    fn verdict(&self, bytes: u64, reason: SizeReason, score: Option<Duration>) -> SizeDecision {
        SizeDecision {
            bytes,
            takes: Duration(self.limits.rules.adjust_interval.0 / CHANGE_PART),
            reason,
            score,
        }
    }
}

#[cfg(test)]
#[path = "paper_tests.rs"]
mod tests;
