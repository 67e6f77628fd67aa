//! Players that announce their next request, without playlists at the server.

use headlong_engine::{EngineConfig, Stats};
use headlong_sim::WorldSetup;
use headlong_units::MIB;

use crate::{experiment, window};

/// Viewers of segments in separate files, for a minute.
fn stats(workload: &str, setup: WorldSetup) -> Stats {
    let group = if workload == "dash-vod" { "dash" } else { "sd" };
    let count = format!("title.{group}.count");
    let changes = [("catalogue.chunk", "segment"), (count.as_str(), "60")];
    let setup = WorldSetup {
        engine: EngineConfig {
            memory_bytes: 512 * MIB,
            ..EngineConfig::default()
        },
        window: window(20, 80),
        checked: true,
        ..setup
    };
    let experiment = experiment(workload, &changes, setup);
    let seen = experiment.observe(6.0, 7).expect("a world");
    assert!(seen.calls.whole > 20, "too few calls: {:?}", seen.calls);
    seen.stats
}

#[test]
fn announced_next_file_rarely_misses_without_playlist() {
    let unknown = WorldSetup {
        playlists_known: false,
        ..WorldSetup::default()
    };
    let names = WorldSetup {
        names_next: true,
        ..unknown.clone()
    };
    let (silent, named) = (stats("youtube-sd", unknown), stats("youtube-sd", names));
    assert_eq!(silent.announced, 0);
    // Some leave before their announced request.
    assert!(
        named.announced_met * 10 >= named.announced_read * 8,
        "{named:?}"
    );
    // Share of sent bytes that a reply waited for.
    assert!(
        named.bytes_from_disk * 3 <= silent.bytes_from_disk,
        "{named:?} {silent:?}"
    );
    // Announced files are read once, and little of it is wasted.
    assert!(
        named.bytes_read * 100 <= silent.bytes_read * 112,
        "{named:?} {silent:?}"
    );
}

#[test]
fn adaptive_players_mostly_request_announced_segment() {
    let named = stats(
        "dash-vod",
        WorldSetup {
            playlists_known: false,
            names_next: true,
            ..WorldSetup::default()
        },
    );
    assert!(named.announced_read > 0, "{named:?}");
    assert!(named.announced_met * 4 >= named.announced_read, "{named:?}");
}
