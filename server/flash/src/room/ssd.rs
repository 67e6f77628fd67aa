//! How one SSD behaves: whether it answers, how soon, and whether a write may be given to it now.
//!
//! Invariants: an SSD whose reads are not relied on gets none, and no write; one whose writes are not
//! gets none; there is one probe at a time.

use headlong_units::{Duration, Instant};

use super::trust::{Fault, Trust};
use super::window::Window;
use crate::spec::{Probed, SsdState};

/// A probe reads and writes little. If it takes longer, the SSD is slower than a disk with some work.
const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// A write that takes longer does not come.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// The paper looks at how busy the SSD was in the last epoch (4.4).
const EPOCH: Duration = Duration::from_secs(1);
/// And does not write if it was so for more than this, per cent (4.4).
const BUSY_PERCENT_MAX: u64 = 60;
/// Reads take this many times what they take without writes, and no write is begun, ...
const SLOWED: u64 = 2;
/// ... unless that is still no more than an arm takes for one move: nobody notices, and what is not
/// written now is read from the disk later.
const QUICK: Duration = Duration::from_millis(10);

/// What is known of how an SSD behaves.
#[derive(Debug, Default)]
pub(crate) struct Conduct {
    reads: Trust,
    writes: Trust,
    /// When the probe that is under way began.
    probing_since: Option<Instant>,
    reads_outstanding: u32,
    window: Window,
    writing_since: Option<Instant>,
    /// What a record takes with no write under way, and lately.
    idle_time: Option<Duration>,
    read_time: Duration,
    busy: Busy,
    /// The state that was told last.
    told: SsdState,
}

/// How much of the last epoch it had something to do.
#[derive(Debug, Default)]
struct Busy {
    since: Option<Instant>,
    epoch_at: Instant,
    in_epoch: Duration,
    before: Duration,
}

impl Conduct {
    pub(crate) fn state(&self) -> SsdState {
        match (self.reads.fault(), self.writes.is_trusted()) {
            (Some(Fault::Failed), _) => SsdState::Offline,
            (Some(Fault::Slow), _) => SsdState::Slow,
            (None, false) => SsdState::ReadOnly,
            (None, true) => SsdState::Online,
        }
    }

    /// The state before and now, if it is another than was told last.
    pub(crate) fn poll_change(&mut self) -> Option<(SsdState, SsdState)> {
        let state = self.state();
        let before = core::mem::replace(&mut self.told, state);
        (before != state).then_some((before, state))
    }

    pub(crate) fn read_time(&self) -> Duration {
        self.read_time
    }

    /// Whether a read may be given to it.
    pub(crate) fn may_read(&self) -> bool {
        self.reads.is_trusted()
    }

    /// Whether one record more may be asked of it beside those that were.
    pub(crate) fn has_room(&self) -> bool {
        self.window.has_room(self.reads_outstanding)
    }

    /// Whether it takes what is to be written.
    pub(crate) fn may_write(&self) -> bool {
        self.reads.is_trusted() && self.writes.is_trusted()
    }

    pub(crate) fn begin_read(&mut self, now: Instant) {
        self.reads_outstanding += 1;
        self.note_busy(now);
    }

    /// A read of so many records came back; it waited so long, of which the SSD took so much.
    pub(crate) fn end_read(
        &mut self,
        now: Instant,
        (waited, took): (Duration, Duration),
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

    /// A read was right.
    pub(crate) fn read_right(&mut self) {
        self.reads.succeed();
    }

    /// A read failed. Answers whether nothing is written to it any more by this.
    pub(crate) fn read_failed(&mut self, now: Instant, fault: Fault) -> bool {
        let may_write = self.may_write();
        let is_out = match fault {
            Fault::Slow => self.reads.fail(now, fault),
            Fault::Failed => self.reads.err(now),
        };
        is_out && may_write
    }

    pub(crate) fn begin_write(&mut self, now: Instant) {
        self.writing_since = Some(now);
        self.note_busy(now);
    }

    /// A write ended. Answers whether no other is given to it by this.
    pub(crate) fn end_write(&mut self, now: Instant, is_right: bool) -> bool {
        self.writing_since = None;
        self.note_busy(now);
        let may_write = self.may_write();
        if is_right {
            self.writes.succeed();
        }
        !is_right && self.writes.fail(now, Fault::Failed) && may_write
    }

    /// Writes that do not end are not counted on. Answers whether that is so since now.
    pub(crate) fn give_up_late_write(&mut self, now: Instant) -> bool {
        let is_late = self.late_write_at().is_some_and(|at| at <= now);
        let may_write = self.may_write();
        is_late && self.writes.distrust(now, Fault::Slow) && may_write
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

    /// Whether a probe is to begin now.
    pub(crate) fn begin_probe(&mut self, now: Instant) -> bool {
        let is_due = self.probe_at().is_some_and(|at| at <= now);
        if is_due {
            self.probing_since = Some(now);
        }
        is_due
    }

    /// The probe ended. Answers whether nothing is written any more by this.
    pub(crate) fn end_probe(&mut self, now: Instant, probed: Probed) -> bool {
        let Some(since) = self.probing_since.take() else {
            return false;
        };
        let may_write = self.may_write();
        let is_slow = probed.took.unwrap_or(now.since(since)) > PROBE_TIME_MAX;
        let slow = is_slow.then_some(Fault::Slow);
        let fault = |is_right: bool| if is_right { slow } else { Some(Fault::Failed) };
        self.reads.judge(now, fault(probed.reads));
        // A write that still does not end says more than a probe.
        let hangs = self.writing_since.map(|_| Fault::Slow);
        let hangs = hangs.filter(|_| !self.writes.is_trusted());
        self.writes.judge(now, hangs.or(fault(probed.writes)));
        may_write && !self.may_write()
    }

    /// When something is to be done though nothing happened.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let times = [self.probe_at(), self.late_write_at()];
        times.into_iter().flatten().min()
    }

    /// Whether reads leave room for a write: none is under way, or those lately were quick, or took
    /// about as long as without writes.
    pub(crate) fn is_calm(&self) -> bool {
        let idle = self.idle_time.unwrap_or(Duration::ZERO);
        self.reads_outstanding == 0 || self.read_time <= idle.times(SLOWED).max(QUICK)
    }

    /// The same, as the paper decides it.
    pub(crate) fn is_calm_by_use(&mut self, now: Instant) -> bool {
        self.note_busy(now);
        self.busy.before.0 * 100 <= EPOCH.0 * BUSY_PERCENT_MAX
    }

    /// When the paper's rule may say otherwise.
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
                // All of the epoch between it was at one and the same request, or at none.
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

    const WELL: Probed = Probed {
        reads: true,
        writes: true,
        took: None,
    };

    #[test]
    fn an_ssd_that_fails_comes_back_by_a_quick_probe_and_not_by_a_slow_one() {
        let mut conduct = Conduct::default();
        for _ in 0..12 {
            conduct.read_failed(at(0), Fault::Failed);
        }
        assert!(!conduct.may_read() && !conduct.may_write());
        assert_eq!(
            conduct.poll_change(),
            Some((SsdState::Online, SsdState::Offline))
        );
        assert!(!conduct.begin_probe(at(499)));
        assert!(conduct.begin_probe(at(500)));
        assert!(!conduct.begin_probe(at(9_000)), "one at a time");
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
    fn an_ssd_that_takes_no_writes_is_still_read() {
        let mut conduct = Conduct::default();
        for turn in 0..3 {
            conduct.begin_write(at(0));
            assert_eq!(conduct.end_write(at(0), false), turn == 2);
            conduct.read_right();
        }
        assert!(conduct.may_read() && !conduct.may_write());
        assert_eq!(conduct.state(), SsdState::ReadOnly);
        assert!(conduct.begin_probe(at(2_000)));
        let probed = Probed {
            reads: true,
            writes: false,
            took: None,
        };
        conduct.end_probe(at(2_001), probed);
        assert_eq!(conduct.state(), SsdState::ReadOnly);
    }

    #[test]
    fn a_write_that_never_ends_is_given_up_and_no_probe_says_otherwise() {
        let mut conduct = Conduct::default();
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
    fn writes_wait_while_reads_take_longer_than_without_them() {
        let mut conduct = Conduct::default();
        for turn in 0..20 {
            conduct.begin_read(at(turn));
            conduct.end_read(
                at(turn),
                (Duration::from_millis(1), Duration::from_millis(1)),
                1,
            );
        }
        conduct.begin_write(at(20));
        conduct.begin_read(at(20));
        conduct.begin_read(at(20));
        assert!(conduct.is_calm());
        conduct.end_read(
            at(30),
            (Duration::from_millis(8), Duration::from_millis(8)),
            1,
        );
        conduct.begin_read(at(30));
        assert!(conduct.is_calm(), "eight times as long is quick still");
        conduct.end_read(
            at(40),
            (Duration::from_millis(60), Duration::from_millis(60)),
            1,
        );
        assert!(!conduct.is_calm());
        conduct.end_read(
            at(41),
            (Duration::from_millis(60), Duration::from_millis(60)),
            1,
        );
        assert!(conduct.is_calm(), "nobody waits");
    }

    #[test]
    fn the_papers_rule_counts_the_busy_time_of_the_epoch_before() {
        let mut conduct = Conduct::default();
        conduct.begin_read(at(0));
        conduct.end_read(
            at(700),
            (Duration::from_millis(700), Duration::from_millis(700)),
            1,
        );
        assert!(!conduct.is_calm_by_use(at(1100)));
        assert!(conduct.is_calm_by_use(at(2100)));
    }
}
