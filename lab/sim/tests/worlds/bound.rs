//! The bound against real policies, and memory use that does not grow with the run.

use headlong_drive::preset;
use headlong_engine::{Admission, Policy, Retention};
use headlong_sim::{VirtualExperiment, WorldSetup};
use headlong_units::{Instant, MIB};
use headlong_workload::Specification;

use crate::window;

/// A few titles, so that memory matters, for some minutes.
fn experiment(name: &str, drive: &str, memory_mib: u64, seconds: u64) -> VirtualExperiment {
    let mut setup = WorldSetup {
        window: window(60, 60 + seconds),
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = memory_mib * MIB;
    setup.engine.admission = Admission::Accept;
    let few = [("title.sd.count", "600"), ("title.hd.count", "200")];
    VirtualExperiment {
        drive: preset(drive).expect("known"),
        ..crate::experiment(name, &few, setup)
    }
}

/// Length of the window for each policy.
const SECONDS: u64 = 80;

#[test]
fn no_policy_beats_the_bound() {
    let (mut passed, mut says_something) = (0, 0);
    for (name, drive, memory_mib, rates) in [
        ("youtube-sd", "wd-red-wd10efrx", 48, [12.0, 20.0]),
        ("youtube-hd", "wd-red-wd10efrx", 96, [20.0, 32.0]),
        ("youtube-hd", "dual-actuator-14tb", 96, [24.0, 40.0]),
        ("youtube-sd", "ssd-sata-low-end", 48, [16.0, 32.0]),
    ] {
        let base = experiment(name, drive, memory_mib, SECONDS);
        for (policy, retention) in [
            (Policy::Fixed, Retention::Interval),
            (Policy::FirstGrow, Retention::PageCache),
        ] {
            let mut tried = base.clone();
            tried.setup.engine.sizing.policy = policy;
            tried.setup.engine.retention = retention;
            for rate in rates {
                let seen = tried.observe(rate, 1).expect("a world");
                // The bound only holds for runs without failures, before the window as well.
                if seen.calls.failures() + seen.calls_outside.failures() > 0 {
                    continue;
                }
                passed += 1;
                let bound = tried.bound(rate, 1).expect("a bound");
                let what = format!("{name} {drive} {policy:?} {retention:?} {rate}: {bound:?}");
                assert!(bound.is_possible(), "{what}");
                // All bytes counted by the bound were sent within the window.
                let sent = seen.stats.bytes_sent as f64 / MIB as f64 / SECONDS as f64;
                assert!(bound.asked_mib_s <= sent + 0.5, "{what}: {sent}");
                says_something += u32::from(bound.disk_share > 0.0);
            }
        }
    }
    assert!(passed >= 8, "only {passed} runs without a failure");
    assert!(
        says_something >= 6,
        "only {says_something} bounds above zero"
    );
}

#[test]
fn bound_falls_with_more_memory_and_lower_rate() {
    let share = |memory_mib, rate| {
        let experiment = experiment("youtube-sd", "wd-red-wd10efrx", memory_mib, 120);
        experiment.bound(rate, 1).expect("a bound").disk_share
    };
    assert!(share(64, 30.0) > share(1024, 30.0));
    assert!(share(1024, 60.0) > share(1024, 30.0));
    let mut many = experiment("youtube-sd", "wd-red-wd10efrx", 64, 120);
    many.workload = Specification::preset("youtube-sd", &[]).expect("right");
    let share = many.bound(800.0, 1).expect("a bound").disk_share;
    assert!(share > 1.0, "no server sustains that: {share}");
}

#[test]
fn highest_possible_rate_has_disk_share_one() {
    let mut experiment = experiment("youtube-hd", "wd-red-wd10efrx", 256, 60);
    experiment.workload = Specification::preset("youtube-hd", &[]).expect("right");
    let (rate, bounds) = experiment.bound_rate(64.0, 1..=1).expect("a bound");
    assert!(bounds.iter().all(headlong_sim::Bound::is_possible));
    let above = experiment.bound(rate + 64.0, 1).expect("a bound");
    assert!(!above.is_possible(), "{above:?}");
}

#[test]
fn live_objects_do_not_grow_with_run_length() {
    let live = |seconds| {
        let mut experiment = experiment("youtube-sd", "wd-red-wd10efrx", 256, seconds);
        // As in a run of hours: the series is at its limit from the start.
        experiment.setup.window.from = Instant::ZERO;
        let seen = experiment.observe(8.0, 1).expect("a world");
        assert_eq!(seen.calls.failures(), 0);
        let looks = seen.looks().len();
        (seen.live_max - looks, seen.sessions_began())
    };
    let ((once, few), (twice, many)) = (live(400), live(800));
    assert!(many as f64 > 1.8 * few as f64);
    assert!((twice as f64) < 1.15 * once as f64, "{once} {twice}");
}
