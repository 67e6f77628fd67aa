//! Restart of the server in the middle of a run.

use headlong_engine::{Control, EngineConfig};
use headlong_sim::{FlashSetup, MeasuredWindow, Restart, RunMeasurements, WorldSetup};
use headlong_units::{Duration, Instant, MIB};

use crate::{experiment, tier};

/// Time of the kill; the server is back half a second before the snapshot at 205 s.
const AT: Instant = Instant(203_500_000_000);

/// SD viewers at 30 MiB/s, with a restart in the middle.
fn run(kept: Option<Duration>) -> RunMeasurements {
    run_with(kept, None)
}

fn run_with(kept: Option<Duration>, flash: Option<FlashSetup>) -> RunMeasurements {
    let mut engine = EngineConfig {
        // Larger pieces only make the test faster.
        piece_bytes: MIB / 2,
        memory_bytes: 1024 * MIB,
        ..EngineConfig::default()
    };
    engine.control.mode = Control::Auto;
    let setup = WorldSetup {
        engine,
        window: MeasuredWindow {
            from: AT,
            to: AT + Duration::from_secs(60),
        },
        restart: Some(Restart {
            at: AT,
            down: Duration::from_secs(1),
            kept,
        }),
        flash,
        ..WorldSetup::default()
    };
    let experiment = experiment("youtube-sd", &[], setup);
    experiment.observe(30.0, 1).expect("a world")
}

/// Whether the server knew the drive's timing at the first snapshot after `at`.
fn knows_drive(measure: &RunMeasurements, at: Instant) -> bool {
    let later = measure.looks().iter().find(|look| look.at > at);
    later.is_some_and(|look| look.control.drive.is_some())
}

#[test]
fn restart_cuts_replies_and_serves_with_and_without_state() {
    for kept in [None, Some(Duration::ZERO), Some(Duration::from_secs(20))] {
        let measure = run(kept);
        let calls = measure.calls;
        println!("seed 1, kept {kept:?}: {calls:?}");
        assert!(calls.broken > 0, "replies in progress were cut");
        assert!(
            calls.whole > 20 * calls.broken,
            "all other calls are served"
        );
        assert!(knows_drive(&measure, AT - Duration::from_secs(5)));
        // Half a second is too short to measure it again.
        let knows_at_once = knows_drive(&measure, AT);
        assert_eq!(knows_at_once, kept.is_some());
    }
}

#[test]
fn sealed_flash_blocks_survive_restart() {
    let kept = Some(Duration::ZERO);
    let with = run_with(kept, Some(tier(1, 4 << 30, 16 << 20)));
    let flash = with.flash.expect("a tier");
    let share = with.stats.bytes_from_flash as f64 / with.stats.bytes_sent as f64;
    println!("seed 1: {flash:?}, {share:.2} of all bytes");
    // It was full before, and the window starts at the kill.
    assert!(flash.filled_bytes > flash.capacity_bytes / 10 * 9);
    assert!(share > 0.1, "{share}");
    let before = with.stats_whole.bytes_from_flash - with.stats.bytes_from_flash;
    assert!(before > 0, "counters of the first process are included");
    assert!(run(kept).flash.is_none());
}

#[test]
fn warm_tier_is_rejected_for_adaptive_players() {
    let setup = WorldSetup {
        flash: Some(tier(1, 4 << 30, 16 << 20)),
        ..WorldSetup::default()
    };
    let experiment = experiment("dash-vod", &[], setup);
    let refused = experiment.observe(1.0, 1);
    assert!(matches!(refused, Err(headlong_sim::SetupError::NotWarm)));
}
