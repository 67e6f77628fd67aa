//! Obstacles to a start: they are named, and set an exit code. Mistakes in the configuration are
//! tested where it is read, and by the program's own tests.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use headlong_e2e_tests::{Library, have_or_skip};
use headlong_testkit::Scratch;
use headlong_testkit::server::{ServerBuilder, free_address};

/// A failure that may be temporary: a service manager retries.
const FAILURE: i32 = 2;

/// Runs a server that must refuse to start; kills it after a minute.
fn refused(roots: &[&Path], arguments: &[&str]) -> (Option<i32>, String) {
    let scratch = Scratch::new("refused").expect("a folder");
    let child = ServerBuilder::arguments(&scratch, roots, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the binary starts");
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().expect("wait").is_none() {
        if Instant::now() > end {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Output { status, stderr, .. } = child.wait_with_output().expect("output");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Free addresses, as arguments.
fn addresses() -> [String; 4] {
    let (listen, admin) = (free_address().to_string(), free_address().to_string());
    ["--listen".to_owned(), listen, "--admin".to_owned(), admin]
}

#[test]
fn names_port_in_use() {
    let library = Library::new(1, 1_000).expect("a library");
    for flag in ["--listen", "--admin"] {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let taken_address = taken.local_addr().expect("an address").to_string();
        let mut arguments = addresses();
        let at = arguments
            .iter()
            .position(|argument| argument == flag)
            .expect("the flag")
            + 1;
        arguments[at].clone_from(&taken_address);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, text) = refused(&[library.root()], &arguments);
        assert_eq!(code, Some(FAILURE), "{text}");
        assert!(text.contains(&taken_address), "{text}");
    }
}

/// Runs `scripts/run.sh` with scripts in place of the programs that build; returns its exit code,
/// its messages and the calls of `make`.
fn make_run(listen: &str, has_crates: bool) -> (Option<i32>, String, String) {
    let scratch = Scratch::new("run").expect("a folder");
    let calls = scratch.path().join("calls");
    let programs = [
        ("rustc", "echo host: x86_64-unknown-linux-gnu".to_owned()),
        ("cargo", format!("test $1 = fetch && {has_crates}")),
        (
            "make",
            format!("echo make $* >>{}; exit 3", calls.display()),
        ),
    ];
    for (name, text) in programs {
        let file = scratch.path().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("executable");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run.sh");
    let ended = std::process::Command::new(script)
        .env("PATH", format!("{}:{path}", scratch.path().display()))
        .env("LISTEN", listen)
        .env("ADMIN", free_address().to_string())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let calls = std::fs::read_to_string(calls).unwrap_or_default();
    (ended.status.code(), said, calls)
}

#[test]
fn make_run_names_obstacles_before_it_builds_and_builds_once() {
    let test = "make_run_names_obstacles_before_it_builds_and_builds_once";
    for program in ["ss", "ffmpeg", "npm", "pkg-config"] {
        if !have_or_skip(test, program) {
            return;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("bound");
    let (code, said, calls) = make_run(&taken.to_string(), true);
    assert_eq!((code, calls.as_str()), (Some(1), ""), "{said}");
    let port = format!("port {} is taken", taken.port());
    assert!(said.contains(&port) && said.contains("LISTEN="), "{said}");
    drop(listener);
    let (code, said, calls) = make_run(&free_address().to_string(), false);
    assert_eq!((code, calls.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("crates of Cargo.lock are missing"), "{said}");
    // The same packages as `make build`: others would be compiled with other features.
    let (code, said, calls) = make_run(&free_address().to_string(), true);
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(calls, "make --no-print-directory build\n");
}
