use std::string::ToString as _;
use std::vec;

use headlong_player::{
    AdaptivePlan, ObjectRange, PlaybackSpec, PlayerConfig, ProbeSettings, RateRule, Rendition,
    RequestExtent, Script, SegmentTable, ThroughputEstimate, Title, ViewerAction,
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
#headlong sesion arrival=1
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
7:30: `timeout` is not KEY=VALUE; words after a path are like timeout=10
8:11: comes before `#headlong trace version=1`; write that line first
8:11: `sesion` is unknown; did you mean session?";
    assert_eq!(errors(wrong), expected);
}

#[test]
fn checks_headlong_lines() {
    let head = "#headlong trace version=1\n#headlong class name=high delay=50ms share=0.5\n";
    let with = |rest: &str| errors(&(head.to_string() + rest));
    assert_eq!(
        with("#headlong class name=high\n/a\n"),
        "3:22: there is a class high already"
    );
    assert_eq!(
        with("#headlong session class=hihg arrival=1\n/a\n"),
        "3:25: no class is called `hihg`; did you mean high?"
    );
    assert_eq!(
        with("#headlong session arrival=2\n/a\n\n#headlong session arrival=1\n/a\n"),
        "6:27: arrives before the session above; sort sessions by arrival"
    );
    assert_eq!(
        with("#headlong session arrival=2\n/a\n\n/b\n"),
        "6:1: this session has no arrival, but others do; write arrival=SECONDS"
    );
    assert_eq!(
        errors("#headlong trace version=7\n/a\n"),
        "1:25: version 7 is unknown; this Headlong reads version 1"
    );
    assert_eq!(
        errors("# nothing\n"),
        "1:1: there are no sessions; write one request per line"
    );
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

#[test]
fn reports_features_a_dialect_cannot_express() {
    let trace = read("/a range=0-9\n");
    assert_eq!(trace.to_text(Dialect::Httperf), Err(DialectLimit::Ranges));
    let trace = read(&"/a\n\n".repeat(1001));
    let error = trace
        .to_text(Dialect::Httperf)
        .expect_err("too many")
        .to_string();
    assert!(
        error.contains("no more than 1000 sessions of 1001"),
        "{error}"
    );
}

#[test]
fn httperf_dialect_has_only_supported_words() {
    let trace = read(
        "#headlong trace version=1\n#headlong session arrival=1\n/a size=9 timeout=10\n/b timeout=10 pacing=2.5\n\t/c\n",
    );
    let text = trace.to_text(Dialect::Httperf).expect("whole files");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    assert_eq!(lines, ["/a think=2.5", "/b", "\t/c"]);
}

const ADAPTIVE: &str = "\
#headlong trace version=1
#headlong class name=dsl bandwidth=3500kbps delay=50ms share=1

#headlong player id=0 rule=bola low=8s timeout=off
#headlong title id=7 segment=4 segments=3
#headlong rendition rate=235kbps /a.mp4 header=0-47 from=48 segment=100 size=340
#headlong rendition rate=560kbps file=250 last=50 /b/0.m4s /b/1.m4s /b/2.m4s
#headlong rendition rate=1050kbps /c.mp4 at=0-499 at=500-999 /d.mp4 at=all:77
#headlong session arrival=1.5 class=dsl player=0 title=7 acts=watch:8,skip:2,pause:60.5,watch:4

#headlong session arrival=2 class=dsl player=0 title=7
";

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
            ViewerAction::Watch(Duration::from_secs(4)),
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
    assert_eq!(title.place(2, 1), Some(part(4, 500, 1000)));
    assert_eq!(title.place(2, 2), Some(ObjectRange::whole(ObjectId(5), 77)));
    let SessionPlan::Adaptive(other) = &trace.sessions[1].plan else {
        panic!("{trace:?}");
    };
    assert!(Arc::ptr_eq(&plan.title, &other.title) && Arc::ptr_eq(&plan.make, &other.make));
    assert!(other.acts.is_empty());
    assert_eq!(trace.to_text(Dialect::Thesis), Err(DialectLimit::Adaptive));
    assert_eq!(trace.to_text(Dialect::Httperf), Err(DialectLimit::Adaptive));
}

#[test]
fn reports_adaptive_mistakes_with_columns() {
    let with = |from: &str, to: &str| {
        assert!(ADAPTIVE.contains(from), "{from}");
        errors(&ADAPTIVE.replace(from, to))
    };
    for (from, to, expected) in [
        (
            "rule=bola",
            "rule=boal",
            "4:28: rule: `boal` is unknown; write fixed or throughput or buffer or bola or dynamic; did you mean bola?",
        ),
        (
            "low=8s",
            "lwo=8s",
            "4:33: `lwo=8s` is unknown here; did you mean low=?",
        ),
        (
            "timeout=off",
            "timeout=10",
            "4:48: timeout: `10` has no unit; write it like 5s or 250ms, or off",
        ),
        (
            "player id=0",
            "player id=x",
            "4:21: `x` is not a whole number",
        ),
        (
            "segments=3",
            "segments=4",
            "7:1: names 3 files, and the title has 4 segments",
        ),
        (
            "segments=3",
            "segments=9999999",
            "5:41: `9999999` segments are too many; 1000000 are the most",
        ),
        (
            "size=340",
            "size=240",
            "5:1: title 7: segment 2 of rendition 0 has no bytes; its file or table is too short",
        ),
        (
            "rate=560kbps",
            "rate=100kbps",
            "5:1: title 7: rendition 1 must have a higher bit rate than the previous one",
        ),
        (
            "at=all:77",
            "at=9-5",
            "8:72: `9-5` ends before it begins; write the first and the last byte, like 0-524287",
        ),
        (
            "/a.mp4 header",
            "header",
            "6:41: is in no file; write its path before it",
        ),
        (
            "from=48",
            "form=48",
            "6:53: `form=48` is not a path and unknown here; did you mean from=?",
        ),
        (
            "skip:2",
            "skip:3",
            "9:71: there is no segment 3; the title has 3, from 0",
        ),
        (
            "pause:60.5",
            "puase:60",
            "9:78: `puase:60` is not an act; write watch:SECONDS, pause:SECONDS or skip:SEGMENT; did you mean pause?",
        ),
        (
            "watch:8,",
            "watch:x,",
            "9:63: `x` is not a time; write seconds like 10 or 2.5",
        ),
        (
            "player=0 title=7 acts",
            "player=1 title=7 acts",
            "9:48: there is no player 1 above; write `#headlong player id=1`",
        ),
        (
            "title=7 acts",
            "rate=5kbps acts",
            "9:48: a session that adapts has title=, player= and acts=",
        ),
        (
            "watch:4\n",
            "watch:4\n/a.mp4 range=0-9\n",
            "10:1: belongs to an adaptive session, whose player chooses its requests; remove it, or write a blank line before it",
        ),
    ] {
        let told = with(from, to);
        let first = told.lines().next().unwrap_or_default();
        assert_eq!(first, expected, "{told}");
    }
    assert_eq!(
        errors("#headlong trace version=1\n#headlong rendition rate=5kbps\n/a\n"),
        "2:1: belongs to no title; write it after a line `#headlong title`"
    );
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
        length in proptest::option::of(prop_oneof![Just(1), 1u64..1 << 30]),
        expected_bytes in proptest::option::of(any::<u64>()),
        timeout in proptest::option::of(duration()),
        pace in proptest::option::of(duration()),
        think in proptest::option::of(duration()),
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

prop_compose! {
    fn session()(
        gap in duration(),
        class in 0u32..2,
        rate in proptest::option::of((any::<u64>(), any::<u64>())),
        mut calls in proptest::collection::vec(call(), 1..6),
    ) -> Session {
        (calls[0].with_previous, calls[0].think) = (false, None);
let playback = rate.map(|(rate, start_bytes)| PlaybackSpec {
            bit_rate: BitRate(rate),
            start_bytes,
        });
        Session { arrival: gap, class, plan: SessionPlan::Script(Script { calls, playback }) }
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
        estimate in prop_oneof![
            (duration(), duration())
                .prop_map(|(fast, slow)| ThroughputEstimate::Ewma { fast, slow }),
            (1u8..=20).prop_map(|samples| ThroughputEstimate::HarmonicMean { samples }),
        ],
        probing in maybe((1u32.., any::<bool>(), duration(), maybe(duration()))),
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
            estimate,
            safety,
            rule,
            start_rendition,
            probing: probing.map(|(segments, duplicate, after_pause, every)| ProbeSettings {
                segments,
                duplicate,
                after_pause,
                every,
            }),
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

proptest! {
    #[test]
    fn adaptive_traces_round_trip(
        makes in proptest::collection::vec(make(), 1..3),
        title in title(),
        sessions in proptest::collection::vec((acts(), any::<u8>(), maybe(call())), 1..6),
    ) {
        let makes: Vec<Arc<PlayerConfig>> = makes.into_iter().map(Arc::new).collect();
        let mut trace = Trace {
            // Names with characters that need quoting.
            objects: (0..12).map(|n| std::format!("a'b/\\{n}\"#.mp4")).collect(),
            classes: vec![NetworkClass::unlimited()],
            ..Trace::default()
        };
        trace.about.has_arrivals = true;
        let title = ordered(&title, &mut trace.objects);
        for (acts, make, call) in sessions {
            let plan = match call {
                None => SessionPlan::Adaptive(AdaptivePlan {
                    title: Arc::clone(&title),
                    acts,
                    make: Arc::clone(&makes[usize::from(make) % makes.len()]),
                }),
                Some(call) => SessionPlan::Script(Script::new(vec![ScriptCall {
                    object: title.place(0, 0).map_or(ObjectId(0), |place| place.object),
                    with_previous: false,
                    think: None,
                    ..call
                }])),
            };
            // A script before it would use its object before the title's header.
            let is_first = trace.sessions.is_empty();
            if is_first && matches!(plan, SessionPlan::Script(_)) {
                continue;
            }
            trace.sessions.push(Session { arrival: Duration::ZERO, class: 0, plan });
        }
        prop_assume!(!trace.sessions.is_empty());
        let text = trace.to_text(Dialect::Headlong).expect("this dialect can express all traces");
        let back = Trace::read(text.as_bytes()).map_err(|errors| TestCaseError::fail(std::format!("{errors}\n{text}")))?;
        prop_assert_eq!(&back, &trace, "{}", text);
        prop_assert_eq!(back.to_text(Dialect::Headlong), Ok(text));
    }
}

/// The title with its objects in order of their first use, and no others in the table.
fn ordered(title: &Title, objects: &mut Vec<String>) -> Arc<Title> {
    let mut order: Vec<u32> = Vec::new();
    let mut title = title.clone();
    let count = title.segments;
    for rendition in &mut title.renditions {
        let mut place = |object: &mut ObjectId| {
            let at = order.iter().position(|known| *known == object.0);
            object.0 = at.unwrap_or_else(|| {
                order.push(object.0);
                order.len() - 1
            }) as u32;
        };
        // Files are consecutive, so a header among them would be indistinguishable.
        if let SegmentTable::Files { first, .. } = &mut rendition.segments {
            rendition.header = None;
            let old = first.0;
            place(first);
            (1..count).for_each(|behind| place(&mut ObjectId(old + behind)));
            continue;
        }
        if let Some(header) = &mut rendition.header {
            place(&mut header.object);
        }
        match &mut rendition.segments {
            SegmentTable::OneFile { object, .. } => place(object),
            SegmentTable::Table(places) => places.iter_mut().for_each(|it| place(&mut it.object)),
            SegmentTable::Files { .. } => {}
        }
    }
    *objects = order
        .iter()
        .map(|old| objects[*old as usize].clone())
        .collect();
    Arc::new(title)
}

prop_compose! {
    fn trace()(
        mut sessions in proptest::collection::vec(session(), 1..6),
        name in "[a-z %]{0,8}",
        seed in proptest::option::of(any::<u64>()),
        chunk_bytes in proptest::option::of(1u64..),
        identity in proptest::sample::select(&ViewerIdentity::ALL[..]),
        has_arrivals in any::<bool>(),
        share in 0.0f64..1.0,
        ramp in 0u64..1000,
        warm in proptest::collection::vec(0u32..6, 0..4),
    ) -> Trace {
        let mut now = Duration::ZERO;
        for session in &mut sessions {
            now += session.arrival;
            session.arrival = if has_arrivals { now } else { Duration::ZERO };
        }
        let mut trace = Trace {
            objects: (0..6).map(|n| std::format!("sd/{n:06}.bin")).collect(),
            classes: vec![
                NetworkClass { name: "a b".into(), bandwidth: None, delay: Duration(ramp), share },
                NetworkClass { name: "dsl".into(), bandwidth: Some(BitRate(ramp)), delay: Duration(0), share },
            ],
            sessions,
            about: TraceMetadata {
                name, seed, catalogue: seed, chunk_bytes, identity: identity.1, has_arrivals,
                ramp_up: Ramp { sessions: ramp, time: Duration(ramp) },
                ramp_down: Ramp { sessions: 0, time: Duration(ramp) },
                warming: warm
                    .into_iter()
                    .map(|object| WarmupRange { object: ObjectId(object), range: None })
                    .collect(),
            },
        };
        rename(&mut trace);
        trace
    }
}

/// Sorts objects by their first use, as a parser finds them.
fn rename(trace: &mut Trace) {
    let mut order: Vec<u32> = Vec::new();
    let mut place = |object: &mut ObjectId| {
        let at = order.iter().position(|known| *known == object.0);
        let at = at.unwrap_or_else(|| {
            order.push(object.0);
            order.len() - 1
        });
        object.0 = at as u32;
    };
    for session in &mut trace.sessions {
        let SessionPlan::Script(script) = &mut session.plan else {
            continue;
        };
        script
            .calls
            .iter_mut()
            .for_each(|call| place(&mut call.object));
    }
    trace
        .about
        .warming
        .iter_mut()
        .for_each(|warming| place(&mut warming.object));
    trace.objects = order
        .iter()
        .map(|old| trace.objects[*old as usize].clone())
        .collect();
}

proptest! {
    #[test]
    fn traces_round_trip(trace in trace()) {
        let text = trace.to_text(Dialect::Headlong).expect("this dialect can express all traces");
        let back = Trace::read(text.as_bytes()).map_err(|errors| TestCaseError::fail(std::format!("{errors}\n{text}")))?;
        prop_assert_eq!(back, trace, "{}", text);
    }

    #[test]
    fn foreign_dialects_keep_requests(trace in trace()) {
        for dialect in [Dialect::Thesis, Dialect::Videoperf] {
            let text = trace.to_text(dialect).expect("these dialects have ranges");
            let back = read(&text);
            let asked = |trace: &Trace| -> Vec<(String, Option<ByteRange>, bool)> {
                let calls = trace.sessions.iter().flat_map(|session| session.calls().to_vec());
                calls.map(|call| (trace.objects[call.object.0 as usize].clone(), call.range, call.with_previous)).collect()
            };
            prop_assert_eq!(asked(&back), asked(&trace));
        }
    }

    #[test]
    fn trace_parser_never_panics(text in "(#headlong |trace |session |class |/a |range=|=|[0-9]|-|'|\"|\\\\|\n|\t|\\PC){0,60}") {
        let _ = Trace::read(text.as_bytes());
    }
}
