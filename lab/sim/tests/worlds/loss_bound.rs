//! The least number of lost viewers against the simulated server.

use headlong_drive::DrawnDrive;
use headlong_engine::{Admission, Policy};
use headlong_sim::{LossBound, Placement, SetupError, VirtualExperiment, WorldSetup};
use headlong_units::MIB;

use crate::{experiment, tier, window};

/// Viewers who all return within half of the seconds that are measured.
fn start(name: &str, memory_mib: u64, seconds: u64) -> VirtualExperiment {
    let resumed = format!("{}s", seconds / 2);
    let mut setup = WorldSetup {
        window: window(0, seconds),
        placement: Placement::Spread,
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = memory_mib * MIB;
    setup.engine.admission = Admission::Accept;
    experiment(name, &[("sessions.resume_time", resumed.as_str())], setup)
}

/// The bound, and the viewers that the simulated server loses.
fn both(experiment: &VirtualExperiment, rate: f64, seed: u64) -> (LossBound, u64) {
    let bound = experiment.loss_bound(rate, seed).expect("a bound");
    let record = experiment.run(rate, seed).expect("a world");
    (bound, record.failures + record.ramp_failures)
}

#[test]
fn server_never_loses_fewer_viewers_than_bound() {
    let (mut above_zero, mut share_most) = (0, 0.0_f64);
    for (seed, name, memory_mib, policy, rates) in [
        (1, "youtube-sd", 64, Policy::Fixed, [60.0, 250.0]),
        (2, "youtube-sd", 1024, Policy::FirstGrow, [150.0, 400.0]),
        (3, "youtube-hd", 256, Policy::Fixed, [120.0, 300.0]),
        (4, "youtube-hd", 1024, Policy::FirstGrow, [160.0, 500.0]),
    ] {
        let mut tried = start(name, memory_mib, 50);
        tried.setup.engine.sizing.policy = policy;
        tried.drive = DrawnDrive::draw(seed).expect("presets exist").drive;
        for rate in rates {
            let (bound, lost) = both(&tried, rate, seed);
            let what = format!("{name} {memory_mib} MiB {policy:?} {rate}: {bound:?}");
            assert!(bound.lost <= lost, "{what}, lost {lost}");
            assert!(bound.lost <= bound.sessions, "{what}");
            above_zero += u32::from(bound.lost > 0);
            share_most = share_most.max(bound.lost as f64 / lost.max(1) as f64);
        }
    }
    assert!(above_zero >= 3, "only {above_zero} bounds above zero");
    assert!(
        share_most > 0.1,
        "at most {share_most} of the server's losses"
    );
}

#[test]
fn drive_that_serves_all_viewers_is_never_said_to_lose_one() {
    let experiment = start("youtube-sd", 512, 80);
    let (bound, lost) = both(&experiment, 30.0, 5);
    assert_eq!((bound.lost, lost), (0, 0), "{bound:?}");
    assert!((0.1..1.0).contains(&bound.disk_share), "{bound:?}");
}

#[test]
fn bound_on_losses_rises_with_rate_and_falls_with_memory() {
    let lost = |memory_mib, rate| {
        let experiment = start("youtube-sd", memory_mib, 80);
        experiment.loss_bound(rate, 1).expect("a bound").lost
    };
    assert!(lost(64, 400.0) > lost(64, 200.0));
    assert!(lost(64, 300.0) > lost(4096, 300.0));
}

#[test]
fn bound_refuses_servers_with_an_ssd() {
    let mut experiment = start("youtube-sd", 64, 60);
    experiment.setup.flash = Some(tier(1, 1 << 30, 16 << 20));
    assert_eq!(experiment.loss_bound(60.0, 1), Err(SetupError::FlashBound));
}
