//! How one SSD behaves: whether it answers, how soon, and whether a write may be given to it now.
//!
//! The one idea: an SSD that fails, or takes longer than a disk would, is worse than none. It is
//! passed over then, and tried again with one read after a while, longer after each failed trial.
//!
//! Invariant: an SSD out of service gets no read but one at a time, and no write.

use headlong_units::{Duration, Instant};

/// So many reads or writes in a row that failed take an SSD out of service.
const FAILURES_MAX: u32 = 3;
/// After this an SSD out of service is tried for the first time, and at most this long after the
/// trial before.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// The paper looks at how busy the SSD was in the last epoch (4.4).
const EPOCH: Duration = Duration::from_secs(1);
/// And does not write if it was so for more than this, per cent (4.4).
const BUSY_PERCENT_MAX: u64 = 60;
/// Reads take this many times what they take without writes, and no write is begun.
const SLOWED: u64 = 2;

/// What is known of how an SSD behaves.
#[derive(Debug)]
pub(crate) struct Conduct {
    failures: u32,
    /// When it is tried again, and how long the wait was; `None` in service.
    out_until: Option<(Instant, Duration)>,
    reads_outstanding: u32,
    is_writing: bool,
    /// What a record takes with no write under way, and lately.
    idle_time: Option<Duration>,
    read_time: Duration,
    busy: Busy,
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
    pub(crate) fn new() -> Self {
        Self {
            failures: 0,
            out_until: None,
            reads_outstanding: 0,
            is_writing: false,
            idle_time: None,
            read_time: Duration::ZERO,
            busy: Busy::default(),
        }
    }

    pub(crate) fn in_service(&self) -> bool {
        self.out_until.is_none()
    }

    pub(crate) fn read_time(&self) -> Duration {
        self.read_time
    }

    /// Whether a read may be given to it.
    pub(crate) fn may_read(&self, now: Instant) -> bool {
        self.out_until
            .is_none_or(|(at, _)| at <= now && self.reads_outstanding == 0)
    }

    pub(crate) fn begin_read(&mut self, now: Instant) {
        self.reads_outstanding += 1;
        self.note_busy(now);
    }

    /// A read of so many records came back.
    pub(crate) fn end_read(&mut self, now: Instant, took: Duration, records: u64) {
        self.reads_outstanding = self.reads_outstanding.saturating_sub(1);
        self.note_busy(now);
        let took = Duration(took.0 / records.max(1));
        self.read_time = mean(self.read_time, took);
        if !self.is_writing {
            self.idle_time = Some(self.idle_time.map_or(took, |idle| mean(idle, took)));
        }
    }

    pub(crate) fn begin_write(&mut self, now: Instant) {
        self.is_writing = true;
        self.note_busy(now);
    }

    pub(crate) fn end_write(&mut self, now: Instant) {
        self.is_writing = false;
        self.note_busy(now);
    }

    /// It did what it should.
    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
        self.out_until = None;
    }

    /// It failed, or was too slow. Answers whether it goes out of service by this.
    pub(crate) fn fail(&mut self, now: Instant) -> bool {
        self.failures += 1;
        match self.out_until {
            // What was under way when it went says nothing new.
            Some((at, _)) if at > now => false,
            Some((_, waited)) => {
                let wait = waited.times(2).min(RETRY.1);
                self.out_until = Some((now + wait, wait));
                false
            }
            None if self.failures >= FAILURES_MAX => {
                self.out_until = Some((now + RETRY.0, RETRY.0));
                true
            }
            None => false,
        }
    }

    /// Whether reads leave room for a write: none is under way, or those lately took about as long
    /// as without writes.
    pub(crate) fn is_calm(&self) -> bool {
        let idle = self.idle_time.unwrap_or(Duration::ZERO);
        self.reads_outstanding == 0 || self.read_time <= idle.times(SLOWED)
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
        let is_busy = self.reads_outstanding > 0 || self.is_writing;
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

    #[test]
    fn an_ssd_that_fails_is_tried_again_with_one_read_and_comes_back() {
        let mut conduct = Conduct::new();
        assert!(!conduct.fail(at(0)) && !conduct.fail(at(1)));
        assert!(conduct.fail(at(2)), "the third in a row");
        assert!(!conduct.may_read(at(9_000)));
        assert!(conduct.may_read(at(10_002)));
        conduct.begin_read(at(10_002));
        assert!(!conduct.may_read(at(10_003)), "one at a time");
        conduct.end_read(at(10_004), Duration::from_millis(2), 1);
        conduct.fail(at(10_004));
        assert!(
            !conduct.may_read(at(30_003)),
            "the next wait is twice as long"
        );
        assert!(conduct.may_read(at(30_004)));
        conduct.succeed();
        assert!(conduct.in_service());
    }

    #[test]
    fn writes_wait_while_reads_take_longer_than_without_them() {
        let mut conduct = Conduct::new();
        for turn in 0..20 {
            conduct.begin_read(at(turn));
            conduct.end_read(at(turn), Duration::from_millis(1), 1);
        }
        conduct.begin_write(at(20));
        conduct.begin_read(at(20));
        conduct.begin_read(at(20));
        assert!(conduct.is_calm());
        conduct.end_read(at(40), Duration::from_millis(20), 1);
        assert!(!conduct.is_calm());
        conduct.end_read(at(41), Duration::from_millis(20), 1);
        assert!(conduct.is_calm(), "nobody waits");
    }

    #[test]
    fn the_papers_rule_counts_the_busy_time_of_the_epoch_before() {
        let mut conduct = Conduct::new();
        conduct.begin_read(at(0));
        conduct.end_read(at(700), Duration::from_millis(700), 1);
        assert!(!conduct.is_calm_by_use(at(1100)));
        assert!(conduct.is_calm_by_use(at(2100)));
    }
}
