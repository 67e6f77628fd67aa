//! What is seen of a world: what viewers got, what the server did for it, what the drive paid.
//!
//! The one idea: two snapshots of counters, when the window opens and when it closes, and between
//! them a distribution of the calls that ended. What happens outside the window is counted apart.
//!
//! Invariant: what is kept does not grow with the length of a run.

use headlong_engine::{MemoryUse, Stats};
use headlong_player::{CallEnd, CallRecord, CallSeen, SessionEnd};
use headlong_units::{Duration, Instant};
use headlong_workload::NetworkClass;

use crate::device::{DriveUse, Pattern};
use crate::disk_use::DiskUse;
use crate::flash_use::FlashUse;
use crate::histogram::Histogram;
use crate::origin::{CacheUse, Origin, State};
use crate::series::{Look, Looks};
use crate::ssd_use::SsdUse;

/// When what happens counts: steady state, without the ramps (thesis 3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From then on.
    pub from: Instant,
    /// Until then.
    pub to: Instant,
}

impl Default for Window {
    /// Ten minutes after a ramp of five.
    fn default() -> Self {
        Self {
            from: Instant::ZERO + Duration::from_secs(300),
            to: Instant::ZERO + Duration::from_secs(900),
        }
    }
}

impl Window {
    /// Whether a moment lies in it.
    pub fn contains(&self, at: Instant) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// What became of the calls that ended within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// All of them.
    pub ended: u64,
    /// Those that were answered whole.
    pub whole: u64,
    /// Bytes of those.
    pub whole_bytes: u64,
    /// Those that were not answered in time.
    pub timed_out: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those that broke off, or got what they should not.
    pub broken: u64,
}

impl Calls {
    /// Calls that failed, of whatever kind.
    pub fn failures(&self) -> u64 {
        self.timed_out + self.refused + self.broken
    }

    fn count(&mut self, record: &CallRecord) {
        self.ended += 1;
        match record.end {
            CallEnd::Whole => {
                self.whole += 1;
                self.whole_bytes += record.bytes;
            }
            CallEnd::TimedOut => self.timed_out += 1,
            CallEnd::Refused(_) => self.refused += 1,
            CallEnd::Broken | CallEnd::Wrong => self.broken += 1,
            CallEnd::Abandoned => {}
        }
    }
}

/// What became of viewers before the window opened: what a start costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RampUp {
    /// Viewers who came.
    pub sessions: u64,
    /// Calls that ended.
    pub calls: Calls,
    /// When the last call failed.
    pub failed_last: Option<Instant>,
}

/// What viewers of one network class saw, of those who came within the window and left.
#[derive(Debug, Clone, Default)]
pub struct Viewing {
    /// Name of the class.
    pub class: String,
    /// Sessions.
    pub sessions: u64,
    /// Of those, sessions whose viewers did not wait any longer for the picture.
    pub gave_up: u64,
    /// From arrival until the picture moved.
    pub startup: Histogram,
    /// Sessions in which the picture stood still.
    pub stalled: u64,
    /// How often it did.
    pub stalls: u64,
    /// For how long in all.
    pub stall_time: Duration,
    /// Media time that was played.
    pub played: Duration,
    /// Sessions of which a mean bit rate is known, and the sum of theirs in bits per second.
    pub bit_rates: (u64, u128),
    /// Changes of bit rate.
    pub switches: u64,
}

impl Viewing {
    fn count(&mut self, end: &SessionEnd) {
        self.sessions += 1;
        self.gave_up += u64::from(end.end == CallEnd::Abandoned);
        if let Some(delay) = end.startup_delay {
            self.startup.add(delay);
        }
        self.stalled += u64::from(end.stalls > 0);
        self.stalls += u64::from(end.stalls);
        self.stall_time += end.stall_time;
        self.played += end.played;
        if let Some(rate) = end.bit_rate {
            self.bit_rates.0 += 1;
            self.bit_rates.1 += u128::from(rate.0);
        }
        self.switches += u64::from(end.switches);
    }
}

/// Sums over regular looks at the state of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// How many looks.
    pub looks: u64,
    /// Viewers present, summed.
    pub viewers: u64,
    /// Viewers present, at most.
    pub viewers_max: u64,
    /// Jobs that somebody waited for, summed.
    pub queue_demanded: u64,
    /// The prefetch size in use, summed.
    pub prefetch_bytes: u128,
    /// Memory by class, summed: free, filling, unread, sending, read.
    pub memory: [u128; 5],
}

impl Seen {
    fn add(&mut self, look: &Look) {
        self.looks += 1;
        self.viewers += look.viewers;
        self.viewers_max = self.viewers_max.max(look.viewers);
        self.queue_demanded += look.queue_demanded as u64;
        self.prefetch_bytes += u128::from(look.control.bytes);
        for (sum, bytes) in self.memory.iter_mut().zip(classes(&look.memory)) {
            *sum += u128::from(bytes);
        }
    }
}

/// Memory by class: free, filling, unread, sending, read.
pub(crate) fn classes(memory: &MemoryUse) -> [u64; 5] {
    [
        memory.free_bytes,
        memory.filling_bytes,
        memory.unread_bytes,
        memory.sending_bytes,
        memory.read_bytes,
    ]
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Measure {
    window: Window,
    /// When it was closed: earlier than planned if the world was stopped.
    closed_at: Instant,
    /// Calls that ended within the window.
    pub calls: Calls,
    /// Calls that ended before or after it.
    pub calls_outside: Calls,
    /// What happened before it.
    pub ramp_up: RampUp,
    /// Failures within the window by class of the network.
    pub failures_by_class: Vec<u64>,
    /// Times from sending to the last byte of the calls answered whole, by class.
    pub response_times: Vec<Histogram>,
    /// Times from a request's arrival at the server until its first piece was there, within the
    /// window.
    pub waits: Histogram,
    /// Each call that ended, in order, if the setup says so.
    pub each_call: Vec<CallSeen>,
    keeps_calls: bool,
    /// Sums over the looks within the window.
    pub seen: Seen,
    /// The most things that were alive at once, looked at regularly: viewers present, what is
    /// planned, replies, looks kept, chains.
    pub live_max: usize,
    /// Things that happened from the beginning on: arrivals, requests, pieces, and the like.
    pub events: u64,
    looks: Looks,
    /// What the shard counted within the window.
    pub stats: Stats,
    /// What the drive did within the window.
    pub drive: DriveUse,
    /// In what order the drive, the first of several, was read within the window.
    pub pattern: Pattern,
    /// Sessions that began within the window and ended.
    pub sessions_steady: u64,
    /// Of those, sessions that failed.
    pub sessions_steady_failed: u64,
    /// What their viewers saw, by class.
    pub viewing: Vec<Viewing>,
    /// What the shard counted from the beginning to the end.
    pub stats_whole: Stats,
    /// What the drive did from the beginning to the end.
    pub drive_whole: DriveUse,
    /// The kernel's page cache when the window closed, if the server lives above one.
    pub cache: Option<CacheUse>,
    /// The flash tier when the window closed, with what it counted within it, if there is one.
    pub flash: Option<FlashUse>,
    /// What each disk did within the window; of headlong.
    pub disks: Vec<DiskUse>,
    /// What each SSD did within it.
    pub ssds: Vec<SsdUse>,
    /// Calls that ended within it, by the disk that they asked.
    pub calls_by_disk: Vec<Calls>,
    /// How memory was divided when the last viewer had left, if the world was run so far.
    pub memory_at_end: Option<MemoryUse>,
    asked_bytes: u64,
    arrived_bytes: u64,
    /// From the beginning on, in the window or not: asked for, delivered.
    so_far: (u64, u64),
    ended_at: Instant,
    stats_before: Stats,
    drive_before: DriveUse,
    flash_before: FlashUse,
    disks_before: Vec<DiskUse>,
    began: u64,
    ended: u64,
}

impl Measure {
    pub(crate) fn new(window: Window, classes: &[NetworkClass], keeps_calls: bool) -> Self {
        let viewing = classes.iter().map(|class| Viewing {
            class: class.name.clone(),
            ..Viewing::default()
        });
        Self {
            window,
            closed_at: window.to,
            failures_by_class: vec![0; classes.len()],
            response_times: vec![Histogram::default(); classes.len()],
            keeps_calls,
            viewing: viewing.collect(),
            ..Self::default()
        }
    }

    /// How long the window was open.
    pub fn length(&self) -> Duration {
        self.closed_at.since(self.window.from)
    }

    /// Bytes that requests asked for that were sent while the window was open.
    pub fn asked_for_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Bytes that reached viewers while the window was open.
    pub fn delivered_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// When the world ended.
    pub fn ended_at(&self) -> Instant {
        self.ended_at
    }

    /// Viewers who came.
    pub fn sessions_began(&self) -> u64 {
        self.began
    }

    /// Viewers who left.
    pub fn sessions_ended(&self) -> u64 {
        self.ended
    }

    /// The state of things, regularly, from the beginning on.
    pub fn looks(&self) -> &[Look] {
        self.looks.kept()
    }

    pub(crate) fn session_began(&mut self, at: Instant) {
        self.began += 1;
        self.ramp_up.sessions += u64::from(at < self.window.from);
    }

    pub(crate) fn session_ended(&mut self, class: u32, is_steady: bool, end: &SessionEnd) {
        self.ended += 1;
        if !is_steady {
            return;
        }
        self.sessions_steady += 1;
        self.sessions_steady_failed += u64::from(end.end.is_failure());
        self.viewing[class as usize].count(end);
    }

    /// A request is sent that asks for so much.
    pub(crate) fn asked(&mut self, at: Instant, bytes: u64) {
        self.so_far.0 = self.so_far.0.saturating_add(bytes);
        if self.window.contains(at) {
            self.asked_bytes = self.asked_bytes.saturating_add(bytes);
        }
    }

    /// Bytes of a reply reach a viewer.
    pub(crate) fn arrived(&mut self, at: Instant, bytes: u64) {
        self.so_far.1 += bytes;
        if self.window.contains(at) {
            self.arrived_bytes += bytes;
        }
    }

    pub(crate) fn call_ended(&mut self, session: u64, class: u32, disk: u32, record: &CallRecord) {
        if self.keeps_calls {
            self.each_call.push(CallSeen {
                session,
                class,
                counts: self.window.contains(record.ended),
                record: *record,
            });
        }
        if record.ended < self.window.from {
            self.ramp_up.calls.count(record);
            if record.end.is_failure() {
                self.ramp_up.failed_last = Some(record.ended);
            }
        }
        if !self.window.contains(record.ended) {
            return self.calls_outside.count(record);
        }
        self.calls.count(record);
        let disk = disk as usize;
        if disk >= self.calls_by_disk.len() {
            self.calls_by_disk.resize(disk + 1, Calls::default());
        }
        self.calls_by_disk[disk].count(record);
        if record.end == CallEnd::Whole {
            let took = record.ended.since(record.sent);
            self.response_times[class as usize].add(took);
        } else if record.end.is_failure() {
            self.failures_by_class[class as usize] += 1;
        }
    }

    pub(crate) fn look(&mut self, at: Instant, state: &State, live: usize) {
        let queue = state.queue;
        let look = Look {
            at,
            viewers: self.began - self.ended,
            memory: state.memory,
            queue: queue.jobs,
            queue_demanded: queue.jobs_demanded,
            queue_overdue: queue.jobs_overdue,
            chains: state.chains,
            control: state.control,
            head_physical: queue.head_physical,
            stats: state.stats,
            asked_for_bytes: self.so_far.0,
            delivered_bytes: self.so_far.1,
        };
        if self.window.contains(at) {
            self.seen.add(&look);
        }
        let live = live + look.chains + self.looks.kept().len();
        self.live_max = self.live_max.max(live);
        self.looks.add(look);
    }

    pub(crate) fn open(&mut self, server: &mut dyn Origin) {
        self.stats_before = server.state().stats;
        self.drive_before = server.drive_use();
        self.disks_before = server.disks();
        self.flash_before = server.flash().unwrap_or_default();
        server.take_waits();
    }

    pub(crate) fn end(&mut self, now: Instant, server: &dyn Origin) {
        self.ended_at = now;
        self.stats_whole = server.state().stats;
        self.drive_whole = server.drive_use();
    }

    pub(crate) fn close(&mut self, now: Instant, server: &mut dyn Origin) {
        self.closed_at = now;
        self.stats = server.state().stats - self.stats_before;
        self.drive = server.drive_use().since(&self.drive_before);
        self.pattern = server.pattern().cloned().unwrap_or_default();
        let before = std::mem::take(&mut self.disks_before);
        let disks = server.disks().into_iter().zip(&before);
        self.disks = disks.map(|(disk, before)| disk.since(before)).collect();
        self.ssds = server.ssds(now);
        let count = self.disks.len().max(self.calls_by_disk.len());
        self.calls_by_disk.resize(count, Calls::default());
        self.cache = server.cache();
        self.flash = server.flash().map(|flash| FlashUse {
            counts: flash.counts - self.flash_before.counts,
            ..flash
        });
        self.waits = server.take_waits();
    }
}
