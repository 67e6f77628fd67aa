//! Access of other users to the files of a server that was started by hand: their modes, and no core
//! dump.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use headlong_testkit::Scratch;
use headlong_testkit::server::{Server, ServerBuilder, binary};

/// An MP4 file of five seconds, dated in the past: facts about a file written a moment ago are not
/// stored.
fn write_film(path: &Path) {
    let mut mvhd = [0, 0, 0, 108, b'm', b'v', b'h', b'd'].to_vec();
    mvhd.extend([0; 12]);
    mvhd.extend([0, 0, 0, 1, 0, 0, 0, 5]);
    mvhd.resize(108, 0);
    let film = [&[0, 0, 0, 116], &b"moov"[..], &mvhd, &[0; 100_000]].concat();
    fs::write(path, film).expect("written");
    let file = fs::File::options().write(true).open(path).expect("there");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(long_ago).expect("set");
}

/// Starts a server after `commands` of a shell.
fn start_after(commands: &str, scratch: &Scratch, config: &str) -> Server {
    let root = scratch.directory("root").expect("a folder");
    write_film(&root.join("film.mp4"));
    let script = scratch.path().join("headlong");
    let text = format!(
        "#!/bin/sh\n{commands}\nexec '{}' \"$@\"\n",
        binary().display()
    );
    fs::write(&script, text).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    ServerBuilder::new([&root])
        .program(&script)
        .config(config)
        .start()
}

#[test]
fn logs_and_state_are_closed_to_others_at_umask_0() {
    let scratch = Scratch::new("modes").expect("a folder");
    let state = scratch.directory("state").expect("a folder");
    let logs = scratch.directory("logs").expect("a folder");
    let log = |name: &str| logs.join(name);
    let config = format!(
        "state = {state:?}\n[log]\naccess = {:?}\nsessions = {:?}\nslow = {:?}",
        log("access.log"),
        log("sessions.log"),
        log("slow.log")
    );
    let server = start_after("umask 0", &scratch, &config);
    let reply = server.get("/film.mp4");
    assert_eq!(reply.status(), 200);
    server.stop().expect("it stops");
    let files = |folder: &Path| -> Vec<(String, u32)> {
        let entries = fs::read_dir(folder).expect("the folder");
        let entries = entries.map(|entry| entry.expect("an entry"));
        let mode = |entry: fs::DirEntry| {
            let mode = entry.metadata().expect("there").permissions().mode();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, mode & 0o777)
        };
        entries.map(mode).collect()
    };
    let (state, logs) = (files(&state), files(&logs));
    assert!(
        state.iter().any(|(name, _)| name == "media-1.facts"),
        "{state:?}"
    );
    assert!(state.len() >= 2 && logs.len() == 3, "{state:?} {logs:?}");
    for (name, mode) in state.into_iter().chain(logs) {
        assert_eq!(mode, 0o640, "{name}");
    }
}

#[test]
fn core_dumps_are_disabled_whatever_limit_was_set() {
    // With a limit of 1, the kernel neither writes a dump nor pipes it to a crash handler.
    for (set, limit) in [("unlimited", "1"), ("0", "0")] {
        let scratch = Scratch::new("core").expect("a folder");
        let server = start_after(&format!("ulimit -c {set}"), &scratch, "");
        let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid()));
        let limits = limits.expect("the process runs");
        let mut lines = limits.lines();
        let line = lines.find_map(|line| line.strip_prefix("Max core file size"));
        let words: Vec<&str> = line.expect("a line").split_whitespace().collect();
        assert_eq!(words[..2], [limit, limit], "{set}: {limits}");
    }
}
