//! Sessions that do as a script tells them (thesis 3.4), in virtual time.

mod rig;

use headlong_player::{Call, CallEnd, CallId, Command, Plan, Playback, Script, TransportEnd};
use headlong_units::{BitRate, ByteRange, Instant};
use rig::{Rig, at, call, ms};

fn plan(calls: Vec<Call>) -> Plan {
    Plan::Script(Script::new(calls))
}

fn paced(object: u32, millis: u64) -> Call {
    Call {
        pace: Some(ms(millis)),
        ..call(object)
    }
}

#[test]
fn a_session_of_three_unpaced_calls_asks_as_soon_as_it_has() {
    let mut rig = Rig::new(plan(vec![call(0), call(1), call(2)]));
    rig.reply(at(300), 0, 1000);
    rig.reply(at(450), 1, 1000);
    rig.reply(at(700), 2, 1000);
    assert_eq!(rig.sent(), [(0, 0, 0), (300, 1, 0), (450, 2, 0)]);
    assert_eq!(rig.ends(), [CallEnd::Whole; 3]);
    let end = rig.end();
    assert_eq!((end.end, end.bytes), (CallEnd::Whole, 3000));
    assert_eq!((end.ended, end.startup_delay), (at(700), Some(ms(300))));
    assert_eq!(
        rig.given.last().map(|given| &given.command),
        Some(&Command::Close)
    );
}

#[test]
fn pace_counts_from_the_start_of_the_call_before() {
    let mut rig = Rig::new(plan(vec![call(0), paced(1, 10_000), paced(2, 10_000)]));
    rig.reply(at(4_000), 0, 1000);
    rig.reply(at(13_000), 1, 1000);
    rig.reply(at(21_000), 2, 1000);
    assert_eq!(rig.sent(), [(0, 0, 0), (10_000, 1, 0), (20_000, 2, 0)]);
}

#[test]
fn a_paced_call_is_allowed_when_the_call_before_ends_if_that_is_later() {
    let mut rig = Rig::new(plan(vec![call(0), paced(1, 1_000)]));
    rig.reply(at(4_000), 0, 1000);
    rig.reply(at(5_000), 1, 1000);
    assert_eq!(rig.sent()[1].0, 4_000);
    assert_eq!(rig.records[1].intended, at(4_000));
}

#[test]
fn thinking_counts_from_the_end_of_the_call_before() {
    let think = Call {
        think: Some(ms(2_000)),
        pace: Some(ms(3_000)),
        ..call(1)
    };
    let mut rig = Rig::new(plan(vec![call(0), think]));
    rig.reply(at(4_000), 0, 1000);
    rig.reply(at(7_000), 1, 1000);
    assert_eq!(rig.sent()[1].0, 6_000);
}

#[test]
fn a_late_timer_makes_a_late_call_and_its_record_says_so() {
    let mut rig = Rig::new(plan(vec![call(0), paced(1, 1_000), paced(2, 1_000)]));
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
    // The papers' pace counts from the start as it was, not as it should have been.
    assert_eq!(rig.records[2].intended, at(2_250));
}

#[test]
fn a_session_started_late_was_still_meant_to_start_on_time() {
    let mut rig = Rig::waiting(plan(vec![call(0)]), at(500));
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
fn a_session_started_early_waits_for_its_time() {
    let mut rig = Rig::waiting(plan(vec![call(0)]), at(500));
    rig.start();
    assert_eq!(rig.player.poll_timeout(), Some(at(500)));
    rig.wait_until(at(600));
    assert_eq!(rig.sent(), [(500, 0, 0)]);
}

#[test]
fn a_burst_goes_out_at_once_on_connections_of_its_own() {
    let with = |object| Call {
        with_previous: true,
        ..call(object)
    };
    let calls = vec![call(0), with(1), with(2), paced(3, 5_000), with(4)];
    let mut rig = Rig::new(plan(calls));
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
fn a_viewer_who_waits_too_long_leaves() {
    let with = Call {
        with_previous: true,
        ..call(1)
    };
    let mut rig = Rig::new(plan(vec![call(0), with, call(2)]));
    rig.wait_until(at(9_999));
    assert!(rig.player.end().is_none());
    rig.wait_until(at(20_000));
    // One of two was out of time first; the other goes with it.
    assert_eq!(rig.ends(), [CallEnd::TimedOut, CallEnd::Abandoned]);
    let end = rig.end();
    assert_eq!((end.end, end.ended), (CallEnd::TimedOut, at(10_000)));
    assert_eq!(end.startup_delay, None);
    assert_eq!(rig.sent().len(), 2);
}

#[test]
fn a_reply_that_is_whole_at_the_last_moment_is_in_time() {
    let mut rig = Rig::new(plan(vec![call(0)]));
    rig.now = at(10_000);
    rig.head(0, 206, Some(1000));
    rig.bytes(0, 1000);
    rig.ended(0, TransportEnd::Whole);
    assert_eq!(rig.end().end, CallEnd::Whole);
}

#[test]
fn a_reply_that_is_whole_a_moment_later_is_not() {
    let mut rig = Rig::new(plan(vec![call(0)]));
    rig.now = Instant(at(10_000).0 + 1);
    rig.ended(0, TransportEnd::Whole);
    assert_eq!(rig.end().end, CallEnd::TimedOut);
}

#[test]
fn a_call_without_a_timeout_waits_for_ever() {
    let patient = Call {
        timeout: None,
        ..call(0)
    };
    let mut rig = Rig::new(plan(vec![patient]));
    assert_eq!(rig.player.poll_timeout(), None);
    rig.reply(at(86_400_000), 0, 1000);
    assert_eq!(rig.end().end, CallEnd::Whole);
}

#[test]
fn a_session_with_nothing_to_ask_is_over_when_it_starts() {
    let rig = Rig::new(plan(Vec::new()));
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert!(rig.records.is_empty());
}

/// Status, length announced, bytes that came, and what that is for a call of `range` and
/// `expected` bytes.
#[test]
fn only_the_right_status_and_length_are_whole() {
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
        // The whole file in place of a part of it.
        (part, Some(1000), 200, Some(5000), 5000, Wrong),
        (part, Some(1000), 200, Some(1000), 1000, Wrong),
        (first, Some(1000), 200, Some(1000), 1000, Whole),
        (first, Some(1000), 200, Some(5000), 5000, Wrong),
        // Where the file ends is not known.
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
        let one = Call {
            range,
            expected_bytes,
            ..call(0)
        };
        let mut rig = Rig::new(plan(vec![one]));
        rig.head(0, status, length);
        rig.bytes(0, bytes);
        rig.ended(0, TransportEnd::Whole);
        let case = (range, expected_bytes, status, length, bytes);
        assert_eq!(rig.ends(), [end], "{case:?}");
        assert_eq!(rig.end().end, end, "{case:?}");
    }
}

#[test]
fn an_end_without_a_head_is_a_broken_connection() {
    let mut rig = Rig::new(plan(vec![call(0)]));
    rig.ended(0, TransportEnd::Whole);
    assert_eq!(rig.ends(), [CallEnd::Broken]);
}

#[test]
fn what_the_transport_says_ends_the_session() {
    for (end, is) in [
        (TransportEnd::Broken, CallEnd::Broken),
        (TransportEnd::Wrong, CallEnd::Wrong),
        (TransportEnd::Refused(429), CallEnd::Refused(429)),
    ] {
        let mut rig = Rig::new(plan(vec![call(0), call(1)]));
        rig.ended(0, end);
        assert_eq!((rig.ends(), rig.end().end), (vec![is], is));
    }
}

#[test]
fn a_record_says_when_the_first_byte_came_and_how_many_did() {
    let mut rig = Rig::new(plan(vec![call(0)]));
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

// The three that httperf's users know (their notes, and CloudSuite's).

#[test]
fn a_stream_that_trickles_still_times_out() {
    let mut rig = Rig::new(plan(vec![call(0)]));
    rig.head(0, 206, Some(1000));
    for millis in 1..=900 {
        let before = rig.player.poll_timeout();
        rig.now = at(millis * 20);
        // Nobody rings: all that is told is a byte, every 20 milliseconds.
        rig.bytes(0, 1);
        if rig.player.end().is_some() {
            break;
        }
        assert_eq!(
            rig.player.poll_timeout(),
            before,
            "a byte put the deadline off"
        );
    }
    let end = rig.end();
    assert_eq!((end.end, end.ended), (CallEnd::TimedOut, at(10_020)));
}

#[test]
fn the_timer_of_a_call_that_is_over_cannot_touch_the_next_on_its_connection() {
    let mut rig = Rig::new(plan(vec![call(0), call(1)]));
    rig.reply(at(9_000), 0, 1000);
    // The old timer rings though nobody wants it any more.
    rig.now = at(10_000);
    rig.player.handle_timeout(rig.now);
    rig.drain();
    assert!(rig.player.end().is_none());
    assert_eq!(rig.player.poll_timeout(), Some(at(19_000)));
    // Nor can what was on its way for the old call.
    rig.bytes(0, 5000);
    rig.ended(0, TransportEnd::Broken);
    assert!(rig.player.end().is_none());
    rig.reply(at(18_000), 1, 1000);
    assert_eq!(rig.ends(), [CallEnd::Whole; 2]);
}

#[test]
fn nobody_hangs_when_a_run_is_over() {
    let never = Call {
        timeout: None,
        ..call(0)
    };
    let far = paced(1, 86_400_000);
    // Before the start, while waiting for a reply that never comes, and between two calls.
    let mut early = Rig::waiting(plan(vec![call(0)]), at(500));
    let mut waiting = Rig::new(plan(vec![never]));
    let mut between = Rig::new(plan(vec![call(0), far]));
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
        // What comes now comes too late.
        rig.start();
        rig.player.handle_timeout(at(99_000_000));
        rig.player.handle_leave(at(99_000_000));
        rig.drain();
        assert_eq!(rig.end().ended, at(5_000));
    }
}

#[test]
fn what_is_said_of_calls_nobody_knows_changes_nothing() {
    let mut rig = Rig::new(plan(vec![call(0)]));
    rig.head(7, 500, None);
    rig.bytes(u32::MAX, u64::MAX);
    rig.ended(1, TransportEnd::Broken);
    rig.reply(at(100), 0, 1000);
    assert_eq!((rig.end().end, rig.end().bytes), (CallEnd::Whole, 1000));
    assert_eq!(rig.records[0].call, CallId(0));
}

/// 8,000 bits per second: 1,000 bytes are a second.
fn watched(calls: Vec<Call>, start_bytes: u64) -> Plan {
    Plan::Script(Script {
        calls,
        playback: Some(Playback {
            bit_rate: BitRate(8_000),
            start_bytes,
        }),
    })
}

#[test]
fn the_picture_appears_when_enough_bytes_have_come() {
    let mut rig = Rig::new(watched(vec![call(0), call(1), call(2)], 1_500));
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
fn the_picture_stands_still_while_the_buffer_is_empty_and_bytes_are_asked_for() {
    let mut rig = Rig::new(watched(vec![call(0), call(1), call(2)], 1_000));
    // Moves from 200 to 1,200; still until 1,700; moves from there to 2,700; still until 2,800.
    rig.reply(at(200), 0, 1000);
    rig.reply(at(1_700), 1, 1000);
    rig.reply(at(2_800), 2, 1000);
    let end = rig.end();
    assert_eq!((end.stalls, end.stall_time), (2, ms(600)));
    assert_eq!(end.played, ms(3_000));
}

#[test]
fn bytes_that_come_as_the_buffer_runs_empty_are_in_time() {
    let mut rig = Rig::new(watched(vec![call(0), call(1), call(2)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.reply(at(1_200), 1, 1000);
    rig.reply(at(2_200), 2, 1000);
    let end = rig.end();
    assert_eq!((end.stalls, end.stall_time), (0, ms(0)));
}

#[test]
fn after_a_standstill_the_picture_waits_for_as_much_as_at_the_start() {
    let mut rig = Rig::new(watched(vec![call(0), call(1), call(2)], 1_000));
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
fn a_pause_that_the_script_wants_is_no_stall() {
    let mut rig = Rig::new(watched(vec![call(0), paced(1, 60_000)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.reply(at(60_300), 1, 1000);
    let end = rig.end();
    // From the moment it asks again, somebody waits.
    assert_eq!((end.stalls, end.stall_time), (1, ms(300)));
}

#[test]
fn a_short_title_is_shown_when_all_of_it_has_come() {
    let mut rig = Rig::new(watched(vec![call(0)], 5_000));
    rig.reply(at(200), 0, 1000);
    let end = rig.end();
    assert_eq!((end.startup_delay, end.played), (Some(ms(200)), ms(1_000)));
}

#[test]
fn who_leaves_while_the_picture_stands_still_has_waited_until_then() {
    let mut rig = Rig::new(watched(vec![call(0), call(1)], 1_000));
    rig.reply(at(200), 0, 1000);
    rig.wait_until(at(30_000));
    let end = rig.end();
    assert_eq!((end.end, end.ended), (CallEnd::TimedOut, at(10_200)));
    assert_eq!((end.stalls, end.stall_time), (1, ms(9_000)));
    assert_eq!(end.played, ms(1_000));
}
