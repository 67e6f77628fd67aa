//! Upgrades: a new process replaces the server without any effect on viewers; a failed start leaves
//! the old process serving.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use headlong_e2e_tests::{Library, Title, eventually};
use headlong_testkit::client::{Connection, fetch, request_text};
use headlong_testkit::server::{ProcessMemory, Server, ServerBuilder, binary};
use headlong_testkit::{Scratch, is_alive, pattern};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const TITLES: u64 = 6;
const TITLE_BYTES: u64 = 8 * MIB;
const CHUNK_BYTES: u64 = 64 << 10;
/// Viewers that keep their connection as long as the server does.
const STEADY: u64 = 350;
/// Viewers that open a connection for each request.
const FRESH: u64 = 120;
/// Viewers of whole titles, each in one reply that spans several upgrades.
const SLOW: u64 = 30;

fn range_field(start: u64) -> String {
    format!("bytes={start}-{}", start + CHUNK_BYTES - 1)
}

/// Receives one chunk and verifies every byte; returns whether the connection stays open.
fn take_chunk(connection: &mut Connection, turn: u64) -> Result<bool, String> {
    let (title, chunk) = (turn % TITLES, turn / TITLES % (TITLE_BYTES / CHUNK_BYTES));
    let start = chunk * CHUNK_BYTES;
    let target = format!("/title-{title}.bin");
    let response = connection
        .request("GET", &target, &[("Range", &range_field(start))])
        .map_err(|error| error.to_string())?;
    if response.status() != 206 || response.body.len() as u64 != CHUNK_BYTES {
        let text = match response.status() {
            206 => String::new(),
            _ => response.text(),
        };
        let (status, bytes) = (response.status(), response.body.len());
        return Err(format!("{status} and {bytes} bytes: {text}"));
    }
    let verified = pattern::verify(title, start, &response.body);
    verified.map_err(|error| error.to_string())?;
    let closes = response.head.field("connection");
    Ok(!closes.is_some_and(|value| value.eq_ignore_ascii_case("close")))
}

/// Watches until `is_over`; returns the number of answered requests.
fn watch(
    address: SocketAddr,
    viewer: u64,
    is_steady: bool,
    is_over: &AtomicBool,
) -> Result<u64, String> {
    let mut kept = None;
    let mut requests = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(address).map_err(|error| error.to_string())?,
        };
        let stays = take_chunk(&mut connection, viewer * 31 + requests)
            .map_err(|error| format!("viewer {viewer}, request {requests}: {error}"))?;
        requests += 1;
        kept = (stays && is_steady).then_some(connection);
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(requests)
}

/// Reads one whole title in one reply, slowly; verifies every byte.
fn watch_whole(address: SocketAddr, title: u64, is_over: &AtomicBool) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("slow viewer of {title}: {error}");
    let mut connection = Connection::open(address).map_err(|error| failed(&error))?;
    let target = format!("/title-{title}.bin");
    let asked = connection.send(request_text("GET", &target, &[]).as_bytes());
    asked.map_err(|error| failed(&error))?;
    connection.receive_head().map_err(|error| failed(&error))?;
    let mut at = 0;
    while at < TITLE_BYTES {
        let bytes = connection.receive_body(CHUNK_BYTES);
        let bytes = bytes.map_err(|error| failed(&error))?;
        pattern::verify(title, at, &bytes).map_err(|error| failed(&error))?;
        at += CHUNK_BYTES;
        // After the last upgrade there is no reason to read slowly.
        if !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(())
}

#[test]
fn ten_upgrades_under_load_fail_no_request() {
    let library = Library::new(TITLES, TITLE_BYTES).expect("a library");
    let state = Scratch::new("state").expect("a folder");
    let mut server = ServerBuilder::new([library.root()])
        .config(&format!(
            // A busy machine has a slow disk, which is no reason to refuse a viewer here.
            "admission = \"accept\"\nstate = {:?}\n[log]\naccess = \"off\"",
            state.path()
        ))
        .replaceable()
        .start();
    let address = server.address();
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut processes = vec![server.pid()];
    std::thread::scope(|scope| {
        let (is_over, answered) = (&is_over, &answered);
        let mut viewers = Vec::new();
        for viewer in 0..STEADY + FRESH {
            viewers.push(scope.spawn(move || {
                let requests = watch(address, viewer, viewer < STEADY, is_over)?;
                answered.fetch_add(requests, Ordering::Relaxed);
                Ok(())
            }));
        }
        for viewer in 0..SLOW {
            viewers.push(scope.spawn(move || watch_whole(address, viewer % TITLES, is_over)));
        }
        let mut replaced = Ok(());
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(500));
            match server.replace() {
                Ok(process) => processes.push(process),
                Err(error) => replaced = Err(error),
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
        let failures: Vec<String> = viewers
            .into_iter()
            .filter_map(|viewer| viewer.join().expect("no panic").err())
            .collect();
        assert_eq!(failures, [] as [String; 0]);
        replaced.expect("every upgrade succeeds");
    });
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > 1_000, "{answered} requests");
    let unique: std::collections::BTreeSet<_> = processes.iter().collect();
    assert_eq!(unique.len(), 11, "{processes:?}");
    // All viewers have left, so all processes end but the last.
    let alive = || {
        processes[..10]
            .iter()
            .filter(|process| is_alive(**process))
            .count()
    };
    eventually("the end of those that were replaced", alive, |count| {
        *count == 0
    });
    let output = server.output();
    assert!(!output.contains("panicked"), "{output}");
    assert!(output.contains("loaded learned state"), "{output}");
}

#[test]
fn old_process_releases_memory_before_its_last_reply_ends() {
    let library = Library::new(1, 100 * MIB).expect("a library");
    let mut server = ServerBuilder::new([library.root()])
        .memory("128MiB")
        .replaceable()
        .start();
    let whole = server.get("/title-0.bin");
    assert_eq!(whole.body.len() as u64, 100 * MIB);
    drop(whole);
    let connection = Connection::open(server.address()).expect("connects");
    let mut connection = connection.begin("/title-0.bin", &[]);
    let old = server.pid();
    let resident = || {
        ProcessMemory::of(old)
            .expect("the old process is alive")
            .resident_bytes
    };
    let full = resident();
    assert!(full > 90 * MIB, "{full}");
    server.replace().expect("replaced");
    eventually("the release of the memory", resident, |bytes| {
        *bytes + 50 * MIB < full
    });
    assert!(is_alive(old), "the old process still sends its reply");
    let body = connection.receive_body(100 * MIB).expect("the whole reply");
    pattern::verify(0, 0, &body).expect("correct bytes");
    drop(connection);
    eventually(
        "the end of the old process",
        || is_alive(old),
        |alive| !alive,
    );
}

#[test]
fn upgrade_transfers_memory_except_for_changed_files() {
    let library = Library::new(4, TITLE_BYTES).expect("a library");
    let state = Scratch::new("state").expect("a folder");
    let mut server = ServerBuilder::new([library.root()])
        .config(&format!("revalidate = \"0s\"\nstate = {:?}", state.path()))
        .memory("128MiB")
        .replaceable()
        .start();
    let whole = |server: &Server, name: u64, content: u64| {
        let target = format!("/title-{name}.bin");
        let reply = server.get(&target);
        assert_eq!(reply.body.len() as u64, TITLE_BYTES);
        pattern::verify(content, 0, &reply.body).expect("correct bytes");
    };
    for title in 0..4 {
        whole(&server, title, title);
    }
    let old = server.pid();
    for round in 0..3 {
        server.replace().expect("replaced");
        let taken = || {
            server
                .output()
                .matches("received memory of the old process")
                .count()
        };
        eventually("the pieces", taken, |count| *count > round);
        // A file of the same length and time replaces this one.
        let other = Title::create(library.root(), "other.bin", 9, TITLE_BYTES).expect("written");
        let (changed, path) = (3, library.root().join("title-3.bin"));
        let time = fs::metadata(&path)
            .and_then(|of| of.modified())
            .expect("a time");
        let file = fs::File::options()
            .write(true)
            .open(&other.path)
            .expect("opens");
        file.set_modified(time).expect("set");
        fs::rename(&other.path, &path).expect("renamed");
        for title in 0..changed {
            whole(&server, title, title);
        }
        whole(&server, changed, 9);
        let status = server.status();
        let read = status.counter("bytes_read");
        assert!(read <= TITLE_BYTES * 3 / 2, "{read} bytes read");
        assert!(status.counter("bytes_from_ram") >= 3 * TITLE_BYTES);
    }
    eventually("the end of the first", || is_alive(old), |alive| !alive);
}

#[test]
fn invalid_configuration_keeps_the_old_process_serving() {
    let library = Library::new(1, MIB).expect("a library");
    let mut server = ServerBuilder::new([library.root()])
        .config("cache_control = \"no-cache\"")
        .replaceable()
        .start();
    let (first, path) = (server.pid(), server.config_path().to_owned());
    let cache_control = |address| {
        let response = fetch(address, "HEAD", "/title-0.bin", &[]).expect("served");
        response
            .head
            .field("cache-control")
            .unwrap_or_default()
            .to_owned()
    };
    // One invalid as text, and one invalid on this machine.
    for wrong in [
        "prefetchh = \"1MiB\"",
        "[tls]\ncertificate = \"/none\"\nkey = \"/none\"",
    ] {
        let refusals = server
            .output()
            .matches("this process continues serving")
            .count();
        fs::write(&path, wrong).expect("written");
        server.signal(Signal::USR2).expect("signal");
        let count = || {
            server
                .output()
                .matches("this process continues serving")
                .count()
        };
        eventually("a refusal", count, |count| *count > refusals);
        assert_eq!(cache_control(server.address()), "no-cache", "{wrong}");
    }
    fs::write(&path, "cache_control = \"no-store\"").expect("written");
    assert_ne!(server.replace().expect("replaced"), first);
    // The old process may still answer clients that connected before it closed its listener.
    eventually("the end of the old one", || is_alive(first), |alive| !alive);
    assert_eq!(cache_control(server.address()), "no-store");
    // Signals go to the new process.
    fs::write(&path, "cache_control = \"public\"").expect("written");
    server.signal(Signal::HUP).expect("signal");
    let now = || cache_control(server.address());
    eventually("the reload", now, |value| value == "public");
}

/// A copy of the program, which the test replaces by another file.
fn install(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("headlong");
    if fs::hard_link(binary(), &path).is_err() {
        fs::copy(binary(), &path).expect("copied");
    }
    path
}

#[test]
fn failed_program_start_keeps_the_old_process_serving() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("program").expect("a folder");
    let program = install(folder.path());
    let mut server = ServerBuilder::new([library.root()])
        .program(&program)
        .replaceable()
        .start();
    let texts = [
        ("#!/bin/sh\nexit 3\n", 0o755, "exit status: 3"),
        ("no program at all", 0o755, "continues serving"),
        ("#!/bin/sh\nexit 0\n", 0o644, "Permission denied"),
        // It says that all is well, and there is nothing.
        ("#!/bin/sh\nexit 0\n", 0o755, "ended before it was ready"),
    ];
    for (text, mode, said) in texts {
        let new = folder.path().join("new");
        fs::write(&new, text).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).expect("set");
        fs::rename(&new, &program).expect("installed");
        let before = server.output().len();
        server.signal(Signal::USR2).expect("signal");
        let after = || server.output()[before..].to_owned();
        let output = eventually("a refusal", after, |text| text.contains("continues"));
        assert!(output.contains(said), "{said}: {output}");
        let response = server.get("/title-0.bin");
        pattern::verify(0, 0, &response.body).expect("correct bytes");
    }
    fs::remove_file(&program).expect("removed");
    install(folder.path());
    server.replace().expect("replaced");
    let response = server.get("/title-0.bin");
    pattern::verify(0, 0, &response.body).expect("correct bytes");
}

#[test]
fn stop_after_upgrades_ends_main_process_last() {
    let library = Library::new(1, 24 * MIB).expect("a library");
    let mut server = ServerBuilder::new([library.root()])
        .config("[limits]\ndrain_timeout = \"1s\"")
        .replaceable()
        .start();
    let connection = Connection::open(server.address()).expect("connects");
    let _reply = connection.begin("/title-0.bin", &[]);
    let oldest = server.pid();
    // This process receives no request, and passes on the stop signal.
    let between = server.replace().expect("replaced");
    let newest = server.replace().expect("replaced");
    for process in [oldest, between, newest] {
        assert!(is_alive(process), "a reply is not over");
    }
    // As systemd stops a unit of `KillMode=mixed`: its main process only.
    server.signal(Signal::TERM).expect("signal");
    eventually(
        "the end of the main process",
        || is_alive(newest),
        |alive| !alive,
    );
    // It waits until they have closed their descriptors, which the kernel does some instants before
    // they are gone.
    for process in [oldest, between] {
        eventually("its end", || is_alive(process), |alive| !alive);
    }
    // All write to one pipe. Only the oldest had a reply to cut, and no process was drained before
    // its predecessor had stopped.
    let lines = || {
        let output = server.output();
        let cut_or_stop = |line: &str| {
            let cut = line
                .split_once(" cut=")
                .map(|(_, cut)| format!("cut {cut}"));
            cut.or_else(|| line.ends_with(" stopped").then(|| "stopped".to_owned()))
        };
        output.lines().filter_map(cut_or_stop).collect::<Vec<_>>()
    };
    let lines = eventually("six lines", lines, |lines| lines.len() >= 6);
    let expected = ["cut 1", "stopped", "cut 0", "stopped", "cut 0", "stopped"];
    assert_eq!(lines, expected, "{}", server.output());
}

#[test]
fn upgrade_transfers_the_flash_tier() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("tier").expect("a folder");
    let tier = folder.path().join("tier");
    let formatted = std::process::Command::new(binary())
        .args(["flash", "format"])
        .arg(&tier)
        .args(["--size", "64MiB"])
        .output()
        .expect("the program starts");
    assert!(formatted.status.success(), "{formatted:?}");
    let mut server = ServerBuilder::new([library.root()])
        .config(&format!("flash = [{tier:?}]"))
        .replaceable()
        .start();
    let attached = |server: &Server| {
        let status = server.status();
        status.devices()[0]
            .get("flash")
            .is_some_and(|flash| !flash.is_null())
    };
    eventually("the tier", || attached(&server), |has| *has);
    for _ in 0..3 {
        server.replace().expect("replaced");
        eventually(
            "the tier of the new process",
            || attached(&server),
            |has| *has,
        );
    }
}

#[test]
fn listeners_of_service_manager_are_served_and_passed_on() {
    let library = Library::new(1, MIB).expect("a library");
    let scratch = Scratch::new("activated").expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let start = |listen: SocketAddr, listener: OwnedFd| {
        let mut shell = scratch.command("/bin/sh");
        // A service manager passes the first socket as descriptor 3.
        let text = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
        shell
            .args(["-c", text])
            .arg(binary())
            .arg("serve")
            .arg(library.root())
            .args(["--admin", "off", "--memory", "32MiB"])
            .args(["--listen", &listen.to_string()])
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        shell.spawn().expect("the server starts")
    };
    let passed = listener.try_clone().expect("cloned");
    // A client that connects before the server has started waits.
    let mut early = Connection::open(address).expect("connects");
    early
        .send(request_text("GET", "/title-0.bin", &[]).as_bytes())
        .expect("sent");
    let mut child = start(address, passed.into());
    let response = early.receive("GET").expect("served");
    pattern::verify(0, 0, &response.body).expect("correct bytes");
    child.kill().expect("killed");
    child.wait().expect("the server ends");
    // A socket that the configuration does not have is an error.
    let other = headlong_testkit::server::free_address();
    let child = start(other, listener.into());
    let output = child.wait_with_output().expect("the server ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains(&address.to_string()) && text.contains("listen"),
        "{text}"
    );
}
