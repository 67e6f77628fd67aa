use std::string::ToString as _;
use std::vec;

use headlong_player::{
    AdaptivePlan, ObjectRange, PlaybackSpec, PlayerConfig, RateRule, Rendition, RequestExtent,
    Script, SegmentTable, Title, ViewerAction,
};
use proptest::prelude::*;

use super::*;
use crate::specification::ArrivalRate;
use alloc::sync::Arc;
use headlong_units::BitRate;

fn read(text: &str) -> Trace {
    Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn errors(text: &str) -> String {
    Trace::read(text.as_bytes())
        .expect_err("it is wrong")
        .to_string()
}

const SECOND: u64 = 1_000_000_000;

fn pace(trace: &Trace, session: usize) -> Vec<Option<u64>> {
    let calls = trace.sessions[session].calls().iter();
    calls
        .map(|call| call.pace.map(|pace| pace.0 / SECOND))
        .collect()
}

/// Thesis Figure 3.5, verbatim; its third range begins where the second ends.
const FIGURE_3_5: &str = "\
# Session 1: 4 chunks stored in separate files, with pacing
#           after the first two requests
vid01/secs-0-9 timeout=10
vid01/secs-10-19 timeout=10
vid01/secs-20-29 timeout=10 pacing=10
vid01/secs-30-39 timeout=10 pacing=10

# Session 2: 3 chunks with range requests within the same file,
#           with no pacing
vid02 range=0-524287 timeout=10
vid02 range=524288-1048575 timeout=10
vid02 range=1048575-1572863 timeout=10

# Session 3: bit rate change - 2 chunks from separate files
vid03/high/secs-0-9 timeout=10
vid03/med/secs-10-19 timeout=10

# Session 4: pause/rewind/skip forward
vid04/secs-0-9 timeout=10
vid04/secs-10-19 timeout=10 pacing=60 # pause for 60 seconds
vid04/secs-20-29 timeout=10
vid04/secs-0-9 timeout=10           # skip back to start
vid04/secs-100-109 timeout=10     # skip forward
";

#[test]
fn parses_example_of_thesis() {
    let trace = read(FIGURE_3_5);
    let lengths: Vec<usize> = trace
        .sessions
        .iter()
        .map(|session| session.calls().len())
        .collect();
    assert_eq!(lengths, [4, 3, 2, 5]);
    assert_eq!(pace(&trace, 0), [None, None, Some(10), Some(10)]);
    assert_eq!(pace(&trace, 3), [None, Some(60), None, None, None]);
    let ranges: Vec<_> = trace.sessions[1]
        .calls()
        .iter()
        .map(|call| call.range)
        .collect();
    let expected = [(0, 524_288), (524_288, 1_048_576), (1_048_575, 1_572_864)];
    assert_eq!(
        ranges,
        expected.map(|(start, end)| Some(ByteRange::new(start, end)))
    );
    assert!(
        trace
            .sessions
            .iter()
            .flat_map(|s| s.calls())
            .all(|call| call.timeout == Some(Duration(10 * SECOND)))
    );
    // The first object is named twice and has one id.
    assert_eq!(
        trace.sessions[3].calls()[0].object,
        trace.sessions[3].calls()[3].object
    );
    assert!(!trace.about.has_arrivals);
    assert_eq!(trace.classes, [NetworkClass::unlimited()]);
}

#[test]
fn parses_bursts_and_think_times_of_httperf() {
    let trace = read(
        "\
# session 1 definition (this is a comment)

/foo.html think=2.0
\t/pict1.gif
\t/pict2.gif
/foo2.html method=GET
\t/pict3.gif
\t/pict4.gif


#session 2 definition

/foo3.html
/foo4.html
 /pict5.gif
",
    );
    assert_eq!(trace.sessions.len(), 2);
    let calls = trace.sessions[0].calls();
    let members: Vec<bool> = calls.iter().map(|call| call.with_previous).collect();
    assert_eq!(members, [false, true, true, false, true, true]);
    let thinks: Vec<Option<Duration>> = calls.iter().map(|call| call.think).collect();
    let two = Some(Duration(2 * SECOND));
    assert_eq!(thinks, [None, None, None, two, None, None]);
    assert_eq!(trace.objects[0], "foo.html");
}

#[test]
fn parses_header_ranges_and_pace_time_of_videoperf() {
    let trace = read(
        "\
session ssl=off server=localhost port=6800
/full-240p-00004.mp4 headers='Range: bytes=0-63999' timeout=10 size=64000 http=1.1 cookie=\"a b\"
/full-240p-00004.mp4 headers=\"range: bytes=64000-127999\\r\\nX-A: b\" pace_time=8 timeout=10
/full-240p-00004.mp4 pace_time=8
/full-240p-00004.mp4
",
    );
    let calls = trace.sessions[0].calls();
    assert_eq!(calls[0].range, Some(ByteRange::new(0, 64_000)));
    assert_eq!(calls[0].expected_bytes, Some(64_000));
    assert_eq!(calls[1].range, Some(ByteRange::new(64_000, 128_000)));
    assert_eq!(calls[3].range, None);
    assert_eq!(pace(&trace, 0), [None, None, Some(8), Some(8)]);
}

#[test]
fn reports_all_mistakes_with_line_column_and_remedy() {
    let wrong = "\
/a timeout=ten
/b range=5-3 paceing=10
/c range=100-
http://host/d
/e method=POST contents=x
/f headers='Range: bytes=0
/g size=18446744073709551616 timeout
";
    let expected = "\
1:12: `ten` is not a time; write seconds like 10 or 2.5
2:10: `5-3` ends before it begins; write the first and the last byte, like 0-524287
2:14: `paceing=` is unknown; did you mean pacing=?
4:1: is a whole URL; write the path alone, the server is named when the trace is played
5:11: `POST` cannot be played; viewers GET
5:25: cannot be played; viewers send no contents
6:4: this word has a quotation mark that is not closed
7:9: `18446744073709551616` is not a whole number
7:30: `timeout` is not KEY=VALUE; words after a path are like timeout=10";
    assert_eq!(errors(wrong), expected);
}

#[test]
fn reports_empty_trace_and_control_characters() {
    for text in [
        "# nothing\n",
        "{\"trace\":{\"version\":2,\"about\":{},\"classes\":[]}}\n",
    ] {
        let told = errors(text);
        assert!(told.starts_with("1:1: there are no sessions"), "{told}");
    }
    assert_eq!(
        errors("\u{7f}/a\n").split(';').next(),
        Some("1:1: this word has a control character, '\\u{7f}'")
    );
}

#[test]
fn limits_reported_mistakes_and_counts_the_rest() {
    let message = errors(&"/a b\n".repeat(1000));
    assert_eq!(message.lines().count(), 21);
    assert!(message.ends_with("and 980 more"), "{message}");
}

#[test]
fn foreign_traces_get_poisson_arrivals() {
    let text: String = (0..2000)
        .map(|n| std::format!("/v{n} range=0-999\n\n"))
        .collect();
    let trace =
        with_arrivals(read(&text), ArrivalRate::Sessions(4.0), 3).expect("a rate in sessions");
    assert!(trace.about.has_arrivals);
    let seconds = trace.sessions[1999].arrival.as_secs_f64();
    assert!((440.0..560.0).contains(&seconds), "{seconds}");
    let same =
        with_arrivals(read(&text), ArrivalRate::Bytes(4000.0), 3).expect("ranges have sizes");
    assert_eq!(same.sessions, trace.sessions);
    assert_eq!(
        with_arrivals(read("/a\n"), ArrivalRate::Bytes(4000.0), 3),
        Err(UnknownSizes)
    );
}

const ADAPTIVE: &str = r#"{"trace":{"version":2,"about":{"has_arrivals":true},"classes":[{"name":"dsl","bandwidth":3500000,"delay":50000000,"share":1}]}}
{"object":"a.mp4"}
{"object":"b/0.m4s"}
{"object":"b/1.m4s"}
{"object":"b/2.m4s"}

{"player":{"rule":"bola","low":"8s","timeout":"off"}}
{"title":{"segment":4000000000,"segments":3,"renditions":[{"bit_rate":235000,"header":{"object":0,"range":[0,48],"bytes":48},"segments":{"one_file":{"object":0,"start":48,"segment_bytes":100,"file_bytes":340}}},{"bit_rate":560000,"segments":{"files":{"first":1,"file_bytes":250,"last_bytes":50}}},{"bit_rate":1050000,"segments":{"table":[{"object":0,"range":[0,500],"bytes":500},{"object":1,"range":[500,null]},{"object":3,"bytes":77}]}}]}}
{"session":{"arrival":1500000000,"class":0,"plan":{"adaptive":{"player":0,"title":0,"acts":[{"watch":8000000000},{"skip":2},{"pause":60500000000}]}}}}
{"session":{"arrival":2000000000,"plan":{"adaptive":{"player":0,"title":0,"acts":[]}}}}
{"session":{"arrival":2000000000,"plan":{"script":{"calls":[{"object":0,"range":[5,9],"timeout":1000000000}]}}}}
"#;

#[test]
fn parses_adaptive_session() {
    let trace = read(ADAPTIVE);
    let SessionPlan::Adaptive(plan) = &trace.sessions[0].plan else {
        panic!("{trace:?}");
    };
    assert_eq!(
        plan.acts,
        [
            ViewerAction::Watch(Duration::from_secs(8)),
            ViewerAction::Skip(2),
            ViewerAction::Pause(Duration::from_millis(60_500)),
        ]
    );
    let make = PlayerConfig {
        rule: RateRule::Bola {
            low: Duration::from_secs(8),
        },
        timeout: None,
        ..PlayerConfig::default()
    };
    assert_eq!(*plan.make, make);
    let part = |object, start, end| ObjectRange::part(ObjectId(object), ByteRange::new(start, end));
    let title = &plan.title;
    assert_eq!(title.renditions[0].header, Some(part(0, 0, 48)));
    assert_eq!(title.place(0, 2), Some(part(0, 248, 340)));
    assert_eq!(title.place(1, 2), Some(ObjectRange::whole(ObjectId(3), 50)));
    let open = title.place(2, 1).and_then(|place| place.range);
    assert_eq!(open, Some(ByteRange::new(500, u64::MAX)));
    assert_eq!(title.place(2, 2), Some(ObjectRange::whole(ObjectId(3), 77)));
    let SessionPlan::Adaptive(other) = &trace.sessions[1].plan else {
        panic!("{trace:?}");
    };
    assert!(Arc::ptr_eq(&plan.title, &other.title) && Arc::ptr_eq(&plan.make, &other.make));
}

#[test]
fn reports_mistakes_with_line_and_field() {
    let mut wrong = Vec::new();
    for (from, to, expected) in [
        (
            "version\":2",
            "version\":7",
            "1:1: version 7 is unknown; this Headlong reads version 2",
        ),
        (
            "share\":1",
            "share\":-1",
            "1:1: classes: -1 is not a share; write 0 or more",
        ),
        (
            "{\"object\":\"a.mp4\"}",
            "{\"objct\":\"a.mp4\"}",
            "2:8: unknown variant `objct`, expected one of `trace`, `object`, `player`, `title`, `session`",
        ),
        (
            "bola",
            "boal",
            "7:1: player.rule: `boal` is unknown (did you mean `bola`?); the names are fixed, throughput, buffer, bola, dynamic",
        ),
        (
            "\"low",
            "\"lwo",
            "7:1: player.lwo: unknown key; did you mean `player.low`?",
        ),
        (
            "\"off\"",
            "\"10\"",
            "7:1: player.timeout: `10` has no unit; write a time such as \"5s\", or \"off\"",
        ),
        (
            "segments\":3",
            "segments\":9999999",
            "8:1: segments: too many; write up to 1000000",
        ),
        (
            "file_bytes\":340",
            "file_bytes\":240",
            "8:1: segment 2 of rendition 0 has no bytes; its file or table is too short",
        ),
        (
            "first\":1",
            "first\":2",
            "8:1: there is no object 4; 4 are above, from 0",
        ),
        (
            "\"object\":3",
            "\"object\":9",
            "8:1: there is no object 9; 4 are above, from 0",
        ),
        (
            "\"class\":0",
            "\"class\":3",
            "9:1: class: there is no 3; there are 1, from 0",
        ),
        (
            "skip\":2",
            "skip\":3",
            "9:1: acts: skip to segment 3, which does not exist",
        ),
        (
            "player\":0,\"title\":0,\"acts\":[{",
            "player\":1,\"title\":0,\"acts\":[{",
            "9:1: player: there is no player 1 above",
        ),
        (
            "2000000000,\"plan\":{\"a",
            "10,\"plan\":{\"a",
            "10:1: arrival: is before the session above; sort sessions by arrival",
        ),
        (
            "timeout\":1000000000",
            "timeout\":\"ten\"",
            "11:101: timeout: invalid type: string \"ten\", expected u64",
        ),
        (
            "timeout\":1000000000",
            "tiemout\":1",
            "11:95: unknown field `tiemout`, expected one of `object`, `range`, `expected_bytes`, `timeout`, `pace`, `think`, `with_previous`",
        ),
        (
            "[5,9]",
            "[9,9]",
            "11:85: range: a range ends before it begins; write [FIRST, LAST + 1]",
        ),
    ] {
        assert!(ADAPTIVE.contains(from), "{from}");
        let told = errors(&ADAPTIVE.replace(from, to));
        if told.lines().next() != Some(expected) {
            wrong.push(told);
        }
    }
    assert_eq!(wrong, [""; 0]);
    let (_, headless) = ADAPTIVE.split_once('\n').expect("lines");
    assert!(errors(headless).starts_with("1:1: comes before the line `trace`"));
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::from_secs(10)),
        (0..10_000_000_000u64).prop_map(Duration),
    ]
}

prop_compose! {
    fn call()(
        object in 0u32..6,
        start in 0u64..1 << 40,
        length in maybe(prop_oneof![Just(1), 1u64..1 << 30]),
        expected_bytes in maybe(any::<u64>()),
        timeout in maybe(duration()),
        pace in maybe(duration()),
        think in maybe(duration()),
        with_previous in any::<bool>(),
    ) -> ScriptCall {
        ScriptCall {
            object: ObjectId(object),
            range: length.map(|length| match length {
                1 => ByteRange::new(start, u64::MAX),
                length => ByteRange::new(start, start + length),
            }),
            expected_bytes,
            timeout,
            pace,
            think: think.filter(|_| !with_previous),
            with_previous,
        }
    }
}

/// A strategy for `Option`s.
fn maybe<T: core::fmt::Debug>(what: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(what)
}

prop_compose! {
    fn make()(
        rule in prop_oneof![
            any::<u32>().prop_map(RateRule::Fixed),
            Just(RateRule::Throughput),
            (duration(), duration())
                .prop_map(|(reservoir, cushion)| RateRule::Buffer { reservoir, cushion }),
            duration().prop_map(|low| RateRule::Bola { low }),
            duration().prop_map(|low| RateRule::Dynamic { low }),
        ],
        shape in prop_oneof![
            Just(RequestExtent::OpenEnded),
            (1u32..).prop_map(RequestExtent::Segments),
        ],
        (estimate_fast, estimate_slow) in (duration(), duration()),
        (buffer_low, buffer_high, retry_after) in (duration(), duration(), duration()),
        (start, resume) in (0u64..=100, 0u64..=100),
        safety in 0.01f64..10.0,
        (start_rendition, connections, retries) in (any::<u32>(), 1u32..=255, any::<u32>()),
        (timeout, patience) in (maybe(duration()), maybe(duration())),
    ) -> PlayerConfig {
        PlayerConfig {
            start_buffer: Duration(buffer_high.0 / 100 * start),
            resume_buffer: Duration(buffer_high.0 / 100 * resume),
            buffer_low,
            buffer_high,
            connections,
            shape,
            estimate_fast,
            estimate_slow,
            safety,
            rule,
            start_rendition,
            timeout,
            retries,
            retry_after,
            patience,
        }
    }
}

/// Segments of one rendition; `object` and the three after it belong to it.
fn segments(count: u32, object: u32) -> impl Strategy<Value = SegmentTable> {
    let first = ObjectId(object);
    let place = (
        0u32..4,
        maybe((0u64..1 << 40, 0u64..1 << 30)),
        maybe(any::<u64>()),
    );
    let place = place.prop_map(move |(behind, range, bytes)| ObjectRange {
        object: ObjectId(object + behind),
        range: range.map(|(start, length)| match length {
            0 => ByteRange::new(start, u64::MAX),
            length => ByteRange::new(start, start + length),
        }),
        bytes,
    });
    let places = proptest::collection::vec(place, count as usize);
    prop_oneof![
        (0u64..1 << 40, 1u64..1 << 30).prop_map(move |(start, segment_bytes)| {
            SegmentTable::OneFile {
                object: first,
                start,
                segment_bytes,
                file_bytes: start + segment_bytes * u64::from(count),
            }
        }),
        (any::<u64>(), any::<u64>()).prop_map(move |(file_bytes, last_bytes)| {
            SegmentTable::Files {
                first,
                file_bytes,
                last_bytes,
            }
        }),
        places.prop_map(SegmentTable::Table),
    ]
}

fn title() -> impl Strategy<Value = Title> {
    let shape = (1u32..=4, 1u64..10_000_000_000, 1u32..=3);
    shape.prop_flat_map(|(count, segment, renditions)| {
        let rendition = |index: u32| {
            let header = maybe((0u64..100, 1u64..100));
            (segments(count, index * 4), 1u64..1000, header).prop_map(
                move |(segments, rate, header)| Rendition {
                    bit_rate: BitRate(u64::from(index) * 1000 + rate),
                    header: header.map(|(start, length)| {
                        let range = ByteRange::new(start, start + length);
                        ObjectRange::part(ObjectId(index * 4), range)
                    }),
                    segments,
                },
            )
        };
        let renditions: Vec<_> = (0..renditions).map(rendition).collect();
        renditions.prop_map(move |renditions| Title {
            segment: Duration(segment),
            segments: count,
            renditions,
        })
    })
}

fn acts() -> impl Strategy<Value = Vec<ViewerAction>> {
    let act = prop_oneof![
        duration().prop_map(ViewerAction::Watch),
        duration().prop_map(ViewerAction::Pause),
        Just(ViewerAction::Skip(0)),
    ];
    proptest::collection::vec(act, 0..5)
}

fn playback() -> impl Strategy<Value = Option<PlaybackSpec>> {
    maybe((any::<u64>(), any::<u64>())).prop_map(|rate| {
        rate.map(|(rate, start_bytes)| PlaybackSpec {
            bit_rate: BitRate(rate),
            start_bytes,
        })
    })
}

fn script() -> impl Strategy<Value = SessionPlan> {
    let calls = proptest::collection::vec(call(), 1..6);
    (calls, playback()).prop_map(|(mut calls, playback)| {
        (calls[0].with_previous, calls[0].think) = (false, None);
        SessionPlan::Script(Script { calls, playback })
    })
}

prop_compose! {
    /// A trace of these plans, with 12 objects.
    fn trace_of(plans: BoxedStrategy<SessionPlan>)(
        sessions in proptest::collection::vec((duration(), 0u32..2, plans), 1..6),
        name in "[a-z %]{0,8}",
        seed in maybe(any::<u64>()),
        chunk_bytes in maybe(1u64..),
        identity in proptest::sample::select(&ViewerIdentity::ALL[..]),
        has_arrivals in any::<bool>(),
        share in 0.0f64..1.0,
        ramp in 0u64..1000,
        warm in proptest::collection::vec((0u32..12, maybe(1u64..99)), 0..4),
    ) -> Trace {
        let mut now = Duration::ZERO;
        let sessions = sessions.into_iter().map(|(gap, class, plan)| {
            now += if has_arrivals { gap } else { Duration::ZERO };
            Session { arrival: now, class, plan }
        });
        Trace {
            // Names with characters that need quoting.
            objects: (0..12).map(|n| std::format!("a'b/\\{n}\"#.mp4")).collect(),
            classes: vec![
                NetworkClass { name: "a b".into(), bandwidth: None, delay: Duration(ramp), share },
                NetworkClass { name: "dsl".into(), bandwidth: Some(BitRate(ramp)), delay: Duration(0), share },
            ],
            sessions: sessions.collect(),
            about: TraceMetadata {
                name, seed, catalogue: seed, chunk_bytes, identity: identity.1, has_arrivals,
                ramp_up: Ramp { sessions: ramp, time: Duration(ramp) },
                ramp_down: Ramp { sessions: 0, time: Duration(ramp) },
                warming: warm
                    .into_iter()
                    .map(|(object, end)| WarmupRange {
                        object: ObjectId(object),
                        range: end.map(|end| ByteRange::new(0, end)),
                    })
                    .collect(),
            },
        }
    }
}

fn trace() -> impl Strategy<Value = Trace> {
    let shared = (make(), make(), title())
        .prop_map(|(one, other, title)| ([Arc::new(one), Arc::new(other)], Arc::new(title)));
    shared.prop_flat_map(|(makes, title)| {
        let adaptive = (acts(), 0..2usize).prop_map(move |(acts, make)| {
            SessionPlan::Adaptive(AdaptivePlan {
                title: Arc::clone(&title),
                acts,
                make: Arc::clone(&makes[make]),
            })
        });
        trace_of(prop_oneof![script(), adaptive].boxed())
    })
}

proptest! {
    #[test]
    fn traces_round_trip(trace in trace()) {
        let text = trace.to_text();
        let back = Trace::read(text.as_bytes()).map_err(|errors| TestCaseError::fail(std::format!("{errors}\n{text}")))?;
        prop_assert_eq!(&back, &trace, "{}", text);
        prop_assert_eq!(back.to_text(), text);
    }

    #[test]
    fn wsesslog_parser_never_panics(text in "(#|session |/a |range=|=|[0-9]|-|'|\"|\\\\|\n|\t|\\PC){0,60}") {
        let _ = Trace::read(text.as_bytes());
    }

    /// Any part of a trace replaced by other JSON.
    #[test]
    fn json_parser_never_panics(at in 0..ADAPTIVE.len(), length in 0..40usize, by in "([0-9]{0,20}|-|[\\[\\]{}\":,\n]|object|null|\\PC){0,4}") {
        let mut text = ADAPTIVE.as_bytes().to_vec();
        text.splice(at..(at + length).min(ADAPTIVE.len()), by.bytes());
        if let Ok(trace) = Trace::read(&text) {
            let again = trace.to_text();
            prop_assert_eq!(Trace::read(again.as_bytes()), Ok(trace));
        }
    }
}
