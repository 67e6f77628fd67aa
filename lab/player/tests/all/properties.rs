//! Properties of every session, for any events in any order.
//!
//! The rig panics when a call has no record or two, when an id is used twice, when a command
//! follows the end, or when a timer fires endlessly.

use std::sync::Arc;

use crate::rig::net::TestNetwork;
use crate::rig::{PlayerRig, TimedCommand, at, ms};
use headlong_player::{
    AdaptivePlan, BufferRoom, CallEnd, CallId, ObjectId, ObjectRange, PartialRead, PhasedCall,
    PhasedPlan, PlaybackSpec, PlayerConfig, RateRule, Rendition, RequestExtent, Script, ScriptCall,
    SegmentTable, SessionPlan, Title, TransportEnd, ViewerAction,
};
use headlong_units::{BitRate, ByteRange, Duration, Instant};
use proptest::option;
use proptest::prelude::*;

/// An event from the shell, possibly nonsensical.
#[derive(Debug, Clone)]
enum ShellEvent {
    Start,
    /// Time passes, with timers.
    Wait(u32),
    /// Time passes unnoticed.
    Lag(u32),
    /// A spurious timeout, possibly in the past.
    Ring(u32),
    Head(u32, u16, Option<u64>),
    Bytes(u32, u64),
    End(u32, TransportEnd),
    /// A correct reply to an open call.
    Reply(usize),
    Leave,
}

fn transport_end() -> impl Strategy<Value = TransportEnd> {
    prop_oneof![
        6 => Just(TransportEnd::Whole),
        1 => Just(TransportEnd::Broken),
        1 => Just(TransportEnd::Wrong),
        1 => Just(TransportEnd::Refused(503)),
    ]
}

fn step() -> impl Strategy<Value = ShellEvent> {
    let call = 0..12_u32;
    let status = prop_oneof![Just(200), Just(206), Just(404), any::<u16>()];
    let length = option::of(prop_oneof![Just(1000), 0..3000_u64, Just(u64::MAX)]);
    let count = prop_oneof![Just(1000), 0..1500_u64, Just(u64::MAX)];
    prop_oneof![
        2 => Just(ShellEvent::Start),
        6 => (0..4000_u32).prop_map(ShellEvent::Wait),
        2 => (0..20_000_u32).prop_map(ShellEvent::Lag),
        2 => (0..30_000_u32).prop_map(ShellEvent::Ring),
        3 => (call.clone(), status, length).prop_map(|(c, s, l)| ShellEvent::Head(c, s, l)),
        3 => (call.clone(), count).prop_map(|(c, n)| ShellEvent::Bytes(c, n)),
        2 => (call, transport_end()).prop_map(|(c, end)| ShellEvent::End(c, end)),
        12 => (0..4_usize).prop_map(ShellEvent::Reply),
        1 => Just(ShellEvent::Leave),
    ]
}

fn act(rig: &mut PlayerRig, step: &ShellEvent) {
    match *step {
        ShellEvent::Start => rig.start(),
        ShellEvent::Wait(millis) => rig.wait_until(rig.now + ms(millis.into())),
        ShellEvent::Lag(millis) => rig.now = rig.now + ms(millis.into()),
        ShellEvent::Ring(millis) => {
            rig.player.handle_timeout(at(millis.into()));
            // Time continues from the latest reported moment.
            rig.now = rig.now.max(at(millis.into()));
            rig.drain();
            let next = rig.player.poll_timeout();
            assert!(next.is_none_or(|next| next > at(millis.into())));
        }
        ShellEvent::Head(call, status, length) => rig.head(call, status, length),
        ShellEvent::Bytes(call, count) => rig.bytes(call, count),
        ShellEvent::End(call, end) => rig.ended(call, end),
        ShellEvent::Reply(nth) => {
            if let Some((call, wanted)) = rig.wanted(nth) {
                let bytes = wanted.bytes.unwrap_or(700);
                rig.head(call.0, if wanted.partial { 206 } else { 200 }, Some(bytes));
                rig.bytes(call.0, bytes / 2);
                rig.bytes(call.0, bytes - bytes / 2);
                rig.ended(call.0, TransportEnd::Whole);
            }
        }
        ShellEvent::Leave => {
            rig.player.handle_leave(rig.now);
            rig.drain();
        }
    }
}

/// Runs the steps and returns all commands.
fn run(plan: &SessionPlan, intended: u32, steps: &[ShellEvent]) -> (Vec<TimedCommand>, PlayerRig) {
    let mut rig = PlayerRig::waiting(plan.clone(), at(intended.into()));
    for step in steps {
        act(&mut rig, step);
    }
    rig.player.handle_leave(rig.now);
    rig.drain();
    assert!(rig.player.end().is_some());
    (rig.given.clone(), rig)
}

fn call() -> impl Strategy<Value = ScriptCall> {
    let time = |max: u64| option::of((0..max).prop_map(ms));
    let range = option::of((
        0..2000_u64,
        prop_oneof![Just(1000), 0..2000_u64, Just(u64::MAX)],
    ));
    let times = (time(15_000), time(12_000), time(5_000));
    (
        0..9_u32,
        range,
        option::of(Just(1000_u64)),
        times,
        any::<bool>(),
    )
        .prop_map(
            |(object, range, expected_bytes, (timeout, pace, think), with_previous)| ScriptCall {
                object: ObjectId(object),
                range: range
                    .map(|(start, length)| ByteRange::new(start, start.saturating_add(length))),
                expected_bytes,
                timeout,
                pace,
                think,
                with_previous,
            },
        )
}

fn script() -> impl Strategy<Value = Script> {
    let playback = option::of((0..20_000_u64, 0..3_000_u64)).prop_map(|playback| {
        playback.map(|(rate, start_bytes)| PlaybackSpec {
            bit_rate: BitRate(rate),
            start_bytes,
        })
    });
    (proptest::collection::vec(call(), 0..10), playback)
        .prop_map(|(calls, playback)| Script { calls, playback })
}

/// Random plans, including ones that `check` would reject.
fn adaptive() -> impl Strategy<Value = AdaptivePlan> {
    let acts = prop_oneof![
        3 => (0..40_000_u64).prop_map(|millis| ViewerAction::Watch(ms(millis))),
        1 => (0..90_000_u64).prop_map(|millis| ViewerAction::Pause(ms(millis))),
        1 => (0..40_u32).prop_map(ViewerAction::Skip),
    ];
    let acts = proptest::collection::vec(acts, 0..6);
    (any_title(), acts, any_make()).prop_map(|(title, acts, make)| AdaptivePlan {
        title: Arc::new(title),
        acts,
        make: Arc::new(make),
    })
}

fn any_title() -> impl Strategy<Value = Title> {
    let places = prop_oneof![
        (0..3_u32, 1..3000_u64, 0..60_000_u64).prop_map(|(object, segment_bytes, file_bytes)| {
            SegmentTable::OneFile {
                object: ObjectId(object),
                start: 0,
                segment_bytes,
                file_bytes,
            }
        }),
        (0..3_u32, 0..3000_u64).prop_map(|(first, file_bytes)| SegmentTable::Files {
            first: ObjectId(first),
            file_bytes,
            last_bytes: 5,
        }),
        (0..40_usize).prop_map(|count| {
            SegmentTable::Table(vec![ObjectRange::whole(ObjectId(7), 1_000); count])
        }),
    ];
    let header = option::of(Just(ObjectRange::part(ObjectId(0), ByteRange::new(0, 100))));
    let rendition =
        (0..40_000_u64, header, places).prop_map(|(rate, header, segments)| Rendition {
            bit_rate: BitRate(rate),
            header,
            segments,
        });
    let segment = prop_oneof![5 => Just(ms(2_000)), 1 => (0..5_000_u64).prop_map(ms)];
    (
        segment,
        0..40_u32,
        proptest::collection::vec(rendition, 0..5),
    )
        .prop_map(|(segment, segments, renditions)| Title {
            segment,
            segments,
            renditions,
        })
}

fn rule() -> impl Strategy<Value = RateRule> {
    let time = || (0..30_000_u64).prop_map(ms);
    prop_oneof![
        (0..6_u32).prop_map(RateRule::Fixed),
        Just(RateRule::Throughput),
        (time(), time()).prop_map(|(reservoir, cushion)| RateRule::Buffer { reservoir, cushion }),
        time().prop_map(|low| RateRule::Bola { low }),
        time().prop_map(|low| RateRule::Dynamic { low }),
    ]
}

fn any_make() -> impl Strategy<Value = PlayerConfig> {
    let time = || prop_oneof![Just(Duration::ZERO), (0..40_000_u64).prop_map(ms)];
    let maybe = || option::of((0..20_000_u64).prop_map(ms));
    let shape = prop_oneof![
        (0..4_u32).prop_map(RequestExtent::Segments),
        Just(RequestExtent::OpenEnded)
    ];
    let buffer = (time(), time(), time(), time());
    let asking = (0..5_u32, shape);
    let choosing = (
        (time(), time()),
        rule(),
        0..5_u32,
        prop_oneof![Just(0.9), any::<f64>()],
    );
    let failing = (maybe(), 0..4_u32, time(), maybe());
    (buffer, asking, choosing, failing).prop_map(|(buffer, asking, choosing, failing)| {
        PlayerConfig {
            start_buffer: buffer.0,
            resume_buffer: buffer.1,
            buffer_low: buffer.2,
            buffer_high: buffer.3,
            connections: asking.0,
            shape: asking.1,
            estimate_fast: choosing.0.0,
            estimate_slow: choosing.0.1,
            rule: choosing.1,
            start_rendition: choosing.2,
            safety: choosing.3,
            timeout: failing.0,
            retries: failing.1,
            retry_after: failing.2,
            patience: failing.3,
        }
    })
}

fn phased() -> impl Strategy<Value = PhasedPlan> {
    let rate = || {
        option::of(prop_oneof![
            Just(BitRate(8000)),
            any::<u64>().prop_map(BitRate)
        ])
    };
    let room = rate().prop_map(|drain| drain.map(|drain| BufferRoom { bytes: 500, drain }));
    let reading = (0..1500_u64, 0..1500_u64, rate(), room);
    let reading = reading.prop_map(|(bytes, needed_bytes, speed, buffer)| PartialRead {
        reply_bytes: 1000,
        bytes,
        needed_bytes,
        speed,
        buffer,
    });
    let call = (0..3_u32, 0..9000_u64, 0..9000_u64, option::of(reading));
    let call = call.prop_map(|(connection, at, takes, reading)| PhasedCall {
        object: ObjectId(connection),
        connection,
        at: ms(at),
        takes: ms(takes),
        range: ByteRange::new(0, if reading.is_some() { u64::MAX } else { 1000 }),
        reading: reading.map(Box::new),
    });
    proptest::collection::vec(call, 0..8).prop_map(|calls| PhasedPlan {
        timeout: ms(10_000),
        calls,
    })
}

fn steps() -> impl Strategy<Value = Vec<ShellEvent>> {
    proptest::collection::vec(step(), 0..80)
}

proptest! {
    #[test]
    fn script_player_survives_any_events(
        script in script(), intended in 0..3000_u32, steps in steps(),
    ) {
        let plan = SessionPlan::Script(script);
        let (given, rig) = run(&plan, intended, &steps);
        let (again, other) = run(&plan, intended, &steps);
        prop_assert_eq!(given, again);
        prop_assert_eq!(rig.end(), other.end());
        prop_assert_eq!(rig.records, other.records);
    }

    #[test]
    fn phased_player_survives_any_events(
        plan in phased(), intended in 0..3000_u32, steps in steps(),
    ) {
        let plan = SessionPlan::Phases(plan);
        let (given, rig) = run(&plan, intended, &steps);
        let (again, other) = run(&plan, intended, &steps);
        prop_assert_eq!(given, again);
        prop_assert_eq!(rig.end(), other.end());
        prop_assert_eq!(rig.records, other.records);
    }

    #[test]
    fn adaptive_player_survives_any_events(
        plan in adaptive(), intended in 0..3000_u32, steps in steps(),
    ) {
        let plan = SessionPlan::Adaptive(plan);
        let (given, rig) = run(&plan, intended, &steps);
        let (again, other) = run(&plan, intended, &steps);
        prop_assert_eq!(given, again);
        prop_assert_eq!(rig.end(), other.end());
        prop_assert_eq!(rig.records, other.records);
    }
}

/// The server's replies: duration in milliseconds, and end.
type ServerReply = Vec<(u64, TransportEnd)>;

/// Expected result of one call: intended, sent, ended, end.
type ExpectedCall = (Instant, Instant, Instant, CallEnd);

/// Reference model: one burst after another, by arithmetic alone.
fn by_hand(calls: &[ScriptCall], server: &ServerReply) -> Vec<ExpectedCall> {
    let mut fates: Vec<ExpectedCall> = Vec::new();
    let mut due = Instant::ZERO;
    let mut first = 0;
    while first < calls.len() {
        let members = calls[first + 1..]
            .iter()
            .take_while(|call| call.with_previous);
        let burst = first..first + 1 + members.count();
        // When each would end on its own. At equal times, replies precede timers.
        let mut ends: Vec<(Instant, bool, usize, CallEnd)> = Vec::new();
        for index in burst.clone() {
            let (takes, end) = server[index % server.len()];
            let deadline = calls[index]
                .timeout
                .map_or(Instant::NEVER, |timeout| due + timeout);
            let comes = due + ms(takes);
            ends.push(if comes <= deadline {
                let end = match end {
                    TransportEnd::Whole => CallEnd::Whole,
                    TransportEnd::Broken => CallEnd::Broken,
                    TransportEnd::Wrong => CallEnd::Wrong,
                    TransportEnd::Refused(status) => CallEnd::Refused(status),
                };
                (comes, false, index, end)
            } else {
                (deadline, true, index, CallEnd::TimedOut)
            });
        }
        ends.sort_by_key(|(when, timer, index, _)| (*when, *timer, *index));
        let failed = ends.iter().position(|(.., end)| *end != CallEnd::Whole);
        if let Some(failed) = failed {
            let when = ends[failed].0;
            for late in &mut ends[failed + 1..] {
                (late.0, late.3) = (when, CallEnd::Abandoned);
            }
        }
        let over = ends
            .iter()
            .map(|(when, ..)| *when)
            .max()
            .expect("a burst is not empty");
        ends.sort_by_key(|(_, _, index, _)| *index);
        fates.extend(ends.iter().map(|(when, _, _, end)| (due, due, *when, *end)));
        if failed.is_some() {
            break;
        }
        first = burst.end;
        if let Some(next) = calls.get(first) {
            let paced = due + next.pace.unwrap_or_default();
            due = paced.max(over + next.think.unwrap_or_default());
        }
    }
    fates
}

/// The same with a player and a server that replies at the given times.
fn by_player(calls: Vec<ScriptCall>, server: &ServerReply) -> PlayerRig {
    let mut rig = PlayerRig::new(SessionPlan::Script(Script::new(calls)));
    let mut answered = 0;
    let mut coming: Vec<(Instant, CallId, TransportEnd)> = Vec::new();
    loop {
        for (nth, given) in rig.given.iter().enumerate().skip(answered) {
            if let headlong_player::Command::Send { call, .. } = given.command {
                let (takes, end) = server[call.0 as usize % server.len()];
                coming.push((given.at + ms(takes), call, end));
            }
            answered = nth + 1;
        }
        coming.sort();
        let timer = rig.player.poll_timeout();
        let reply = coming.first().map(|(when, ..)| *when);
        match (reply, timer) {
            (Some(reply), timer) if timer.is_none_or(|timer| reply <= timer) => {
                let (when, call, end) = coming.remove(0);
                rig.now = when;
                rig.head(call.0, 206, Some(1000));
                rig.bytes(call.0, 1000);
                rig.ended(call.0, end);
            }
            (_, Some(timer)) => rig.wait_until(timer),
            _ => return rig,
        }
    }
}

proptest! {
    #[test]
    fn player_matches_reference_model(
        calls in proptest::collection::vec(call(), 1..12),
        server in proptest::collection::vec(
            (prop_oneof![0..20_000_u64, Just(5_000)], prop_oneof![9 => Just(TransportEnd::Whole), 1 => transport_end()]),
            1..12,
        ),
    ) {
        let calls: Vec<ScriptCall> = calls
            .into_iter()
            .map(|call| ScriptCall {
                range: Some(ByteRange::new(0, 1000)),
                expected_bytes: Some(1000),
                // Times that often coincide, and are never zero.
                timeout: call.timeout.map(|timeout| ms((timeout.as_millis() / 5_000 + 1) * 5_000)),
                ..call
            })
            .collect();
        let expected = by_hand(&calls, &server);
        let rig = by_player(calls, &server);
        let mut records = rig.records.clone();
        records.sort_by_key(|record| record.call);
        let found: Vec<ExpectedCall> = records
            .iter()
            .map(|record| (record.intended, record.sent, record.ended, record.end))
            .collect();
        let failure = expected.iter().map(|fate| fate.3).find(|end| {
            !matches!(end, CallEnd::Whole | CallEnd::Abandoned)
        });
        prop_assert_eq!(found, expected);
        prop_assert_eq!(rig.end().end, failure.unwrap_or(CallEnd::Whole));
    }

    /// A viewer waits for the start, watches, or stalls, and nothing else.
    #[test]
    fn adaptive_session_accounts_for_all_time(
        make in any_make(),
        rates in proptest::collection::vec(100..6_000_u64, 1..5),
        watch in 1..60_000_u64,
    ) {
        let make = PlayerConfig { patience: None, timeout: None, ..make };
        let rendition = |(object, kbps): (u32, u64)| Rendition {
            bit_rate: BitRate::from_kbps(kbps),
            header: None,
            segments: SegmentTable::OneFile {
                object: ObjectId(object),
                start: 0,
                segment_bytes: kbps * 250,
                file_bytes: kbps * 250 * 20,
            },
        };
        let title = Title {
            segment: ms(2_000),
            segments: 20,
            renditions: (0..).zip([300, 900, 2_500]).map(rendition).collect(),
        };
        let plan = AdaptivePlan {
            title: Arc::new(title),
            acts: vec![ViewerAction::Watch(ms(watch))],
            make: Arc::new(make),
        };
        let mut rig = PlayerRig::new(SessionPlan::Adaptive(plan));
        let rates: Vec<(u64, u64)> = (0..).step_by(15).zip(rates).collect();
        TestNetwork::new(&rates).play(&mut rig, at(3_600_000));
        let end = rig.end();
        prop_assert_eq!(end.end, CallEnd::Whole);
        prop_assert_eq!(end.played, ms(watch.min(40_000)));
        let waited = end.startup_delay.expect("playback started") + end.stall_time;
        prop_assert_eq!(end.ended, Instant::ZERO + waited + end.played);
    }
}
