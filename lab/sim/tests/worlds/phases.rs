//! Viewers of a workload of phases, in worlds.

use headlong_engine::{Admission, EngineConfig};
use headlong_player::{
    BufferRoom, CallEnd, ObjectId, PartialRead, PhasedCall, PhasedPlan, SessionPlan,
};
use headlong_sim::{PageCacheServerSetup, RunFigures, ServerModel, World, WorldSetup};
use headlong_units::{BitRate, ByteRange, Duration, MIB};
use headlong_workload::Session;

use crate::{CHUNK_BYTES, experiment, titles, trace, window};

fn setup(memory_mib: u64) -> WorldSetup {
    WorldSetup {
        window: window(60, 160),
        ramp_down: Duration::from_secs(10),
        checked: true,
        engine: EngineConfig {
            memory_bytes: memory_mib * MIB,
            admission: Admission::Accept,
            ..EngineConfig::default()
        },
        ..WorldSetup::default()
    }
}

#[test]
fn phased_workload_is_deterministic_on_every_server() {
    let few = [
        ("catalogue.titles", "10"),
        ("catalogue.head_titles", "1"),
        ("sessions.resume_time", "20s"),
    ];
    for server in [
        ServerModel::Headlong,
        ServerModel::Vanilla(PageCacheServerSetup::default()),
    ] {
        let made = experiment(
            "netflix-2014-catalog",
            &few,
            WorldSetup {
                server,
                ..setup(256)
            },
        );
        let figures = |seed| {
            let seen = made.observe(8.0, seed).expect("a world");
            assert_eq!(seen.calls.failures(), 0, "{:?}", seen.calls);
            assert!(seen.calls.whole > 300, "{:?}", seen.calls);
            // Viewers who resume make the load steady from the start.
            let (asked, delivered) = (seen.asked_for_bytes(), seen.delivered_bytes());
            assert!(delivered > 100 * MIB, "{asked} and {delivered}");
            serde_json::to_string(&RunFigures::new(8.0, seed, &seen)).expect("JSON")
        };
        let first = figures(1);
        assert_eq!(first, figures(1));
        assert_ne!(first, figures(2));
    }
}

#[test]
fn slow_reader_of_open_ended_reply_gets_what_it_has_room_for() {
    // A file of 100 MiB, of which the viewer plays 100 kB a second for 80 s, from a buffer of 1 MB.
    let files = titles(1, 200, 1);
    let reading = PartialRead {
        reply_bytes: 200 * CHUNK_BYTES,
        bytes: 9_000_000,
        needed_bytes: 9_000_000,
        speed: Some(BitRate::from_kbps(16_000)),
        buffer: Some(BufferRoom {
            bytes: 1_000_000,
            drain: BitRate::from_kbps(800),
        }),
    };
    let call = PhasedCall {
        object: ObjectId(0),
        connection: 0,
        at: Duration::ZERO,
        takes: Duration::from_secs(80),
        range: ByteRange::new(0, u64::MAX),
        reading: Some(Box::new(reading)),
    };
    let viewer = Session {
        arrival: Duration::from_secs(70),
        class: 0,
        plan: SessionPlan::Phases(PhasedPlan {
            timeout: Duration::from_secs(10),
            calls: vec![call],
        }),
    };
    let trace = trace(Some(BitRate::from_kbps(40_000)), vec![viewer]);
    let setup = WorldSetup {
        keeps_calls: true,
        ..setup(256)
    };
    let drive = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
    let seen = World::new(setup, &files, &trace, drive.build())
        .expect("right")
        .run();
    assert_eq!((seen.calls.failures(), seen.calls.whole), (0, 1));
    let record = seen.each_call[0].record;
    assert_eq!((record.end, record.bytes), (CallEnd::Whole, 9_000_000));
    let lasted = record.ended.since(record.sent);
    assert_eq!(lasted, Duration::from_secs(80), "closed at its planned end");
    // Most of it was still unread half way.
    let looks = seen.looks();
    let half = looks.iter().find(|look| look.at >= crate::seconds(110));
    let delivered = half.expect("a look").delivered_bytes;
    assert!((4_000_000..6_500_000).contains(&delivered), "{delivered}");
    assert!(
        seen.stats_whole.bytes_read < 20 * MIB,
        "{:?}",
        seen.stats_whole
    );
}
