//! State passed to the next shard: its drive, its size, and its returning viewers.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::{
    Control, DriveTimes, EndedChain, EngineConfig, ReaderIdentity, Refusal, Request, SavedChain,
    Shard, ShardMeasurements, StreamId, ViewerId,
};
use headlong_units::{BitRate, Duration, Instant, MIB};
use proptest::prelude::*;

fn from_address(request: Request) -> Request {
    Request {
        viewer: ReaderIdentity::Unnamed {
            origin: ViewerId(7),
            connection: None,
        },
        ..request
    }
}

/// A viewer of title 1 reads `chunks` chunks; then the server restarts.
fn restarted(chunks: u64, ask: impl Fn(Request) -> Request) -> Rig {
    let settings = || EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    };
    let mut before = Rig::new(settings());
    let title = before.title(1, HOUR_BYTES, 2_000);
    for chunk in 0..chunks {
        let request = ask(range(1, title, chunk * CHUNK, CHUNK));
        before.request(request).expect("accepted");
        before.run_for(Duration::from_secs(2));
    }
    let mut after = Rig::new(settings());
    after
        .shard
        .restore_measurements(after.now, &before.shard.measurements());
    let title = after.title(1, HOUR_BYTES, 2_000);
    for chain in before.shard.saved_chains(usize::MAX) {
        assert!(after.shard.restore_chain(after.now, title, chain));
    }
    after
}

#[test]
fn returning_viewer_is_recognised_with_or_without_name() {
    for ask in [|request| request, from_address] {
        // It continues, or requests the cut-off bytes again.
        for first in [5 * CHUNK, 4 * CHUNK] {
            let mut rig = restarted(5, ask);
            assert_eq!(rig.shard.chain_count(), 1);
            let request = ask(range(1, StreamId(1), first, CHUNK));
            rig.request(request).expect("accepted");
            rig.run_for(Duration::from_secs(1));
            assert_eq!(rig.shard.stats().chains, 0, "a new chain began");
            assert_eq!(rig.shard.chain_count(), 1);
        }
    }
}

#[test]
fn viewer_that_advanced_is_recognised_within_its_pace() {
    for ask in [|request| request, from_address] {
        // A chunk lasts two seconds: after two, with two chunks of tolerance.
        for (chunks_on, is_known) in [(1, true), (3, true), (12, false)] {
            let mut rig = restarted(5, ask);
            let first = (5 + chunks_on) * CHUNK;
            rig.request(ask(range(1, StreamId(1), first, CHUNK)))
                .expect("accepted");
            rig.run_for(Duration::from_secs(1));
            let began = rig.shard.stats().chains;
            assert_eq!(began, u64::from(!is_known), "{chunks_on} chunks on");
            // The chain is at the new position, and a request for the skipped range belongs to
            // another viewer.
            let passed = ask(range(2, StreamId(1), first + 4 * CHUNK, CHUNK));
            rig.request(passed).expect("accepted");
            assert_eq!(rig.shard.stats().chains, began + 1);
        }
    }
}

#[test]
fn returning_viewer_is_served_while_new_ones_are_refused() {
    let refused = |knows: bool| {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(MIB),
            ..config(512 * MIB)
        });
        rig.device.rate = BitRate(8 * 10_000_000);
        rig.device.position_time = Duration::from_millis(100);
        for viewer in 1..=200 {
            let title = rig.title(viewer, HOUR_BYTES, 8_000);
            let opening = Request {
                open_ended: true,
                ..range(viewer, title, 0, 64 * MIB)
            };
            let _ = rig.request(opening);
            rig.run_for(Duration::from_millis(500));
            if rig.shard.is_overloaded() && viewer > 20 {
                break;
            }
        }
        assert!(rig.shard.is_overloaded());
        let title = rig.title(900, HOUR_BYTES, 2_000);
        let chain = SavedChain {
            viewer: ReaderIdentity::Named(ViewerId(900)),
            stream: title,
            start: 0,
            end: 5 * CHUNK,
            position: 5 * CHUNK,
            last_request_bytes: CHUNK,
            open_ended: false,
            pace: BitRate::from_kbps(2_000),
            idle: Duration::from_secs(2),
        };
        assert!(!knows || rig.shard.restore_chain(rig.now, title, chain));
        let asked = rig.request(range(900, title, 5 * CHUNK, CHUNK));
        matches!(asked, Err(Refusal::Overloaded { .. }))
    };
    assert!(refused(false), "not refused although unknown");
    assert!(!refused(true));
}

#[test]
fn viewer_that_returns_after_gap_is_forgotten() {
    let mut rig = restarted(5, |request| request);
    rig.run_for(Duration::from_secs(60));
    assert_eq!(rig.shard.chain_count(), 0);
}

#[test]
fn next_shard_begins_with_learned_drive_and_size() {
    let mut settings = config(512 * MIB);
    settings.control.mode = Control::Auto;
    let drive = DriveTimes {
        reposition: Duration::from_millis(14),
        transfer_per_mib: Duration::from_millis(9),
    };
    let learned = ShardMeasurements {
        reference_bytes: Some(5 * MIB),
        drive: Some(drive),
        service: Duration::from_millis(70),
        ..ShardMeasurements::default()
    };
    let mut shard = Shard::new(settings).expect("sound");
    shard.restore_measurements(Instant::ZERO, &learned);
    let view = shard.control_view();
    assert_eq!((view.bytes, view.target_bytes), (5 * MIB, 5 * MIB));
    let near = |one: Duration, other: Duration| one.0.abs_diff(other.0) < 500_000;
    let told = view.drive.expect("a firm line");
    assert!(near(told.reposition, drive.reposition), "{told:?}");
    assert!(
        near(told.transfer_per_mib, drive.transfer_per_mib),
        "{told:?}"
    );
    assert_eq!(shard.measurements().service, learned.service);
    // Not if a start size is set, or no controller is active.
    settings.control.start_bytes = Some(2 * MIB);
    let mut shard = Shard::new(settings).expect("sound");
    shard.restore_measurements(Instant::ZERO, &learned);
    assert_eq!(shard.control_view().bytes, 2 * MIB);
    settings.control.mode = Control::Off;
    let mut shard = Shard::new(settings).expect("sound");
    let before = shard.control_view().bytes;
    shard.restore_measurements(Instant::ZERO, &learned);
    assert_eq!(shard.control_view().bytes, before);
}

#[test]
fn importing_twice_equals_importing_once() {
    let mut rig = Rig::new(config(64 * MIB));
    let title = rig.title(1, HOUR_BYTES, 2_000);
    for viewer in 0..100 {
        rig.request(range(viewer, title, viewer * MIB, CHUNK))
            .expect("accepted");
        rig.run_for(Duration::from_secs(1));
    }
    rig.run_for(Duration::from_secs(60));
    let first = rig.shard.measurements();
    assert!(first.ended.len() > 50, "no chain has ended");
    let mut next = Rig::new(config(64 * MIB));
    next.shard.restore_measurements(next.now, &first);
    let second = next.shard.measurements();
    assert_eq!(second.ended, first.ended);
    assert_eq!(second.sent_bytes, first.sent_bytes);
    assert_eq!(second.service, first.service);
}

fn any_time() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration)
}

prop_compose! {
    fn any_chain()(
        numbers in any::<[u64; 5]>(), small in any::<bool>(), named in any::<bool>(),
        open_ended in any::<bool>(), idle in 0..100_u64,
    ) -> SavedChain {
        let [viewer, start, long, back, pace] = numbers;
        let cut = |number: u64| if small { number % (64 * MIB) } else { number };
        let end = cut(start).saturating_add(cut(long));
        SavedChain {
            viewer: match named {
                true => ReaderIdentity::Named(ViewerId(viewer % 5)),
                false => ReaderIdentity::Unnamed { origin: ViewerId(viewer % 3), connection: None },
            },
            stream: StreamId(viewer % 2),
            start: cut(start),
            end,
            position: end.saturating_sub(cut(back)),
            last_request_bytes: cut(back),
            open_ended,
            pace: BitRate(pace),
            idle: Duration::from_secs(idle),
        }
    }
}

prop_compose! {
    fn any_ended()(numbers in any::<[u64; 6]>(), whole in any::<bool>()) -> EndedChain {
        let [read_bytes, whole_bytes, rule_bytes_per_mib, ahead_bytes, pace, sent_bytes] = numbers;
        let cut = |number: u64| if whole { number } else { number % (1 << 32) };
        EndedChain {
            read_bytes: cut(read_bytes),
            whole_bytes: cut(whole_bytes),
            rule_bytes_per_mib: cut(rule_bytes_per_mib),
            ahead_bytes: cut(ahead_bytes),
            pace: BitRate(cut(pace)),
            sent_bytes: cut(sent_bytes),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn shard_stays_within_bounds_for_any_imported_state(
        reference_bytes in any::<Option<u64>>(),
        drive in any::<Option<(u64, u64)>>(),
        service in any_time(),
        carried in any::<u64>(),
        mean in any::<Option<u64>>(),
        ended in prop::collection::vec(any_ended(), 0..600),
        sent_bytes in any::<u64>(),
        chains in prop::collection::vec(any_chain(), 0..40),
    ) {
        let learned = ShardMeasurements {
            reference_bytes,
            drive: drive.map(|(reposition, transfer)| DriveTimes {
                reposition: Duration(reposition),
                transfer_per_mib: Duration(transfer),
            }),
            service,
            carried: BitRate(carried),
            bit_rate_mean: mean.map(BitRate),
            ended,
            sent_bytes,
        };
        let mut settings = config(64 * MIB);
        settings.control.mode = Control::Auto;
        let mut rig = Rig::new(settings);
        rig.shard.restore_measurements(rig.now, &learned);
        let title = rig.title(1, HOUR_BYTES, 2_000);
        for chain in chains {
            rig.shard.restore_chain(rig.now, chain.stream, chain);
            rig.shard.check_invariants();
        }
        for chunk in 0..8 {
            for viewer in 0..6 {
                let _ = rig.request(range(viewer, title, (viewer * 100 + chunk) * CHUNK, CHUNK));
            }
            rig.run_for(Duration::from_secs(4));
        }
        let view = rig.shard.control_view();
        prop_assert!((MIB / 8..=32 * MIB).contains(&view.bytes), "{view:?}");
        let answered = rig.replies.values().filter(|reply| reply.done).count();
        prop_assert!(answered > 0, "no request is served");
    }
}
