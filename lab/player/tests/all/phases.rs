//! Devices of phased workloads, request by request.

use crate::rig::{PlayerRig, at, ms};
use headlong_player::{
    BufferRoom, CallEnd, Command, ObjectId, PartialRead, PhasedCall, PhasedPlan, SOCKET_BYTES,
    SessionPlan, TransportEnd,
};
use headlong_units::{BitRate, ByteRange};

/// A request for 1,000 bytes that takes 500 ms.
fn call(connection: u32, at_ms: u64) -> PhasedCall {
    PhasedCall {
        object: ObjectId(connection),
        connection,
        at: ms(at_ms),
        takes: ms(500),
        range: ByteRange::new(0, 1000),
        reading: None,
    }
}

/// An open-ended request of a file of 3 MB: 2 MB are read at 8 Mbit/s, into a buffer with room for
/// 1 MB that playback empties at 800 kbit/s, and 1.5 MB are needed.
fn open_ended(at_ms: u64) -> PhasedCall {
    PhasedCall {
        takes: ms(10_000),
        range: ByteRange::new(0, u64::MAX),
        reading: Some(Box::new(PartialRead {
            reply_bytes: 3_000_000,
            bytes: 2_000_000,
            needed_bytes: 1_500_000,
            speed: Some(BitRate::from_kbps(8000)),
            buffer: Some(BufferRoom {
                bytes: 1_000_000,
                drain: BitRate::from_kbps(800),
            }),
        })),
        ..call(0, at_ms)
    }
}

fn session(calls: &[PhasedCall]) -> PlayerRig {
    let plan = PhasedPlan {
        timeout: ms(10_000),
        calls: calls.to_vec(),
    };
    assert_eq!(plan.check(), Ok(()));
    PlayerRig::new(SessionPlan::Phases(plan))
}

#[test]
fn late_reply_delays_only_its_own_connection() {
    let calls = [call(0, 0), call(1, 100), call(0, 1000), call(1, 1200)];
    let mut rig = session(&calls);
    rig.reply(at(600), 1, 1000);
    rig.wait_until(at(1500));
    assert_eq!(rig.sent(), [(0, 0, 0), (100, 1, 1), (1200, 1, 1)]);
    rig.reply(at(3000), 0, 1000);
    assert_eq!(
        rig.sent().last(),
        Some(&(3000, 0, 0)),
        "at once when it is free"
    );
    rig.reply(at(3100), 2, 1000);
    rig.reply(at(3500), 3, 1000);
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert_eq!((rig.end().ended, rig.end().bytes), (at(3500), 4000));
    // Latencies count from the moment at which the connection was free.
    let late = rig.records.iter().find(|record| record.sent == at(3000));
    assert_eq!(late.expect("a record").intended, at(3000));
}

#[test]
fn open_ended_reply_is_closed_at_its_planned_end() {
    let mut rig = session(&[open_ended(0), call(0, 12_000)]);
    rig.head(0, 206, Some(3_000_000));
    for second in 1..=5 {
        rig.wait_until(at(second * 1000));
        rig.bytes(0, 400_000);
    }
    assert_eq!(
        rig.ends(),
        [],
        "it has what it needs, but goes on until its end"
    );
    rig.wait_until(at(11_000));
    assert_eq!(rig.ends(), [CallEnd::Whole]);
    let close = rig
        .given
        .iter()
        .find(|given| matches!(given.command, Command::Abandon { .. }));
    assert_eq!(close.expect("closed").at, at(10_000));
    rig.reply(at(12_400), 1, 1000);
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert_eq!(rig.end().bytes, 2_001_000);
}

#[test]
fn open_ended_reply_without_needed_bytes_is_closed_later() {
    let mut rig = session(&[open_ended(0)]);
    rig.head(0, 206, Some(3_000_000));
    rig.bytes(0, 1_400_000);
    rig.wait_until(at(12_000));
    assert_eq!(rig.ends(), []);
    rig.bytes(0, 100_000);
    assert_eq!(rig.ends(), [CallEnd::Whole]);
    assert_eq!(rig.end().ended, at(12_000));
}

#[test]
fn byte_that_is_ten_seconds_late_fails_session() {
    // The network brings a million bytes in a second; then playback makes room for 100 kB a second.
    for (bytes, fails_ms) in [(0, 10_000), (500_000, 10_500), (1_200_000, 12_000)] {
        let mut rig = session(&[open_ended(0), call(1, 60_000)]);
        rig.head(0, 206, Some(3_000_000));
        rig.bytes(0, bytes);
        rig.wait_until(at(fails_ms - 1));
        assert_eq!(rig.ends(), [], "{bytes}");
        rig.wait_until(at(fails_ms + 1));
        assert_eq!(rig.end().end, CallEnd::TimedOut, "{bytes}");
    }
}

#[test]
fn range_has_ten_seconds_more_than_planned() {
    let mut rig = session(&[call(0, 0)]);
    rig.wait_until(at(10_499));
    assert_eq!(rig.ends(), []);
    rig.wait_until(at(10_500));
    assert_eq!(rig.end().end, CallEnd::TimedOut);
}

#[test]
fn late_open_ended_request_finds_more_room() {
    let mut rig = session(&[call(0, 0), open_ended(1000)]);
    rig.reply(at(4000), 0, 1000);
    let reading = rig.given.iter().find_map(|given| match given.command {
        Command::Send { reading, .. } => reading,
        _ => None,
    });
    let reading = reading.expect("the second call");
    assert_eq!(reading.buffer.map(|room| room.bytes), Some(1_300_000));
    assert_eq!(
        reading.room_at(SOCKET_BYTES + 1_000_000),
        ms(1000),
        "the network"
    );
}

#[test]
fn reply_of_another_size_is_wrong() {
    let mut rig = session(&[open_ended(0)]);
    rig.head(0, 206, Some(2_999_999));
    assert_eq!(rig.end().end, CallEnd::Wrong);
    let mut rig = session(&[call(0, 0), call(1, 0)]);
    rig.head(0, 206, Some(1000));
    rig.bytes(0, 999);
    rig.ended(0, TransportEnd::Broken);
    assert_eq!(rig.end().end, CallEnd::Broken, "the session ends with it");
    assert_eq!(rig.ends(), [CallEnd::Broken, CallEnd::Abandoned]);
}

#[test]
fn session_without_requests_ends_at_its_arrival() {
    let rig = session(&[]);
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert_eq!(rig.end().ended, at(0));
}
