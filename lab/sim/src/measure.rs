//! Measurements of a world: results of the viewers' calls, activity of the server, and use of the
//! drive.
//!
//! Two snapshots of counters, at the opening and the closing of the window, and a distribution of
//! the calls that ended between them. Events outside the window are counted separately.
//!
//! Invariant: memory use does not grow with the length of a run.

use headlong_engine::{ControlView, MemoryUse, Stats};
use headlong_player::{CallEnd, CallRecord, ExportedCall, SessionEnd};
use headlong_units::{Duration, Instant};
use headlong_workload::NetworkClass;

use crate::device::{AccessPattern, DriveUse};
use crate::fleet::FleetUse;
use crate::histogram::Histogram;
use crate::origin::{CacheUse, Origin, ServerState};
use crate::usage::{DiskUse, FlashUse, SsdUse};

/// The measured window: the steady state, without the ramps (thesis 3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredWindow {
    /// Opening, inclusive.
    pub from: Instant,
    /// Closing, exclusive.
    pub to: Instant,
}

impl Default for MeasuredWindow {
    /// Ten minutes after a ramp of five.
    fn default() -> Self {
        Self {
            from: Instant::ZERO + Duration::from_secs(300),
            to: Instant::ZERO + Duration::from_secs(900),
        }
    }
}

impl MeasuredWindow {
    /// Whether a moment lies in the window.
    pub fn contains(&self, at: Instant) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Results of the calls that ended within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// All calls.
    pub ended: u64,
    /// Calls that were answered completely.
    pub whole: u64,
    /// Bytes of complete calls.
    pub whole_bytes: u64,
    /// Calls that timed out.
    pub timed_out: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls that broke off or got a wrong reply.
    pub broken: u64,
}

impl CallCounts {
    /// Failed calls of any kind.
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

/// Counters before the window opened: the cost of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RampUp {
    /// Viewers that arrived.
    pub sessions: u64,
    /// Calls that ended.
    pub calls: CallCounts,
    /// Time of the last failed call.
    pub failed_last: Option<Instant>,
}

/// Quality of viewing in one network class, over sessions that began within the window and ended.
#[derive(Debug, Clone, Default)]
pub struct ViewingQuality {
    /// Name of the class.
    pub class: String,
    /// Sessions.
    pub sessions: u64,
    /// Sessions whose viewers left before playback started.
    pub gave_up: u64,
    /// From arrival to the start of playback.
    pub startup: Histogram,
    /// Sessions with at least one stall.
    pub stalled: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Total time of stalls.
    pub stall_time: Duration,
    /// Media time that was played.
    pub played: Duration,
    /// Sessions with a known mean bit rate, and the sum of these rates in bits per second.
    pub bit_rates: (u64, u128),
    /// Changes of bit rate.
    pub switches: u64,
}

impl ViewingQuality {
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

/// Sums over the regular samples of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateSums {
    /// Number of samples.
    pub looks: u64,
    /// Viewers present, summed.
    pub viewers: u64,
    /// Most viewers present at once.
    pub viewers_max: u64,
    /// Demanded jobs in the queue, summed.
    pub queue_demanded: u64,
    /// The prefetch size in use, summed.
    pub prefetch_bytes: u128,
    /// Memory by class, summed: free, filling, unread, sending, read.
    pub memory: [u128; 5],
}

impl StateSums {
    fn add(&mut self, look: &Snapshot) {
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

/// All measurements of a run.
#[derive(Debug, Default)]
pub struct RunMeasurements {
    window: MeasuredWindow,
    /// Closing time of the window: earlier than planned if the world was stopped.
    closed_at: Instant,
    /// Calls that ended within the window.
    pub calls: CallCounts,
    /// Calls that ended before or after the window.
    pub calls_outside: CallCounts,
    /// Counters before the window.
    pub ramp_up: RampUp,
    /// Failures within the window, by network class.
    pub failures_by_class: Vec<u64>,
    /// Times from sending to the last byte of complete calls, by class.
    pub response_times: Vec<Histogram>,
    /// Times from the arrival of a request at the server until its first piece was ready, within
    /// the window.
    pub waits: Histogram,
    /// Each call that ended, in order, if the setup says so.
    pub each_call: Vec<ExportedCall>,
    keeps_calls: bool,
    /// Sums over the samples within the window.
    pub seen: StateSums,
    /// Most objects alive at once, sampled regularly: viewers, planned events, replies, kept
    /// samples, and chains.
    pub live_max: usize,
    /// Events since the start: arrivals, requests, pieces, and so on.
    pub events: u64,
    looks: Snapshots,
    /// Counters of the shards within the window.
    pub stats: Stats,
    /// Activity of the drives within the window.
    pub drive: DriveUse,
    /// Read pattern of the first drive within the window.
    pub pattern: AccessPattern,
    /// Sessions that began within the window and ended.
    pub sessions_steady: u64,
    /// Sessions of those that failed.
    pub sessions_steady_failed: u64,
    /// Quality of viewing, by class.
    pub viewing: Vec<ViewingQuality>,
    /// Counters of the shards from start to end.
    pub stats_whole: Stats,
    /// Activity of the drives from start to end.
    pub drive_whole: DriveUse,
    /// The kernel's page cache when the window closed, for servers that use one.
    pub cache: Option<CacheUse>,
    /// The flash tier when the window closed, with its counts within the window, if there is one.
    pub flash: Option<FlashUse>,
    /// Activity of each box within the window, if there is a fleet.
    pub fleet: Option<FleetUse>,
    /// Activity of each disk within the window; Headlong only.
    pub disks: Vec<DiskUse>,
    /// Activity of each SSD within the window.
    pub ssds: Vec<SsdUse>,
    /// Calls that ended within the window, by the disk of their file.
    pub calls_by_disk: Vec<CallCounts>,
    /// Division of memory after the last viewer left, if the run continued until then.
    pub memory_at_end: Option<MemoryUse>,
    asked_bytes: u64,
    arrived_bytes: u64,
    /// Bytes requested and delivered since the start, inside the window or not.
    so_far: (u64, u64),
    ended_at: Instant,
    stats_before: Stats,
    drive_before: DriveUse,
    flash_before: FlashUse,
    disks_before: Vec<DiskUse>,
    began: u64,
    ended: u64,
}

impl RunMeasurements {
    pub(crate) fn new(window: MeasuredWindow, classes: &[NetworkClass], keeps_calls: bool) -> Self {
        let viewing = classes.iter().map(|class| ViewingQuality {
            class: class.name.clone(),
            ..ViewingQuality::default()
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

    /// Length of the window.
    pub fn length(&self) -> Duration {
        self.closed_at.since(self.window.from)
    }

    /// Bytes requested by requests sent within the window.
    pub fn asked_for_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Bytes that reached viewers within the window.
    pub fn delivered_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// When the world ended.
    pub fn ended_at(&self) -> Instant {
        self.ended_at
    }

    /// Viewers that arrived.
    pub fn sessions_began(&self) -> u64 {
        self.began
    }

    /// Viewers that left.
    pub fn sessions_ended(&self) -> u64 {
        self.ended
    }

    /// Regular samples of the state since the start.
    pub fn looks(&self) -> &[Snapshot] {
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

    /// A request for `bytes` is sent.
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
            self.each_call.push(ExportedCall {
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
            self.calls_by_disk.resize(disk + 1, CallCounts::default());
        }
        self.calls_by_disk[disk].count(record);
        if record.end == CallEnd::Whole {
            let took = record.ended.since(record.sent);
            self.response_times[class as usize].add(took);
        } else if record.end.is_failure() {
            self.failures_by_class[class as usize] += 1;
        }
    }

    pub(crate) fn look(
        &mut self,
        at: Instant,
        (state, drive): (&ServerState, DriveUse),
        live: usize,
    ) {
        let queue = state.queue;
        let look = Snapshot {
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
            drive,
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
        self.calls_by_disk.resize(count, CallCounts::default());
        self.cache = server.cache();
        self.flash = server.flash().map(|flash| FlashUse {
            counts: flash.counts - self.flash_before.counts,
            ..flash
        });
        self.fleet = server.fleet();
        self.waits = server.take_waits();
    }
}

// Snapshots hold counters since the start, so differences between any two of them are exact. When
// there are too many, every second one is dropped and the interval doubles, so a run can have any
// length.

/// Interval of snapshots.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Most snapshots kept: two hours at the full interval.
pub(crate) const LOOKS_MAX: usize = 1440;

/// A snapshot of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// Viewers present.
    pub viewers: u64,
    /// Division of memory.
    pub memory: MemoryUse,
    /// Queued jobs of the device.
    pub queue: usize,
    /// Queued jobs that a reply waits for.
    pub queue_demanded: usize,
    /// Queued jobs past their deadline.
    pub queue_overdue: usize,
    /// Live chains.
    pub chains: usize,
    /// The reference size of prefetches, and the state of its controller.
    pub control: ControlView,
    /// Position of the latest read, bytes from the start of the device.
    pub head_physical: u64,
    /// Counters of the shards so far.
    pub stats: Stats,
    /// Activity of the drives so far.
    pub drive: DriveUse,
    /// Bytes requested so far.
    pub asked_for_bytes: u64,
    /// Bytes delivered to viewers so far.
    pub delivered_bytes: u64,
}

/// Snapshots in order, at most [`LOOKS_MAX`].
#[derive(Debug, Clone)]
pub(crate) struct Snapshots {
    kept: Vec<Snapshot>,
    /// One snapshot in `stride` is kept.
    stride: u64,
    seen: u64,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }
}

impl Snapshots {
    pub(crate) fn add(&mut self, look: Snapshot) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(look);
        }
        self.seen += 1;
        if self.kept.len() > LOOKS_MAX {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(crate) fn kept(&self) -> &[Snapshot] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::Control;

    use super::*;

    fn look(second: u64) -> Snapshot {
        Snapshot {
            at: Instant::ZERO + Duration::from_secs(second),
            viewers: 0,
            memory: MemoryUse::default(),
            queue: 0,
            queue_demanded: 0,
            queue_overdue: 0,
            chains: 0,
            control: ControlView {
                mode: Control::Off,
                bytes: 0,
                target_bytes: 0,
                score: None,
                reason: None,
                drive: None,
            },
            head_physical: 0,
            stats: Stats::default(),
            drive: DriveUse::default(),
            asked_for_bytes: 0,
            delivered_bytes: 0,
        }
    }

    #[test]
    fn series_thins_itself_at_even_intervals() {
        let mut looks = Snapshots::default();
        let last = 10 * LOOKS_MAX as u64;
        for second in 0..last {
            looks.add(look(second));
            assert!(looks.kept().len() <= LOOKS_MAX);
        }
        let at = |look: &Snapshot| look.at.since(Instant::ZERO);
        let gaps: Vec<_> = looks
            .kept()
            .windows(2)
            .map(|w| w[1].at.since(w[0].at))
            .collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "even");
        assert_eq!(at(&looks.kept()[0]), Duration::ZERO);
        let end = at(looks.kept().last().expect("looks"));
        assert!(
            end + gaps[0] >= Duration::from_secs(last - 1),
            "up to the end"
        );
        assert!(looks.kept().len() > LOOKS_MAX / 3);
    }

    #[test]
    fn short_series_is_kept_whole() {
        let mut looks = Snapshots::default();
        (0..LOOKS_MAX as u64).for_each(|second| looks.add(look(second)));
        assert_eq!(looks.kept().len(), LOOKS_MAX);
    }
}
