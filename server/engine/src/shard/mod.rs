//! One device: its streams, chains, queue and share of memory, and the contract with the shell.
//!
//! The one idea: a request goes through in one direction. It joins a chain
//! (`requests`), its pieces are looked for in memory, a missing one becomes a job
//! (`planning`: how much, and needed by when), the device's turn makes a job a run of reads
//! (`reading`), and each piece read goes to the replies that wait for it (`requests` again).
//!
//! Invariants, which [`Shard::check_invariants`] looks for after every step of a test: memory is taken before a read is issued and never exceeds the budget; every reply that waits,
//! waits for a piece that is being read or that a job covers; at most
//! [`EngineConfig::outstanding_reads_max`] reads are outstanding; same calls, same answers.

mod controlling;
mod planning;
mod reading;
mod requests;
mod streams;
mod view;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration, Instant};
use smallvec::SmallVec;

use crate::chain::Chains;
use crate::command::{Command, Event};
use crate::config::{ConfigError, EngineConfig, Policy, Retention};
use crate::control::Controller;
use crate::health::{Health, HealthConfig};
use crate::id_map::IdMap;
use crate::ids::{ChainId, ReadId, RequestId, Slot, StreamId};
use crate::layout::Layout;
use crate::load::Load;
use crate::memory::{Memory, PieceKey};
use crate::queue::{Job, Queue};
use crate::stats::Stats;

pub use view::ChainView;

/// Everything that is decided for one device. Owned by one thread, or by a simulation.
///
/// In: `handle_*`, each with the time, which never goes back. Out: [`Self::poll_command`] and
/// [`Self::poll_event`], to be drained after every call, and [`Self::poll_timeout`].
#[derive(Debug)]
pub struct Shard {
    config: EngineConfig,
    now: Instant,
    streams: IdMap<StreamId, Stream>,
    chains: Chains,
    requests: IdMap<RequestId, ActiveRequest>,
    /// Who waits for a piece that is not in memory yet, in order of arrival.
    waiters: BTreeMap<PieceKey, Vec<RequestId>>,
    memory: Memory,
    queue: Queue,
    reads: BTreeMap<ReadId, OutstandingRead>,
    /// When the device was last seen to end a read.
    last_read_done_at: Instant,
    runs: BTreeMap<RunId, Run>,
    /// What is left of runs that go on in another file, or past pieces that were there.
    continuing: VecDeque<(RunId, Job)>,
    health: Health,
    load: Load,
    control: Controller,
    /// Where the last read ended on the device.
    head: u64,
    next_id: u64,
    commands: VecDeque<Command>,
    events: VecDeque<Event>,
    stats: Stats,
    /// What was counted under each policy that was in force before, and the counters at the moment
    /// the present one came into force.
    stats_before: BTreeMap<Policy, Stats>,
    stats_at_change: Stats,
}

/// A registered stream.
#[derive(Debug)]
struct Stream {
    layout: Layout,
    bit_rate: Option<BitRate>,
    requests: usize,
    chains: usize,
    last_used: Instant,
}

/// Pieces of the usual send window: so many are kept track of in the request itself.
const SENT_AT_ONCE: usize = 4;

/// A request in progress. Offsets are within its part.
#[derive(Debug)]
struct ActiveRequest {
    chain: ChainId,
    stream: StreamId,
    part: u32,
    open_ended: bool,
    /// Next byte to hand out.
    next: u64,
    end: u64,
    /// Pieces handed out and not yet returned.
    sending: SmallVec<[Slot; SENT_AT_ONCE]>,
    waiting: Option<Waiting>,
    /// Failed or cancelled: it only waits for its slots to come back.
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    piece: u32,
    since: Instant,
    /// When the read that brings the piece was issued.
    issued_at: Option<Instant>,
}

/// One or more reads that make up one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RunId(u64);

#[derive(Debug)]
struct Run {
    /// For whom each piece is read.
    claims: Vec<Claim>,
    deadline: Instant,
    startup: bool,
    wanted_bytes: u64,
    bytes: u64,
    reads_outstanding: u32,
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    chain: ChainId,
    from: u32,
    to: u32,
}

#[derive(Debug)]
struct OutstandingRead {
    run: RunId,
    stream: StreamId,
    first_piece: u32,
    slots: Vec<Slot>,
    bytes: u64,
    issued_at: Instant,
    /// It does not begin where the read before it ended.
    is_elsewhere: bool,
    /// It took too long; nobody waits for it any more, but the memory is still being written.
    abandoned: bool,
    /// How many reads that were issued later have ended before it.
    overtaken: u32,
}

impl Shard {
    /// A shard with nothing in it.
    ///
    /// # Errors
    /// The first reason why the settings cannot work; [`EngineConfig::check`] gives all.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        if let Some(error) = config.check().next() {
            return Err(error);
        }
        let slot_count = u32::try_from(config.slot_count()).map_err(|_| ConfigError::Memory)?;
        let mut memory = Memory::new(slot_count);
        memory.protect_unread(config.retention != Retention::PageCache);
        Ok(Self {
            config,
            now: Instant::ZERO,
            streams: IdMap::default(),
            chains: Chains::default(),
            requests: IdMap::default(),
            waiters: BTreeMap::new(),
            memory,
            queue: Queue::default(),
            reads: BTreeMap::new(),
            last_read_done_at: Instant::ZERO,
            runs: BTreeMap::new(),
            continuing: VecDeque::new(),
            health: Health::default(),
            load: Load::default(),
            control: Controller::new(&config),
            head: 0,
            next_id: 0,
            commands: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            stats_before: BTreeMap::new(),
            stats_at_change: Stats::default(),
        })
    }

    /// New settings. The piece size and the memory stay what they were: they are the pool.
    ///
    /// # Errors
    /// The first reason why the settings cannot work; then nothing changes.
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
            self.close_policy();
        }
        self.control.reconfigure(self.now, &config);
        self.memory
            .protect_unread(config.retention != Retention::PageCache);
        self.config = config;
        self.finish();
        Ok(())
    }

    /// Time passed. To be called when [`Self::poll_timeout`] says so; at any other time it does
    /// no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin(now);
        self.health.handle_timeout(self.now, self.health_config());
        self.abandon_late_reads();
        while let Some(chain) = self.chains.poll_expired(self.now, self.config.chain_gap) {
            self.end_chain(chain);
        }
        self.tick_control();
        self.finish();
    }

    /// The next command. Worth calling after every `handle_*`, until there is none.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next event. Worth calling after every `handle_*`, until there is none.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] next; worth asking after every `handle_*`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timeout = self.config.read_timeout;
        // They are in the order in which they were issued.
        let first = self.reads.values().find(|read| !read.abandoned);
        let late_read = first.map(|read| read.issued_at + timeout);
        let idle_chain = self.chains.poll_timeout(self.config.chain_gap);
        let health = self.health.poll_timeout(self.health_config());
        let control = self.control.poll_timeout();
        let timeouts = [late_read, idle_chain, health, control];
        timeouts.into_iter().flatten().min()
    }

    /// Every call begins here: the time goes forward, and what it integrates over is counted.
    fn begin(&mut self, now: Instant) {
        let passed = now.since(self.now);
        self.now = self.now.max(now);
        self.stats.queue_time += passed.times(self.queue.len() as u64);
        if !self.reads.is_empty() {
            self.stats.busy_time += passed;
        }
    }

    /// Every call ends here: the device gets work if it can take any.
    fn finish(&mut self) {
        self.issue_reads();
    }

    fn health_config(&self) -> HealthConfig {
        HealthConfig {
            window: self.config.error_window,
            errors_offline: self.config.errors_offline,
            offline_retry: self.config.offline_retry,
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// When some viewer a little behind will want a piece; what interval caching ranks by.
    fn wanted_at(&self, key: PieceKey) -> Option<Instant> {
        if self.config.retention != Retention::Interval {
            return None;
        }
        let stream = self.streams.get(&key.0)?;
        let offset = stream.layout.logical_of_piece(key.1);
        let behind = self.chains.nearest_behind(key.0, offset)?;
        let pace = behind.pace(self.now, stream.bit_rate, self.config.pace_default);
        Some(self.now + pace.time_for(offset - behind.position))
    }

    /// Panics if something that must always hold does not. For tests and simulations to call
    /// after every step: it looks at every slot, which is too much for a server.
    pub fn check_invariants(&self) {
        self.memory.check_invariants();
        for (id, request) in &self.requests {
            let Some(waiting) = request.waiting else {
                continue;
            };
            let key = (request.stream, waiting.piece);
            let continued = || {
                let mut left = self.continuing.iter().map(|(_, job)| job);
                left.any(|job| job.stream == key.0 && (job.from..job.to).contains(&key.1))
            };
            assert!(
                self.memory.find(key).is_some()
                    || self.queue.covering(key.0, key.1).is_some()
                    || continued(),
                "{id:?} waits for piece {key:?}, which nothing will bring"
            );
            assert!(
                self.waiters
                    .get(&key)
                    .is_some_and(|waiters| waiters.contains(id))
            );
        }
    }

    fn retry_after(&self) -> Duration {
        let queue = self.load.service().times(self.queue.len() as u64);
        queue
            .max(Duration::from_secs(1))
            .min(Duration::from_secs(60))
    }
}
