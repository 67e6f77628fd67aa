//! A controller with the reference size that it sets.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration, Instant, MIB};

use super::auto::AutoController;
use super::drive::{DriveFit, DriveTimes};
use super::ended_chains::{EndedChain, EndedChains};
use super::interface::{ControllerInput, ControllerLimits, SizeDecision, SizeReason, TICK};
use super::paper::PaperController;
use super::ramp::Ramp;
use crate::config::{Control, EngineConfig, SizingConfig};
use crate::saved_state::ShardMeasurements;

/// Changes kept until they are polled; older ones are dropped.
const CHANGES_MAX: usize = 64;

/// A change of the reference size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeChange {
    /// When the change begins.
    pub at: Instant,
    /// The size in use then.
    pub from_bytes: u64,
    /// The new size.
    pub to_bytes: u64,
    /// The reason.
    pub reason: SizeReason,
    /// Disk time per MiB sent at the old size; if it was judged.
    pub score: Option<Duration>,
}

impl core::fmt::Display for SizeChange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let (from, to) = (mib(self.from_bytes), mib(self.to_bytes));
        let why = self.reason.text();
        write!(f, "prefetch changes from {from:.1} to {to:.1} MiB: {why}")?;
        match self.score.map(|score| score.as_secs_f64() * 1e3) {
            Some(score) => write!(f, " ({score:.2} ms of disk time per MiB sent)"),
            None => Ok(()),
        }
    }
}

/// Snapshot of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlView {
    /// The controller.
    pub mode: Control,
    /// The reference size in use.
    pub bytes: u64,
    /// The size it is changing to.
    pub target_bytes: u64,
    /// Disk time per MiB sent, when it was last judged.
    pub score: Option<Duration>,
    /// The result of that judgement.
    pub reason: Option<SizeReason>,
    /// The device, as measured.
    pub drive: Option<DriveTimes>,
}

/// A controller with the reference size that it sets.
#[derive(Debug)]
pub(crate) struct Controller {
    limits: ControllerLimits,
    brain: ActiveController,
    ramp: Ramp,
    /// The rule, with the size in use.
    sizing: SizingConfig,
    fit: DriveFit,
    past: EndedChains,
    /// Live chains' mean size by the rule at the last tick, before any reduction.
    size_mean_bytes: u64,
    bit_rate_mean: Option<BitRate>,
    memory_bytes: u64,
    again_bytes: u64,
    last: Option<SizeDecision>,
    next_tick: Instant,
    changes: VecDeque<SizeChange>,
}

#[derive(Debug)]
enum ActiveController {
    Off,
    Auto(Box<AutoController>),
    Paper(Box<PaperController>),
}

impl Controller {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        let first = match config.control.mode {
            Control::Off => config.sizing.reference_bytes,
            Control::Auto | Control::Paper => ControllerLimits::new(config).first_bytes(config),
        };
        let mut controller = Self {
            limits: ControllerLimits::new(config),
            brain: ActiveController::Off,
            ramp: Ramp::at(first),
            sizing: config.sizing,
            fit: DriveFit::new(config.has_arm),
            past: EndedChains::default(),
            size_mean_bytes: 0,
            bit_rate_mean: None,
            memory_bytes: config.memory_bytes,
            again_bytes: 0,
            last: None,
            next_tick: Instant::ZERO,
            changes: VecDeque::new(),
        };
        controller.brain = controller.fresh_brain();
        controller.sizing.reference_bytes = first;
        controller
    }

    /// Applies new settings. An unchanged controller keeps its size and its state; a new one begins
    /// with the size in use.
    pub(crate) fn reconfigure(&mut self, now: Instant, config: &EngineConfig) {
        let before = core::mem::replace(&mut self.limits, ControllerLimits::new(config));
        // The start size is history: only a new controller uses it.
        let is_other = before.without_start() != self.limits.without_start();
        let in_use = self.ramp.bytes(now);
        let mode = config.control.mode;
        if mode == Control::Off {
            self.brain = ActiveController::Off;
            self.ramp = Ramp::at(config.sizing.reference_bytes);
            self.last = None;
        } else if is_other {
            let anew = before.rules.mode != mode;
            let start = config.control.start_bytes.filter(|_| anew);
            self.ramp = Ramp::at(self.limits.on_grid(start.unwrap_or(in_use)));
            self.brain = self.fresh_brain();
            self.last = None;
        }
        self.sizing = SizingConfig {
            reference_bytes: self.ramp.bytes(now),
            ..config.sizing
        };
    }

    fn fresh_brain(&self) -> ActiveController {
        match self.limits.rules.mode {
            Control::Off => ActiveController::Off,
            Control::Auto => ActiveController::Auto(Box::new(AutoController::new(self.limits))),
            Control::Paper => ActiveController::Paper(Box::new(PaperController::new(self.limits))),
        }
    }

    /// The rule, with the size in use.
    pub(crate) fn sizing(&self) -> &SizingConfig {
        &self.sizing
    }

    /// A read after a reposition occupied the device for `took`.
    pub(crate) fn record_read(&mut self, bytes: u64, took: Duration) {
        self.fit.record(bytes, took);
    }

    /// Assumed bit rate of a chain without a known one: the mean of recent chains. Without an
    /// active controller there is none, and such a chain is sized for the reference bit rate.
    pub(crate) fn bit_rate_mean(&self) -> Option<BitRate> {
        let looks = matches!(self.brain, ActiveController::Auto(_));
        self.bit_rate_mean.filter(|_| looks)
    }

    /// A chain ended.
    pub(crate) fn record_chain(&mut self, ended: EndedChain) {
        self.past.record(ended);
    }

    /// A chain had bytes read again that had been read for it before and were evicted unread.
    pub(crate) fn record_again(&mut self, bytes: u64) {
        self.again_bytes += bytes;
    }

    /// Bytes read again in this way since the beginning.
    pub(crate) fn again_bytes(&self) -> u64 {
        self.again_bytes
    }

    /// Reduces a prefetch of `wanted` bytes to the pool; `None` without an active controller.
    ///
    /// When the sizes of all `chains` add up to more than the pool, all shrink by the same factor,
    /// immediately: chains may arrive faster than the reference size follows.
    pub(crate) fn cut(&self, wanted: u64, chains: u64) -> Option<u64> {
        let ActiveController::Auto(auto) = &self.brain else {
            return None;
        };
        // A page cache has no shares.
        if self.size_mean_bytes == 0 || !self.limits.keeps_unread {
            return None;
        }
        let pool = u128::from(auto.pool_bytes(self.memory_bytes));
        let sizes = u128::from(self.size_mean_bytes) * u128::from(chains.max(1));
        let cut = u128::from(wanted) * pool / sizes.max(pool).max(1);
        Some(u64::try_from(cut).unwrap_or(u64::MAX))
    }

    /// The device as measured; `None` before enough reads.
    pub(crate) fn drive(&self) -> Option<DriveTimes> {
        self.fit.times()
    }

    /// The device as measured so far, else the usual values of its class.
    pub(crate) fn best_known_drive(&self) -> DriveTimes {
        self.fit.best_known()
    }

    /// When to call [`Self::handle_tick`] next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.brain {
            ActiveController::Off => None,
            ActiveController::Auto(_) | ActiveController::Paper(_) => Some(self.next_tick),
        }
    }

    /// A tick.
    pub(crate) fn handle_tick(&mut self, seen: &ControllerInput) {
        self.next_tick = seen.now + TICK;
        self.size_mean_bytes = seen.size_mean_bytes;
        self.bit_rate_mean = seen.bit_rate_mean.or(self.bit_rate_mean);
        let verdict = match &mut self.brain {
            ActiveController::Off => None,
            ActiveController::Auto(auto) => auto.handle_tick(seen, &self.past, &self.ramp),
            ActiveController::Paper(paper) => paper.handle_tick(seen, &self.ramp),
        };
        if let Some(verdict) = verdict {
            self.obey(seen.now, verdict);
        }
        self.sizing.reference_bytes = self.ramp.bytes(seen.now);
    }

    fn obey(&mut self, now: Instant, verdict: SizeDecision) {
        self.last = Some(verdict);
        if verdict.bytes == self.ramp.target() {
            return;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(SizeChange {
            at: now,
            from_bytes: self.ramp.bytes(now),
            to_bytes: verdict.bytes,
            reason: verdict.reason,
            score: verdict.score,
        });
        self.ramp.turn(now, verdict.bytes, verdict.takes);
    }

    /// The recently ended chains, with the bytes sent to all viewers so far on their count.
    pub(crate) fn ended(&self, sent_bytes: u64) -> (u64, Vec<EndedChain>) {
        self.past.export(sent_bytes)
    }

    /// Restores the state of an earlier process; the size only if a controller is active and no
    /// start size is set.
    pub(crate) fn resume(&mut self, learned: ShardMeasurements) {
        if let Some(times) = learned.drive {
            self.fit.resume(times);
        }
        self.bit_rate_mean = learned.bit_rate_mean;
        self.past.resume(learned.sent_bytes, learned.ended);
        let chooses = !matches!(self.brain, ActiveController::Off);
        let is_free = chooses && self.limits.rules.start_bytes.is_none();
        if let Some(bytes) = learned.reference_bytes.filter(|_| is_free) {
            self.ramp = Ramp::at(self.limits.on_grid(bytes));
            self.sizing.reference_bytes = self.ramp.target();
        }
    }

    /// The next change that was not polled yet.
    pub(crate) fn poll_change(&mut self) -> Option<SizeChange> {
        self.changes.pop_front()
    }

    pub(crate) fn view(&self) -> ControlView {
        ControlView {
            mode: self.limits.rules.mode,
            bytes: self.sizing.reference_bytes,
            target_bytes: self.ramp.target(),
            score: self.last.and_then(|verdict| verdict.score),
            reason: self.last.map(|verdict| verdict.reason),
            drive: self.fit.times(),
        }
    }
}
