//! Plays traces over real sockets against a server with known behaviour.
//!
//! Tests assert received bytes and outcomes of calls. Times are asserted only as recorded, against
//! lower bounds; never against upper bounds of wall time.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::toy::{TITLE_BYTES, ToyServer, WRONG_AT};
use headlong_load::{LoadReport, LoadSettings, PlayError, Target, TargetError, TimeScale, play};
use headlong_player::{
    AdaptivePlan, ObjectId, PlayerConfig, Rendition, Script, ScriptCall, SegmentTable, SessionPlan,
    Title, ViewerAction,
};
use headlong_units::{BitRate, ByteRange, Duration};
use headlong_workload::{NetworkClass, Session, Trace, ViewerIdentity};

fn toy() -> ToyServer {
    ToyServer::start()
}

fn call(object: u32) -> ScriptCall {
    ScriptCall {
        object: ObjectId(object),
        range: None,
        expected_bytes: Some(TITLE_BYTES),
        timeout: Some(Duration::from_secs(600)),
        pace: None,
        think: None,
        with_previous: false,
    }
}

fn range(object: u32, start: u64, end: u64) -> ScriptCall {
    ScriptCall {
        range: Some(ByteRange::new(start, end)),
        expected_bytes: Some(end - start),
        ..call(object)
    }
}

/// Sessions with these calls, one every 10 ms.
fn trace(objects: &[&str], sessions: Vec<Vec<ScriptCall>>) -> Trace {
    let sessions = (0..).zip(sessions).map(|(index, calls)| Session {
        arrival: Duration::from_millis(10 * index),
        class: 0,
        plan: SessionPlan::Script(Script::new(calls)),
    });
    Trace {
        objects: objects.iter().map(|path| path.to_string()).collect(),
        classes: vec![NetworkClass::unlimited()],
        sessions: sessions.collect(),
        ..Trace::default()
    }
}

fn played(toy: &ToyServer, trace: Trace, settings: &LoadSettings) -> LoadReport {
    let target = Target::new(&toy.url()).expect("a target");
    let stop = AtomicBool::new(false);
    let recording = play(trace, &target, settings, &stop, &mut ()).expect("it can be played");
    recording.report()
}

/// Settings without a lateness limit: delays of a busy machine are not under test.
fn settings() -> LoadSettings {
    LoadSettings {
        late_max: std::time::Duration::from_secs(600),
        ..LoadSettings::default()
    }
}

/// Outcome and failure detail of a session with one call of this object.
fn ended(object: &str, call: ScriptCall) -> (String, String) {
    let report = played(&toy(), trace(&[object], vec![vec![call]]), &settings());
    assert_eq!(report.figures.requests.ended, 1);
    assert_eq!(report.sessions.steady_failed, report.sessions.failed);
    match report.first_failures.as_slice() {
        [] => ("whole".into(), String::new()),
        [failure, ..] => (failure.end.clone(), failure.detail.clone()),
    }
}

#[test]
fn verifies_every_byte_of_complete_replies() {
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
    assert_eq!(report.figures.requests.whole, 100, "{report}");
    assert_eq!(report.figures.failure_share, 0.0);
    let bytes = 20 * (2 * TITLE_BYTES + 99_995 + 1 + 199_993);
    assert_eq!(report.checked_bytes, bytes);
    assert_eq!(report.classes[0].bytes, bytes);
    let series: u64 = report.series.iter().map(|point| point.bytes).sum();
    assert_eq!(series, bytes);
    assert_eq!(toy.requests(), 100);
    assert_eq!(report.wrong_bytes, 0);
}

#[test]
fn reports_wrong_byte_with_offset() {
    let (end, detail) = ended("wrong/000001.bin", call(0));
    assert_eq!(end, "wrong");
    assert_eq!(detail, format!("byte {WRONG_AT} differs from the title's"));
}

#[test]
fn skips_verification_if_disabled_or_title_unknown() {
    for (object, verify) in [("wrong/000001.bin", false), ("wrong/film.mp4", true)] {
        let settings = LoadSettings {
            verify,
            ..settings()
        };
        let report = played(&toy(), trace(&[object], vec![vec![call(0)]]), &settings);
        assert_eq!(
            (report.figures.requests.whole, report.checked_bytes),
            (1, 0)
        );
    }
}

#[test]
fn verifies_chunk_files_as_parts_of_title() {
    let settings = LoadSettings {
        chunk_bytes: Some(TITLE_BYTES),
        ..settings()
    };
    let trace = trace(&["ok/000001/00003.bin"], vec![vec![call(0)]]);
    let report = played(&toy(), trace, &settings);
    assert_eq!(
        (report.figures.requests.whole, report.checked_bytes),
        (1, TITLE_BYTES)
    );
}

#[test]
fn classifies_bad_replies() {
    for (object, call, end, detail) in [
        ("short/000001.bin", call(0), "broken", "ended early"),
        ("refuse/000001.bin", call(0), "refused", "503"),
        ("noise/000001.bin", call(0), "broken", "not HTTP"),
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
    let larger = ScriptCall {
        expected_bytes: Some(TITLE_BYTES + 1),
        ..call(0)
    };
    assert_eq!(ended("ok/000001.bin", larger).0, "wrong");
    assert_eq!(ended("until-close/000001.bin", call(0)).0, "whole");
    // A reply without a length ends with the connection, unless that was reset.
    let unknown = ScriptCall {
        expected_bytes: None,
        ..range(0, 0, 1000)
    };
    let end = |object| ended(object, unknown.clone()).0;
    assert_eq!(end("until-close/000001.bin"), "whole");
    assert_eq!(end("reset/000001.bin"), "broken");
}

#[test]
fn viewer_leaves_after_timeout() {
    let impatient = ScriptCall {
        timeout: Some(Duration::from_millis(300)),
        ..call(0)
    };
    let calls = vec![impatient, call(1)];
    let trace = trace(&["hang/000001.bin", "ok/000002.bin"], vec![calls]);
    let toy = toy();
    let report = played(&toy, trace, &settings());
    assert_eq!(
        (
            report.figures.requests.timed_out,
            report.figures.requests.ended
        ),
        (1, 1)
    );
    assert!(
        toy.requests() <= 1,
        "the viewer leaves and sends no further requests"
    );
    assert!(report.valid, "{report}");
}

#[test]
fn missing_reply_counts_as_asked_for_not_delivered() {
    let impatient = |object| ScriptCall {
        timeout: Some(Duration::from_millis(300)),
        ..call(object)
    };
    // The second session arrives after 10 ms: the window is from the first to the last arrival.
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
fn reopens_idle_connection_closed_by_server() {
    let pause = ScriptCall {
        think: Some(Duration::from_millis(200)),
        ..range(0, 0, 1000)
    };
    let trace = trace(
        &["stale/000001.bin"],
        vec![vec![range(0, 0, 1000), pause.clone(), pause]],
    );
    let report = played(&toy(), trace, &settings());
    assert_eq!(
        (report.figures.requests.whole, report.resent),
        (3, 2),
        "{report}"
    );
}

#[test]
fn anonymous_player_uses_connection_per_request() {
    for (identity, expected) in [
        (ViewerIdentity::Sid, 2),
        (ViewerIdentity::Connection, 2),
        (ViewerIdentity::None, 0),
    ] {
        let pause = ScriptCall {
            think: Some(Duration::from_millis(200)),
            ..range(0, 0, 1000)
        };
        let calls = vec![range(0, 0, 1000), pause.clone(), pause];
        // The server closes each connection after a reply without notice: a reused one needs a
        // resend.
        let mut trace = trace(&["stale/000001.bin"], vec![calls]);
        trace.about.identity = identity;
        let report = played(&toy(), trace, &settings());
        let seen = (report.figures.requests.whole, report.resent);
        assert_eq!(seen, (3, expected), "{identity:?}: {report}");
    }
}

#[test]
fn burst_uses_connection_per_call() {
    let member = |object| ScriptCall {
        with_previous: true,
        ..range(object, 0, 50_000)
    };
    let calls = vec![range(0, 0, 50_000), member(1), member(2), call(0)];
    let objects = ["ok/000001.bin", "chunked/000002.bin", "ok/000003.bin"];
    let report = played(&toy(), trace(&objects, vec![calls]), &settings());
    assert_eq!(report.figures.requests.whole, 4, "{report}");
}

#[test]
fn line_limits_bandwidth_and_adds_delay() {
    // At ten times the speed: 200,000 bytes at 10 Mbit/s are 160 ms, and the round trip is 100 ms,
    // twice for a new connection.
    let toy = toy();
    for factor in [1.0, 10.0] {
        let calls = vec![range(0, 0, 200_000), range(0, 0, 200_000)];
        let mut trace = trace(&["ok/000001.bin"], vec![calls]);
        trace.classes = vec![NetworkClass {
            bandwidth: Some(BitRate::from_kbps(10_000)),
            delay: Duration::from_millis(50),
            ..NetworkClass::unlimited()
        }];
        let settings = LoadSettings {
            time_scale: TimeScale::new(factor).expect("a scale"),
            ..settings()
        };
        let report = played(&toy, trace, &settings);
        assert_eq!(report.figures.requests.whole, 2, "{report}");
        let (first, whole) = (report.figures.first_byte_ms, report.figures.whole_ms);
        // Of the second call; histograms round to a thousandth.
        assert!(first.p50 >= Some(99.9), "{report}");
        assert!(first.max >= Some(199.9), "{report}");
        assert!(whole.p50 >= Some(259.8), "{report}");
        assert!(whole.max >= Some(359.8), "{report}");
    }
}

#[test]
fn adaptive_player_watches_title() {
    let rendition = |object, kbps| Rendition {
        bit_rate: BitRate::from_kbps(kbps),
        header: None,
        segments: SegmentTable::OneFile {
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
        acts: vec![ViewerAction::Watch(Duration::from_secs(8))],
        make: Arc::new(PlayerConfig {
            timeout: None,
            ..PlayerConfig::default()
        }),
    };
    let objects = ["ok/000001.bin", "ok/000002.bin"];
    let mut trace = trace(&objects, vec![vec![call(0)]]);
    trace.sessions[0].plan = SessionPlan::Adaptive(plan);
    let settings = LoadSettings {
        time_scale: TimeScale::new(20.0).expect("a scale"),
        ..settings()
    };
    let report = played(&toy(), trace, &settings);
    assert_eq!(
        (report.sessions.steady, report.figures.failure_share),
        (1, 0.0)
    );
    assert_eq!(report.figures.requests.whole, 4, "{report}");
    assert_eq!(report.checked_bytes, report.classes[0].bytes);
    assert!(report.checked_bytes >= 400_000);
    assert_eq!(report.figures.startup_ms.count, 1);
}

#[test]
fn latencies_count_from_intended_time() {
    // Two viewers are due long before the clock of the run can have started.
    let report = played(
        &toy(),
        trace(&["ok/000001.bin"], vec![vec![range(0, 0, 10)]; 2]),
        &settings(),
    );
    let (intended, sent) = (
        report.figures.first_byte_ms,
        report.figures.first_byte_from_sent_ms,
    );
    assert_eq!((intended.count, sent.count), (2, 2));
    assert!(intended.max >= sent.max, "{report}");
    assert_eq!(report.schedule_error_ms.count, 2);
}

#[test]
fn first_failure_ends_run_if_configured() {
    let settings = LoadSettings {
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
fn run_ends_with_arrivals_if_configured() {
    let settings = LoadSettings {
        end_with_arrivals: true,
        ..settings()
    };
    let stay = ScriptCall {
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
    assert_eq!(report.figures.failure_share, 0.0);
}

#[test]
fn counts_only_steady_state_sessions() {
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
    assert_eq!(report.figures.requests.ended, 5);
    assert_eq!((report.window_s.from, report.window_s.to), (0.03, 0.08));
}

#[test]
fn dead_server_invalidates_result_and_ends_run() {
    // A port that was just released: no process listens on it.
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
fn interrupted_run_is_invalid() {
    let target = Target::new(&toy().url()).expect("a target");
    let mut trace = trace(&["ok/000001.bin"], vec![vec![call(0)]]);
    trace.sessions[0].arrival = Duration::from_secs(3600);
    let stop = AtomicBool::new(true);
    let recording = play(trace, &target, &settings(), &stop, &mut ()).expect("it plays");
    assert_eq!(
        recording.report.invalid_because,
        ["the run was interrupted"]
    );
}

#[test]
fn rejects_unplayable_trace_before_sending() {
    let toy = toy();
    let target = Target::new(&toy.url()).expect("a target");
    let refused = |trace: Trace, settings: &LoadSettings| {
        let stop = AtomicBool::new(false);
        play(trace, &target, settings, &stop, &mut ()).expect_err("it cannot be played")
    };
    let error = refused(Trace::default(), &settings());
    assert!(matches!(error, PlayError::Empty) && error.is_usage());
    let none = trace(&[], vec![vec![call(0)]]);
    let error = refused(none, &settings());
    assert!(matches!(error, PlayError::Trace { session: 0, .. }));
    let long = LoadSettings {
        ramp_up: headlong_load::parse_ramp("1h").expect("a ramp"),
        ..settings()
    };
    let error = refused(trace(&["a"], vec![vec![call(0)]]), &long);
    assert!(matches!(error, PlayError::NothingCounts { .. }) && error.is_usage());
    // More concurrent connections than any machine has descriptors for.
    let wide = ScriptCall {
        with_previous: true,
        ..call(0)
    };
    let pause = ScriptCall {
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
