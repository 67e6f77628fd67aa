//! Sessions of scripted players (thesis 3.4), in virtual time.

use crate::rig::{PlayerRig, at, call, ms};
use headlong_player::{
    CallEnd, CallId, PlaybackSpec, Script, ScriptCall, SessionPlan, TransportEnd,
};
use headlong_units::{BitRate, ByteRange, Instant};

fn plan(calls: Vec<ScriptCall>) -> SessionPlan {
    SessionPlan::Script(Script::new(calls))
}

fn paced(object: u32, millis: u64) -> ScriptCall {
    ScriptCall {
        pace: Some(ms(millis)),
        ..call(object)
    }
}

#[test]
fn late_timer_is_visible_in_record() {
    let mut rig = PlayerRig::new(plan(vec![call(0), paced(1, 1_000), paced(2, 1_000)]));
    rig.reply(at(100), 0, 1000);
    rig.now = at(1_250);
    rig.player.handle_timeout(rig.now);
    rig.drain();
    rig.reply(at(1_300), 1, 1000);
    rig.reply(at(2_400), 2, 1000);
    assert_eq!(
        (rig.records[1].intended, rig.records[1].sent),
        (at(1_000), at(1_250))
    );
    // The papers' pace counts from the actual start, not the intended one.
    assert_eq!(rig.records[2].intended, at(2_250));
}

#[test]
fn late_start_keeps_intended_start() {
    let mut rig = PlayerRig::waiting(plan(vec![call(0)]), at(500));
    assert_eq!(rig.player.poll_timeout(), None);
    rig.now = at(800);
    rig.start();
    rig.reply(at(900), 0, 1000);
    assert_eq!(
        (rig.records[0].intended, rig.records[0].sent),
        (at(500), at(800))
    );
    assert_eq!(rig.end().startup_delay, Some(ms(400)));
}

#[test]
fn early_start_waits_for_intended_start() {
    let mut rig = PlayerRig::waiting(plan(vec![call(0)]), at(500));
    rig.start();
    assert_eq!(rig.player.poll_timeout(), Some(at(500)));
    rig.wait_until(at(600));
    assert_eq!(rig.sent(), [(500, 0, 0)]);
}

#[test]
fn burst_is_sent_at_once_on_separate_connections() {
    let with = |object| ScriptCall {
        with_previous: true,
        ..call(object)
    };
    let calls = vec![call(0), with(1), with(2), paced(3, 5_000), with(4)];
    let mut rig = PlayerRig::new(plan(calls));
    rig.reply(at(100), 2, 1000);
    rig.reply(at(200), 0, 1000);
    rig.reply(at(6_000), 1, 1000);
    assert_eq!(rig.sent()[..3], [(0, 0, 0), (0, 1, 1), (0, 2, 2)]);
    assert_eq!(rig.sent()[3..], [(6_000, 3, 0), (6_000, 4, 1)]);
    rig.reply(at(6_100), 3, 1000);
    rig.reply(at(6_100), 4, 1000);
    assert_eq!(rig.end().end, CallEnd::Whole);
}

#[test]
fn reply_after_deadline_times_out() {
    let mut rig = PlayerRig::new(plan(vec![call(0)]));
    rig.now = Instant(at(10_000).0 + 1);
    rig.ended(0, TransportEnd::Whole);
    assert_eq!(rig.end().end, CallEnd::TimedOut);
}

#[test]
fn call_without_timeout_waits_indefinitely() {
    let patient = ScriptCall {
        timeout: None,
        ..call(0)
    };
    let mut rig = PlayerRig::new(plan(vec![patient]));
    assert_eq!(rig.player.poll_timeout(), None);
    rig.reply(at(86_400_000), 0, 1000);
    assert_eq!(rig.end().end, CallEnd::Whole);
}

#[test]
fn empty_script_ends_at_start() {
    let rig = PlayerRig::new(plan(Vec::new()));
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert!(rig.records.is_empty());
}

/// Range, expected bytes, status, announced length, received bytes, and the resulting end of the
/// call.
#[test]
fn status_and_length_determine_call_end() {
    use CallEnd::{Refused, Whole, Wrong};
    let part = Some(ByteRange::new(100, 1100));
    let first = Some(ByteRange::new(0, 1000));
    let open = Some(ByteRange::new(100, u64::MAX));
    let table = [
        (part, Some(1000), 206, Some(1000), 1000, Whole),
        (part, Some(1000), 206, None, 1000, Whole),
        (part, Some(1000), 206, Some(999), 999, Wrong),
        (part, Some(1000), 206, None, 999, Wrong),
        (part, Some(1000), 206, None, 1001, Wrong),
        // The whole file instead of a part of it.
        (part, Some(1000), 200, Some(5000), 5000, Wrong),
        (part, Some(1000), 200, Some(1000), 1000, Wrong),
        (first, Some(1000), 200, Some(1000), 1000, Whole),
        (first, Some(1000), 200, Some(5000), 5000, Wrong),
        // The end of the file is unknown.
        (part, None, 206, Some(700), 700, Whole),
        (part, None, 206, Some(700), 600, Wrong),
        (part, None, 206, Some(1001), 1001, Wrong),
        (open, None, 206, Some(9_000_000), 9_000_000, Whole),
        (None, None, 200, None, 77, Whole),
        (None, None, 200, Some(78), 77, Wrong),
        (None, Some(77), 200, None, 77, Whole),
        (None, Some(77), 206, Some(77), 77, Wrong),
        (part, Some(1000), 416, Some(0), 0, Refused(416)),
        (None, None, 404, Some(10), 10, Refused(404)),
        (None, None, 302, None, 0, Refused(302)),
        (None, None, 503, None, 0, Refused(503)),
    ];
    for (range, expected_bytes, status, length, bytes, end) in table {
        let one = ScriptCall {
            range,
            expected_bytes,
            ..call(0)
        };
        let mut rig = PlayerRig::new(plan(vec![one]));
        rig.head(0, status, length);
        rig.bytes(0, bytes);
        rig.ended(0, TransportEnd::Whole);
        let case = (range, expected_bytes, status, length, bytes);
        assert_eq!(rig.ends(), [end], "{case:?}");
        assert_eq!(rig.end().end, end, "{case:?}");
    }
}

#[test]
fn end_without_head_is_broken() {
    let mut rig = PlayerRig::new(plan(vec![call(0)]));
    rig.ended(0, TransportEnd::Whole);
    assert_eq!(rig.ends(), [CallEnd::Broken]);
}

#[test]
fn record_has_first_byte_time_and_byte_count() {
    let mut rig = PlayerRig::new(plan(vec![call(0)]));
    rig.now = at(40);
    rig.head(0, 206, Some(1000));
    rig.bytes(0, 0);
    rig.now = at(50);
    rig.bytes(0, 400);
    rig.now = at(60);
    rig.bytes(0, 300);
    rig.ended(0, TransportEnd::Broken);
    let record = rig.records[0];
    assert_eq!((record.first_byte, record.bytes), (Some(at(50)), 700));
    assert_eq!(record.ended, at(60));
}

// The three pitfalls that httperf users know (their notes, and CloudSuite's).

#[test]
fn trickling_reply_times_out() {
    let mut rig = PlayerRig::new(plan(vec![call(0)]));
    rig.head(0, 206, Some(1000));
    for millis in 1..=900 {
        let before = rig.player.poll_timeout();
        rig.now = at(millis * 20);
        // No timeout is handled: the only events are bytes, one every 20 milliseconds.
        rig.bytes(0, 1);
        if rig.player.end().is_some() {
            break;
        }
        assert_eq!(
            rig.player.poll_timeout(),
            before,
            "a byte postponed the deadline"
        );
    }
    let end = rig.end();
    assert_eq!((end.end, end.ended), (CallEnd::TimedOut, at(10_020)));
}

#[test]
fn old_timer_does_not_affect_next_call() {
    let mut rig = PlayerRig::new(plan(vec![call(0), call(1)]));
    rig.reply(at(9_000), 0, 1000);
    // A spurious timeout at the old deadline.
    rig.now = at(10_000);
    rig.player.handle_timeout(rig.now);
    rig.drain();
    assert!(rig.player.end().is_none());
    assert_eq!(rig.player.poll_timeout(), Some(at(19_000)));
    // Late events of the old call are ignored.
    rig.bytes(0, 5000);
    rig.ended(0, TransportEnd::Broken);
    assert!(rig.player.end().is_none());
    rig.reply(at(18_000), 1, 1000);
    assert_eq!(rig.ends(), [CallEnd::Whole; 2]);
}

#[test]
fn leave_ends_session_in_any_state() {
    let never = ScriptCall {
        timeout: None,
        ..call(0)
    };
    let far = paced(1, 86_400_000);
    // Before the start, during a reply that never arrives, and between two calls.
    let mut early = PlayerRig::waiting(plan(vec![call(0)]), at(500));
    let mut waiting = PlayerRig::new(plan(vec![never]));
    let mut between = PlayerRig::new(plan(vec![call(0), far]));
    between.reply(at(10), 0, 1000);
    for (rig, ends) in [
        (&mut early, vec![]),
        (&mut waiting, vec![CallEnd::Abandoned]),
        (&mut between, vec![CallEnd::Whole]),
    ] {
        rig.now = at(5_000);
        rig.player.handle_leave(rig.now);
        rig.drain();
        assert_eq!((rig.ends(), rig.end().end), (ends, CallEnd::Abandoned));
        assert_eq!(rig.end().ended, at(5_000));
        // Later events are ignored.
        rig.start();
        rig.player.handle_timeout(at(99_000_000));
        rig.player.handle_leave(at(99_000_000));
        rig.drain();
        assert_eq!(rig.end().ended, at(5_000));
    }
}

#[test]
fn events_of_unknown_calls_are_ignored() {
    let mut rig = PlayerRig::new(plan(vec![call(0)]));
    rig.head(7, 500, None);
    rig.bytes(u32::MAX, u64::MAX);
    rig.ended(1, TransportEnd::Broken);
    rig.reply(at(100), 0, 1000);
    assert_eq!((rig.end().end, rig.end().bytes), (CallEnd::Whole, 1000));
    assert_eq!(rig.records[0].call, CallId(0));
}

/// 8,000 bits per second: 1,000 bytes last a second.
fn watched(calls: Vec<ScriptCall>, start_bytes: u64) -> SessionPlan {
    SessionPlan::Script(Script {
        calls,
        playback: Some(PlaybackSpec {
            bit_rate: BitRate(8_000),
            start_bytes,
        }),
    })
}

#[test]
fn playback_starts_at_start_bytes() {
    let mut rig = PlayerRig::new(watched(vec![call(0), call(1), call(2)], 1_500));
    rig.reply(at(200), 0, 1000);
    rig.wait_until(at(300));
    rig.head(1, 206, None);
    rig.bytes(1, 499);
    rig.now = at(400);
    rig.bytes(1, 1);
    rig.now = at(450);
    rig.bytes(1, 500);
    rig.ended(1, TransportEnd::Whole);
    rig.reply(at(500), 2, 1000);
    let end = rig.end();
    assert_eq!(end.startup_delay, Some(ms(400)));
    assert_eq!((end.stalls, end.stall_time), (0, ms(0)));
    assert_eq!(
        (end.played, end.bit_rate),
        (ms(3_000), Some(BitRate(8_000)))
    );
}

#[test]
fn empty_buffer_during_call_is_stall() {
    let mut rig = PlayerRig::new(watched(vec![call(0), call(1), call(2)], 1_000));
    // Plays from 200 to 1,200; stalls until 1,700; plays until 2,700; stalls until 2,800.
    rig.reply(at(200), 0, 1000);
    rig.reply(at(1_700), 1, 1000);
    rig.reply(at(2_800), 2, 1000);
    let end = rig.end();
    assert_eq!((end.stalls, end.stall_time), (2, ms(600)));
    assert_eq!(end.played, ms(3_000));
}

#[test]
fn bytes_arriving_at_empty_buffer_prevent_stall() {
    let mut rig = PlayerRig::new(watched(vec![call(0), call(1), call(2)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.reply(at(1_200), 1, 1000);
    rig.reply(at(2_200), 2, 1000);
    let end = rig.end();
    assert_eq!((end.stalls, end.stall_time), (0, ms(0)));
}

#[test]
fn playback_resumes_at_start_bytes() {
    let mut rig = PlayerRig::new(watched(vec![call(0), call(1), call(2)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.wait_until(at(1_500));
    rig.head(1, 206, None);
    rig.bytes(1, 999);
    rig.wait_until(at(1_900));
    rig.bytes(1, 1);
    rig.ended(1, TransportEnd::Whole);
    rig.reply(at(2_500), 2, 1000);
    let end = rig.end();
    assert_eq!((end.stalls, end.stall_time), (1, ms(700)));
}

#[test]
fn pause_of_script_is_no_stall() {
    let mut rig = PlayerRig::new(watched(vec![call(0), paced(1, 60_000)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.reply(at(60_300), 1, 1000);
    let end = rig.end();
    // The viewer waits from the moment of the next request.
    assert_eq!((end.stalls, end.stall_time), (1, ms(300)));
}

#[test]
fn short_title_plays_when_complete() {
    let mut rig = PlayerRig::new(watched(vec![call(0)], 5_000));
    rig.reply(at(200), 0, 1000);
    let end = rig.end();
    assert_eq!((end.startup_delay, end.played), (Some(ms(200)), ms(1_000)));
}

#[test]
fn stall_counts_until_viewer_leaves() {
    let mut rig = PlayerRig::new(watched(vec![call(0), call(1)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.wait_until(at(30_000));
    let end = rig.end();
    assert_eq!((end.end, end.ended), (CallEnd::TimedOut, at(10_200)));
    assert_eq!((end.stalls, end.stall_time), (1, ms(9_000)));
    assert_eq!(end.played, ms(1_000));
}
