//! Fleets: a fleet of one box is a server, boxes that fail, and the balancing rules beside each other.

use headlong_fleet::{BalancingRule, FleetBox};
use headlong_sim::{
    BoxFailure, FleetExperiment, FleetFigures, FleetSetup, OriginLink, Placement, RunFigures,
    VirtualExperiment, WorldSetup,
};
use headlong_units::{BitRate, Duration, MIB};

use crate::{seconds, window};

/// Viewers whose players repeat failed requests.
const VIEWERS: [(&str, &str); 6] = [
    ("title.dash.count", "120"),
    ("title.dash.renditions", "[\"2Mbps\"]"),
    ("title.dash.table_entry_bytes", "0"),
    ("player.rule", "fixed"),
    ("network.medium.bandwidth", "8Mbps"),
    ("network.bband.bandwidth", "8Mbps"),
];

fn server(disks: u32) -> VirtualExperiment {
    let mut setup = WorldSetup {
        disks,
        placement: Placement::Spread,
        bit_rates_known: true,
        window: window(60, 240),
        ramp_down: Duration::from_secs(60),
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = 256 * MIB;
    let mut made = crate::experiment("dash-vod", &VIEWERS, setup);
    made.drive = made.drive.scaled_to(40_000_000_000);
    made
}

fn fleet(boxes: usize, disks: u32, rate_mib_s: f64) -> FleetExperiment {
    let VirtualExperiment {
        workload,
        drive,
        setup,
        ..
    } = server(disks);
    let boxes = (0..boxes).map(|number| FleetBox::new(&format!("b{number}")));
    FleetExperiment {
        name: "test".to_owned(),
        fleet: FleetSetup {
            boxes: boxes.collect(),
            rule: BalancingRule::Hash,
            load_percent_max: 125,
            tries: 2,
            replicas: 1,
            has_agents: true,
            has_peers: false,
            failures: Vec::new(),
            origin: OriginLink {
                delay: Duration::from_millis(20),
                rate: BitRate(800_000_000),
                kept_bytes: 1_000_000_000,
            },
            seed: 1,
        },
        workload,
        drive,
        setup,
        rate_mib_s,
    }
}

fn failing(of_box: usize) -> FleetExperiment {
    let mut of = fleet(6, 2, 40.0);
    of.fleet.failures = vec![BoxFailure {
        of_box,
        at: seconds(100),
        down: Duration::from_secs(60),
    }];
    of
}

fn run(of: &FleetExperiment, rule: BalancingRule, seed: u64) -> FleetFigures {
    let figures = of.run(rule, seed).expect("a world");
    assert!(figures.viewers > 10, "too few viewers: {figures:?}");
    figures
}

#[test]
fn fleet_of_one_box_equals_server() {
    let mut one = fleet(1, 3, 8.0);
    // All of the disks is for titles.
    one.fleet.origin.kept_bytes = 0;
    let of_fleet = run(&one, BalancingRule::BoundedHash, 3);
    let alone = server(3).run(8.0, 3).expect("a world");
    let alone = RunFigures {
        disks: Vec::new(),
        ..alone
    };
    assert_eq!(of_fleet.run, alone);
    assert_eq!((of_fleet.origin_ratio, of_fleet.busiest), (0.0, 1.0));
}

#[test]
fn same_seed_gives_same_figures() {
    let of = failing(3);
    for rule in BalancingRule::ALL {
        assert_eq!(run(&of, *rule, 1), run(&of, *rule, 1), "{rule:?}");
        assert_ne!(run(&of, *rule, 1).run, run(&of, *rule, 2).run, "{rule:?}");
    }
}

#[test]
fn box_that_fails_loses_no_viewer_and_returns() {
    let of = failing(3);
    let figures = run(&of, BalancingRule::Hash, 1);
    assert_eq!((figures.lost, figures.refused), (0, 0), "{figures:?}");
    assert!(figures.run.cut > 0, "replies of the box were cut");
    let failed = &figures.boxes[3];
    assert!((failed.up_ratio - 120.0 / 180.0).abs() < 0.01, "{failed:?}");
    // Requests arrive until two checks have failed.
    assert!((1..100).contains(&failed.unreachable), "{failed:?}");
    assert!(figures.redispatched >= failed.unreachable);
    assert!(failed.requests > 0);
    // Its titles came from the origin meanwhile.
    assert!(figures.origin_ratio > 0.0 && failed.origin_mib_s == 0.0);
    let whole = run(&fleet(6, 2, 40.0), BalancingRule::Hash, 1);
    assert_eq!(
        (whole.run.cut, whole.origin_ratio, whole.away_ratio),
        (0, 0.0, 0.0)
    );
}

#[test]
fn single_try_shows_viewers_that_box_is_down() {
    let mut of = failing(3);
    of.fleet.tries = 1;
    let figures = run(&of, BalancingRule::Hash, 1);
    assert_eq!(figures.refused, figures.boxes[3].unreachable);
    assert!(figures.refused > 0);
    assert_eq!(figures.redispatched, 0);
}

#[test]
fn box_asks_its_peers_before_the_origin() {
    let mut of = fleet(6, 2, 20.0);
    of.fleet.has_peers = true;
    let figures = run(&of, BalancingRule::Random, 1);
    assert_eq!(
        (figures.lost, figures.origin_ratio),
        (0, 0.0),
        "{figures:?}"
    );
    // Most requests come to a box that lacks the title; parts are fetched once.
    assert!(figures.peer_ratio > 0.3 && figures.peer_ratio < figures.away_ratio);
    let to_peers: f64 = figures.boxes.iter().map(|one| one.peer_mib_s).sum();
    let share = to_peers / figures.sent_mib_s;
    assert!((share - figures.peer_ratio).abs() < 1e-3, "{figures:?}");
    // What a box sends to others loads it, too.
    of.fleet.has_peers = false;
    let without = run(&of, BalancingRule::Random, 1);
    assert!(
        without.origin_ratio > 0.3 && without.peer_ratio == 0.0,
        "{without:?}"
    );
    assert!(figures.disk_mib_s > without.disk_mib_s);
}

#[test]
fn peer_that_fails_is_replaced_by_the_origin() {
    let mut of = failing(3);
    of.fleet.has_peers = true;
    let figures = run(&of, BalancingRule::Random, 1);
    assert_eq!((figures.lost, figures.refused), (0, 0), "{figures:?}");
    // A sixth of the titles has no other copy for a third of the time.
    assert!(
        figures.origin_ratio > 0.02 && figures.origin_ratio < 0.08,
        "{figures:?}"
    );
}

#[test]
fn rules_differ_in_load_and_origin_traffic() {
    let of = fleet(6, 2, 20.0);
    let [bounded, hash, random] = [
        BalancingRule::BoundedHash,
        BalancingRule::Hash,
        BalancingRule::Random,
    ]
    .map(|rule| run(&of, rule, 1));
    assert!(bounded.busiest < hash.busiest, "{bounded:?} {hash:?}");
    assert!(random.busiest < hash.busiest);
    assert_eq!((hash.origin_ratio, hash.away_ratio), (0.0, 0.0));
    assert!(bounded.away_ratio > 0.0 && bounded.away_ratio < random.away_ratio);
    // Five of six requests are for titles of another box.
    assert!((random.away_ratio - 5.0 / 6.0).abs() < 0.03, "{random:?}");
    assert!(bounded.origin_ratio < random.origin_ratio);
}

/// Changes of the engine, the players, or the balancer change these figures on purpose; then copy
/// what the test prints.
#[test]
fn small_fleet_has_its_known_figures() {
    let of = failing(3);
    let figures = run(&of, BalancingRule::BoundedHash, 1);
    let seen = (
        (figures.viewers, figures.lost, figures.stalls),
        (figures.requests, figures.redispatched, figures.refused),
        (figures.busiest, figures.busiest_minute),
        (figures.origin_ratio, figures.away_ratio),
    );
    let known = (
        (155, 0, 0),
        (5193, 7, 0),
        (1.1277, 1.2323),
        (0.246092, 0.393607),
    );
    assert_eq!(seen, known);
}
