//! Results conform to their schema, and the schema covers every field.

use headlong_load::{FailureReport, Recording};
use headlong_player::{CallEnd, CallId, CallRecord, SessionEnd};
use headlong_testkit::schema::differences;
use headlong_units::{BitRate, Duration, Instant};
use headlong_workload::NetworkClass;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../../../../docs/schemas/load-1.json");

fn check(value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    differences(&schema, value, "result")
}

fn empty() -> Recording {
    Recording::new(&[], Instant::ZERO, Instant(1), Duration::from_secs(5))
}

/// A recording with all fields set.
fn full() -> Recording {
    let classes = [
        NetworkClass::unlimited(),
        NetworkClass {
            name: "dsl".into(),
            bandwidth: Some(BitRate::from_kbps(3500)),
            delay: Duration::from_millis(50),
            share: 0.5,
        },
    ];
    let end = Instant(60_000_000_000);
    let mut recording = Recording::new(&classes, Instant::ZERO, end, Duration::from_secs(5));
    let ends = [
        CallEnd::Whole,
        CallEnd::TimedOut,
        CallEnd::Refused(503),
        CallEnd::Broken,
        CallEnd::Wrong,
        CallEnd::Abandoned,
    ];
    for (call, end) in (0..).zip(ends) {
        let record = CallRecord {
            call: CallId(call),
            intended: Instant(0),
            sent: Instant(10),
            first_byte: Some(Instant(2_000_000)),
            ended: Instant(3_000_000),
            bytes: 100,
            end,
        };
        recording.count_call(1, true, &record, Duration(5));
        let session = SessionEnd {
            end,
            ended: record.ended,
            startup_delay: Some(Duration::from_millis(3)),
            stalls: 2,
            stall_time: Duration::from_millis(20),
            played: Duration::from_secs(1),
            bit_rate: Some(BitRate(1)),
            switches: 1,
            bytes: 100,
        };
        recording.count_session(1, true, &session);
    }
    recording.report.series.push(Default::default());
    recording.report.invalid_because.push("of this".into());
    recording.record_failure(|| FailureReport {
        at_s: 1.5,
        session: 3,
        url: "http://127.0.0.1/".into(),
        end: "wrong".into(),
        detail: "byte 5 differs from the title's".into(),
    });
    recording
}

#[test]
fn warm_up_is_short_if_few_bytes_were_requested() {
    let (from, to) = (Instant::ZERO, Instant::ZERO + Duration::from_secs(10));
    let recording = Recording::new(&[], from, to, Duration::from_secs(5));
    let mut report = recording.report();
    assert!(!report.is_warm_up_short(), "the offered rate is unknown");
    report.offered_bytes_per_second = Some(100.0);
    for (asked_for, failed, is_short) in [(49.0, 0.0, true), (51.0, 0.0, false), (49.0, 0.2, false)]
    {
        report.asked_for_bytes_per_second = asked_for;
        report.figures.failure_share = failed;
        assert_eq!(report.is_warm_up_short(), is_short, "{asked_for} {failed}");
        assert_eq!(report.to_string().contains("longer ramp"), is_short);
    }
}

#[test]
fn results_conform_to_schema() {
    for recording in [empty(), full()] {
        let text = recording.report().to_json();
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(check(&value), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn detects_schema_violations() {
    let value = serde_json::to_value(full().report()).expect("JSON");
    let changes: [(&str, Value); 6] = [
        ("/schema", json!("headlong-load-2")),
        ("/failure_share", json!(1.5)),
        ("/sessions/steady", json!("6")),
        ("/classes/1/requests/whole", json!(null)),
        ("/first_failures/0/end", json!("bad")),
        ("/series/0", json!({})),
    ];
    for (place, change) in changes {
        let mut value = value.clone();
        *value.pointer_mut(place).expect(place) = change;
        assert!(!check(&value).is_empty(), "{place}");
    }
    let mut value = value;
    value["new"] = json!(1);
    assert_eq!(check(&value), ["result.new is unknown to the schema"]);
}
