//! Unnamed viewers behind one address: their requests are matched to chains by position.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::{
    ChainId, ConnectionId, EngineConfig, ReaderIdentity, Refusal, Request, RequestId, StreamId,
    ViewerId,
};
use headlong_units::{BitRate, Duration, MIB};

/// The address of all viewers.
const ADDRESS: ViewerId = ViewerId(7);

fn setup() -> (Rig, StreamId) {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    (rig, title)
}

fn from_address(request: Request, connection: Option<u64>) -> Request {
    Request {
        viewer: ReaderIdentity::Unnamed {
            origin: ADDRESS,
            connection: connection.map(ConnectionId),
        },
        ..request
    }
}

/// Requests one chunk of a title and waits for it.
fn chunk(rig: &mut Rig, title: StreamId, number: u64, connection: Option<u64>) -> ChainId {
    let (chain, _) = begin_chunk(rig, title, number, connection);
    rig.run_for(Duration::from_millis(300));
    chain
}

fn begin_chunk(
    rig: &mut Rig,
    title: StreamId,
    number: u64,
    connection: Option<u64>,
) -> (ChainId, RequestId) {
    let request = from_address(range(0, title, number * CHUNK, CHUNK), connection);
    let id = rig.request(request).expect("accepted");
    (rig.shard.chain_of(id).expect("in progress"), id)
}

#[test]
fn unnamed_viewers_behind_one_address_keep_their_chains() {
    let (mut rig, _) = setup();
    let title = rig.title(2, 4 * HOUR_BYTES, 2_000);
    let mut chains: Vec<ChainId> = Vec::new();
    for round in 0..3 {
        for viewer in 0..300 {
            // A proxy has some connections to the server, and uses any of them.
            let connection = Some((viewer * 31 + round * 17) % 64);
            let number = viewer * 7 + round;
            let (chain, _) = begin_chunk(&mut rig, title, number, connection);
            // More at once than the disk can serve would be refused.
            rig.run_for(Duration::from_millis(10));
            match round {
                0 => chains.push(chain),
                _ => assert_eq!(chains[viewer as usize], chain, "viewer {viewer}"),
            }
        }
        rig.run_for(Duration::from_secs(12));
    }
    assert_eq!(rig.shard.chain_count(), 300);
}

#[test]
fn viewers_that_began_together_are_separate_chains() {
    let (mut rig, title) = setup();
    for number in 0..10 {
        for _ in 0..5 {
            begin_chunk(&mut rig, title, number, None);
        }
        rig.run_for(Duration::from_secs(2));
        assert_eq!(rig.shard.chain_count(), 5, "after chunk {number}");
    }
}

#[test]
fn two_viewers_close_together_are_two_chains() {
    let (mut rig, title) = setup();
    for number in 0..20 {
        let ahead = chunk(&mut rig, title, 4 + number, None);
        let behind = chunk(&mut rig, title, number, None);
        assert_ne!(ahead, behind, "at chunk {number}");
    }
    assert_eq!(rig.shard.chain_count(), 2);
}

#[test]
fn one_viewer_is_one_chain_on_any_connections() {
    let (mut rig, title) = setup();
    for number in 0..20 {
        chunk(&mut rig, title, number, Some(number));
        assert_eq!(rig.shard.chain_count(), 1, "after chunk {number}");
    }
    for number in [20, 22, 21, 25, 24, 23] {
        begin_chunk(&mut rig, title, number, Some(number));
    }
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.chain_count(), 1, "a chain per request");
}

#[test]
fn first_requests_of_viewer_may_arrive_in_any_order() {
    let (mut rig, title) = setup();
    for number in [1, 0, 3, 2, 5, 4] {
        begin_chunk(&mut rig, title, number, Some(number));
    }
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.chain_count(), 1);
}

#[test]
fn seek_near_another_viewer_begins_a_chain() {
    let (mut rig, title) = setup();
    let other = chunk(&mut rig, title, 100, Some(1));
    chunk(&mut rig, title, 0, Some(2));
    let skipped = chunk(&mut rig, title, 103, Some(2));
    assert_ne!(skipped, other);
    assert_eq!(chunk(&mut rig, title, 101, Some(1)), other);
    assert_eq!(chunk(&mut rig, title, 104, Some(2)), skipped);
}

#[test]
fn cut_off_reply_is_requested_again_by_same_viewer() {
    let (mut rig, title) = setup();
    chunk(&mut rig, title, 0, None);
    rig.socket_time = Duration::from_secs(60);
    let request = from_address(range(0, title, CHUNK, 64 * CHUNK), None);
    let id = rig.request(request).expect("accepted");
    let chain = rig.shard.chain_of(id);
    rig.run_for(Duration::from_secs(2));
    rig.cancel(id);
    let again = from_address(range(0, title, CHUNK, 64 * CHUNK), None);
    let id = rig.request(again).expect("accepted");
    assert_eq!(rig.shard.chain_of(id), chain);
}

#[test]
fn reread_on_same_connection_is_same_chain() {
    let (mut rig, title) = setup();
    let chain = chunk(&mut rig, title, 0, Some(1));
    chunk(&mut rig, title, 1, Some(1));
    assert_eq!(chunk(&mut rig, title, 0, Some(1)), chain);
    assert_ne!(chunk(&mut rig, title, 0, Some(2)), chain);
}

#[test]
fn reread_before_end_is_same_chain_with_kernel_readahead() {
    for (reread_bytes, chains) in [(0, 10), (512 << 10, 1)] {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(4 * MIB),
            reread_bytes,
            ..config(64 * MIB)
        });
        let title = rig.title(1, HOUR_BYTES, 2_000);
        // Each time the file is reopened, and the kernel reads a window further than needed.
        for number in 0..10 {
            let request = range(0, title, number * CHUNK, CHUNK + (400 << 10));
            rig.request(from_address(request, Some(number)))
                .expect("accepted");
            rig.run_for(Duration::from_millis(300));
        }
        assert_eq!(rig.shard.chain_count(), chains, "{reread_bytes}");
    }
}

#[test]
fn overlapping_segments_are_one_chain_without_connection() {
    let overlap_bytes = 40 << 10;
    for (stated, chains) in [(0, 10), (overlap_bytes, 1), (overlap_bytes - 1, 10)] {
        let (mut rig, title) = setup();
        for number in 0..10 {
            let segment = Request {
                overlap_bytes: stated,
                ..range(0, title, number * CHUNK, CHUNK + overlap_bytes)
            };
            rig.request(from_address(segment, None)).expect("accepted");
            rig.run_for(Duration::from_millis(300));
        }
        assert_eq!(rig.shard.chain_count(), chains, "{stated}");
    }
}

#[test]
fn overlap_joins_no_chain_that_is_elsewhere() {
    let (mut rig, title) = setup();
    let overlap_bytes = 40 << 10;
    let chain = chunk(&mut rig, title, 0, None);
    // Of another viewer, whose last segment ended further on, or long before.
    for number in [0, 2] {
        let segment = Request {
            overlap_bytes,
            ..range(0, title, number * CHUNK, CHUNK)
        };
        let id = rig.request(from_address(segment, None)).expect("accepted");
        assert_ne!(rig.shard.chain_of(id), Some(chain), "{number}");
        rig.run_for(Duration::from_millis(300));
    }
}

/// A device with more viewers than it can serve, all from one address and, by `connection`, without
/// connections of their own. Returns how many were admitted and how many refused.
fn crowd(rig: &mut Rig, connection: impl Fn(u64) -> Option<u64>) -> (u64, u64) {
    rig.device.rate = BitRate(8 * 10_000_000);
    rig.device.position_time = Duration::from_millis(100);
    let (mut admitted, mut refused) = (0, 0);
    for viewer in 1..=200 {
        let title = rig.title(viewer, HOUR_BYTES, 8_000);
        let opening = Request {
            open_ended: true,
            ..range(0, title, 0, 64 * MIB)
        };
        match rig.request(from_address(opening, connection(viewer))) {
            Ok(_) => admitted += 1,
            Err(Refusal::Overloaded { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        rig.run_for(Duration::from_millis(500));
    }
    (admitted, refused)
}

fn small() -> Rig {
    Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(256 * MIB)
    })
}

#[test]
fn each_viewer_behind_one_address_passes_admission() {
    let mut named = small();
    named.device.rate = BitRate(8 * 10_000_000);
    named.device.position_time = Duration::from_millis(100);
    let mut refused_by_name = 0;
    for viewer in 1..=200 {
        let title = named.title(viewer, HOUR_BYTES, 8_000);
        let opening = Request {
            open_ended: true,
            ..range(viewer, title, 0, 64 * MIB)
        };
        refused_by_name += u64::from(named.request(opening).is_err());
        named.run_for(Duration::from_millis(500));
    }
    assert!(refused_by_name > 0);
    // On one connection each, on one shared by all, and on a new one for each request.
    let own = crowd(&mut small(), Some).1;
    let shared = crowd(&mut small(), |_| Some(1)).1;
    let none = crowd(&mut small(), |_| None).1;
    assert_eq!(
        (own, shared, none),
        (refused_by_name, refused_by_name, refused_by_name)
    );
}

#[test]
fn open_ended_request_before_first_byte_is_another_viewer() {
    for connection in [Some, |_| None] {
        let (mut rig, title) = setup();
        let whole = Request {
            open_ended: true,
            ..range(0, title, 0, HOUR_BYTES)
        };
        for viewer in 0..8 {
            let asked = rig.request(from_address(whole, connection(viewer)));
            asked.expect("accepted");
        }
        assert_eq!(rig.shard.chain_count(), 8);
    }
}

#[test]
fn served_viewer_may_seek_while_new_ones_are_refused() {
    let mut rig = small();
    let (admitted, refused) = crowd(&mut rig, Some);
    assert!(admitted > 4 && refused > 0);
    let elsewhere = range(0, StreamId(1), 300 * MIB, CHUNK);
    let skips = rig.request(from_address(elsewhere, Some(1)));
    assert!(skips.is_ok(), "{skips:?}");
    let newcomer = range(0, StreamId(1), 400 * MIB, CHUNK);
    let comes = rig.request(from_address(newcomer, Some(1000)));
    assert!(
        matches!(comes, Err(Refusal::Overloaded { .. })),
        "{comes:?}"
    );
}

/// The kernel splits the reads of a program that reopens the file each time, and the second part
/// arrives first.
fn in_parts(skip_bytes: u64) -> Rig {
    const PART: u64 = 64 << 10;
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        skip_bytes,
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    for number in 0..20 {
        for part in [1, 0, 2, 3, 4, 5, 6, 7] {
            let at = number * 8 * PART + part * PART;
            rig.request(from_address(range(0, title, at, PART), Some(number)))
                .expect("accepted");
            rig.run_for(Duration::from_millis(5));
        }
        rig.run_for(Duration::from_secs(2));
    }
    rig
}

#[test]
fn kernel_requests_in_any_order_are_one_chain() {
    assert_eq!(in_parts(4 * MIB).shard.chain_count(), 1);
    assert!(in_parts(0).shard.chain_count() > 10);
    let stats = in_parts(4 * MIB).shard.stats();
    assert_eq!(stats.jobs_late, 0, "{stats:?}");
}

#[test]
fn request_inside_read_range_is_another_viewer() {
    let (mut rig, title) = setup();
    let chain = chunk(&mut rig, title, 0, Some(1));
    rig.run_for(Duration::from_secs(1));
    assert_ne!(chunk(&mut rig, title, 2, Some(2)), chain);
}
