//! `headlong load` from the command line: its outputs and exit codes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headlong_testkit::ProgramRun;
use headlong_workload::content::Content;

use super::{command, run_in, run_words};

/// Bytes of every reply.
const REPLY_BYTES: u64 = 5000;

/// A server of title 7. Requests below `hang` are never answered.
struct TitleServer {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl TitleServer {
    /// Its threads end with the process.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicU64::new(0));
        let counter = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = counter.clone();
                std::thread::spawn(move || serve(stream, &counter));
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, requests: &AtomicU64) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        request.extend_from_slice(&part[..count]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if !request.starts_with(b"GET /hang") {
            let mut reply =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {REPLY_BYTES}\r\n\r\n").into_bytes();
            let mut body = vec![0; REPLY_BYTES as usize];
            Content::of_title(7).fill(0, &mut body);
            reply.extend_from_slice(&body);
            if stream.write_all(&reply).is_err() {
                return;
            }
        }
        request.clear();
    }
}

fn load(words: &str) -> ProgramRun {
    run_words(&format!("load {words}"))
}

/// A trace with this number of sessions, ten milliseconds apart, each of which makes these calls of
/// one object: the fields of each as JSON.
fn trace_of(folder: &Path, object: &str, calls: &[&str], sessions: usize) -> String {
    let path = object.trim_start_matches('/');
    let calls: Vec<String> = calls
        .iter()
        .map(|fields| format!("{{\"object\":0,{fields}}}"))
        .collect();
    let calls = calls.join(",");
    let mut lines = format!(
        "{{\"trace\":{{\"version\":2,\"about\":{{\"name\":\"test\",\"seed\":1,\"has_arrivals\":true}},\
         \"classes\":[]}}}}\n{{\"object\":\"{path}\"}}\n"
    );
    for index in 0..sessions {
        let arrival = index as u64 * 10_000_000;
        lines.push_str(&format!(
            "{{\"session\":{{\"arrival\":{arrival},\"plan\":{{\"script\":{{\"calls\":[{calls}]}}}}}}}}\n"
        ));
    }
    let file = folder.join(format!("{sessions}.trace"));
    fs::write(&file, lines).expect("written");
    file.display().to_string()
}

/// A call that may take 1,000 seconds.
const PATIENT_CALL: &str = "\"timeout\":1000000000000";

/// A trace of sessions with one call.
fn trace(folder: &Path, object: &str, sessions: usize) -> String {
    trace_of(folder, object, &[PATIENT_CALL], sessions)
}

/// A busy machine may delay the generator, which is not under test here.
const PATIENT: &str = "--late-max 600s";

#[test]
fn result_is_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TitleServer::start();
    let file = trace(folder.path(), "/sd/000007.bin", 20);
    let url = server.url();
    let output = load(&format!("{file} {url} --json - {PATIENT}"));
    let result = output.exits_with(0).json();
    assert_eq!(result["schema"], "headlong-load-1");
    assert_eq!(result["requests"]["whole"], 20);
    assert_eq!(result["checked_bytes"], 20 * REPLY_BYTES);
    assert_eq!(server.requests(), 20);
}

#[test]
fn reports_all_mistakes_and_sends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TitleServer::start();
    let file = folder.path().join("bad.trace").display().to_string();
    fs::write(&file, "a timeout=10\nb timeout=ten colour=red\n").expect("written");
    let url = server.url();
    let output = load(&format!("{file} {url} --time-scale 0 --ramp-up 5")).exits_with(64);
    assert!(output.stdout.is_empty());
    let stderr = &output.stderr;
    for part in ["bad.trace:2:11: ", "--time-scale: `0`", "--ramp-up: `5`"] {
        assert!(stderr.contains(part), "{part} is missing:\n{stderr}");
    }
    let good = trace(folder.path(), "/a", 1);
    load(&format!("{good} {url} --json /nowhere/at/all.json")).exits_with(64);
    assert_eq!(server.requests(), 0);
}

#[test]
fn unwritable_file_does_not_affect_other_outputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = TitleServer::start().url();
    let file = trace(folder.path(), "/sd/000007.bin", 3);
    let kept = folder.path().join("kept.json").display().to_string();
    // As on a full disk.
    let words = format!("{file} {url} --json {kept} --records /dev/full {PATIENT}");
    let output = load(&words).exits_with(2);
    let stderr = &output.stderr;
    assert!(stderr.contains("/dev/full: "), "{stderr}");
    assert!(output.stdout.contains("3 whole"));
    let text = fs::read_to_string(&kept).expect("it was written");
    let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["requests"]["whole"], 3);
}

#[test]
fn unreachable_server_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", free.local_addr().expect("an address"));
    drop(free);
    let file = trace(folder.path(), "/a", 1);
    let stderr = load(&format!("{file} {url}")).exits_with(2).stderr;
    assert!(
        stderr.contains("nothing answers at") && stderr.contains(&url),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1);
}

/// Runs it with at most 64 descriptors.
fn load_with_few_descriptors(words: &str) -> ProgramRun {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" load \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_headlong-lab"));
    ProgramRun::of(command.args(words.split(' ')).stdin(Stdio::null()))
}

#[test]
fn too_few_descriptors_are_reported_or_invalidate_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TitleServer::start();
    let url = server.url();
    // All sessions overlap for an hour: certain to exceed the limit.
    let hour_later = &format!("\"pace\":3600000000000,{PATIENT_CALL}");
    let long = trace_of(folder.path(), "/a", &[PATIENT_CALL, hour_later], 100);
    let output = load_with_few_descriptors(&format!("{long} {url}"));
    let stderr = output.exits_with(2).stderr;
    assert!(
        stderr.contains("needs at least 100 concurrent connections")
            && stderr.contains("ulimit -Hn"),
        "{stderr}"
    );
    assert_eq!(server.requests(), 0);
    // The excess is only detected while the server does not answer; other viewers time out after a
    // second.
    let brief = "\"timeout\":1000000000";
    let file = trace_of(folder.path(), "/hang", &[brief, PATIENT_CALL], 100);
    let output = load_with_few_descriptors(&format!("{file} {url} --json - {PATIENT}"));
    let result = output.exits_with(3).json();
    assert_eq!(result["valid"], false);
    let reason = result["invalid_because"][0].as_str().expect("a reason");
    assert!(reason.contains("ran out of file descriptors"), "{reason}");
}

#[test]
fn interrupted_run_prints_result_and_exits_with_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TitleServer::start();
    let url = server.url();
    let file = trace(folder.path(), "/hang", 1);
    let mut command = command(["load", &file, &url, "--json", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary starts");
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    let result = ProgramRun::from(output).exits_with(3).json();
    let reasons = result["invalid_because"].as_array().expect("reasons");
    assert!(
        reasons.contains(&"the run was interrupted".into()),
        "{reasons:?}"
    );
}

/// Debian's interpreter; another one in the path may lack numpy.
const PYTHON: &str = "/usr/bin/python3";

fn has_numpy(test: &str) -> bool {
    let found = Command::new(PYTHON).args(["-c", "import numpy"]).output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        headlong_testkit::skip(
            test,
            "no numpy for /usr/bin/python3 (Debian: python3-numpy)",
        );
    }
    has
}

/// Compares times reported by a run with those that an independent program computes from its
/// records; `error` is the relative error of the run's histogram.
#[track_caller]
fn assert_percentiles(figures: &serde_json::Value, records: &Path, columns: [&str; 2], error: f64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/percentiles.py");
    let mut python = Command::new(PYTHON);
    python.arg(script).arg(records).args(columns);
    let computed = ProgramRun::of(&mut python).exits_with(0).json();
    assert_eq!(figures["count"], computed["count"]);
    for name in ["p50", "p90", "p99"] {
        let of = |figures: &serde_json::Value| figures[name].as_f64().expect("a number");
        let (told, own) = (of(figures), of(&computed));
        // Records and histograms have a resolution of a microsecond.
        let near = error * own + 0.002;
        assert!((told - own).abs() <= near, "{name}: {told} and {own}");
    }
}

#[test]
fn percentiles_match_independent_computation() {
    if !has_numpy("percentiles of a run") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = TitleServer::start();
    let records = folder.path().join("run.csv").display().to_string();
    let file = trace(folder.path(), "/sd/000007.bin", 150);
    let url = server.url();
    let output = load(&format!(
        "{file} {url} --json - --records {records} {PATIENT}"
    ));
    let result = output.exits_with(0).json();
    // Three significant digits.
    for (name, columns) in [
        ("whole_ms", ["intended_s", "ended_s"]),
        ("whole_from_sent_ms", ["sent_s", "ended_s"]),
        ("first_byte_ms", ["intended_s", "first_byte_s"]),
        ("first_byte_from_sent_ms", ["sent_s", "first_byte_s"]),
    ] {
        assert_percentiles(&result[name], Path::new(&records), columns, 0.001);
    }
}

#[test]
fn virtual_run_percentiles_match_independent_computation() {
    if !has_numpy("percentiles of a run in virtual time") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = |records: &str| {
        let words = "simulate youtube-sd --rate 5MiB/s --json --set memory=64MiB \
                     --set phases.ramp_up=20s --set phases.measured=60s --records";
        let run = run_in(folder.path(), &format!("{words} {records}"));
        run.exits_with(0).json()
    };
    let result = run("run.csv");
    let figures = &result["load"]["response_ms"];
    // Buckets of 0.8 %.
    let records = folder.path().join("run.csv");
    assert_percentiles(figures, &records, ["sent_s", "ended_s"], 0.008);
    run("run.parquet");
    let table = fs::read(folder.path().join("run.parquet")).expect("it was written");
    assert!(table.starts_with(b"PAR1"));
}
