//! `auto`: the computed optimum, corrected by descent.
//!
//! The cost of a size can be computed. For each size of a grid the recently ended chains are
//! replayed ([`EndedChains::replay`]): repositioning and transfer at the measured times, bytes that were
//! never requested, and the hits lost when prefetches take memory from retained pieces. The size
//! with the least disk time per sent byte is the optimum, known a few seconds after any change.
//! Effects outside this model (queues, viewers that coincide) are left to descent: a factor on the
//! optimum, moved by a quarter of an octave at a time and judged by the measured score as a share
//! of the computed one, so that a change of the load is not mistaken for a better size.
//!
//! Memory that protects unread pieces: live chains hold a measured fraction of their prefetches on
//! average ([`AutoController::held`]). Sizes that would fill more than [`POOL_SHARE`] of memory are
//! scaled down at once, all by the same factor, which preserves the square-root rule
//! (automated-prefetching section 5: minimise seeks subject to a sum of sizes). Evictions of unread
//! prefetches reduce that share quickly; their absence restores it slowly.
//!
//! Memory that does not protect them, as a page cache: how long a prefetch stays is computed for
//! each size ([`AutoController::in_page_cache`]), and the replay reads again what its viewer has
//! not read by then. That time is corrected by the measured share of rereads. Evictions as such are
//! no signal: of the pieces that viewers leave behind, some are always evicted before their chain
//! is known to have ended.
//!
//! Invariants: every size is within the bounds; a change at most halves a size or enlarges it by
//! half, and takes as long as a prefetch lasts.

use headlong_units::{Duration, Instant, MIB};

use super::drive::DriveTimes;
use super::ended_chains::{DeviceWork, EndedChains};
use super::interface::{
    ControllerInput, ControllerLimits, SizeDecision, SizeReason, TICK, is_share, score,
};
use super::ramp::Ramp;
use crate::stats::Stats;

/// How often the optimum is computed.
const INTERVAL: Duration = Duration::from_secs(15);
/// How long a factor is tried before it is judged.
const TRIAL: Duration = Duration::from_secs(90);
/// The usable share of a device's time is 1 minus the duration of a read divided by this: with
/// longer reads, viewers that arrive together wait longer for each other. In virtual time, SD and
/// HD with reads of 19, 53, 100 and 141 ms begin to fail at 98, 92, 90 and 88 %: between 0.7 and
/// 1.2 s.
const HEADROOM: Duration = Duration::from_millis(900);
/// Share of memory for unread prefetches, of 1; the rest is for pieces being sent and for chains
/// that are ahead of the average.
const POOL_SHARE: f64 = 0.875;
/// How often the best known factor is judged before a neighbouring one is tried.
const JUDGED_BEFORE_TRIAL: u32 = 10;
/// Fewer ended chains are not representative of new ones.
const CHAINS_MIN: usize = 64;
/// A relative change of the optimum below this is not applied.
const WORTH: f64 = 0.10;
/// Nor is one with a smaller relative gain: every change costs its viewers something.
const GAIN: f64 = 0.01;
/// A smaller size whose computed cost is within this relative distance of the least is preferred:
/// it leaves more memory, and shorter waits when many viewers start at once.
const NEAR: f64 = 0.02;
/// A score must be lower by this share to count as lower: scores over so short a time scatter.
const SCATTER: f64 = 0.03;
/// Prefetches stay in memory until they are read.
const FOREVER: Duration = Duration(u64::MAX);
/// Upper bound of the computed time that prefetches stay in a page cache.
const STAYS_MAX: Duration = Duration::from_secs(600);
/// Bisection steps of the search for that time.
const STAYS_ROUNDS: u32 = 16;
/// Bounds of the measured time, as a share of the computed one.
const REACH: (f64, f64) = (0.75, 1.25);
/// Factors of descent: quarters of an octave, from half to twice the optimum.
const FACTORS: [f64; 9] = [0.5, 0.595, 0.707, 0.841, 1.0, 1.189, 1.414, 1.682, 2.0];
const FACTOR_ONE: usize = 4;
/// Quarters of an octave within one octave.
const QUARTERS: [f64; 4] = [1.0, 1.189, 1.414, 1.682];

/// An average over `n` ticks moves by the `n`th part of the difference at each tick. Rates are
/// averaged over a minute of [`TICK`]s: long enough for a sweep over all viewers, short compared
/// with changes of the load.
const MINUTE: f64 = 12.0;
/// Hits come in bursts, as popular titles begin: a somewhat longer average.
const HITS_TICKS: f64 = 16.0;
/// Averaging time of the bytes that chains hold: 40 s, about a prefetch.
const HELD_TICKS: f64 = 8.0;
/// In a page cache, and for scores, there is one sample per look (15 s) or trial (90 s): fewer of
/// them.
const LOOKS: f64 = 3.0;
const TRIALS: f64 = 2.0;
/// Chains between just refilled and nearly empty hold between all and less than half of their
/// sizes; values outside were measured while sizes changed.
const HELD: (f64, f64) = (0.3, 1.25);
/// Fewer chains hold too different shares of their sizes for a mean.
const HELD_CHAINS_MIN: u64 = 8;
/// Factors on the usable share of memory after a tick with evictions, and after one without: half
/// of a reduction is restored in 70 s. The reduction is quick, as each eviction is a wasted read;
/// the recovery slow, as memory just below the limit costs almost nothing.
const CAUTION: (f64, f64) = (0.85, 1.005);
/// The recovery factor while memory has room ([`ROOMY`]), nearly as quick as the reduction. When
/// many viewers begin at once, earlier ones hold their share of a smaller number, and some of that
/// is evicted; a minute later there is room. Sizes that stayed small would keep the device from
/// filling it.
const CAUTION_OVER: f64 = 1.1;
/// Memory has room if less than this share of it is unread.
const ROOMY: f64 = 0.75;
/// Lower bound of the usable share.
const CAUTION_MIN: f64 = 0.25;
/// Largest relative change, in one look, of the time that prefetches stay in a page cache.
const SURPLUS_MAX: f64 = 0.2;
/// Initial value of the correction: pieces stay slightly shorter than computed from the last use.
const REACH_FIRST: f64 = 0.9;
/// A pool or cache keeps at least this share for pieces that are not prefetched, so that a division
/// by the remainder stays bounded.
const KEPT_MIN: f64 = 1.0 / 64.0;
const CACHE_KEPT_MIN: f64 = 1.0 / 16.0;
/// Bounds that leave some work and some time for it, however large the memory and however slow a
/// read.
const HITS_MAX: f64 = 0.95;
const USABLE_MIN: f64 = 0.05;
/// Bounds of the duration of a change: three ticks, and the usual pause between requests.
const TAKES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(45));
/// A larger size takes so many times as long: to fill memory with larger prefetches is work beside
/// that of serving. A fifth more within 45 s took 7 % of a WD Red at its limit, as long as it took.
const GROWTH_TAKES: u64 = 4;

/// State of the controller.
#[derive(Debug)]
pub(crate) struct AutoController {
    limits: ControllerLimits,
    /// Unread bytes that a chain holds, as a share of its size; smoothed.
    held: f64,
    /// Usable share of the pool: less than 1 after evictions.
    caution: f64,
    /// Index in [`FACTORS`] of the factor in use, and of the best known; they differ during a
    /// trial.
    factor: usize,
    home: usize,
    /// The score of each factor, as a share of the computed cost.
    scores: [Option<f64>; FACTORS.len()],
    /// How often the best factor was judged since the last trial, and the direction of the next
    /// one.
    judged_count: u32,
    tries_larger: bool,
    hit_ratio: f64,
    /// Bytes sent per second, over a minute.
    sent_rate: f64,
    /// Share of the bytes read from the device that had been read before and were evicted unread,
    /// of 1, over a minute.
    again: f64,
    again_bytes: Option<u64>,
    /// Time that prefetches stay in a page cache, as a share of the computed one: corrected by
    /// rereads.
    reach: f64,
    /// Share of the time that the device is busy, over a minute.
    busy: f64,
    /// The optimum that sizes follow.
    adopted: Option<u64>,
    last_tick: Option<Stats>,
    next_look: Instant,
    trial: Option<(Instant, Stats)>,
    has_measured: bool,
}

impl AutoController {
    pub(crate) fn new(limits: ControllerLimits) -> Self {
        Self {
            limits,
            held: 1.0,
            caution: 1.0,
            factor: FACTOR_ONE,
            home: FACTOR_ONE,
            judged_count: 0,
            tries_larger: false,
            hit_ratio: 0.0,
            sent_rate: 0.0,
            again: 0.0,
            again_bytes: None,
            reach: REACH_FIRST,
            busy: 0.0,
            scores: [None; FACTORS.len()],
            adopted: None,
            last_tick: None,
            next_look: Instant::ZERO,
            trial: None,
            has_measured: false,
        }
    }

    /// Bytes that the sizes of all live chains may add up to.
    pub(crate) fn pool_bytes(&self, memory_bytes: u64) -> u64 {
        (memory_bytes as f64 * POOL_SHARE * self.caution / self.held) as u64
    }

    /// A tick; `ramp` is the reference size in transition.
    pub(crate) fn handle_tick(
        &mut self,
        seen: &ControllerInput,
        past: &EndedChains,
        ramp: &Ramp,
    ) -> Option<SizeDecision> {
        let evicted = self.watch_memory(seen);
        if !evicted && seen.now < self.next_look {
            return None;
        }
        let drive = seen.drive?;
        if past.len() < CHAINS_MIN || seen.size_mean_bytes == 0 {
            return None;
        }
        self.next_look = seen.now + INTERVAL;
        let in_use = ramp.bytes(seen.now);
        if !self.limits.keeps_unread {
            self.correct_page_cache(seen, past, in_use);
        }
        let (optimum, cost) = self.optimum(seen, past, drive, in_use);
        self.adopted = Some(optimum);
        let (reason, score) = self.judge(seen, ramp, cost);
        let reason = if evicted {
            SizeReason::Evictions
        } else {
            reason
        };
        let wanted = self
            .limits
            .clamp((optimum as f64 * FACTORS[self.factor]) as u64);
        // A device with spare time gains nothing by larger sizes, and when many viewers arrive at
        // once each takes the size in force then (automated-prefetching 4.1).
        let most = match self.is_light() {
            true => in_use,
            false => in_use + in_use / 2,
        };
        let least = (in_use / 2).max(self.limits.bytes_min);
        let bytes = wanted.min(most).max(least);
        let is_trial = matches!(reason, SizeReason::Untried | SizeReason::LowerScore);
        let differs = bytes.abs_diff(ramp.target()) as f64 > WORTH * ramp.target() as f64;
        let is_worth = differs || is_trial;
        Some(SizeDecision {
            bytes: if is_worth { bytes } else { ramp.target() },
            takes: match bytes > in_use {
                true => self.takes(seen).times(GROWTH_TAKES),
                false => self.takes(seen),
            },
            reason: if is_worth && matches!(reason, SizeReason::Minimum | SizeReason::LightLoad) {
                SizeReason::Optimum
            } else {
                reason
            },
            score,
        })
    }

    /// Updates the averages; returns whether unread pieces were evicted, after reducing the usable
    /// share.
    fn watch_memory(&mut self, seen: &ControllerInput) -> bool {
        let before = self.last_tick.replace(seen.stats).unwrap_or(seen.stats);
        let counted = seen.stats - before;
        let sizes = seen.sizes_in_force(self.pool_bytes(seen.memory_bytes));
        self.sent_rate +=
            (counted.bytes_sent as f64 / TICK.as_secs_f64() - self.sent_rate) / MINUTE;
        let busy = counted.busy_time.0 as f64 / TICK.0 as f64;
        self.busy += (busy.min(1.0) - self.busy) / MINUTE;
        if counted.bytes_sent > 0 {
            let reused = counted.bytes_reused as f64 / counted.bytes_sent as f64;
            self.hit_ratio += (reused - self.hit_ratio) / HITS_TICKS;
        }
        if seen.chains >= HELD_CHAINS_MIN && sizes > 0.0 && self.limits.keeps_unread {
            let held = (seen.unread_bytes as f64 / sizes).clamp(HELD.0, HELD.1);
            self.held += (held - self.held) / HELD_TICKS;
        }
        let again_before = self.again_bytes.replace(seen.again_bytes);
        let again_bytes = seen.again_bytes - again_before.unwrap_or(seen.again_bytes);
        if counted.bytes_read > 0 {
            let again = again_bytes as f64 / counted.bytes_read as f64;
            self.again += (again.min(1.0) - self.again) / MINUTE;
        }
        if !self.limits.keeps_unread {
            return false;
        }
        let evicted = is_share(counted.prefetch_evicted_bytes, counted.bytes_sent.max(1), 1);
        if evicted {
            self.caution = (self.caution * CAUTION.0).max(CAUTION_MIN);
        } else {
            let is_roomy = (seen.unread_bytes as f64) < seen.memory_bytes as f64 * ROOMY;
            let back = if is_roomy { CAUTION_OVER } else { CAUTION.1 };
            self.caution = (self.caution * back).min(1.0);
        }
        evicted
    }

    /// The size with the least computed disk time per sent byte, unless the previous one is as
    /// good, and the cost of the size in use.
    fn optimum(
        &self,
        seen: &ControllerInput,
        past: &EndedChains,
        drive: DriveTimes,
        in_use: u64,
    ) -> (u64, f64) {
        let pool = self.pool_bytes(seen.memory_bytes) as f64;
        let cost = |bytes: u64| {
            if !self.limits.keeps_unread {
                let (work, unread) = self.in_page_cache(seen, past, bytes);
                return self.cost(seen, drive, work, unread);
            }
            // The mean size at this reference; every rule with a reference is linear in it.
            let mean = seen.size_mean_bytes as f64 * bytes as f64 / in_use.max(1) as f64;
            let sizes = mean * seen.chains as f64;
            let scale = if sizes > pool { pool / sizes } else { 1.0 };
            let unread = sizes * scale * self.held;
            let work = past.replay(bytes, scale, FOREVER, seen.stats.bytes_sent);
            self.cost(seen, drive, work, unread)
        };
        let mut candidates = alloc::vec::Vec::new();
        let mut octave = self.limits.bytes_min;
        while octave <= self.limits.bytes_max {
            for quarter in QUARTERS {
                let bytes = (octave as f64 * quarter) as u64;
                if bytes <= self.limits.bytes_max {
                    candidates.push((bytes, cost(bytes)));
                }
            }
            octave = octave.saturating_mul(2);
        }
        let least = candidates
            .iter()
            .fold(f64::INFINITY, |least, (_, cost)| least.min(*cost));
        let near = candidates
            .iter()
            .find(|(_, cost)| *cost <= least * (1.0 + NEAR));
        let before = self.adopted.unwrap_or(in_use);
        if cost(before) <= least * (1.0 + GAIN) {
            return (before, cost(in_use));
        }
        (near.map_or(in_use, |(bytes, _)| *bytes), cost(in_use))
    }

    /// Disk time per sent byte, relative to the usable share of the time, if chains cause `work`
    /// and hold `unread` bytes.
    fn cost(
        &self,
        seen: &ControllerInput,
        drive: DriveTimes,
        work: DeviceWork,
        unread: f64,
    ) -> f64 {
        work.cost(drive) * (1.0 - self.hits(seen, unread)) / usable(work.read_time(drive))
    }

    /// Compares the computed state of a page cache at the size in use with the measured one.
    fn correct_page_cache(&mut self, seen: &ControllerInput, past: &EndedChains, in_use: u64) {
        let (work, _) = self.in_page_cache(seen, past, in_use);
        let sizes = (seen.chains as f64 * work.kept_bytes).max(1.0);
        let held = (seen.unread_bytes as f64 / sizes).clamp(HELD.0, HELD.1);
        self.held += (held - self.held) / LOOKS;
        let surplus = self.again - work.wasted_share();
        self.reach = (self.reach * (1.0 - surplus.clamp(-SURPLUS_MAX, SURPLUS_MAX) / LOOKS))
            .clamp(REACH.0, REACH.1);
    }

    /// The work that prefetches of a reference size would cause above a page cache, and the bytes
    /// that would be unread.
    ///
    /// A page is evicted when the rest of the cache has been used since: by bytes read from the
    /// device, and by unread pages that were sent meanwhile. The shorter pages stay, the more is
    /// reread, and the shorter they stay: the result is the fixed point.
    fn in_page_cache(
        &self,
        seen: &ControllerInput,
        past: &EndedChains,
        bytes: u64,
    ) -> (DeviceWork, f64) {
        let memory = seen.memory_bytes as f64;
        let mut stays = STAYS_MAX;
        let mut found = (DeviceWork::default(), 0.0);
        for _ in 0..STAYS_ROUNDS {
            let reached = Duration((stays.0 as f64 * self.reach) as u64);
            let work = past.replay(bytes, 1.0, reached, seen.stats.bytes_sent);
            let unread = seen.chains as f64 * work.kept_bytes * self.held;
            let by_sent = work.bytes_read / work.bytes_sent.max(1.0);
            let read_rate = self.sent_rate * (1.0 - self.hits(seen, unread)) * by_sent;
            let seconds = (memory - unread).max(memory * CACHE_KEPT_MIN) / read_rate.max(1.0);
            let next = Duration((seconds * 1e9) as u64).min(STAYS_MAX);
            found = (work, unread);
            stays = Duration(stays.0 / 2 + next.0 / 2);
        }
        found
    }

    /// Descent on the factor, when it has been in use for long enough under load.
    fn judge(
        &mut self,
        seen: &ControllerInput,
        ramp: &Ramp,
        computed: f64,
    ) -> (SizeReason, Option<Duration>) {
        if !self.has_measured {
            self.has_measured = true;
            return (SizeReason::Measured, None);
        }
        let (began, before) = match self.trial {
            Some(trial) if ramp.is_settled(seen.now) => trial,
            _ => {
                self.trial = Some((seen.now, seen.stats));
                return (SizeReason::Minimum, None);
            }
        };
        let length = seen.now.since(began);
        let counted = seen.stats - before;
        let score = score(&counted);
        if !is_share(
            counted.busy_time.0,
            length.0,
            self.limits.rules.busy_percent,
        ) {
            self.trial = Some((seen.now, seen.stats));
            return (SizeReason::LightLoad, score);
        }
        let Some(score) = score.filter(|_| length >= TRIAL) else {
            return (SizeReason::Minimum, score);
        };
        self.trial = Some((seen.now, seen.stats));
        let read_time = counted.busy_time.0 as f64 / counted.reads_done.max(1) as f64;
        let measured = score.0 as f64 / MIB as f64 / usable(read_time);
        let share = measured / computed.max(1e-9);
        let known = &mut self.scores[self.factor];
        *known = Some(known.map_or(share, |known| known + (share - known) / TRIALS));
        (self.descend(), Some(score))
    }

    /// The best factor, or the one on trial, was judged: chooses the next.
    fn descend(&mut self) -> SizeReason {
        let score = |factor: usize| self.scores[factor].unwrap_or(f64::INFINITY);
        if self.factor != self.home {
            let is_lower = score(self.factor) < score(self.home) * (1.0 - SCATTER);
            self.judged_count = 0;
            if is_lower {
                self.home = self.factor;
                return SizeReason::Minimum;
            }
            // Its score becomes outdated; the next trial measures it again.
            self.scores[self.factor] = None;
            self.factor = self.home;
            self.tries_larger = !self.tries_larger;
            return SizeReason::LowerScore;
        }
        self.judged_count += 1;
        if self.judged_count < JUDGED_BEFORE_TRIAL {
            return SizeReason::Minimum;
        }
        let beside = match self.tries_larger {
            true => (self.home + 1 < FACTORS.len()).then_some(self.home + 1),
            false => self.home.checked_sub(1),
        };
        self.judged_count = 0;
        match beside {
            Some(factor) => {
                self.factor = factor;
                SizeReason::Untried
            }
            None => {
                self.tries_larger = !self.tries_larger;
                SizeReason::Minimum
            }
        }
    }

    fn is_light(&self) -> bool {
        self.busy * 100.0 < f64::from(self.limits.rules.busy_percent)
    }

    /// The duration of a change: as long as a prefetch lasts, so that prefetches of different
    /// viewers do not coincide.
    fn takes(&self, seen: &ControllerInput) -> Duration {
        let lasts = seen.pace_mean.time_for(seen.size_mean_bytes);
        lasts.max(TAKES.0).min(TAKES.1)
    }

    /// Share of sent bytes that would be found in memory, if chains held `unread` bytes. Hits grow
    /// with the fourth root of the memory for retained pieces: 1 - alpha is a fifth for a Zipf
    /// popularity of 0.8, and viewers close behind add a little.
    fn hits(&self, seen: &ControllerInput, unread: f64) -> f64 {
        let memory = seen.memory_bytes as f64;
        let kept_now = (memory - seen.unread_bytes as f64).max(memory * KEPT_MIN);
        let kept = (memory - unread).max(memory * KEPT_MIN);
        (self.hit_ratio * libm::sqrt(libm::sqrt(kept / kept_now))).min(HITS_MAX)
    }
}

/// The share of the time that a device can be busy without failing a viewer, with reads of
/// `read_time` nanoseconds.
fn usable(read_time: f64) -> f64 {
    (1.0 - read_time / HEADROOM.0 as f64).max(USABLE_MIN)
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
