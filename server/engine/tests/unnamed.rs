//! Viewers without a name behind one address: what they read tells whose request is whose.

mod rig;

use headlong_engine::{
    ChainId, ConnectionId, EngineConfig, Identity, Refusal, Request, RequestId, StreamId, ViewerId,
};
use headlong_units::{BitRate, Duration, MIB};
use rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};

/// Everybody's address.
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
        viewer: Identity::Unnamed {
            origin: ADDRESS,
            connection: connection.map(ConnectionId),
        },
        ..request
    }
}

/// Asks for one chunk of a title and waits for it.
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
    let id = rig.ask(request).expect("taken on");
    (rig.shard.chain_of(id).expect("under way"), id)
}

#[test]
fn hundreds_of_viewers_of_one_title_behind_one_address_are_as_many_chains() {
    let (mut rig, _) = setup();
    let title = rig.title(2, 4 * HOUR_BYTES, 2_000);
    let mut chains: Vec<ChainId> = Vec::new();
    for round in 0..3 {
        for viewer in 0..300 {
            // A proxy has some connections to the server, and takes any of them.
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
fn viewers_who_began_together_are_as_many_chains_as_viewers() {
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
fn two_viewers_of_one_title_near_one_another_are_two_chains() {
    let (mut rig, title) = setup();
    for number in 0..20 {
        let ahead = chunk(&mut rig, title, 4 + number, None);
        let behind = chunk(&mut rig, title, number, None);
        assert_ne!(ahead, behind, "at chunk {number}");
    }
    assert_eq!(rig.shard.chain_count(), 2);
}

#[test]
fn one_viewer_is_one_chain_whatever_connections_it_reads_on() {
    let (mut rig, title) = setup();
    for number in 0..20 {
        chunk(&mut rig, title, number, Some(number));
        assert_eq!(rig.shard.chain_count(), 1, "after chunk {number}");
    }
    for number in [20, 22, 21, 25, 24, 23] {
        begin_chunk(&mut rig, title, number, Some(number));
    }
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.chain_count(), 1, "several at once, in any order");
}

#[test]
fn the_first_requests_of_a_viewer_may_come_in_any_order() {
    let (mut rig, title) = setup();
    for number in [1, 0, 3, 2, 5, 4] {
        begin_chunk(&mut rig, title, number, Some(number));
    }
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.chain_count(), 1);
}

#[test]
fn who_skips_to_a_place_near_another_gets_a_chain_of_its_own() {
    let (mut rig, title) = setup();
    let other = chunk(&mut rig, title, 100, Some(1));
    chunk(&mut rig, title, 0, Some(2));
    let skipped = chunk(&mut rig, title, 103, Some(2));
    assert_ne!(skipped, other);
    assert_eq!(chunk(&mut rig, title, 101, Some(1)), other);
    assert_eq!(chunk(&mut rig, title, 104, Some(2)), skipped);
}

#[test]
fn a_reply_that_was_cut_off_is_asked_for_again_by_the_same_viewer() {
    let (mut rig, title) = setup();
    chunk(&mut rig, title, 0, None);
    rig.socket_time = Duration::from_secs(60);
    let request = from_address(range(0, title, CHUNK, 64 * CHUNK), None);
    let id = rig.ask(request).expect("taken on");
    let chain = rig.shard.chain_of(id);
    rig.run_for(Duration::from_secs(2));
    rig.cancel(id);
    let again = from_address(range(0, title, CHUNK, 64 * CHUNK), None);
    let id = rig.ask(again).expect("taken on");
    assert_eq!(rig.shard.chain_of(id), chain);
}

#[test]
fn what_is_read_again_on_the_same_connection_is_the_same_chain() {
    let (mut rig, title) = setup();
    let chain = chunk(&mut rig, title, 0, Some(1));
    chunk(&mut rig, title, 1, Some(1));
    assert_eq!(chunk(&mut rig, title, 0, Some(1)), chain);
    assert_ne!(chunk(&mut rig, title, 0, Some(2)), chain);
}

#[test]
fn who_goes_on_a_little_before_the_end_is_the_same_chain_where_the_kernel_reads_ahead() {
    for (reread_bytes, chains) in [(0, 10), (512 << 10, 1)] {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(4 * MIB),
            reread_bytes,
            ..config(64 * MIB)
        });
        let title = rig.title(1, HOUR_BYTES, 2_000);
        // Each time the file is opened anew, and the kernel reads a window further than is wanted.
        for number in 0..10 {
            let request = range(0, title, number * CHUNK, CHUNK + (400 << 10));
            rig.ask(from_address(request, Some(number)))
                .expect("taken on");
            rig.run_for(Duration::from_millis(300));
        }
        assert_eq!(rig.shard.chain_count(), chains, "{reread_bytes}");
    }
}

/// A device with more viewers than it can serve, all from one address and, by `connection`, without
/// a connection of their own. Answers how many were let in, and how many refused.
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
        match rig.ask(from_address(opening, connection(viewer))) {
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
fn every_viewer_behind_one_address_is_asked_whether_it_may_come_in() {
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
        refused_by_name += u64::from(named.ask(opening).is_err());
        named.run_for(Duration::from_millis(500));
    }
    assert!(refused_by_name > 0);
    // On one connection each, on one that all share, and on a new one for each request.
    let own = crowd(&mut small(), Some).1;
    let shared = crowd(&mut small(), |_| Some(1)).1;
    let none = crowd(&mut small(), |_| None).1;
    assert_eq!(
        (own, shared, none),
        (refused_by_name, refused_by_name, refused_by_name)
    );
}

#[test]
fn who_asks_for_a_whole_file_before_anything_of_it_has_come_is_a_viewer_of_its_own() {
    for connection in [Some, |_| None] {
        let (mut rig, title) = setup();
        let whole = Request {
            open_ended: true,
            ..range(0, title, 0, HOUR_BYTES)
        };
        for viewer in 0..8 {
            let asked = rig.ask(from_address(whole, connection(viewer)));
            asked.expect("taken on");
        }
        assert_eq!(rig.shard.chain_count(), 8);
    }
}

#[test]
fn who_is_served_may_skip_on_its_own_connection_although_new_viewers_are_refused() {
    let mut rig = small();
    let (admitted, refused) = crowd(&mut rig, Some);
    assert!(admitted > 4 && refused > 0);
    let elsewhere = range(0, StreamId(1), 300 * MIB, CHUNK);
    let skips = rig.ask(from_address(elsewhere, Some(1)));
    assert!(skips.is_ok(), "{skips:?}");
    let newcomer = range(0, StreamId(1), 400 * MIB, CHUNK);
    let comes = rig.ask(from_address(newcomer, Some(1000)));
    assert!(
        matches!(comes, Err(Refusal::Overloaded { .. })),
        "{comes:?}"
    );
}

/// The kernel asks in parts for a reader who opens the file anew each time, and the second part comes
/// first.
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
            rig.ask(from_address(range(0, title, at, PART), Some(number)))
                .expect("taken on");
            rig.run_for(Duration::from_millis(5));
        }
        rig.run_for(Duration::from_secs(2));
    }
    rig
}

#[test]
fn parts_that_a_kernel_asks_for_in_any_order_are_one_chain() {
    assert_eq!(in_parts(4 * MIB).shard.chain_count(), 1);
    assert!(in_parts(0).shard.chain_count() > 10);
    let stats = in_parts(4 * MIB).shard.stats();
    assert_eq!(stats.jobs_late, 0, "{stats:?}");
}

#[test]
fn who_begins_in_the_midst_of_what_was_read_for_another_is_another_where_no_kernel_is_between() {
    let (mut rig, title) = setup();
    let chain = chunk(&mut rig, title, 0, Some(1));
    rig.run_for(Duration::from_secs(1));
    assert_ne!(chunk(&mut rig, title, 2, Some(2)), chain);
}
