//! Behaviour of one SSD: health, latency, and whether a write may be started now.
//!
//! Invariants: an SSD whose reads are not trusted receives no read and no write; one whose writes
//! are not trusted receives no write; there is one probe at a time.

use headlong_units::{Duration, Instant};

use super::ssd_health::{SsdFault, SsdHealth};
use super::window::ReadWindow;
use crate::spec::{ProbeResult, SsdState};

/// A probe transfers little data. If it takes longer, the SSD is slower than a moderately busy
/// disk.
const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// A write that takes longer is considered lost.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// The paper's rule considers the utilisation of the SSD in the last epoch (4.4).
const EPOCH: Duration = Duration::from_secs(1);
/// It starts no write above this utilisation, in percent (4.4).
const BUSY_PERCENT_MAX: u64 = 60;
/// No write is started while reads take this many times their latency without writes, ...
const SLOWED: u64 = 2;
/// ... unless that is still no more than one seek of a disk: viewers do not notice it, and a record
/// not written now costs a disk read later.
const QUICK: Duration = Duration::from_millis(10);

/// State of an SSD.
#[derive(Debug, Default)]
pub(crate) struct SsdBehaviour {
    reads: SsdHealth,
    writes: SsdHealth,
    /// Start of the probe in flight.
    probing_since: Option<Instant>,
    reads_outstanding: u32,
    window: ReadWindow,
    writing_since: Option<Instant>,
    /// Latency per record without a concurrent write, and recent latency.
    idle_time: Option<Duration>,
    read_time: Duration,
    busy: Utilisation,
    /// The state reported last.
    told: SsdState,
}

/// Utilisation in the last epoch.
#[derive(Debug, Default)]
struct Utilisation {
    since: Option<Instant>,
    epoch_at: Instant,
    in_epoch: Duration,
    before: Duration,
}

impl SsdBehaviour {
    pub(crate) fn state(&self) -> SsdState {
        match (self.reads.fault(), self.writes.is_trusted()) {
            (Some(SsdFault::Failed), _) => SsdState::Offline,
            (Some(SsdFault::Slow), _) => SsdState::Slow,
            (None, false) => SsdState::ReadOnly,
            (None, true) => SsdState::Online,
        }
    }

    /// The old and new state, if it has changed since the last call.
    pub(crate) fn poll_change(&mut self) -> Option<(SsdState, SsdState)> {
        let state = self.state();
        let before = core::mem::replace(&mut self.told, state);
        (before != state).then_some((before, state))
    }

    pub(crate) fn read_time(&self) -> Duration {
        self.read_time
    }

    /// Whether the SSD may be read.
    pub(crate) fn may_read(&self) -> bool {
        self.reads.is_trusted()
    }

    /// Whether another record may be requested, besides those in flight.
    pub(crate) fn has_room(&self) -> bool {
        self.window.has_room(self.reads_outstanding)
    }

    /// Whether the SSD may be written.
    pub(crate) fn may_write(&self) -> bool {
        self.reads.is_trusted() && self.writes.is_trusted()
    }

    pub(crate) fn begin_read(&mut self, now: Instant) {
        self.reads_outstanding += 1;
        self.note_busy(now);
    }

    /// A read of `records` records has completed; `waited` is the total latency, of which the SSD
    /// took `took`.
    pub(crate) fn end_read(
        &mut self,
        now: Instant,
        waited: Duration,
        took: Duration,
        records: u64,
    ) {
        self.reads_outstanding = self.reads_outstanding.saturating_sub(1);
        self.note_busy(now);
        self.window.end_read(now, waited);
        let took = Duration(took.0 / records.max(1));
        self.read_time = mean(self.read_time, took);
        if self.writing_since.is_none() {
            self.idle_time = Some(self.idle_time.map_or(took, |idle| mean(idle, took)));
        }
    }

    /// A record was intact.
    pub(crate) fn read_right(&mut self) {
        self.reads.succeed();
    }

    /// A read failed. Returns whether the SSD has just become unwritable.
    pub(crate) fn read_failed(&mut self, now: Instant, fault: SsdFault) -> bool {
        let may_write = self.may_write();
        let is_out = match fault {
            SsdFault::Slow => self.reads.fail(now, fault),
            SsdFault::Failed => self.reads.err(now),
        };
        is_out && may_write
    }

    pub(crate) fn begin_write(&mut self, now: Instant) {
        self.writing_since = Some(now);
        self.note_busy(now);
    }

    /// A write has completed. Returns whether the SSD has just become unwritable.
    pub(crate) fn end_write(&mut self, now: Instant, is_right: bool) -> bool {
        self.writing_since = None;
        self.note_busy(now);
        let may_write = self.may_write();
        if is_right {
            self.writes.succeed();
        }
        !is_right && self.writes.fail(now, SsdFault::Failed) && may_write
    }

    /// Distrusts writes that do not complete. Returns whether the SSD has just become unwritable.
    pub(crate) fn give_up_late_write(&mut self, now: Instant) -> bool {
        let is_late = self.late_write_at().is_some_and(|at| at <= now);
        let may_write = self.may_write();
        is_late && self.writes.distrust(now, SsdFault::Slow) && may_write
    }

    fn late_write_at(&self) -> Option<Instant> {
        let since = self.writing_since.filter(|_| self.writes.is_trusted());
        since.map(|since| since + WRITE_TIME_MAX)
    }

    fn probe_at(&self) -> Option<Instant> {
        let probes = [self.reads.probe_at(), self.writes.probe_at()];
        let next = probes.into_iter().flatten().min();
        next.filter(|_| self.probing_since.is_none())
    }

    /// Whether a probe must start now.
    pub(crate) fn begin_probe(&mut self, now: Instant) -> bool {
        let is_due = self.probe_at().is_some_and(|at| at <= now);
        if is_due {
            self.probing_since = Some(now);
        }
        is_due
    }

    /// The probe has completed. Returns whether the SSD has just become unwritable.
    pub(crate) fn end_probe(&mut self, now: Instant, probed: ProbeResult) -> bool {
        let Some(since) = self.probing_since.take() else {
            return false;
        };
        let may_write = self.may_write();
        let is_slow = probed.took.unwrap_or(now.since(since)) > PROBE_TIME_MAX;
        let slow = is_slow.then_some(SsdFault::Slow);
        let fault = |is_right: bool| {
            if is_right {
                slow
            } else {
                Some(SsdFault::Failed)
            }
        };
        self.reads.judge(now, fault(probed.reads));
        // A write that is still in flight outweighs a successful probe.
        let hangs = self.writing_since.map(|_| SsdFault::Slow);
        let hangs = hangs.filter(|_| !self.writes.is_trusted());
        self.writes.judge(now, hangs.or(fault(probed.writes)));
        may_write && !self.may_write()
    }

    /// When a timer is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let times = [self.probe_at(), self.late_write_at()];
        times.into_iter().flatten().min()
    }

    /// Whether reads leave room for a write: none is in flight, recent ones were quick, or they
    /// took about as long as without writes.
    pub(crate) fn is_calm(&self) -> bool {
        let idle = self.idle_time.unwrap_or(Duration::ZERO);
        self.reads_outstanding == 0 || self.read_time <= idle.times(SLOWED).max(QUICK)
    }

    /// The same by the rule of the paper.
    pub(crate) fn is_calm_by_use(&mut self, now: Instant) -> bool {
        self.note_busy(now);
        self.busy.before.0 * 100 <= EPOCH.0 * BUSY_PERCENT_MAX
    }

    /// When the paper's rule may give a different result.
    pub(crate) fn next_epoch(&self) -> Instant {
        self.busy.epoch_at + EPOCH
    }

    fn note_busy(&mut self, now: Instant) {
        let is_busy = self.reads_outstanding > 0 || self.writing_since.is_some();
        let busy = &mut self.busy;
        let epoch_at = Instant(now.0 / EPOCH.0 * EPOCH.0);
        if epoch_at > busy.epoch_at {
            let end = busy.epoch_at + EPOCH;
            let in_epoch = busy.in_epoch + busy.since.map_or(Duration::ZERO, |at| end.since(at));
            let is_next = epoch_at == end;
            busy.before = match (is_next, busy.since.is_some()) {
                (true, _) => in_epoch,
                // All of the epoch in between was spent on a single request, or idle.
                (false, true) => EPOCH,
                (false, false) => Duration::ZERO,
            };
            busy.in_epoch = Duration::ZERO;
            busy.since = busy.since.map(|_| epoch_at);
            busy.epoch_at = epoch_at;
        }
        if let Some(since) = busy.since {
            busy.in_epoch += now.since(since);
        }
        busy.since = is_busy.then_some(now);
    }
}

fn mean(before: Duration, new: Duration) -> Duration {
    Duration(before.0 / 4 * 3 + new.0 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    const WELL: ProbeResult = ProbeResult {
        reads: true,
        writes: true,
        took: None,
    };

    #[test]
    fn failed_ssd_returns_by_quick_probe_but_not_by_slow_one() {
        let mut conduct = SsdBehaviour::default();
        for _ in 0..12 {
            conduct.read_failed(at(0), SsdFault::Failed);
        }
        assert!(!conduct.may_read() && !conduct.may_write());
        assert_eq!(
            conduct.poll_change(),
            Some((SsdState::Online, SsdState::Offline))
        );
        assert!(!conduct.begin_probe(at(499)));
        assert!(conduct.begin_probe(at(500)));
        assert!(!conduct.begin_probe(at(9_000)), "one probe at a time");
        conduct.end_probe(at(9_000), WELL);
        assert_eq!(conduct.state(), SsdState::Slow);
        let next = conduct.poll_timeout().expect("another");
        assert!(conduct.begin_probe(next));
        conduct.end_probe(next + Duration::from_millis(5), WELL);
        assert!(conduct.may_read() && conduct.may_write());
        assert_eq!(
            conduct.poll_change(),
            Some((SsdState::Offline, SsdState::Online))
        );
        assert_eq!(conduct.poll_change(), None);
    }

    #[test]
    fn ssd_with_failing_writes_is_still_read() {
        let mut conduct = SsdBehaviour::default();
        for turn in 0..3 {
            conduct.begin_write(at(0));
            assert_eq!(conduct.end_write(at(0), false), turn == 2);
            conduct.read_right();
        }
        assert!(conduct.may_read() && !conduct.may_write());
        assert_eq!(conduct.state(), SsdState::ReadOnly);
        assert!(conduct.begin_probe(at(2_000)));
        let probed = ProbeResult {
            reads: true,
            writes: false,
            took: None,
        };
        conduct.end_probe(at(2_001), probed);
        assert_eq!(conduct.state(), SsdState::ReadOnly);
    }

    #[test]
    fn hanging_write_is_abandoned_despite_good_probes() {
        let mut conduct = SsdBehaviour::default();
        conduct.begin_write(at(0));
        assert!(!conduct.give_up_late_write(at(9_999)));
        assert_eq!(conduct.poll_timeout(), Some(at(10_000)));
        assert!(conduct.give_up_late_write(at(10_000)));
        assert!(conduct.may_read() && !conduct.may_write());
        assert!(conduct.begin_probe(at(12_000)));
        conduct.end_probe(at(12_001), WELL);
        assert!(!conduct.may_write());
        conduct.end_write(at(13_000), true);
        assert!(conduct.begin_probe(at(17_000)));
        conduct.end_probe(at(17_001), WELL);
        assert!(conduct.may_write());
    }

    #[test]
    fn writes_wait_while_reads_are_slowed() {
        let mut conduct = SsdBehaviour::default();
        for turn in 0..20 {
            conduct.begin_read(at(turn));
            conduct.end_read(
                at(turn),
                Duration::from_millis(1),
                Duration::from_millis(1),
                1,
            );
        }
        conduct.begin_write(at(20));
        conduct.begin_read(at(20));
        conduct.begin_read(at(20));
        assert!(conduct.is_calm());
        conduct.end_read(
            at(30),
            Duration::from_millis(8),
            Duration::from_millis(8),
            1,
        );
        conduct.begin_read(at(30));
        assert!(
            conduct.is_calm(),
            "eight times the idle latency is still quick"
        );
        conduct.end_read(
            at(40),
            Duration::from_millis(60),
            Duration::from_millis(60),
            1,
        );
        assert!(!conduct.is_calm());
        conduct.end_read(
            at(41),
            Duration::from_millis(60),
            Duration::from_millis(60),
            1,
        );
        assert!(conduct.is_calm(), "no read is in flight");
    }

    #[test]
    fn paper_rule_uses_utilisation_of_previous_epoch() {
        let mut conduct = SsdBehaviour::default();
        conduct.begin_read(at(0));
        conduct.end_read(
            at(700),
            Duration::from_millis(700),
            Duration::from_millis(700),
            1,
        );
        assert!(!conduct.is_calm_by_use(at(1100)));
        assert!(conduct.is_calm_by_use(at(2100)));
    }
}
