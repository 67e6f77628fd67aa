//! `headlong disk emulate` and `control` from the command line.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::{ProgramRun, leftovers};
use headlong_vdisk::{FileSystem, VirtualDisk};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::{command, run, run_words};

const DRIVE: &str = "wd-red-wd10efrx";

fn can_run(test: &str) -> bool {
    let missing = VirtualDisk::missing(Some(FileSystem::Ext4));
    if !missing.is_empty() {
        headlong_testkit::skip(test, &missing.join("; "));
    }
    missing.is_empty()
}

fn eventually(what: &str, is_it: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_it() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An emulator and all resources that it must clean up.
struct Emulator {
    child: Child,
    ready: Value,
    folder: tempfile::TempDir,
}

impl Emulator {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        let mut command = command(["disk", "emulate", DRIVE, "--size", "64MiB", "--json"]);
        command
            .arg("--mount")
            .arg(place("mounted here"))
            .arg("--control")
            .arg(place("control"))
            .args(more)
            .env("TMPDIR", place("tmp"))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(place("said")).expect("a file"))
            .process_group(0);
        std::fs::create_dir(place("tmp")).expect("a folder");
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).expect("JSON");
        Self {
            child,
            ready,
            folder,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.ready[name].as_str().expect("a path"))
    }

    fn control(&self, words: &[&str]) -> ProgramRun {
        let socket = self.path("control");
        let socket = socket.to_str().expect("a name of ours");
        run(&[&["disk", "control", socket], words].concat())
    }

    /// Its standard error, if that is a file.
    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).expect("it is kept")
    }

    /// Waits for its end and returns the exit code.
    fn wait(&mut self) -> Option<i32> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status.code();
            }
            assert!(Instant::now() < end, "it did not end in time");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn check_gone(&self) {
        let below = self.folder.path().canonicalize().expect("a folder");
        let device = self.path("device");
        let name = device.file_name().expect("a name").to_string_lossy();
        let backing = format!("/sys/block/{name}/loop/backing_file");
        eventually("its mounts are removed", || {
            leftovers::mounts_below(&below).is_empty()
        });
        eventually("its loop device is released", || {
            // The backing file's path is invalid after the unmount.
            std::fs::read_to_string(&backing).map_or(true, |text| {
                text.trim() != "/disk" && !Path::new(text.trim()).starts_with(&below)
            })
        });
        eventually("its directory is removed", || {
            let mut left = std::fs::read_dir(below.join("tmp")).expect("a folder");
            left.next().is_none()
        });
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // After a failed test; the guardian cleans up the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn reports_all_mistakes_with_alternatives() {
    let output = run_words(
        "disk emulate wd-red --size 1XB --time-scale 0 --file-system zfs --timing maybe \
         --queue-depth 0",
    )
    .exits_with(64);
    assert!(output.stdout.is_empty());
    let stderr = &output.stderr;
    for part in [
        DRIVE,
        "1XB",
        "--time-scale",
        "ext4, xfs, btrfs",
        "maybe",
        "--queue-depth",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(stderr.lines().count(), 6, "{stderr}");
}

#[test]
fn checks_drive_description_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("drive.toml");
    let said = |content: Option<&str>| {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        let words = format!("disk emulate {}", file.display());
        run_words(&words).exits_with(64).stderr
    };
    assert!(said(None).contains("drive.toml"));
    assert!(said(Some("kind = \"tape\"")).contains("hard-drive"));
    assert!(said(Some("kind = ")).contains("line 1"));
}

#[test]
fn reports_socket_without_listener() {
    let run = run_words("disk control /no/such/socket counters").exits_with(2);
    assert!(run.stderr.contains("/no/such/socket"));
}

#[test]
fn disk_reports_ready_and_stops_on_command() {
    if !can_run("disk_reports_ready_and_stops_on_command") {
        return;
    }
    let mut emulator = Emulator::start(&["--time-scale", "5", "--timing", "off"]);
    assert_eq!(emulator.ready["ready"], true);
    assert_eq!(emulator.ready["capacity_bytes"], 64 << 20);
    assert_eq!(emulator.ready["time_scale"], 5.0);
    std::fs::write(emulator.path("mount").join("file"), "content").expect("write");
    emulator.control(&["timing", "on"]).exits_with(0);
    let counters = emulator.control(&["counters"]).json();
    assert_eq!(counters["counters"]["is_timed"], true, "{counters}");
    let output = emulator.control(&["fault", "slow", "0"]).exits_with(2);
    assert!(output.stderr.contains("factor"), "{}", output.stderr);
    let output = emulator
        .control(&["fault", "error", "60MiB", "65MiB"])
        .exits_with(2);
    assert!(output.stderr.contains("the disk has 64MiB"));
    // Numbers need a unit, as everywhere.
    emulator.control(&["fault", "hang", "2"]).exits_with(64);
    emulator.control(&["fault", "hang", "1ms"]).exits_with(0);
    emulator.control(&["stop"]).exits_with(0);
    assert_eq!(emulator.wait(), Some(0));
    emulator.check_gone();
    assert!(!emulator.path("control").exists() && !emulator.path("mount").exists());
}

#[test]
fn signals_and_kill_leave_no_resources() {
    if !can_run("signals_end_it_in_order") {
        return;
    }
    let mut emulator = Emulator::start(&[]);
    // As Ctrl-C on a terminal: to the whole process group.
    kill_process_group(emulator.pid(), Signal::INT).expect("kill");
    assert_eq!(emulator.wait(), Some(0));
    emulator.check_gone();

    // The message names the mount point, not internal paths, and the end does not wait for its
    // users.
    let mut emulator = Emulator::start(&["--time-scale", "100"]);
    let file = std::fs::File::create(emulator.path("mount").join("file")).expect("a file");
    kill_process(emulator.pid(), Signal::INT).expect("kill");
    assert_eq!(emulator.wait(), Some(0));
    let said = emulator.said();
    assert!(
        said.contains("mounted here is in use; it is written out"),
        "{said}"
    );
    assert!(
        !said.contains("/tmp/headlong") && !said.contains("held open"),
        "{said}"
    );
    drop(file);
    emulator.check_gone();

    let mut emulator = Emulator::start(&["--time-scale", "100"]);
    std::fs::write(emulator.path("mount").join("file"), vec![9; 1 << 20]).expect("write");
    kill_process(emulator.pid(), Signal::KILL).expect("kill");
    assert_eq!(emulator.wait(), None);
    emulator.check_gone();
}
