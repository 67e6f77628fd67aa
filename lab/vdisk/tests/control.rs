//! Control of a running disk over its socket.

mod rig;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use headlong_vdisk::control::{ControlCommand, request};
use headlong_vdisk::{ControlSocket, DiskOptions, VirtualDisk};
use rig::{can_run, options};
use serde_json::{Value, json};

fn listening(at: &Path) -> DiskOptions {
    DiskOptions {
        control: Some(ControlSocket::At(at.to_owned())),
        ..options(64 << 20, 10.0)
    }
}

fn ask(stream: &mut UnixStream, line: &str) -> Value {
    writeln!(stream, "{line}").expect("the disk listens");
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    reader.read_line(&mut answer).expect("the disk answers");
    serde_json::from_str(&answer).expect("JSON")
}

#[test]
fn disk_executes_commands_or_explains_refusal() {
    if !can_run("disk_executes_commands_or_explains_refusal") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("control");
    let disk = VirtualDisk::start(listening(&socket)).expect("a disk");
    let mut stream = UnixStream::connect(&socket).expect("a listening disk");
    let done = json!({ "ok": true });
    for line in [
        r#"{"do":"timing","on":true}"#,
        r#"{"do":"counters_reset"}"#,
        r#"{"do":"lateness_reset"}"#,
        r#"{"do":"fault","kind":"slow","factor":2}"#,
        r#"{"do":"fault","kind":"error","from_byte":0,"to_byte":4096,"once":true}"#,
        r#"{"do":"faults_clear"}"#,
        r#"{"do":"sync"}"#,
        r#"{"do":"remount"}"#,
        r#"{"do":"label","text":"a few titles"}"#,
    ] {
        assert_eq!(ask(&mut stream, line), done, "{line}");
    }
    let counters = ask(&mut stream, r#"{"do":"counters"}"#);
    assert_eq!(counters["counters"]["is_timed"], json!(true), "{counters}");
    assert!(
        counters["counters"]["lateness"]["p99_ns"].is_u64(),
        "{counters}"
    );
    let info = ask(&mut stream, r#"{"do":"info"}"#);
    assert_eq!(info["info"]["label"], json!("a few titles"), "{info}");
    assert_eq!(info["info"]["capacity_bytes"], json!(64 << 20), "{info}");

    for (line, part) in [
        ("stop", "not a command"),
        (r#"{"do":"halt"}"#, "`stop`"),
        (r#"{"do":"timing"}"#, "`on`"),
        (r#"{"do":"trace_stop"}"#, "no trace"),
        (
            r#"{"do":"trace_start","path":"/no/such/place"}"#,
            "/no/such/place",
        ),
        (r#"{"do":"fault","kind":"slow","factor":-1}"#, "-1"),
        (&"x".repeat(100_000), "not a command"),
    ] {
        let answer = ask(&mut stream, line);
        assert_eq!(answer["ok"], json!(false), "{answer}");
        let error = answer["error"].as_str().expect("a text");
        assert!(error.contains(part), "{error}");
        // A line that is too long counts as several.
        stream = UnixStream::connect(&socket).expect("a listening disk");
    }

    let error = VirtualDisk::start(listening(&socket))
        .err()
        .expect("a socket in use");
    assert!(
        error.to_string().contains("another disk listens"),
        "{error}"
    );
    let counters = request(&socket, &ControlCommand::Counters {}).expect("a listening disk");
    assert!(counters["counters"]["elapsed_ns"].is_u64(), "{counters}");

    request(&socket, &ControlCommand::Stop {}).expect("done");
    disk.wait_for_stop();
    disk.close().expect("clean");
    assert!(!socket.exists());
    request(&socket, &ControlCommand::Counters {}).expect_err("no listener");
}

#[test]
fn open_connection_does_not_block_close() {
    if !can_run("open_connection_does_not_block_close") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("control");
    let disk = VirtualDisk::start(listening(&socket)).expect("a disk");
    let mut silent = UnixStream::connect(&socket).expect("a listening disk");
    assert_eq!(
        ask(&mut silent, r#"{"do":"release"}"#),
        json!({ "ok": true })
    );
    disk.close().expect("clean");
    drop(silent);
}
