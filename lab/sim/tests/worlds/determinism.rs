//! Determinism: every kind of world gives identical results when run twice.
//!
//! A failure prints the complete setup of the world, so that it can be reproduced.

use headlong_engine::{Admission, EngineConfig, Order, Policy, Retention};
use headlong_sim::{
    AccessMethod, CacheKind, PageCacheServerSetup, Placement, Restart, RunFigures, Scheduler,
    ServerModel, VirtualExperiment, WorldSetup,
};
use headlong_units::{Duration, KIB, MIB};

use crate::{seconds, window};

/// A few titles on a small drive, viewers for a minute.
fn experiment(setup: WorldSetup) -> VirtualExperiment {
    let setup = WorldSetup {
        window: window(20, 60),
        ramp_down: Duration::from_secs(10),
        ..setup
    };
    let few = [("title.sd.count", "60"), ("title.hd.count", "4")];
    let mut made = crate::experiment("youtube-sd", &few, setup);
    made.drive = made.drive.scaled_to(4_000_000_000);
    made
}

/// All measurements of a world, as text.
fn bytes(setup: &WorldSetup, rate: f64, seed: u64) -> String {
    let seen = experiment(setup.clone())
        .observe(rate, seed)
        .expect("a world");
    assert!(seen.calls.whole > 20, "too few calls: {:?}", seen.calls);
    let record = RunFigures::new(rate, seed, &seen);
    serde_json::to_string(&record).expect("JSON") + &format!("{seen:?}")
}

fn run_twice(setup: &WorldSetup) {
    let (rate, seed) = (6.0, 7);
    let again = format!("experiment({setup:?}).observe({rate}, {seed})");
    let first = bytes(setup, rate, seed);
    assert!(first == bytes(setup, rate, seed), "results differ: {again}");
    assert!(
        first != bytes(setup, rate, seed + 1),
        "another seed gives the same results: {again}"
    );
}

fn engine() -> EngineConfig {
    EngineConfig {
        memory_bytes: 128 * MIB,
        admission: Admission::Accept,
        ..EngineConfig::default()
    }
}

#[test]
fn engine_worlds_are_deterministic() {
    for policy in Policy::ALL {
        for (order, retention) in Order::ALL.iter().zip(Retention::ALL) {
            let mut engine = engine();
            engine.sizing.policy = *policy;
            engine.order = *order;
            engine.retention = *retention;
            run_twice(&WorldSetup {
                engine,
                ..WorldSetup::default()
            });
        }
    }
}

#[test]
fn worlds_with_other_settings_are_deterministic() {
    run_twice(&WorldSetup {
        engine: EngineConfig {
            outstanding_reads_max: 4,
            ..engine()
        },
        placement: Placement::Spread,
        turnaround: Duration::from_millis(2),
        queue_depth: Some(2),
        bit_rates_known: true,
        stops_at_failed_session: true,
        ..WorldSetup::default()
    });
    run_twice(&WorldSetup {
        engine: engine(),
        restart: Some(Restart {
            at: seconds(40),
            down: Duration::from_secs(1),
            kept: Some(Duration::from_secs(30)),
        }),
        ..WorldSetup::default()
    });
}

#[test]
fn vanilla_worlds_are_deterministic() {
    let usual = PageCacheServerSetup {
        memory_bytes: 64 * MIB,
        ..PageCacheServerSetup::default()
    };
    let mut kinds: Vec<PageCacheServerSetup> = Vec::new();
    for cache in CacheKind::ALL {
        for access in [
            AccessMethod::Sendfile,
            AccessMethod::Read(32 * KIB),
            AccessMethod::Mapped,
        ] {
            kinds.push(PageCacheServerSetup {
                cache: *cache,
                access,
                ..usual.clone()
            });
        }
    }
    kinds.push(PageCacheServerSetup {
        workers: 16,
        threads: 1,
        scheduler: Scheduler::None,
        read_ahead_bytes: 2 * MIB,
        ..usual.clone()
    });
    kinds.push(PageCacheServerSetup {
        tags: 1,
        read_ahead_bytes: 0,
        socket_bytes: Some(64 * KIB),
        ..usual
    });
    for vanilla in kinds {
        run_twice(&WorldSetup {
            server: ServerModel::Vanilla(vanilla),
            ..WorldSetup::default()
        });
    }
}
