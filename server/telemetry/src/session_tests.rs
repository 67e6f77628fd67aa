use super::*;
use crate::SessionSource;
use crate::record::sample;

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn request(id: &str, second: u64, target: &str) -> RequestRecord {
    let session = SessionKey {
        id: id.to_owned(),
        source: SessionSource::Cmcd,
    };
    RequestRecord {
        start_unix_ms: second * 1000,
        service_time: Duration::from_secs(1),
        target: target.to_owned(),
        session: Some(session),
        ..sample()
    }
}

#[test]
fn requests_of_one_viewer_become_one_line() {
    let mut log = SessionLog::new(SessionLimits::default());
    log.record(at(1), &request("v", 0, "/a.mp4?x=1"));
    log.record(at(2), &request("v", 1, "/a.mp4?x=2"));
    let failed = RequestRecord {
        failure: Some("device"),
        bytes_sent: 0,
        bytes_from_ram: 0,
        bytes_from_flash: 0,
        cache: None,
        bytes_from_disk: 0,
        bit_rate: Some(BitRate::from_kbps(800)),
        ..request("v", 30, "/b.mp4")
    };
    log.record(at(31), &failed);
    assert_eq!(log.expire(at(70)), None);
    let summary = log.expire(at(71)).expect("40 s after its last request");
    assert_eq!(
        (summary.requests, summary.failures, summary.paths),
        (3, 1, 2)
    );
    assert_eq!((summary.start_unix_ms, summary.end_unix_ms), (0, 31_000));
    assert_eq!(summary.first_path, "/a.mp4");
    assert_eq!((summary.bytes_sent, summary.bytes_from_ram), (2000, 1200));
    // 2000 bytes in 3 s of service.
    assert_eq!(summary.throughput_bps, Some(5333));
    assert_eq!(summary.last_bit_rate_bps, Some(800_000));
    assert_eq!(summary.ended, SessionEnd::Idle);
    assert_eq!(log.open_count(), 0);
}

#[test]
fn long_path_is_truncated_in_session() {
    let mut log = SessionLog::new(SessionLimits::default());
    let path = format!("/{}", "é".repeat(5000));
    log.record(at(1), &request("v", 0, &path));
    let summary = log.finish().expect("open");
    assert_eq!(summary.first_path.chars().count(), 512);
}

#[test]
fn request_after_idle_time_begins_new_session() {
    let mut log = SessionLog::new(SessionLimits::default());
    log.record(at(0), &request("v", 0, "/a"));
    assert_eq!(log.expire(at(40)).expect("ended").requests, 1);
    log.record(at(50), &request("v", 50, "/a"));
    assert_eq!(log.finish().expect("open").start_unix_ms, 50_000);
}

#[test]
fn same_id_from_two_sources_is_two_sessions() {
    let mut log = SessionLog::new(SessionLimits::default());
    log.record(at(0), &request("v", 0, "/a"));
    let mut other = request("v", 0, "/a");
    if let Some(key) = &mut other.session {
        key.source = SessionSource::Cookie;
    }
    log.record(at(0), &other);
    assert_eq!(log.open_count(), 2);
}

#[test]
fn session_beyond_limit_evicts_quietest() {
    let limits = SessionLimits {
        sessions_max: 2,
        ..SessionLimits::default()
    };
    let mut log = SessionLog::new(limits);
    assert_eq!(log.record(at(0), &request("a", 0, "/")), None);
    assert_eq!(log.record(at(1), &request("b", 1, "/")), None);
    assert_eq!(log.record(at(2), &request("a", 2, "/")), None);
    let evicted = log.record(at(3), &request("c", 3, "/")).expect("no room");
    assert_eq!(
        (evicted.session.as_str(), evicted.ended),
        ("b", SessionEnd::Evicted)
    );
    assert_eq!(log.open_count(), 2);
}

#[test]
fn request_without_session_is_ignored() {
    let mut log = SessionLog::new(SessionLimits::default());
    let record = RequestRecord {
        session: None,
        ..sample()
    };
    assert_eq!(log.record(at(0), &record), None);
    assert_eq!(log.open_count(), 0);
}

#[test]
fn counting_of_paths_stops_at_limit() {
    let mut log = SessionLog::new(SessionLimits::default());
    for number in 0..1000 {
        log.record(at(0), &request("v", 0, &format!("/{number}")));
    }
    let summary = log.finish().expect("open");
    assert_eq!((summary.requests, summary.paths), (1000, PATHS_MAX));
}

#[test]
fn session_stays_open_while_reply_is_in_progress() {
    let mut log = SessionLog::new(SessionLimits::default());
    let first = request("v", 0, "/a");
    let key = first.session.clone().expect("named");
    log.begin(key.clone());
    log.record(at(1), &first);
    // A request that begins immediately and is sent for as long as the film plays.
    log.begin(key);
    assert_eq!(log.expire(at(600)), None);
    assert_eq!(log.expire(at(6000)), None);
    log.record(at(6001), &request("v", 2, "/b"));
    assert_eq!(log.expire(at(6002)), None);
    let summary = log.expire(at(6100)).expect("over");
    assert_eq!(summary.requests, 2);
    assert_eq!(log.open_count(), 0);
}
