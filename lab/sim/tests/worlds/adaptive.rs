//! Adaptive players in virtual time.

use headlong_sim::{RunFigures, SetupError, ViewingRecord, VirtualExperiment, WorldSetup};
use headlong_units::MIB;

use crate::window;

/// A few titles, for some minutes, with the given overrides.
fn experiment(changes: &[(&str, &str)]) -> VirtualExperiment {
    let few = [("title.dash.count", "100")];
    let mut setup = WorldSetup {
        window: window(60, 360),
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = 512 * MIB;
    crate::experiment("dash-vod", &[&few, changes].concat(), setup)
}

fn run(changes: &[(&str, &str)]) -> RunFigures {
    experiment(changes).run(4.0, 1).expect("a world")
}

fn kbps(seen: &ViewingRecord) -> f64 {
    seen.kbps_mean.expect("a known bit rate")
}

#[test]
fn each_network_class_gets_rate_it_sustains() {
    let record = run(&[]);
    assert_eq!(record.failures, 0, "{}", record.line());
    let [high, bband, medium] = &record.viewing[..] else {
        panic!("{:?}", record.viewing);
    };
    assert!(kbps(high) > 1.2 * kbps(bband), "{:?}", record.viewing);
    assert!(kbps(bband) > 1.5 * kbps(medium), "{:?}", record.viewing);
    assert!(kbps(medium) < 1000.0);
    for seen in &record.viewing {
        assert_eq!((seen.gave_up, seen.stalls), (0, 0), "{}", seen.line());
        assert_eq!(seen.startup_ms.count as u64, seen.sessions);
        // At least one round trip.
        assert!(seen.startup_ms.p50 > 100.0);
    }
    assert_eq!(run(&[]), record, "the same world again");
}

#[test]
fn every_player_rule_is_served_without_failure() {
    let open_ended = ("player.request_segments", "open-ended");
    // Some requests take the slowest network long.
    let patient = ("player.timeout", "10min");
    for changes in [
        &[("player.rule", "buffer"), open_ended, patient][..],
        &[
            ("player.rule", "throughput"),
            ("player.connections", "3"),
            patient,
        ],
        &[
            ("catalogue.chunk", "segment"),
            ("player.rule", "throughput"),
            ("player.connections", "2"),
            patient,
        ],
        &[
            ("player.rule", "fixed"),
            ("player.rendition", "1"),
            ("player.request_segments", "4"),
            patient,
        ],
        &[("player.rule", "bola"), patient],
        &[
            ("title.dash.segment_variation", "0.4"),
            ("viewing.skip", "0.2"),
            patient,
        ],
        &[("player.kind", "simple")],
    ] {
        let mut experiment = experiment(changes);
        experiment.setup.checked = true;
        let record = experiment.run(4.0, 1).expect("a world");
        let sessions: u64 = record.viewing.iter().map(|seen| seen.sessions).sum();
        assert!(sessions > 5, "{changes:?}: {}", record.line());
        assert_eq!(
            (record.refused, record.failures),
            (0, 0),
            "{changes:?}: {}",
            record.line()
        );
    }
}

#[test]
fn adaptive_players_have_no_bound() {
    let bound = experiment(&[]).loss_bound(4.0, 1);
    assert_eq!(bound, Err(SetupError::NoBound));
    assert!(
        experiment(&[("player.kind", "simple")])
            .loss_bound(4.0, 1)
            .is_ok()
    );
}
