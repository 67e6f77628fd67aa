use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use headlong_chains::{ContentKind, Request};
use proptest::prelude::*;

use super::*;
use crate::read::DropReason;

const HEADER: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";

fn put(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn intake(logs: &[PathBuf]) -> Intake {
    Intake {
        logs: logs.to_vec(),
        threads: 2,
        memory_bytes_max: 128 << 20,
        ..Intake::default()
    }
}

fn taken(logs: &[PathBuf]) -> IntakeResult {
    take_in(&intake(logs), &SilentProgress).expect("readable logs")
}

fn packed(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).expect("packed");
    packed.finish().expect("packed")
}

/// Intake with other memory limits.
fn taken_within(
    intake: &Intake,
    change: impl Fn(&mut MemoryBound),
) -> Result<IntakeResult, IntakeError> {
    let mut memory = intake.memory_bound().expect("a bound");
    change(&mut memory);
    take_in_within(intake, memory, &SilentProgress)
}

fn all(taken: &IntakeResult) -> Vec<Request> {
    let parts = taken.parts.each_unsorted(2, |_, requests| requests.clone());
    let mut requests = parts.expect("parts").concat();
    requests.sort_by_key(|request| (request.session, request.line));
    requests
}

/// A request as text, with names instead of their numbers.
fn request_lines(taken: &IntakeResult) -> Vec<String> {
    let line = |request: &Request| {
        format!(
            "{} {} {}..{} {} {:?} {}",
            taken.session_names.get(request.session),
            taken.file_names.get(request.file),
            request.received_ms,
            request.completed_ms,
            request.offset,
            request.asked_bytes,
            request.sent_bytes,
        )
    };
    all(taken).iter().map(line).collect()
}

#[test]
fn plain_request_log_is_read_with_its_files_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "{HEADER}100,500,20,3,7,0,1000,1000,5\n101,2500,3,1,8,0,,50,6\n102,0,20,3,7,1000,1000,400,5\n"
    );
    let log = put(folder.path(), "a.csv", text);
    let files =
        "file,title,kind,kbps,size,disk,duration_s\n7,1,1,3000,5000,5,13.3\n9,2,0,96,10,6,1\n";
    let mut intake = intake(&[log]);
    intake.files = Some(put(folder.path(), "files.csv", files));
    let taken = take_in(&intake, &SilentProgress).expect("readable logs");
    assert_eq!(
        request_lines(&taken),
        [
            "3 8 98500..101000 0 None 50",
            "20 7 99500..100000 0 Some(1000) 1000",
            "20 7 102000..102000 1000 Some(1000) 400",
        ]
    );
    assert_eq!((taken.sessions, taken.requests, taken.bytes), (2, 3, 1450));
    assert_eq!(taken.span_ms, (98_500, 102_000));
    assert_eq!(taken.sessions_by, SessionIdentification::Id);
    assert_eq!(taken.told_format, "csv");
    let seven = taken.files[taken.file_names.find("7").expect("a file") as usize];
    assert_eq!(
        (seven.kind, seven.kbps, seven.disk),
        (ContentKind::Video, 3000, 5)
    );
    assert!(!seven.is_estimated);
    let eight = taken.files[taken.file_names.find("8").expect("a file") as usize];
    assert!(eight.is_estimated && eight.size_bytes == 50);
    assert_eq!((taken.files.len(), taken.files_estimated), (3, 1));
    let requests = all(&taken);
    let devices: Vec<String> = requests
        .iter()
        .map(|request| taken.devices.get(u32::from(request.device)).to_string())
        .collect();
    assert_eq!(devices, ["1", "3", "3"]);
    assert_eq!(requests[0].disk, 6);
}

#[test]
fn archive_is_named_with_the_command_that_unpacks_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = put(folder.path(), "a.zip", b"PK\x03\x04\x14\0\0\0\x08\0");
    let intake = Intake {
        logs: vec![archive.clone()],
        ..Intake::default()
    };
    let error = take_in(&intake, &SilentProgress).expect_err("an archive");
    let told = format!("decompress it: unzip -p {}", archive.display());
    assert!(error.to_string().contains(&told), "{error}");
}

#[test]
fn bad_lines_are_counted_and_sampled() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = HEADER.as_bytes().to_vec();
    text.extend_from_slice(b"100,0,1,1,1,0,10,10,1\r\n");
    text.extend_from_slice(b"101,0,1,1,1,-5,10,10,1\n");
    text.extend_from_slice(b"102,0,1,1,1,0,10,99999999999999999999,1\n");
    text.extend_from_slice(b"rubbish\n\n");
    text.extend_from_slice(b"103,0,1,1,1,0,10\x001,1,1\n");
    text.extend_from_slice(b"\0\0\0\x00104,0,1,1,1,10,10,10,1\n");
    text.extend_from_slice(HEADER.as_bytes());
    text.extend_from_slice(b"yesterday,0,1,1,1,0,10,10,1\n");
    text.extend_from_slice(
        b"1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \"-\" \"x\"\n",
    );
    text.extend_from_slice(
        b"1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"PUT /a HTTP/1.1\" 200 490 \"-\" \"x\"\n",
    );
    text.extend_from_slice(b"10,0,1,1,1,0,10,10,1\n");
    text.extend_from_slice(b"105,0,1,1,1,2");
    let taken = taken(&[put(folder.path(), "a.csv", text)]);
    assert_eq!(taken.requests, 4);
    assert_eq!(taken.sessions, 2);
    let dropped: Vec<(DropReason, u64, u64)> = taken
        .dropped
        .by_reason()
        .iter()
        .map(|lines| (lines.reason, lines.count, lines.samples[0].line))
        .collect();
    assert_eq!(
        dropped,
        [
            (DropReason::NotARequest, 2, 1),
            (DropReason::Shape, 1, 5),
            (DropReason::Truncated, 1, 14),
            (DropReason::Nul, 1, 7),
            (DropReason::BadTime, 1, 10),
            (DropReason::Negative, 1, 3),
            (DropReason::Absurd, 1, 4),
            (DropReason::NotGet, 1, 12),
        ]
    );
    assert_eq!((taken.dropped.count(), taken.dropped.others()), (6, 3));
    assert!(matches!(
        taken.sessions_by,
        SessionIdentification::Both { unnamed: 1, .. }
    ));
    assert!(
        taken.notes.iter().any(|note| note.contains("clock")),
        "{:?}",
        taken.notes
    );
}

fn combined(seconds: u32, address: &str, path: &str, agent: &str) -> String {
    format!(
        "{address} - - [17/May/2015:08:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" 200 490 \"-\" \
         \"{agent}\"\n",
        seconds / 60,
        seconds % 60
    )
}

#[test]
fn unnamed_viewers_are_split_by_address_agent_title_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = [
        combined(0, "10.0.0.1", "/a.mp4", "x"),
        combined(5, "10.0.0.1", "/a.mp4", "y"),
        combined(10, "10.0.0.2", "/a.mp4", "x"),
        combined(20, "10.0.0.1", "/b.mp4", "x"),
        combined(30, "10.0.0.1", "/a.mp4", "x"),
        combined(100, "10.0.0.1", "/a.mp4", "x"),
        combined(159, "10.0.0.1", "/a.mp4", "x"),
    ]
    .concat();
    let mut intake = intake(&[put(folder.path(), "a.log", text)]);
    intake.session_idle = Duration::from_secs(60);
    let taken = take_in(&intake, &SilentProgress).expect("readable logs");
    assert_eq!(taken.sessions, 5);
    assert!(matches!(
        taken.sessions_by,
        SessionIdentification::AddressAgentTitle { .. }
    ));
    let requests = all(&taken);
    let sessions: Vec<u32> = requests.iter().map(|request| request.session).collect();
    let lines: Vec<u64> = requests.iter().map(|request| request.line).collect();
    let mut groups: Vec<Vec<u64>> = vec![Vec::new(); 5];
    for (session, line) in sessions.iter().zip(lines) {
        groups[*session as usize].push(line);
    }
    groups.sort();
    assert_eq!(groups, [vec![1, 5], vec![2], vec![3], vec![4], vec![6, 7]]);
    let names: Vec<String> = (0..5)
        .map(|number| taken.session_names.get(number).to_string())
        .collect();
    assert_eq!(
        names.iter().filter(|name| name.contains('#')).count(),
        3,
        "{names:?}"
    );
    assert_eq!(taken.untimed, 7);
}

#[test]
fn copies_are_read_once_even_if_compressed_or_grown() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..9000)
        .map(|i| format!("{},0,{},1,1,{},10,10,1\n", 100 + i, i % 7, i * 10))
        .collect();
    let text = format!("{HEADER}{lines}");
    let old = put(folder.path(), "old.csv", &text);
    let grown = put(
        folder.path(),
        "grown.csv",
        format!("{text}99999,0,1,1,1,0,10,10,1\n"),
    );
    let packed = put(folder.path(), "old.csv.gz", packed(&text));
    let expected = request_lines(&taken(std::slice::from_ref(&grown)));
    let given = [old.clone(), packed, grown, old];
    let taken = taken(&given);
    assert_eq!(request_lines(&taken), expected);
    let notes: Vec<bool> = taken.logs.iter().map(|log| log.note.is_some()).collect();
    assert_eq!(notes, [true, true, false, true]);
    let note = taken.logs[0].note.as_deref().unwrap_or_default();
    assert!(note.contains("grown.csv"), "{note}");
}

#[test]
fn compressed_log_is_a_copy_only_if_fully_contained() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = |range: std::ops::Range<u32>| -> String {
        let line = |i: u32| format!("{},0,{},1,1,{},10,10,1\n", 100 + i, i % 7, i * 10);
        range.map(line).collect()
    };
    let first = format!("{HEADER}{}", lines(0..6000));
    // Two members, as in a log that continues compressed: the size at its end is that of the
    // second.
    let more = [packed(&first), packed(&lines(6000..6010))].concat();
    let logs = [
        put(folder.path(), "more.csv.gz", more),
        put(folder.path(), "first.csv", &first),
    ];
    let taken = taken(&logs);
    assert_eq!(taken.requests, 6010);
    assert!(taken.logs[0].note.is_none(), "{:?}", taken.logs);
}

#[test]
fn request_in_two_logs_counts_once_and_a_retry_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |second: u32| format!("{second},0,s,1,f,0,10,10,1\n");
    let a = format!("{HEADER}{}{}{}", line(1), line(2), line(2));
    let b = format!("{HEADER}{}{}{}", line(2), line(2), line(3));
    let logs = [
        put(folder.path(), "a.csv", a),
        put(folder.path(), "b.csv", b),
    ];
    let taken = taken(&logs);
    assert_eq!((taken.requests, taken.bytes), (4, 40));
    assert_eq!(all(&taken).len(), 4);
    assert_eq!(taken.dropped.count_of(DropReason::Repeated), 2);
    let lines = &taken.dropped.by_reason();
    let repeated = lines
        .iter()
        .find(|lines| lines.reason == DropReason::Repeated);
    let sample = &repeated.expect("counted").samples[0];
    assert!(
        sample.file.ends_with("b.csv") && sample.line == 2,
        "{sample:?}"
    );
}

#[test]
fn compressed_logs_give_the_same_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("{HEADER}100,0,1,1,1,0,10,10,1\n101,0,2,1,1,0,10,10,1\n");
    let expected = request_lines(&taken(&[put(folder.path(), "a.csv", &text)]));
    let zstd = zstd::encode_all(text.as_bytes(), 3).expect("packed");
    let log = put(folder.path(), "a.csv.zst", &zstd);
    assert_eq!(request_lines(&taken(&[log])), expected);
    // pzstd stores the size of each frame in a skippable frame before it.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    let log = put(
        folder.path(),
        "p.csv.zst",
        [&skipped, zstd.as_slice()].concat(),
    );
    assert_eq!(request_lines(&taken(&[log])), expected);
    let gzip = packed(&text);
    let log = put(folder.path(), "b.csv.gz", &gzip);
    assert_eq!(request_lines(&taken(&[log])), expected);
    let cut = put(folder.path(), "c.csv.gz", &gzip[..gzip.len() - 9]);
    let taken = taken(&[cut]);
    assert!(
        taken.notes.iter().any(|note| note.contains("ends early")),
        "{:?}",
        taken.notes
    );
}

#[test]
fn empty_log_gives_a_note_and_an_empty_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = taken(&[
        put(folder.path(), "a.csv", ""),
        put(folder.path(), "b.csv", HEADER),
    ]);
    assert_eq!(
        (taken.requests, taken.sessions, taken.parts.len()),
        (0, 0, 0)
    );
    assert_eq!(taken.span_ms, (0, 0));
    assert!(
        taken
            .notes
            .iter()
            .any(|note| note.ends_with("a.csv: it is empty"))
    );
}

#[test]
fn log_of_decades_gives_a_note_about_a_wrong_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let note = |last: u32| {
        let text = format!("{HEADER}0,0,1,1,1,0,10,10,1\n{last},0,1,1,1,10,10,10,1\n");
        let taken = taken(&[put(folder.path(), "a.csv", text)]);
        let mut notes = taken.notes.into_iter();
        notes.find(|note| note.contains("wrong date"))
    };
    assert_eq!(note(100_000_000), None);
    let found = note(1_700_000_000).expect("a note");
    assert!(found.starts_with("53 years lie between"), "{found}");
}

#[test]
fn all_unreadable_logs_are_reported_before_reading() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = [
        put(folder.path(), "good.csv", HEADER),
        put(folder.path(), "hello.txt", "hello world\n"),
        put(folder.path(), "a.bz2", "BZh9xxxx"),
        put(folder.path(), "core", "\u{1}\u{2}\u{3}\u{4}"),
        folder.path().join("none"),
    ];
    let error = take_in(&intake(&logs), &SilentProgress)
        .expect_err("no log")
        .to_string();
    let error = error.replace(&folder.path().display().to_string(), "F");
    assert_eq!(
        error,
        "F/none cannot be read: No such file or directory (os error 2)\n\
         F/hello.txt is in no known format. Tried:\n  \
         headlong, caddy, envoy-json, vhost_combined, combined, common, squid, haproxy, envoy, s3, \
         alb, elb, bunny, cloudfront-realtime, json: line 1: does not match a recognised format: \
         hello world\n  \
         csv, w3c: no header: hello world\n\
         Say what it is: --log-format '...' with the log_format (nginx) or LogFormat (Apache) of the \
         server's configuration, or --format NAME, for keys or columns of other names --format \
         'json:time=THEIRS,target=THEIRS,bytes=THEIRS'; or leave this log out\n\
         F/a.bz2 is compressed with bzip2, which is not supported; decompress it: bzip2 -dc F/a.bz2\n\
         F/core is not a text log; gzip and zstd are supported, decompress other formats \
         first"
    );
    let error = take_in(&intake(&[]), &SilentProgress)
        .expect_err("no logs")
        .to_string();
    assert!(error.starts_with("no logs were given"));
    let mut small = intake(&logs);
    small.memory_bytes_max = 1 << 20;
    let error = take_in(&small, &SilentProgress)
        .expect_err("too little")
        .to_string();
    assert!(error.starts_with("1 MiB are too little memory for 2 threads; allow at least"));
}

#[test]
fn columns_may_change_within_a_w3c_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = Vec::new();
    for round in 0..40 {
        let names = if round % 2 == 0 {
            "#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes time-taken\n"
        } else {
            "#Fields: time date sc-bytes sc-status cs-uri-stem cs-method c-ip time-taken\n"
        };
        text.extend_from_slice(names.as_bytes());
        for line in 0..2000 {
            let second = line % 60;
            let line = if round % 2 == 0 {
                format!("2020-01-01 00:00:{second:02} 10.0.0.1 GET /a.mp4 200 1000 0.5\n")
            } else {
                format!("00:00:{second:02} 2020-01-01 1000 200 /a.mp4 GET 10.0.0.1 0.5\n")
            };
            text.extend_from_slice(line.as_bytes());
        }
    }
    assert!(text.len() > 4 << 20, "several blocks");
    let taken = taken(&[put(folder.path(), "a.log", text)]);
    assert_eq!((taken.requests, taken.bytes), (80_000, 80_000_000));
    assert_eq!(taken.dropped.count(), 0);
    assert_eq!(taken.files.len(), 1);
}

fn generated(lines: usize) -> String {
    let mut text = HEADER.to_owned();
    let mut state = 1_u64;
    for line in 0..lines {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (session, file) = ((state >> 40) % 997, (state >> 20) % 101);
        let ts = line / 3;
        text.push_str(&format!(
            "{ts},{},s{session},1,{file},{line},,{},1\n",
            ts % 700,
            line % 5
        ));
    }
    text
}

#[test]
fn result_is_independent_of_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = put(folder.path(), "a.csv", generated(120_000));
    let mut one = intake(std::slice::from_ref(&log));
    one.threads = 1;
    let mut four = intake(std::slice::from_ref(&log));
    four.threads = 4;
    let (one, four) = (
        take_in(&one, &SilentProgress),
        take_in(&four, &SilentProgress),
    );
    let (one, four) = (one.expect("readable logs"), four.expect("readable logs"));
    assert_eq!(all(&one), all(&four));
    let parts = |taken: &IntakeResult, threads| {
        let parts = taken.parts.each_unsorted(threads, |part, requests| {
            requests.sort_unstable_by_key(|request| request.line);
            (part, requests.clone())
        });
        parts.expect("parts")
    };
    assert_eq!(parts(&one, 1), parts(&four, 3));
}

#[test]
fn requests_are_spilled_and_large_partitions_divided() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = put(folder.path(), "a.csv", generated(60_000));
    let intake = intake(&[log]);
    let whole = take_in(&intake, &SilentProgress).expect("readable logs");
    let spilled = taken_within(&intake, |memory| {
        (memory.kept, memory.loaded) = (100_000, 8 * 150 * crate::partitions::REQUEST_BYTES);
    });
    let spilled = spilled.expect("finished");
    assert!(spilled.parts.spilled_bytes() > 0);
    assert!(spilled.parts.len() > whole.parts.len());
    assert_eq!(all(&spilled), all(&whole));
    assert_eq!(
        spilled.notes, whole.notes,
        "a report is the same for any memory"
    );
    let sessions = spilled.parts.each_unsorted(2, |_, requests| {
        let mut sessions: Vec<u32> = requests.iter().map(|request| request.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    });
    let mut sessions = sessions.expect("parts").concat();
    let count = sessions.len();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), count, "no session is in two partitions");
}

#[test]
fn viewer_with_too_many_requests_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |second: u64| {
        format!(
            "10.0.0.7 - - [10/Oct/2000:13:{:02}:{:02} +0000] \"GET /a.mp4 HTTP/1.1\" 200 9 \"-\" \
             \"agent\"\n",
            second / 60 % 60,
            second % 60
        )
    };
    let text: String = (0..2000).map(line).collect();
    let intake = intake(&[put(folder.path(), "a.log", text)]);
    let outcome = taken_within(&intake, |memory| {
        memory.loaded = 8 * 100 * crate::partitions::REQUEST_BYTES;
    });
    let error = outcome.map(|_| ()).expect_err("too many").to_string();
    let is_told = error.starts_with("10.0.0.7~") && error.contains("allow more memory");
    assert!(is_told, "{error}");
}

#[test]
fn segments_of_a_stream_are_ranges_of_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let pieces = [9, 11, 10].map(|piece| format!("1,0,1,1,/film/v1/{piece}.ts,0,,9,1\n"));
    let text = format!("{HEADER}{}", pieces.concat());
    let taken = taken(&[put(folder.path(), "a.csv", text)]);
    assert_eq!((taken.streams.as_slice(), taken.files.len()), (&[0][..], 1));
    assert_eq!(taken.files[0].size_bytes, 27);
    let lines = request_lines(&taken);
    for (line, offset) in lines.iter().zip([0, 18, 9]) {
        assert_eq!(
            *line,
            format!("1 /film/v1/*.ts 1000..1000 {offset} Some(9) 9")
        );
    }
    let is_told = |note: &String| note.starts_with("3 files are segments of 1 renditions");
    assert!(taken.notes.iter().any(is_told), "{:?}", taken.notes);
}

#[test]
fn unwritable_spill_folder_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut intake = intake(&[put(folder.path(), "a.csv", generated(5000))]);
    intake.spill = Some(folder.path().join("none"));
    let outcome = taken_within(&intake, |memory| memory.kept = 0);
    let error = outcome.map(|_| ()).expect_err("no folder").to_string();
    assert!(
        error.contains("cannot be written to") && error.contains("/none"),
        "{error}"
    );
}

#[test]
fn names_beyond_their_share_of_memory_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = HEADER.to_owned();
    for line in 0..3000 {
        text.push_str(&format!(
            "1,0,{},1,1,0,1,1,1\n",
            format!("s{line}").repeat(100)
        ));
    }
    let intake = intake(&[put(folder.path(), "a.csv", text)]);
    let outcome = taken_within(&intake, |memory| memory.names = 12 << 20);
    let error = outcome.map(|_| ()).expect_err("too many names").to_string();
    assert!(error.contains("exceed their limit of 12 MiB"), "{error}");
}

#[test]
fn progress_is_reported_up_to_the_end() {
    struct LastProgress(Mutex<(u64, Option<u64>)>);
    impl IntakeProgress for LastProgress {
        fn read(&self, bytes: u64, of: Option<u64>) {
            let mut last = self.0.lock().expect("lock");
            *last = (last.0.max(bytes), of);
        }
        fn note(&self, _: &str) {}
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = generated(50_000);
    let progress = LastProgress(Mutex::default());
    take_in(&intake(&[put(folder.path(), "a.csv", &text)]), &progress).expect("readable logs");
    let last = progress.0.into_inner().expect("lock");
    assert_eq!(last, (text.len() as u64, Some(text.len() as u64)));
}

#[test]
fn own_log_has_bit_rates_and_drives_without_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |start: u64, offset: u64| {
        format!(
            "{{\"start_unix_ms\":{start},\"service_seconds\":1.5,\"remote\":\"127.0.0.1:1\",\
             \"method\":\"GET\",\"target\":\"/t/a.mp4\",\"range\":\"bytes={offset}-\",\
             \"status\":206,\"bytes_sent\":1000,\"session\":\"x\",\"session_from\":\"cmcd\",\
             \"device\":\"sdb\",\"bit_rate_bps\":2500000}}\n"
        )
    };
    let summary = "{\"session\":\"x\",\"start_unix_ms\":1,\"ended\":\"idle\",\"requests\":2}\n";
    let text = format!("{}{}{summary}", line(1000, 0), line(3000, 1000));
    let taken = taken(&[put(folder.path(), "a.log", text)]);
    assert_eq!(
        request_lines(&taken),
        [
            "x /t/a.mp4 1000..2500 0 None 1000",
            "x /t/a.mp4 3000..4500 1000 None 1000"
        ]
    );
    assert_eq!(
        (taken.files[0].kbps, taken.files[0].is_estimated),
        (2500, true)
    );
    assert_eq!(
        taken.disks.get(u32::from(all(&taken)[0].disk)).to_string(),
        "sdb"
    );
    assert_eq!(taken.dropped.count(), 0);
    assert_eq!(taken.dropped.count_of(DropReason::NotARequest), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_after_a_good_line_keep_it_valid(rubbish: Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut text = format!("{HEADER}100,0,1,1,1,0,10,10,1\n").into_bytes();
        text.extend_from_slice(&rubbish);
        let taken = taken(&[put(folder.path(), "a.csv", text)]);
        prop_assert!(taken.requests >= 1);
        prop_assert_eq!(all(&taken).len() as u64, taken.requests);
    }
}
