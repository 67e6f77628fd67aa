use std::path::Path;

use super::*;
use crate::record::sample;

fn to_files(folder: &Path) -> LogConfig {
    LogConfig {
        access: LogTarget::File(folder.join("access.log")),
        sessions: LogTarget::File(folder.join("sessions.log")),
        ..LogConfig::default()
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a log");
    assert!(text.is_empty() || text.ends_with('\n'), "whole lines only");
    text.lines().map(str::to_owned).collect()
}

fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition did not become true");
}

#[test]
fn every_record_and_every_session_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = AccessLog::open(&to_files(folder.path())).expect("opened");
    for _ in 0..500 {
        log.record(sample());
    }
    log.finish();
    assert_eq!(lines(&folder.path().join("access.log")).len(), 500);
    let sessions = lines(&folder.path().join("sessions.log"));
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].contains(r#""requests":500"#), "{}", sessions[0]);
    assert!(
        sessions[0].contains(r#""ended":"shutdown""#),
        "{}",
        sessions[0]
    );
    assert_eq!(log.counts(), LogCounts::default());
}

#[test]
fn reopen_after_rotation_writes_to_new_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, rotated) = (
        folder.path().join("access.log"),
        folder.path().join("old.log"),
    );
    let log = AccessLog::open(&to_files(folder.path())).expect("opened");
    log.record(sample());
    wait_until(|| !lines(&path).is_empty());
    std::fs::rename(&path, &rotated).expect("renamed");
    log.reopen();
    wait_until(|| path.exists());
    log.record(sample());
    log.finish();
    assert_eq!((lines(&rotated).len(), lines(&path).len()), (1, 1));
}

#[test]
fn full_queue_drops_and_counts_records() {
    let (sender, receiver) = sync_channel(2);
    let log = AccessLog {
        sender: Some(sender),
        ended: Mutex::new(None),
        has_access: true,
        has_sessions: false,
        shared: Arc::default(),
    };
    for _ in 0..5 {
        log.record(sample());
    }
    assert_eq!(log.counts().dropped, 3);
    drop(receiver);
    log.record(sample());
    assert_eq!(log.counts().dropped, 4);
}

#[test]
fn full_disk_loses_and_counts_lines() {
    let config = LogConfig {
        access: LogTarget::File("/dev/full".into()),
        ..LogConfig::default()
    };
    let log = AccessLog::open(&config).expect("opened");
    log.record(sample());
    log.finish();
    // The counters that an operator monitors.
    let (dropped, write_errors) = (1, 1);
    assert_eq!(
        log.counts(),
        LogCounts {
            dropped,
            write_errors
        }
    );
}

#[test]
fn session_ends_even_if_its_record_was_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, 0o600.into(), 0).expect("a pipe");
    let mut both = std::fs::OpenOptions::new();
    let mut reader = both.read(true).write(true).open(&path).expect("opened");
    let config = LogConfig {
        access: LogTarget::File(path),
        queue_max: 100,
        session_limits: SessionLimits {
            idle: headlong_units::Duration::from_millis(1),
            ..SessionLimits::default()
        },
        ..to_files(folder.path())
    };
    let log = AccessLog::open(&config).expect("opened");
    let mut other = sample();
    other.session.as_mut().expect("named").id = "other".to_owned();
    log.request_started(&other.session);
    log.request_started(&other.session);
    log.record(other.clone());
    // The pipe is not read, so the writer blocks and its queue fills up.
    let is_full = || {
        (0..100).for_each(|_| log.record(sample()));
        log.counts().dropped > 0
    };
    wait_until(is_full);
    let before = log.counts().dropped;
    log.record(other);
    assert_eq!(log.counts().dropped, before + 1, "its end is lost");
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while io::Read::read(&mut reader, &mut bytes).is_ok_and(|count| count > 0) {}
    });
    let sessions = folder.path().join("sessions.log");
    let has_ended = |line: &String| line.contains("\"other\"") && line.contains("\"idle\"");
    wait_until(|| lines(&sessions).iter().any(has_ended));
}

#[test]
fn unread_pipe_does_not_block_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .expect("a pipe");
    let mut both = std::fs::OpenOptions::new();
    let _held = both.read(true).write(true).open(&path).expect("opened");
    let config = LogConfig {
        access: LogTarget::File(path),
        ..LogConfig::default()
    };
    let log = AccessLog::open(&config).expect("opened");
    // More than the capacity of a pipe.
    for _ in 0..1000 {
        log.record(sample());
    }
    log.finish();
    log.record(sample());
}

#[test]
fn disabled_log_ignores_records() {
    let log = AccessLog::open(&LogConfig::default()).expect("nothing to open");
    assert!(!log.is_on());
    log.record(sample());
    log.finish();
    assert_eq!(log.counts(), LogCounts::default());
}

#[test]
fn missing_directory_degrades_log_with_remedy() {
    let config = LogConfig {
        access: LogTarget::File("/nonexistent/access.log".into()),
        ..LogConfig::default()
    };
    let _log = AccessLog::open(&config).expect("opening is retried");
    let degraded = config.degraded.list();
    let [part] = &degraded[..] else {
        panic!("{degraded:?}");
    };
    assert_eq!((part.kind, &*part.name), ("log", "/nonexistent/access.log"));
    assert!(part.reason.contains("directory"), "{}", part.reason);
}
