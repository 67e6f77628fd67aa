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
//! for a few runs at a time, in turns with the present number, and stay if runs of the same sizes
//! took less time.
//!
//! Invariants: a comparison only advances while other jobs wait; it is short, and its verdict holds
//! for [`VERDICT_HOLDS`], or for a day once it was confirmed.

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

/// Runs with one number of lanes before the other has its turn: two seconds of a busy drive.
const RUNS_PER_TURN: u32 = 32;
/// Turns of each number of lanes in a comparison, unless the higher number is clearly slower before.
/// The times of one turn scatter by 7 %, so the difference of sixteen by 2.5 %. After four of each, one
/// drive with one arm in twenty gets a second lane by chance; such a drive then lost twice as many
/// viewers after a start.
const TURNS_PER_COMPARISON: u32 = 16;
/// Turns of each number before the higher one may lose: a second arm that makes runs 8 % faster looks
/// 5 % slower after one turn of each in one case of ten.
const TURNS_BEFORE_LOSS: u32 = 4;
/// No numbers are compared so soon after the first run, when viewers return at once and a second lane may
/// cost each run two seeks: in virtual time a comparison took 9 of the first 100 s of one drive.
const FIRST_COMPARED_AFTER: Duration = Duration::from_secs(300);
/// While jobs are overdue a comparison is deferred for at most this many turns: a drive with two arms
/// may be behind because it has one lane.
const TURNS_DEFERRED_MAX: u32 = 24;
/// More lanes must be faster by one part in this many. A comparison on drives with one arm found the
/// second lane slower by 3 % on average and faster by 2 % at most; with two arms, one for each half
/// of the addresses, faster by 8 % on average.
const GAIN_PARTS: u128 = 20;
/// How long a first verdict holds. A comparison costs at most some seeks for each run with too many
/// lanes, a second or two of this.
const VERDICT_HOLDS: Duration = Duration::from_secs(900);
/// How long a verdict holds that equals the one before: the arms of a drive do not change.
const CONFIRMED_VERDICT_HOLDS: Duration = Duration::from_secs(24 * 3600);

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

    fn join(&mut self, more: Self) {
        self.runs += more.runs;
        self.expected += more.expected;
        self.took += more.took;
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

/// Two numbers of lanes that have turns.
#[derive(Debug, Clone, Copy)]
struct LanesComparison {
    /// The lower number; the other is twice as many.
    low: u32,
    /// Beginning of this turn: runs that were issued before do not count.
    since: Instant,
    turns: u32,
    of_low: RunTimes,
    of_high: RunTimes,
    /// Whether the next doubling is compared if the higher number wins.
    climbs: bool,
}

impl LanesComparison {
    fn new(low: u32, now: Instant, climbs: bool) -> Self {
        Self {
            low,
            since: now,
            turns: 0,
            of_low: RunTimes::default(),
            of_high: RunTimes::default(),
            climbs,
        }
    }

    /// A turn of `count` lanes ended. Returns the number whose turn is next, or `None` after the
    /// last turn, or as soon as the higher number is slower by as much as it would have to be faster.
    fn record(&mut self, now: Instant, count: u32, times: RunTimes) -> Option<u32> {
        let (own, other) = match count == self.low {
            true => (&mut self.of_low, self.low * 2),
            false => (&mut self.of_high, self.low),
        };
        own.join(times);
        self.turns += 1;
        self.since = now;
        let is_pair = self.turns.is_multiple_of(2) && self.turns >= 2 * TURNS_BEFORE_LOSS;
        let is_lost = is_pair && self.of_low.beats(&self.of_high);
        (self.turns < 2 * TURNS_PER_COMPARISON && !is_lost).then_some(other)
    }
}

#[derive(Debug, Clone, Copy)]
enum LanesPhase {
    /// No run has ended while others waited.
    Unused,
    /// Until nothing is overdue.
    Deferred { turns: u32 },
    /// Twice as many lanes are tried, or half as many: whether the present ones are still worth it.
    Compared(LanesComparison),
    /// The better number is in force until `until`.
    Held { until: Instant },
}

/// The number of lanes of a device.
#[derive(Debug)]
pub(crate) struct Lanes {
    count: u32,
    phase: LanesPhase,
    turn: RunTimes,
    /// What runs are expected to take, in all turns of one comparison.
    drive: Option<DriveTimes>,
    /// The last verdict.
    verdict: Option<u32>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            count: 1,
            phase: LanesPhase::Unused,
            turn: RunTimes::default(),
            drive: None,
            verdict: None,
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
                self.phase = LanesPhase::Deferred { turns: 0 };
                return;
            }
            LanesPhase::Unused => {
                self.phase = LanesPhase::Held {
                    until: now + FIRST_COMPARED_AFTER,
                };
                return;
            }
            LanesPhase::Compared(comparison) if run.issued_at < comparison.since => return,
            LanesPhase::Deferred { .. } | LanesPhase::Compared(_) => {}
        }
        if matches!(self.phase, LanesPhase::Deferred { .. }) && self.turn.runs == 0 {
            self.drive = Some(drive);
        }
        self.turn.add(run, self.drive.unwrap_or(drive));
        if self.turn.runs < RUNS_PER_TURN {
            return;
        }
        let turn = core::mem::take(&mut self.turn);
        self.phase = match self.phase {
            // The bound may have changed since.
            _ if self.count > count_max => {
                self.count = 1;
                self.hold(now)
            }
            LanesPhase::Deferred { .. } if self.count > 1 => {
                self.compare(LanesComparison::new(self.count / 2, now, false), now, turn)
            }
            LanesPhase::Deferred { turns } if overdue && turns < TURNS_DEFERRED_MAX => {
                LanesPhase::Deferred { turns: turns + 1 }
            }
            LanesPhase::Deferred { .. } if self.has_more(count_max) => {
                self.compare(LanesComparison::new(self.count, now, true), now, turn)
            }
            LanesPhase::Compared(comparison) => {
                match self.compare(comparison, now, turn) {
                    // The higher number won.
                    LanesPhase::Held { .. }
                        if comparison.climbs
                            && self.count > comparison.low
                            && self.has_more(count_max) =>
                    {
                        self.verdict = None;
                        LanesPhase::Compared(LanesComparison::new(self.count, now, true))
                    }
                    phase => phase,
                }
            }
            _ => self.hold(now),
        };
    }

    fn has_more(&self, count_max: u32) -> bool {
        self.count.saturating_mul(2) <= count_max
    }

    /// Adds the turn of the present number and gives the other its turn; after the last one the
    /// better number stays.
    fn compare(
        &mut self,
        mut comparison: LanesComparison,
        now: Instant,
        turn: RunTimes,
    ) -> LanesPhase {
        if let Some(next) = comparison.record(now, self.count, turn) {
            self.count = next;
            return LanesPhase::Compared(comparison);
        }
        self.count = match comparison.of_high.beats(&comparison.of_low) {
            true => comparison.low * 2,
            false => comparison.low,
        };
        self.hold(now)
    }

    /// The present number stays: for long if it won twice.
    fn hold(&mut self, now: Instant) -> LanesPhase {
        let is_confirmed = self.verdict.replace(self.count) == Some(self.count);
        let holds = match is_confirmed {
            true => CONFIRMED_VERDICT_HOLDS,
            false => VERDICT_HOLDS,
        };
        LanesPhase::Held { until: now + holds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    const DRIVE: DriveTimes = DriveTimes {
        reposition: Duration::from_millis(10),
        transfer_per_mib: Duration::from_millis(10),
    };

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    /// Before its first comparison.
    fn started() -> Lanes {
        Lanes {
            phase: LanesPhase::Deferred { turns: 0 },
            ..Lanes::default()
        }
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

    /// Turns of a drive whose runs of a mebibyte take `millis` of the number of lanes, from `second`
    /// on, until a verdict holds.
    fn until_verdict(lanes: &mut Lanes, second: u64, millis: impl Fn(u32) -> u64) {
        for turn in 0..100 {
            let millis = millis(lanes.count());
            runs(lanes, second + turn, RUNS_PER_TURN, millis, false);
            if matches!(lanes.phase, LanesPhase::Held { .. }) {
                return;
            }
        }
        panic!("no verdict after 100 turns");
    }

    #[test]
    fn nothing_is_compared_in_first_minutes() {
        let mut lanes = Lanes::default();
        let runs_at = |lanes: &mut Lanes, second| runs(lanes, second, 2 * RUNS_PER_TURN, 20, false);
        (100..400).for_each(|second| runs_at(&mut lanes, second));
        assert_eq!(lanes.count(), 1);
        runs_at(&mut lanes, 401);
        assert_eq!(lanes.count(), 2);
    }

    #[test]
    fn drive_with_one_arm_keeps_one_lane_after_comparison() {
        let mut lanes = started();
        runs(&mut lanes, 1, RUNS_PER_TURN, 20, false);
        assert_eq!(lanes.count(), 2, "tried");
        until_verdict(&mut lanes, 2, |count| 10 + 10 * u64::from(count));
        assert_eq!(lanes.count(), 1);
        runs(&mut lanes, 30, 10 * RUNS_PER_TURN, 20, false);
        assert_eq!(lanes.count(), 1, "no new trial so soon");
    }

    #[test]
    fn single_fast_turn_of_more_lanes_is_chance() {
        let mut lanes = started();
        runs(&mut lanes, 1, RUNS_PER_TURN, 20, false);
        runs(&mut lanes, 2, RUNS_PER_TURN, 17, false);
        until_verdict(&mut lanes, 3, |_| 20);
        assert_eq!(lanes.count(), 1);
    }

    #[test]
    fn drive_with_two_arms_gets_two_lanes_and_not_four() {
        let mut lanes = started();
        let two_arms = |count: u32| if count == 1 { 20 } else { 12 };
        let mut tried = BTreeSet::new();
        for second in 1..100 {
            let millis = two_arms(lanes.count());
            runs(&mut lanes, second, RUNS_PER_TURN, millis, false);
            tried.insert(lanes.count());
        }
        assert_eq!(tried, [1, 2, 4].into(), "four are tried after two");
        assert_eq!(lanes.count(), 2);
    }

    #[test]
    fn lanes_that_lost_their_worth_are_removed() {
        let after_hold = |millis_of_one| {
            let mut lanes = started();
            until_verdict(&mut lanes, 1, |count| if count == 1 { 20 } else { 10 });
            runs(&mut lanes, 100, RUNS_PER_TURN, 10, false);
            assert_eq!(lanes.count(), 2);
            runs(&mut lanes, 2_000, 1 + RUNS_PER_TURN, 10, true);
            assert_eq!(lanes.count(), 1, "half as many are tried");
            until_verdict(&mut lanes, 2_001, |count| match count {
                1 => millis_of_one,
                _ => 10,
            });
            lanes.count()
        };
        assert_eq!(after_hold(20), 2);
        assert_eq!(after_hold(10), 1);
    }

    #[test]
    fn confirmed_verdict_holds_for_a_day() {
        let mut lanes = started();
        let one_arm = |count: u32| 10 + 10 * u64::from(count);
        until_verdict(&mut lanes, 1, one_arm);
        runs(&mut lanes, 2_000, 1 + RUNS_PER_TURN, 20, false);
        assert_eq!(lanes.count(), 2, "compared again");
        until_verdict(&mut lanes, 2_001, one_arm);
        runs(&mut lanes, 80_000, 10 * RUNS_PER_TURN, 20, false);
        assert_eq!(lanes.count(), 1);
        runs(&mut lanes, 90_000, 1 + RUNS_PER_TURN, 20, false);
        assert_eq!(lanes.count(), 2, "and after a day");
    }

    #[test]
    fn clearly_slower_number_loses_early() {
        let mut lanes = started();
        for second in (1..2 * TURNS_BEFORE_LOSS).step_by(2) {
            assert!(!matches!(lanes.phase, LanesPhase::Held { .. }));
            runs(&mut lanes, second.into(), RUNS_PER_TURN, 20, false);
            runs(&mut lanes, (second + 1).into(), RUNS_PER_TURN, 22, false);
        }
        assert!(matches!(lanes.phase, LanesPhase::Held { .. }));
        assert_eq!(lanes.count(), 1);
    }

    #[test]
    fn gain_within_chance_is_ignored() {
        let mut lanes = started();
        until_verdict(&mut lanes, 1, |count| if count == 1 { 100 } else { 96 });
        assert_eq!(lanes.count(), 1);
    }

    #[test]
    fn longer_runs_are_no_reason_for_more_lanes() {
        let mut lanes = started();
        for second in 1..40 {
            let run = match lanes.count() {
                1 => (MIB, 20),
                // Eight times the bytes in four and a half times the time.
                _ => (8 * MIB, 90),
            };
            let run = BusyRun {
                issued_at: at(second),
                bytes: run.0,
                took: Duration::from_millis(run.1),
            };
            (0..RUNS_PER_TURN).for_each(|_| lanes.record(at(second), run, DRIVE, false, 4));
        }
        assert_eq!(lanes.count(), 1);
    }

    #[test]
    fn comparison_is_deferred_while_jobs_are_overdue_up_to_a_bound() {
        let mut lanes = started();
        let deferred = RUNS_PER_TURN * TURNS_DEFERRED_MAX;
        runs(&mut lanes, 1, deferred, 20, true);
        assert_eq!(lanes.count(), 1);
        runs(&mut lanes, 2, RUNS_PER_TURN, 20, true);
        assert_eq!(lanes.count(), 2);
    }

    #[test]
    fn runs_issued_before_turn_do_not_count() {
        let mut lanes = started();
        runs(&mut lanes, 5, RUNS_PER_TURN, 20, false);
        runs(&mut lanes, 4, 10 * RUNS_PER_TURN, 90, false);
        assert_eq!(lanes.count(), 2, "the turn continues");
    }

    proptest! {
        #[test]
        fn lanes_stay_within_their_bounds(
            seen in prop::collection::vec((0u64..60, 1u64..100, any::<bool>()), 0..2_000),
            count_max in 1u32..9,
        ) {
            let (mut lanes, mut second) = (started(), 0);
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
