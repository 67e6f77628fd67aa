//! Lanes: how many runs a device with an arm works on at a time, and how reads are submitted to it.
//!
//! A drive with several long reads in its queue may alternate between them, which costs two seeks
//! each time. Whether it does depends on its order, its depth, its age bound and the size of the
//! kernel's requests, none of which can be queried. It therefore gets one run at a time, which
//! every drive reads with one seek. To keep it busy in between, it gets a *lead* of the next run,
//! one request, when no more than a *tail* of the present run is left, and the rest when the
//! present run has ended. The host has time for that while the arm moves to the lead; a tail that
//! turns out too short for the host grows.
//!
//! A drive with two arms transfers more with two lanes. Twice as many lanes are tried periodically,
//! for a few runs, and stay if runs of the same sizes took less time.
//!
//! Invariants: a trial only happens while other jobs wait; a trial is short, and a failed one is
//! not repeated before [`VERDICT_HOLDS`] has passed.

use headlong_units::{Duration, Instant, MIB};

use crate::control::DriveTimes;

/// Most of a run that the drive gets while it works on another.
pub(crate) const LEAD_BYTES_MAX: u64 = MIB;
/// Bounds of a tail. The lower one gives the host 14 to 20 ms on a slow drive to hear of the end of a
/// request, choose the next run and submit it.
pub(crate) const TAIL_BYTES_MIN: u64 = 2 * MIB;
const TAIL_BYTES_MAX: u64 = 8 * MIB;
/// A tail that was too short grows by one part in this many, and shrinks again by one part of its
/// excess in that many reads: one read in a hundred may find the drive idle.
const TAIL_GROWTH_PARTS: u64 = 4;
const TAIL_DECAY_READS: u64 = 256;

/// Least remainder of a run at which the next one begins; cuts at requests make it up to
/// [`LEAD_BYTES_MAX`] more. On a busy host the drive would finish it before the host has submitted
/// more: the tail then grows. The lead stays one request: with longer ones a drive may alternate.
#[derive(Debug)]
pub(crate) struct RunTail {
    bytes: u64,
}

impl Default for RunTail {
    fn default() -> Self {
        Self {
            bytes: TAIL_BYTES_MIN,
        }
    }
}

impl RunTail {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A read ended; `is_starved` if the device had no other, although there was work for it.
    pub(crate) fn record(&mut self, is_starved: bool) {
        self.bytes = match is_starved {
            true => (self.bytes + self.bytes / TAIL_GROWTH_PARTS).min(TAIL_BYTES_MAX),
            false => self.bytes - (self.bytes - TAIL_BYTES_MIN) / TAIL_DECAY_READS,
        };
    }
}

/// Runs that are judged together: two seconds of a busy drive.
const JUDGED_TOGETHER: u32 = 32;
/// While jobs are overdue a trial is deferred for at most this many judgements: a drive with two
/// arms may be behind because it has one lane.
const ROUNDS_DEFERRED_MAX: u32 = 24;
/// More lanes must be faster by one part in this many, to exclude chance: the zones of a drive alone
/// make 32 runs differ by some percent. A second arm gives half as much again.
const GAIN_PARTS: u128 = 8;
/// How long a verdict holds. A trial costs at most one seek for each of its runs, a second of this.
const VERDICT_HOLDS: Duration = Duration::from_secs(900);

/// A run that ended while others waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BusyRun {
    pub(crate) issued_at: Instant,
    pub(crate) bytes: u64,
    /// How long it kept the device busy.
    pub(crate) took: Duration,
}

/// The time that some runs took, and the time expected for runs of their sizes. Bytes per second
/// would not do: longer runs move more of them with any number of lanes, and the sizes change while
/// viewers come.
#[derive(Debug, Clone, Copy, Default)]
struct RunTimes {
    runs: u32,
    expected: Duration,
    took: Duration,
}

impl RunTimes {
    fn add(&mut self, run: BusyRun, drive: DriveTimes) {
        self.runs += 1;
        self.expected += drive.time_of(run.bytes);
        self.took += run.took;
    }

    /// Whether this is significantly faster.
    fn beats(&self, other: &Self) -> bool {
        let product = |one: Duration, other: Duration| u128::from(one.0) * u128::from(other.0);
        let (own, others) = (
            product(self.expected, other.took),
            product(other.expected, self.took),
        );
        own > others.saturating_add(others / GAIN_PARTS)
    }
}

#[derive(Debug, Clone, Copy)]
enum LanesPhase {
    /// The present number of lanes is measured.
    Measured { deferred: u32, is_first: bool },
    /// Twice as many lanes since `since`, compared with the result of half of them.
    Tried { since: Instant, before: RunTimes },
    /// Half as many lanes since `since`, compared with the result of all of them: whether they are
    /// still worth it.
    Halved { since: Instant, before: RunTimes },
    /// The better number is in force until `until`.
    Held { until: Instant },
}

/// The number of lanes of a device.
#[derive(Debug)]
pub(crate) struct Lanes {
    count: u32,
    phase: LanesPhase,
    pace: RunTimes,
    /// What runs are expected to take, in all phases of one comparison.
    drive: Option<DriveTimes>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            count: 1,
            phase: LanesPhase::Measured {
                deferred: 0,
                is_first: true,
            },
            pace: RunTimes::default(),
            drive: None,
        }
    }
}

impl Lanes {
    /// Runs at a time.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A run ended successfully, while others waited; `overdue` if some of those are overdue.
    /// `drive` is the present estimate of the device. There are never more lanes than `count_max`.
    pub(crate) fn record(
        &mut self,
        now: Instant,
        run: BusyRun,
        drive: DriveTimes,
        overdue: bool,
        count_max: u32,
    ) {
        match self.phase {
            LanesPhase::Held { until } if now < until => return,
            LanesPhase::Held { .. } => {
                self.phase = LanesPhase::Measured {
                    deferred: 0,
                    is_first: false,
                };
                return;
            }
            LanesPhase::Tried { since, .. } | LanesPhase::Halved { since, .. }
                if run.issued_at < since =>
            {
                return;
            }
            LanesPhase::Measured { .. } | LanesPhase::Tried { .. } | LanesPhase::Halved { .. } => {}
        }
        if matches!(self.phase, LanesPhase::Measured { .. }) && self.pace.runs == 0 {
            self.drive = Some(drive);
        }
        self.pace.add(run, self.drive.unwrap_or(drive));
        if self.pace.runs < JUDGED_TOGETHER {
            return;
        }
        let pace = core::mem::take(&mut self.pace);
        let has_more = self.count.saturating_mul(2) <= count_max;
        self.phase = match self.phase {
            // The bound may have changed since.
            _ if self.count > count_max => {
                self.count = 1;
                self.hold(now)
            }
            LanesPhase::Measured { is_first, .. } if self.count > 1 && !is_first => {
                self.count /= 2;
                LanesPhase::Halved {
                    since: now,
                    before: pace,
                }
            }
            LanesPhase::Measured { deferred, is_first }
                if overdue && deferred < ROUNDS_DEFERRED_MAX =>
            {
                LanesPhase::Measured {
                    deferred: deferred + 1,
                    is_first,
                }
            }
            LanesPhase::Halved { before, .. } => {
                if before.beats(&pace) {
                    self.count *= 2;
                }
                self.hold(now)
            }
            LanesPhase::Tried { before, .. } if !pace.beats(&before) => {
                self.count /= 2;
                self.hold(now)
            }
            LanesPhase::Measured { .. } | LanesPhase::Tried { .. } if has_more => {
                self.count *= 2;
                LanesPhase::Tried {
                    since: now,
                    before: pace,
                }
            }
            LanesPhase::Measured { .. } | LanesPhase::Tried { .. } | LanesPhase::Held { .. } => {
                self.hold(now)
            }
        };
    }

    fn hold(&self, now: Instant) -> LanesPhase {
        LanesPhase::Held {
            until: now + VERDICT_HOLDS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRIVE: DriveTimes = DriveTimes {
        reposition: Duration::from_millis(10),
        transfer_per_mib: Duration::from_millis(10),
    };

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    /// `count` runs of a mebibyte that were issued and ended at this second.
    fn runs(lanes: &mut Lanes, second: u64, count: u32, millis: u64, overdue: bool) {
        let run = BusyRun {
            issued_at: at(second),
            bytes: MIB,
            took: Duration::from_millis(millis),
        };
        (0..count).for_each(|_| lanes.record(at(second), run, DRIVE, overdue, 4));
    }

    #[test]
    fn tail_grows_while_drive_starves_and_shrinks_afterwards() {
        let mut tail = RunTail::default();
        (0..100).for_each(|_| tail.record(true));
        assert_eq!(tail.bytes(), TAIL_BYTES_MAX);
        (0..100).for_each(|_| tail.record(false));
        assert!(tail.bytes() > TAIL_BYTES_MAX / 2, "not at once");
        (0..100_000).for_each(|_| tail.record(false));
        assert!(tail.bytes() < TAIL_BYTES_MIN + TAIL_DECAY_READS);
    }

    #[test]
    fn drive_with_one_arm_keeps_one_lane_after_trial() {
        let mut lanes = Lanes::default();
        runs(&mut lanes, 1, JUDGED_TOGETHER, 20, false);
        assert_eq!(lanes.count(), 2, "tried");
        runs(&mut lanes, 2, JUDGED_TOGETHER, 30, false);
        assert_eq!(lanes.count(), 1);
        runs(&mut lanes, 3, 10 * JUDGED_TOGETHER, 20, false);
        assert_eq!(lanes.count(), 1, "no new trial so soon");
    }

    #[test]
    fn drive_with_two_arms_gets_two_lanes_and_not_four() {
        let mut lanes = Lanes::default();
        runs(&mut lanes, 1, JUDGED_TOGETHER, 20, false);
        runs(&mut lanes, 2, JUDGED_TOGETHER, 10, false);
        assert_eq!(lanes.count(), 4, "the next step is tried immediately");
        runs(&mut lanes, 3, JUDGED_TOGETHER, 10, false);
        assert_eq!(lanes.count(), 2);
    }

    #[test]
    fn lanes_that_lost_their_worth_are_removed() {
        let after_hold = |halved_takes_millis| {
            let mut lanes = Lanes::default();
            runs(&mut lanes, 1, JUDGED_TOGETHER, 20, false);
            runs(&mut lanes, 2, JUDGED_TOGETHER, 10, false);
            runs(&mut lanes, 3, JUDGED_TOGETHER, 10, false);
            assert_eq!(lanes.count(), 2);
            runs(&mut lanes, 1_000, 1 + JUDGED_TOGETHER, 10, true);
            assert_eq!(lanes.count(), 1, "half as many are tried");
            runs(
                &mut lanes,
                1_001,
                JUDGED_TOGETHER,
                halved_takes_millis,
                true,
            );
            lanes.count()
        };
        assert_eq!(after_hold(20), 2);
        assert_eq!(after_hold(10), 1);
    }

    #[test]
    fn gain_within_chance_is_ignored() {
        let mut lanes = Lanes::default();
        runs(&mut lanes, 1, JUDGED_TOGETHER, 100, false);
        runs(&mut lanes, 2, JUDGED_TOGETHER, 96, false);
        assert_eq!(lanes.count(), 1);
    }

    #[test]
    fn longer_runs_are_no_reason_for_more_lanes() {
        let mut lanes = Lanes::default();
        runs(&mut lanes, 1, JUDGED_TOGETHER, 20, false);
        assert_eq!(lanes.count(), 2, "tried");
        let long = BusyRun {
            issued_at: at(2),
            bytes: 8 * MIB,
            took: Duration::from_millis(90),
        };
        (0..JUDGED_TOGETHER).for_each(|_| lanes.record(at(2), long, DRIVE, false, 4));
        assert_eq!(
            lanes.count(),
            1,
            "eight times the bytes in four and a half times the time"
        );
    }

    #[test]
    fn trial_is_deferred_while_jobs_are_overdue_up_to_a_bound() {
        let mut lanes = Lanes::default();
        runs(
            &mut lanes,
            1,
            JUDGED_TOGETHER * ROUNDS_DEFERRED_MAX,
            20,
            true,
        );
        assert_eq!(lanes.count(), 1);
        runs(&mut lanes, 2, JUDGED_TOGETHER, 20, true);
        assert_eq!(lanes.count(), 2);
    }

    #[test]
    fn runs_issued_before_trial_do_not_count() {
        let mut lanes = Lanes::default();
        runs(&mut lanes, 5, JUDGED_TOGETHER, 20, false);
        runs(&mut lanes, 4, 10 * JUDGED_TOGETHER, 90, false);
        assert_eq!(lanes.count(), 2, "the trial continues");
    }

    proptest! {
        #[test]
        fn lanes_stay_within_their_bounds(
            seen in prop::collection::vec((0u64..60, 1u64..100, any::<bool>()), 0..2_000),
            count_max in 1u32..9,
        ) {
            let (mut lanes, mut second) = (Lanes::default(), 0);
            for (passed, millis, overdue) in seen {
                second += passed;
                let run = BusyRun {
                    issued_at: at(second),
                    bytes: MIB,
                    took: Duration::from_millis(millis),
                };
                lanes.record(at(second), run, DRIVE, overdue, count_max);
                prop_assert!((1..=count_max).contains(&lanes.count()));
            }
        }
    }
}
