//! Statistics compared with arithmetic, in virtual time: a server that pauses for 1 s in every 10 s
//! has a known distribution of response times. A generator that waits for a reply before its next
//! request (coordinated omission) would hardly measure the pauses.

use headlong_load::Recording;
use headlong_player::{CallEnd, CallId, CallRecord, SessionEnd};
use headlong_units::{Duration, Instant};
use headlong_workload::NetworkClass;

const SECOND: u64 = 1_000_000_000;

fn recording(to: u64) -> Recording {
    let classes = [NetworkClass::unlimited()];
    let interval = Duration::from_secs(5);
    Recording::new(
        &classes,
        Instant(10 * SECOND),
        Instant(to * SECOND),
        interval,
    )
}

/// Result of a call to a server that pauses for the first second of every ten.
fn answered(intended: u64) -> CallRecord {
    let phase = intended % (10 * SECOND);
    let answer = intended + SECOND.saturating_sub(phase) + 300_000;
    CallRecord {
        call: CallId(0),
        intended: Instant(intended),
        sent: Instant(intended),
        first_byte: Some(Instant(answer)),
        ended: Instant(answer + 1_000_000),
        bytes: 1000,
        end: CallEnd::Whole,
    }
}

fn session(end: CallEnd) -> SessionEnd {
    SessionEnd {
        end,
        ended: Instant::ZERO,
        startup_delay: Some(Duration::from_millis(20)),
        stalls: 0,
        stall_time: Duration::ZERO,
        played: Duration::ZERO,
        bit_rate: None,
        switches: 0,
        bytes: 1000,
    }
}

/// Records a thousand requests per second.
fn record(recording: &mut Recording) {
    for index in 0..60_000 {
        let record = answered(index * SECOND / 1000);
        let steady = recording.is_steady(record.intended);
        recording.count_call(0, steady, &record, Duration(index % 7));
        recording.count_bytes(record.ended, record.bytes);
        let end = match index % 1000 {
            0 => CallEnd::TimedOut,
            _ => CallEnd::Whole,
        };
        recording.count_session(0, steady, &session(end));
    }
}

#[test]
fn percentile_99_of_known_distribution_is_exact() {
    let mut recording = recording(60);
    record(&mut recording);
    let report = recording.report();
    // One in ten waits for up to a second, uniformly: one in a hundred longer than 0.9 s.
    let p99 = report.figures.first_byte_ms.p99.expect("it was measured");
    assert!((p99 / 900.0 - 1.0).abs() < 0.01, "{p99}");
    let mean = report.figures.first_byte_ms.mean.expect("it was measured");
    assert!((mean / 50.3 - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(report.figures.first_byte_ms.count, 50_000);
    assert_eq!(report.sessions.steady, 50_000);
    assert_eq!(report.sessions.steady_failed, 50);
    assert_eq!(report.sessions.failed, 60);
    assert!((report.figures.failure_share - 0.001).abs() < 1e-12);
}
