//! State of one device: its streams, chains, queue and share of memory, and the contract with the
//! shell. See the module `shard` for the path of a request.
//!
//! Invariants, which [`Shard::check_invariants`] verifies after every step of a test: memory is
//! taken before a read is issued and never exceeds the budget; every waiting reply waits for a
//! piece that is being read or that a job covers; at most [`EngineConfig::outstanding_reads_max`]
//! reads are outstanding, where those of one run count once at a device with an arm, and fewer runs
//! if that was measured to be faster; the same calls give the same results.

use alloc::collections::VecDeque;

use headlong_units::{Duration, Instant};

use crate::admission_slack::AdmissionSlack;
use crate::chains::Chains;
use crate::command::{Command, Event};
use crate::config::{ConfigError, EngineConfig, Retention};
use crate::control::Controller;
use crate::flash::Flash;
use crate::health::{DeviceHealth, HealthConfig};
use crate::lanes::{Lanes, RunTail};
use crate::lingering_slot::LingeringSlot;
use crate::load::LoadAverages;
use crate::memory::{Memory, PieceKey};
use crate::queue::Queue;
use crate::read_depth::ReadDepth;
use crate::replies::Replies;
use crate::runs::Runs;
use crate::stats::{Stats, StatsByPolicy};
use crate::streams::Streams;

/// Bounds of the time after which an overloaded device may be retried.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The engine of one device. Owned by one thread, or by a simulation.
///
/// In: `handle_*`, each with the time, which never decreases. Out: [`Self::poll_command`] and
/// [`Self::poll_event`], to be drained after every call, and [`Self::poll_timeout`].
///
/// Each part keeps its own invariants; those between parts are on the fields.
#[derive(Debug)]
pub struct Shard {
    pub(super) config: EngineConfig,
    /// Time of the last call; it never decreases.
    pub(super) now: Instant,
    /// A stream is kept while a chain reads it, unless its files change.
    pub(super) streams: Streams,
    /// The stream of a chain is in `streams`, its requests are in `replies`, its job, if it has
    /// one, is in `queue`, and its unread pieces are in `memory` with the chain as owner.
    pub(super) chains: Chains,
    /// A piece that a reply waits for is being read (`runs`), or is part of a remainder there, or
    /// of a job in `queue`. A slot that a reply sends is Sending in `memory`, once for each reply;
    /// so is one of `resting`.
    pub(super) replies: Replies,
    /// Slots that are Filling are those of reads in `runs` and `flash`.
    pub(super) memory: Memory,
    /// A job's chain may have ended; the job is then done only if a reply waits for it.
    pub(super) queue: Queue,
    pub(super) runs: Runs,
    /// The tier between memory and the device, if one is attached.
    pub(super) flash: Option<Flash>,
    pub(super) health: DeviceHealth,
    pub(super) load: LoadAverages,
    pub(super) bearing: AdmissionSlack,
    /// How many runs the device gets at once, within the settings.
    pub(super) lanes: Lanes,
    pub(super) tail: RunTail,
    pub(super) control: Controller,
    pub(super) depth: ReadDepth,
    pub(super) commands: VecDeque<Command>,
    pub(super) events: VecDeque<Event>,
    pub(super) stats: Stats,
    pub(super) stats_by_policy: StatsByPolicy,
    /// Lingering slots, the oldest first: in `memory` they are being sent.
    pub(super) resting: VecDeque<LingeringSlot>,
    /// Set while memory is returned to the system: the time of the next step.
    pub(super) retiring: Option<Instant>,
    /// Another process serves; this one sends its last replies.
    pub(super) is_replaced: bool,
}

impl Shard {
    /// An empty shard.
    ///
    /// # Errors
    /// The first reason why the settings are invalid; [`EngineConfig::check`] returns all.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        if let Some(error) = config.check().next() {
            return Err(error);
        }
        let slot_count = u32::try_from(config.slot_count()).map_err(|_| ConfigError::Memory)?;
        let mut memory = Memory::new(slot_count, config.piece_bytes);
        memory.protect_unread(config.retention != Retention::PageCache);
        memory.set_retention(config.retention);
        Ok(Self {
            config,
            now: Instant::ZERO,
            streams: Streams::default(),
            chains: Chains::default(),
            replies: Replies::default(),
            memory,
            queue: Queue::default(),
            runs: Runs::default(),
            flash: None,
            health: DeviceHealth::default(),
            load: LoadAverages::default(),
            bearing: AdmissionSlack::default(),
            lanes: Lanes::default(),
            tail: RunTail::default(),
            control: Controller::new(&config),
            depth: ReadDepth::default(),
            commands: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            stats_by_policy: StatsByPolicy::default(),
            retiring: None,
            resting: VecDeque::new(),
            is_replaced: false,
        })
    }

    /// Applies new settings. The piece size and the memory are unchanged: they define the pool.
    ///
    /// # Errors
    /// The first reason why the settings are invalid; then they are unchanged.
    pub fn handle_config(&mut self, now: Instant, config: EngineConfig) -> Result<(), ConfigError> {
        self.begin(now);
        let config = EngineConfig {
            piece_bytes: self.config.piece_bytes,
            memory_bytes: self.config.memory_bytes,
            ..config
        };
        if let Some(error) = config.check().next() {
            return Err(error);
        }
        if config.sizing.policy != self.config.sizing.policy {
            let before = self.config.sizing.policy;
            self.stats_by_policy.close(before, self.stats);
        }
        self.control.reconfigure(self.now, &config);
        self.memory
            .protect_unread(config.retention != Retention::PageCache || self.retiring.is_some());
        self.memory.set_retention(config.retention);
        if let Some(flash) = &mut self.flash {
            flash.room.set_config(config.flash);
        }
        self.config = config;
        self.finish();
        Ok(())
    }

    /// Time passed. To be called at the time of [`Self::poll_timeout`]; at any other time it is
    /// harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin(now);
        self.health.handle_timeout(self.now, self.health_config());
        self.abandon_late_reads();
        self.fail_late_replies();
        self.give_up_late_flash_reads();
        while let Some(chain) = self.chains.poll_expired(self.now, self.config.chain_gap) {
            self.end_chain(chain);
        }
        self.chains.note_left(self.now, self.config.chain_gap);
        self.tick_control();
        self.finish();
    }

    /// The next command. To be called after every `handle_*`, until it returns `None`.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next event. To be called after every `handle_*`, until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] next; to be checked after every `handle_*`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let late_read = self.runs.late_at(self.config.read_timeout);
        let idle_chain = self.chains.poll_timeout(self.config.chain_gap);
        let health = self.health.poll_timeout(self.health_config());
        let control = self.control.poll_timeout();
        let hung = self.hangs_at();
        let late_reply = self.replies.poll_timeout(self.config.wait_timeout);
        let flash = self.flash.as_ref().and_then(Flash::poll_timeout);
        let timeouts = [
            late_read,
            hung,
            late_reply,
            idle_chain,
            health,
            control,
            flash,
            self.vacates_at(),
            self.rests_until(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// Beginning of every call: advances the time, and the counters that are integrals over it.
    pub(super) fn begin(&mut self, now: Instant) {
        let passed = now.since(self.now);
        self.now = self.now.max(now);
        self.stats.queue_time += passed.times(self.queue.len() as u64);
        if !self.runs.is_idle() {
            self.stats.busy_time += passed;
        }
        self.end_rests();
    }

    /// End of every call: issues work to the device if it can take any.
    pub(super) fn finish(&mut self) {
        self.issue_reads();
        self.issue_flash_writes();
        self.vacate();
    }

    pub(super) fn health_config(&self) -> HealthConfig {
        HealthConfig {
            window: self.config.error_window,
            errors_offline: self.config.errors_offline,
            offline_retry: self.config.offline_retry,
        }
    }

    /// When a viewer a little behind will want a piece; the rank of interval caching.
    pub(super) fn wanted_at(&self, key: PieceKey) -> Option<Instant> {
        if self.config.retention != Retention::Popularity {
            return None;
        }
        let stream = self.streams.get(key.0)?;
        let place = stream.layout.place(key.1);
        // A viewer in the middle of the piece wants the rest.
        let last = (place.logical + place.length).saturating_sub(1);
        let behind = self.chains.nearest_behind(key.0, last)?;
        let pace = behind.pace(self.now, stream.bit_rate, self.config.pace_default);
        let left = place.logical.saturating_sub(behind.position);
        Some(self.now + pace.time_for(left))
    }

    /// Ranks pieces whose expected viewer is overdue by the nearest viewer behind them now, if
    /// there is one.
    pub(super) fn ask_again_who_wants(&mut self) {
        while let Some(slot) = self.memory.unclaimed(self.now) {
            let wanted_at = self.wanted_at(self.memory.key(slot));
            self.memory.want(slot, wanted_at);
        }
    }

    /// Panics if an invariant is broken. For tests and simulations to call after every step: it
    /// checks every slot, which is too expensive for a server.
    pub fn check_invariants(&self) {
        self.memory.check_invariants();
        self.runs.check_invariants();
        self.chains.check_invariants();
        self.streams
            .check_invariants(|id| self.chains.of_stream(id).len());
        if let Some(flash) = &self.flash {
            flash.check_invariants(|stream, of, is_late| {
                let found = self.memory.find((stream, of.number)) == Some(of.slot);
                self.memory.is_filling(of.slot) && (found != is_late)
            });
        }
        self.replies.check_invariants(|key| {
            self.memory.find(key).is_some()
                || self.queue.covering(key.0, key.1).is_some()
                || self.runs.will_bring(key)
        });
    }

    pub(super) fn retry_after(&self) -> Duration {
        let queue = self.load.service().times(self.queue.len() as u64);
        queue.max(RETRY_AFTER.0).min(RETRY_AFTER.1)
    }
}
