//! Traces played over real sockets against a server whose behaviour is known.
//!
//! What is asserted is what arrived and how calls ended, and times only as records say them, against
//! what must at least have passed; never how long anything took at most.

mod toy;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headlong_load::{PlayError, Report, Settings, Target, TargetError, TimeScale, play};
use headlong_player::{
    Act, AdaptivePlan, Call, Make, ObjectId, Plan, Rendition, Script, Segments, Title,
};
use headlong_units::{BitRate, ByteRange, Duration};
use headlong_workload::{Identity, NetworkClass, Session, Trace};
use toy::{Stalls, TITLE_BYTES, Toy, WRONG_AT};

/// A server that is always in time.
fn toy() -> Toy {
    Toy::start(Stalls::default())
}

fn call(object: u32) -> Call {
    Call {
        object: ObjectId(object),
        range: None,
        expected_bytes: Some(TITLE_BYTES),
        timeout: Some(Duration::from_secs(600)),
        pace: None,
        think: None,
        with_previous: false,
    }
}

fn range(object: u32, start: u64, end: u64) -> Call {
    Call {
        range: Some(ByteRange::new(start, end)),
        expected_bytes: Some(end - start),
        ..call(object)
    }
}

/// Sessions of these calls, one every 10 ms.
fn trace(objects: &[&str], sessions: Vec<Vec<Call>>) -> Trace {
    let sessions = (0..).zip(sessions).map(|(index, calls)| Session {
        arrival: Duration::from_millis(10 * index),
        class: 0,
        plan: Plan::Script(Script::new(calls)),
    });
    Trace {
        objects: objects.iter().map(|path| path.to_string()).collect(),
        classes: vec![NetworkClass::unlimited()],
        sessions: sessions.collect(),
        ..Trace::default()
    }
}

fn played(toy: &Toy, trace: Trace, settings: &Settings) -> Report {
    let target = Target::new(&toy.url()).expect("a target");
    let stop = AtomicBool::new(false);
    let recording = play(trace, &target, settings, &stop, &mut ()).expect("it can be played");
    recording.report()
}

/// A busy machine may make this process late; that is not what is tested here.
fn settings() -> Settings {
    Settings {
        late_max: std::time::Duration::from_secs(600),
        ..Settings::default()
    }
}

/// How the one session with one call of this object ended, and what was told of it.
fn ended(object: &str, call: Call) -> (String, String) {
    let report = played(&toy(), trace(&[object], vec![vec![call]]), &settings());
    assert_eq!(report.requests.ended, 1);
    assert_eq!(report.sessions.steady_failed, report.sessions.failed);
    match report.first_failures.as_slice() {
        [] => ("whole".into(), String::new()),
        [failure, ..] => (failure.end.clone(), failure.detail.clone()),
    }
}

#[test]
fn whole_replies_arrive_and_every_byte_is_checked() {
    let objects = ["ok/000001.bin", "ok/000002.bin", "chunked/000003.bin"];
    let calls = vec![
        call(0),
        range(0, 5, 100_000),
        range(1, 100_000, 100_001),
        call(2),
        range(2, 7, 200_000),
    ];
    let toy = toy();
    let report = played(&toy, trace(&objects, vec![calls; 20]), &settings());
    assert_eq!(report.requests.whole, 100, "{report}");
    assert_eq!(report.failure_share, 0.0);
    let bytes = 20 * (2 * TITLE_BYTES + 99_995 + 1 + 199_993);
    assert_eq!(report.checked_bytes, bytes);
    assert_eq!(report.classes[0].bytes, bytes);
    let series: u64 = report.series.iter().map(|point| point.bytes).sum();
    assert_eq!(series, bytes);
    assert_eq!(toy.requests(), 100);
    assert_eq!(report.wrong_bytes, 0);
}

#[test]
fn a_wrong_byte_is_found_and_told_with_its_place() {
    let (end, detail) = ended("wrong/000001.bin", call(0));
    assert_eq!(end, "wrong");
    assert_eq!(detail, format!("byte {WRONG_AT} is not the title's"));
}

#[test]
fn nothing_is_checked_if_that_is_not_wanted_or_the_title_not_known() {
    for (object, verify) in [("wrong/000001.bin", false), ("wrong/film.mp4", true)] {
        let settings = Settings {
            verify,
            ..settings()
        };
        let report = played(&toy(), trace(&[object], vec![vec![call(0)]]), &settings);
        assert_eq!((report.requests.whole, report.checked_bytes), (1, 0));
    }
}

#[test]
fn chunk_files_are_checked_as_parts_of_their_title() {
    let settings = Settings {
        chunk_bytes: Some(TITLE_BYTES),
        ..settings()
    };
    let trace = trace(&["ok/000001/00003.bin"], vec![vec![call(0)]]);
    let report = played(&toy(), trace, &settings);
    assert_eq!(
        (report.requests.whole, report.checked_bytes),
        (1, TITLE_BYTES)
    );
}

#[test]
fn every_bad_reply_has_its_name() {
    for (object, call, end, detail) in [
        ("short/000001.bin", call(0), "broken", "ended early"),
        ("refuse/000001.bin", call(0), "refused", "503"),
        ("noise/000001.bin", call(0), "broken", "no HTTP"),
        (
            "other-range/000001.bin",
            range(0, 8, 800),
            "wrong",
            "another range",
        ),
    ] {
        let (found, told) = ended(object, call);
        assert_eq!(found, end, "{object}");
        assert!(told.contains(detail), "{object}: {told}");
    }
    let larger = Call {
        expected_bytes: Some(TITLE_BYTES + 1),
        ..call(0)
    };
    assert_eq!(ended("ok/000001.bin", larger).0, "wrong");
    assert_eq!(ended("until-close/000001.bin", call(0)).0, "whole");
    // A reply without a length is over when the connection is, unless that was reset.
    let unknown = Call {
        expected_bytes: None,
        ..range(0, 0, 1000)
    };
    let end = |object| ended(object, unknown.clone()).0;
    assert_eq!(end("until-close/000001.bin"), "whole");
    assert_eq!(end("reset/000001.bin"), "broken");
}

#[test]
fn a_viewer_who_waits_too_long_leaves() {
    let impatient = Call {
        timeout: Some(Duration::from_millis(300)),
        ..call(0)
    };
    let calls = vec![impatient, call(1)];
    let trace = trace(&["hang/000001.bin", "ok/000002.bin"], vec![calls]);
    let toy = toy();
    let report = played(&toy, trace, &settings());
    assert_eq!((report.requests.timed_out, report.requests.ended), (1, 1));
    assert!(
        toy.requests() <= 1,
        "it goes away and asks for nothing more"
    );
    assert!(report.valid, "{report}");
}

#[test]
fn what_is_asked_for_and_never_comes_is_not_delivered() {
    let impatient = |object| Call {
        timeout: Some(Duration::from_millis(300)),
        ..call(object)
    };
    // The second session comes after 10 ms: the window is from the first arrival to the last.
    let sessions = vec![vec![impatient(0)], vec![impatient(0)]];
    let report = played(&toy(), trace(&["hang/000001.bin"], sessions), &settings());
    let window = report.window_s.to - report.window_s.from;
    let asked_for = report.asked_for_bytes_per_second * window;
    assert!(asked_for >= TITLE_BYTES as f64 - 1.0, "{report}");
    assert_eq!(report.bytes_per_second, 0.0);
    let offered = report.offered_bytes_per_second.expect("sizes are known");
    assert_eq!(offered, 2.0 * TITLE_BYTES as f64 / 0.010);
    let text = report.to_string();
    for name in ["offered ", "asked for ", "delivered "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
}

#[test]
fn an_idle_connection_that_the_server_closed_is_opened_again() {
    let pause = Call {
        think: Some(Duration::from_millis(200)),
        ..range(0, 0, 1000)
    };
    let trace = trace(
        &["stale/000001.bin"],
        vec![vec![range(0, 0, 1000), pause.clone(), pause]],
    );
    let report = played(&toy(), trace, &settings());
    assert_eq!((report.requests.whole, report.resent), (3, 2), "{report}");
}

#[test]
fn a_player_that_tells_nothing_about_itself_has_a_connection_for_each_request() {
    for (identity, expected) in [
        (Identity::Sid, 2),
        (Identity::Connection, 2),
        (Identity::None, 0),
    ] {
        let pause = Call {
            think: Some(Duration::from_millis(200)),
            ..range(0, 0, 1000)
        };
        let calls = vec![range(0, 0, 1000), pause.clone(), pause];
        // It closes each connection after a reply, unseen: who uses one again has to ask again.
        let mut trace = trace(&["stale/000001.bin"], vec![calls]);
        trace.about.identity = identity;
        let report = played(&toy(), trace, &settings());
        let seen = (report.requests.whole, report.resent);
        assert_eq!(seen, (3, expected), "{identity:?}: {report}");
    }
}

#[test]
fn a_burst_has_a_connection_for_each_of_its_calls() {
    let member = |object| Call {
        with_previous: true,
        ..range(object, 0, 50_000)
    };
    let calls = vec![range(0, 0, 50_000), member(1), member(2), call(0)];
    let objects = ["ok/000001.bin", "chunked/000002.bin", "ok/000003.bin"];
    let report = played(&toy(), trace(&objects, vec![calls]), &settings());
    assert_eq!(report.requests.whole, 4, "{report}");
}

#[test]
fn bytes_get_through_no_faster_than_the_line_allows_and_requests_no_sooner_than_they_arrive() {
    // At ten times the speed: 200,000 bytes at 10 Mbit/s are 160 ms, and the way there and back is
    // 100 ms, twice for a new connection.
    let toy = toy();
    for factor in [1.0, 10.0] {
        let calls = vec![range(0, 0, 200_000), range(0, 0, 200_000)];
        let mut trace = trace(&["ok/000001.bin"], vec![calls]);
        trace.classes = vec![NetworkClass {
            bandwidth: Some(BitRate::from_kbps(10_000)),
            delay: Duration::from_millis(50),
            ..NetworkClass::unlimited()
        }];
        let settings = Settings {
            time_scale: TimeScale::new(factor).expect("a scale"),
            ..settings()
        };
        let report = played(&toy, trace, &settings);
        assert_eq!(report.requests.whole, 2, "{report}");
        let (first, whole) = (report.first_byte_ms, report.whole_ms);
        // The second call's; histograms round by a thousandth.
        assert!(first.p50 >= Some(99.9), "{report}");
        assert!(first.max >= Some(199.9), "{report}");
        assert!(whole.p50 >= Some(259.8), "{report}");
        assert!(whole.max >= Some(359.8), "{report}");
    }
}

#[test]
fn a_player_that_adapts_watches_its_title() {
    let rendition = |object, kbps| Rendition {
        bit_rate: BitRate::from_kbps(kbps),
        header: None,
        segments: Segments::OneFile {
            object: ObjectId(object),
            start: 0,
            segment_bytes: kbps * 250,
            file_bytes: kbps * 1000,
        },
    };
    let title = Title {
        segment: Duration::from_secs(2),
        segments: 4,
        renditions: vec![rendition(0, 400), rendition(1, 1000)],
    };
    let plan = AdaptivePlan {
        title: Arc::new(title),
        acts: vec![Act::Watch(Duration::from_secs(8))],
        make: Arc::new(Make {
            timeout: None,
            ..Make::default()
        }),
    };
    let objects = ["ok/000001.bin", "ok/000002.bin"];
    let mut trace = trace(&objects, vec![vec![call(0)]]);
    trace.sessions[0].plan = Plan::Adaptive(plan);
    let settings = Settings {
        time_scale: TimeScale::new(20.0).expect("a scale"),
        ..settings()
    };
    let report = played(&toy(), trace, &settings);
    assert_eq!((report.sessions.steady, report.failure_share), (1, 0.0));
    assert_eq!(report.requests.whole, 4, "{report}");
    assert_eq!(report.checked_bytes, report.classes[0].bytes);
    assert!(report.checked_bytes >= 400_000);
    assert_eq!(report.startup_ms.count, 1);
}

#[test]
fn latencies_are_taken_from_the_intended_moment() {
    // Two viewers want to come long before the clock of the run can have begun.
    let report = played(
        &toy(),
        trace(&["ok/000001.bin"], vec![vec![range(0, 0, 10)]; 2]),
        &settings(),
    );
    let (intended, sent) = (report.first_byte_ms, report.first_byte_from_sent_ms);
    assert_eq!((intended.count, sent.count), (2, 2));
    assert!(intended.max >= sent.max, "{report}");
    assert_eq!(report.schedule_error_ms.count, 2);
}

#[test]
fn the_first_failure_ends_the_run_if_it_is_told_so() {
    let settings = Settings {
        stop_at_failure: true,
        ..settings()
    };
    let mut sessions = vec![vec![range(0, 0, 10)]; 3];
    sessions.push(vec![call(1)]);
    let mut trace = trace(&["ok/000001.bin", "refuse/000001.bin"], sessions);
    let late = trace.sessions[0].clone();
    trace.sessions.push(Session {
        arrival: Duration::from_secs(3600),
        ..late
    });
    let report = played(&toy(), trace, &settings);
    assert!(report.stopped_early);
    assert_eq!(report.sessions.steady_failed, 1);
    assert_eq!(report.sessions.arrived, 4);
}

#[test]
fn a_run_ends_with_its_arrivals_if_it_is_told_so() {
    let settings = Settings {
        end_with_arrivals: true,
        ..settings()
    };
    let stay = Call {
        pace: Some(Duration::from_secs(3600)),
        ..call(0)
    };
    let mut trace = trace(&["ok/000001.bin"], vec![vec![range(0, 0, 10), stay]; 2]);
    let last = Session {
        arrival: Duration::from_secs(1),
        ..trace.sessions[0].clone()
    };
    trace.sessions.push(last);
    let report = played(&toy(), trace, &settings);
    assert_eq!((report.sessions.arrived, report.sessions.steady), (3, 0));
    assert_eq!(report.failure_share, 0.0);
}

#[test]
fn only_sessions_of_the_steady_state_count() {
    let mut settings = settings();
    settings.ramp_up.sessions = 3;
    settings.ramp_down.sessions = 4;
    let mut sessions = vec![vec![call(1)]; 3];
    sessions.extend(vec![vec![range(0, 0, 10)]; 5]);
    sessions.extend(vec![vec![call(1)]; 4]);
    let trace = trace(&["ok/000001.bin", "refuse/000001.bin"], sessions);
    let report = played(&toy(), trace, &settings);
    assert_eq!(report.sessions.steady, 5, "{report}");
    assert_eq!(report.sessions.steady_failed, 0);
    assert_eq!(report.requests.ended, 5);
    assert_eq!((report.window_s.from, report.window_s.to), (0.03, 0.08));
}

#[test]
fn a_server_that_dies_makes_the_result_invalid_and_ends_the_run() {
    // A port that was just free: nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let target = Target::new(&format!("http://{address}/")).expect("a target");
    assert!(matches!(
        target.probe(),
        Err(TargetError::Unreachable { .. })
    ));
    let mut trace = trace(&["ok/000001.bin"], vec![vec![call(0)]; 12]);
    let late = trace.sessions[0].clone();
    trace.sessions.push(Session {
        arrival: Duration::from_secs(3600),
        ..late
    });
    let stop = AtomicBool::new(false);
    let recording = play(trace, &target, &settings(), &stop, &mut ()).expect("it plays");
    let report = recording.report();
    assert!(!report.valid);
    let died = |reason: &String| reason.contains("the server died");
    assert!(report.invalid_because.iter().any(died), "{report}");
}

#[test]
fn a_run_that_is_interrupted_is_invalid() {
    let target = Target::new(&toy().url()).expect("a target");
    let mut trace = trace(&["ok/000001.bin"], vec![vec![call(0)]]);
    trace.sessions[0].arrival = Duration::from_secs(3600);
    let stop = AtomicBool::new(true);
    let recording = play(trace, &target, &settings(), &stop, &mut ()).expect("it plays");
    assert_eq!(recording.invalid_because, ["it was interrupted"]);
}

#[test]
fn what_cannot_be_played_is_refused_before_anything_is_sent() {
    let toy = toy();
    let target = Target::new(&toy.url()).expect("a target");
    let refused = |trace: Trace, settings: &Settings| {
        let stop = AtomicBool::new(false);
        play(trace, &target, settings, &stop, &mut ()).expect_err("it cannot be played")
    };
    let error = refused(Trace::default(), &settings());
    assert!(matches!(error, PlayError::Empty) && error.is_usage());
    let none = trace(&[], vec![vec![call(0)]]);
    let error = refused(none, &settings());
    assert!(matches!(error, PlayError::Trace { session: 0, .. }));
    let long = Settings {
        ramp_up: headlong_load::parse_ramp("1h").expect("a ramp"),
        ..settings()
    };
    let error = refused(trace(&["a"], vec![vec![call(0)]]), &long);
    assert!(matches!(error, PlayError::NothingCounts { .. }) && error.is_usage());
    // More at a time than any machine has descriptors for.
    let wide = Call {
        with_previous: true,
        ..call(0)
    };
    let pause = Call {
        pace: Some(Duration::from_secs(36_000)),
        ..call(0)
    };
    let mut calls = vec![call(0)];
    calls.extend(vec![wide; 200]);
    calls.push(pause);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if let Some(limit) = limit.maximum.filter(|limit| *limit < 1_000_000) {
        let crowd = trace(&["a"], vec![calls; limit as usize / 200 + 1]);
        let error = refused(crowd, &settings());
        assert!(error.to_string().contains("file descriptors"), "{error}");
        assert!(!error.is_usage());
    }
    assert_eq!(toy.requests(), 0);
}
