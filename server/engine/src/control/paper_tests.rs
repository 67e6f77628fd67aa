//! Each rule of automated-prefetching section 4, by hand-made sequences.

use std::vec::Vec;

use headlong_units::{BitRate, Duration, Instant, MIB};
use proptest::prelude::*;

use super::*;
use crate::config::{Control, ControlConfig, EngineConfig};
use crate::control::controller::Controller;
use crate::control::drive::DriveTimes;
use crate::control::interface::TICK;

const STEP: u64 = MIB / 2;

/// A server whose cost for each size is given.
struct PaperBench {
    controller: Controller,
    now: Instant,
    stats: Stats,
    /// Share of the time that the device is busy, per cent.
    busy_percent: u64,
    /// Share of sent bytes that are evicted unread, per cent; and after how long.
    evicted: (u64, Duration),
    drive: Option<DriveTimes>,
}

impl PaperBench {
    fn new(start_bytes: u64) -> Self {
        Self::with(ControlConfig {
            mode: Control::Paper,
            start_bytes: Some(start_bytes),
            ..ControlConfig::default()
        })
    }

    fn with(control: ControlConfig) -> Self {
        Self {
            controller: Controller::new(&EngineConfig {
                control,
                ..EngineConfig::default()
            }),
            now: Instant::ZERO,
            stats: Stats::default(),
            busy_percent: 90,
            evicted: (0, Duration::ZERO),
            drive: None,
        }
    }

    fn bytes(&self) -> u64 {
        self.controller.view().bytes
    }

    /// One tick, at a device that spends `cost` of its time per MiB sent, in per cent of the least
    /// possible.
    fn tick(&mut self, cost: u64) {
        self.now = self.now + TICK;
        let busy = Duration(TICK.0 / 100 * self.busy_percent);
        let sent = busy.0 / 1_000_000 * MIB / (10 * cost.max(1)) * 100;
        self.stats.busy_time += busy;
        self.stats.bytes_read += sent;
        self.stats.bytes_sent += sent;
        let evicted = sent * self.evicted.0 / 100;
        self.stats.prefetch_evicted_bytes += evicted;
        self.stats.prefetch_evictions += evicted / MIB;
        self.stats.prefetch_eviction_time += self.evicted.1.times(evicted / MIB);
        self.controller.handle_tick(&ControllerInput {
            now: self.now,
            stats: self.stats,
            chains: 100,
            size_mean_bytes: self.bytes() / 2,
            pace_mean: BitRate::from_kbps(400),
            bit_rate_mean: None,
            drive: self.drive,
            again_bytes: 0,
            memory_bytes: 1024 * MIB,
            unread_bytes: 0,
        });
    }

    /// Advances until the controller returns a verdict and the change has settled.
    fn round(&mut self, cost: impl Fn(u64) -> u64) -> Option<(u64, SizeReason)> {
        for _ in 0..60 {
            self.tick(cost(self.bytes()));
            if let Some(change) = self.controller.poll_change() {
                while self.bytes() != change.to_bytes {
                    self.tick(cost(self.bytes()));
                }
                return Some((change.to_bytes, change.reason));
            }
        }
        None
    }

    fn minutes(&mut self, minutes: u64, cost: impl Fn(u64) -> u64) {
        for _ in 0..minutes * 12 {
            self.tick(cost(self.bytes()));
        }
    }
}

/// A valley with its lowest point at `best`: one per cent for each step away.
fn valley(best: u64) -> impl Fn(u64) -> u64 {
    move |bytes| 100 + 10 * bytes.abs_diff(best) / STEP
}

#[test]
fn larger_is_tried_when_no_neighbour_is_known() {
    let mut bench = PaperBench::new(4 * MIB);
    let first = bench.round(valley(8 * MIB));
    assert_eq!(first, Some((4 * MIB + STEP, SizeReason::Untried)));
}

#[test]
fn better_size_is_kept_and_worse_one_reverted() {
    let mut bench = PaperBench::new(4 * MIB);
    let cost = valley(4 * MIB + STEP);
    let rounds: Vec<_> = (0..3).filter_map(|_| bench.round(&cost)).collect();
    let expected = [
        (4 * MIB + STEP, SizeReason::Untried),
        (5 * MIB, SizeReason::Untried),
        (4 * MIB + STEP, SizeReason::LowerScore),
    ];
    assert_eq!(rounds, expected);
}

#[test]
fn smaller_is_tried_when_larger_is_worse() {
    let mut bench = PaperBench::new(4 * MIB);
    let cost = valley(2 * MIB);
    let rounds: Vec<_> = (0..3).filter_map(|_| bench.round(&cost)).collect();
    let expected = [
        (4 * MIB + STEP, SizeReason::Untried),
        (4 * MIB, SizeReason::LowerScore),
        (4 * MIB - STEP, SizeReason::Untried),
    ];
    assert_eq!(rounds, expected);
}

#[test]
fn lower_of_two_lower_scores_wins() {
    let mut paper = PaperController::new(ControllerLimits::new(&EngineConfig::default()));
    paper.scores.insert(4 * MIB - STEP, Duration(80));
    paper.scores.insert(4 * MIB + STEP, Duration(90));
    let verdict = paper.descend(4 * MIB, Duration(100));
    assert_eq!(verdict.bytes, 4 * MIB - STEP);
    assert_eq!(verdict.reason, SizeReason::LowerScore);
}

#[test]
fn other_scores_shrink_by_five_per_cent_at_minimum() {
    let mut paper = PaperController::new(ControllerLimits::new(&EngineConfig::default()));
    paper.scores.insert(4 * MIB - STEP, Duration(10_000));
    paper.scores.insert(4 * MIB + STEP, Duration(20_000));
    let verdict = paper.descend(4 * MIB, Duration(9_000));
    assert_eq!(
        (verdict.bytes, verdict.reason),
        (4 * MIB, SizeReason::Minimum)
    );
    assert_eq!(paper.scores[&(4 * MIB - STEP)], Duration(9_500));
    assert_eq!(paper.scores[&(4 * MIB + STEP)], Duration(19_000));
}

#[test]
fn rejected_size_is_retried_and_local_minimum_left() {
    let mut bench = PaperBench::new(4 * MIB);
    // Once, the size above is worse by chance.
    bench.round(|bytes| if bytes > 4 * MIB { 140 } else { 120 });
    bench.minutes(4, |_| 140);
    // From now on it is better, as are all above it up to 6 MiB.
    bench.minutes(120, valley(6 * MIB));
    assert!(bench.bytes().abs_diff(6 * MIB) <= STEP, "{}", bench.bytes());
}

#[test]
fn size_is_unchanged_under_light_load() {
    let mut bench = PaperBench::new(4 * MIB);
    bench.busy_percent = 59;
    assert_eq!(bench.round(valley(8 * MIB)), None);
    assert_eq!(bench.controller.view().reason, Some(SizeReason::LightLoad));
    bench.busy_percent = 60;
    assert!(bench.round(valley(8 * MIB)).is_some());
}

#[test]
fn evictions_set_size_to_bytes_read_before_eviction() {
    let mut bench = PaperBench::new(8 * MIB);
    bench.evicted = (20, Duration::from_secs(60));
    // 400 kbps for 60 s are 3 MB; the mean size is half of the reference: 6 MB, 11.4 steps.
    let (to, reason) = bench.round(|_| 100).expect("a change");
    assert_eq!(reason, SizeReason::Evictions);
    assert_eq!(to, 11 * STEP);
}

#[test]
fn few_evictions_are_left_to_descent() {
    let mut bench = PaperBench::new(8 * MIB);
    bench.evicted = (4, Duration::from_secs(60));
    let (_, reason) = bench.round(|_| 100).expect("a change");
    assert_eq!(reason, SizeReason::Untried);
}

#[test]
fn evictions_never_enlarge_size() {
    let mut bench = PaperBench::new(2 * MIB);
    bench.evicted = (20, Duration::from_secs(600));
    let (_, reason) = bench.round(|_| 100).expect("a change");
    assert_eq!(reason, SizeReason::Untried);
}

#[test]
fn start_size_is_measured_unless_configured() {
    let drive = DriveTimes {
        reposition: Duration::from_millis(16),
        transfer_per_mib: Duration::from_millis(8),
    };
    let mut bench = PaperBench::with(ControlConfig {
        mode: Control::Paper,
        ..ControlConfig::default()
    });
    bench.tick(100);
    assert_eq!(bench.controller.poll_change(), None, "not measured yet");
    bench.drive = Some(drive);
    // 2 MiB on average: the reference of viewers whose sizes are half of it is 4 MiB.
    assert_eq!(bench.round(|_| 100), Some((4 * MIB, SizeReason::Measured)));
    let mut given = PaperBench::new(6 * MIB);
    given.drive = Some(drive);
    given.tick(100);
    assert_eq!(given.controller.poll_change(), None);
    assert_eq!(given.bytes(), 6 * MIB);
}

#[test]
fn size_in_use_changes_gradually() {
    let mut bench = PaperBench::new(4 * MIB);
    let cost = valley(8 * MIB);
    while bench.controller.poll_change().is_none() {
        bench.tick(cost(bench.bytes()));
    }
    let mut sizes = std::vec![bench.bytes()];
    while bench.bytes() < 4 * MIB + STEP {
        bench.tick(cost(bench.bytes()));
        sizes.push(bench.bytes());
    }
    assert_eq!(sizes.len(), 13, "a minute, every five seconds");
    assert!(sizes.windows(2).all(|two| two[1] - two[0] <= STEP / 12 + 1));
}

#[test]
fn converges_to_lowest_score_from_both_sides() {
    for start in [MIB, 16 * MIB] {
        let mut bench = PaperBench::new(start);
        let steps = start.abs_diff(7 * MIB) / STEP;
        // Four minutes per step, and one round in the wrong direction and back.
        bench.minutes(4 * steps + 16, valley(7 * MIB));
        let bytes = bench.bytes();
        assert!(bytes.abs_diff(7 * MIB) <= STEP, "{start}: {bytes}");
    }
}

proptest! {
    #[test]
    fn sizes_stay_on_grid_within_bounds_one_step_apart(
        costs in prop::collection::vec((50u64..400, 0u64..100, 0u64..30, 1u64..200), 1..40),
        start in 0u64..64,
    ) {
        let mut bench = PaperBench::new(start * STEP);
        let mut last = bench.bytes();
        for (cost, busy, evicted, stay) in costs {
            bench.busy_percent = busy;
            bench.evicted = (evicted, Duration::from_secs(stay));
            bench.minutes(4, |_| cost);
            while let Some(change) = bench.controller.poll_change() {
                prop_assert_eq!(change.to_bytes % STEP, 0);
                prop_assert!((STEP..=32 * MIB).contains(&change.to_bytes));
                prop_assert_eq!(change.from_bytes, last);
                if change.reason == SizeReason::Evictions {
                    prop_assert!(change.to_bytes < last);
                } else {
                    prop_assert_eq!(change.to_bytes.abs_diff(last), STEP);
                }
                last = change.to_bytes;
            }
        }
    }
}
