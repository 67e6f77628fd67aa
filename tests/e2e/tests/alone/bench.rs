//! The bench program: a small experiment end to end, and the cleanup after a kill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use headlong_e2e_tests::preload::library;
use headlong_e2e_tests::{eventually, have_or_skip, processes_naming};
use headlong_testkit::server::binary;
use headlong_testkit::{ProgramRun, Scratch, SlowDisk, leftovers, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A few titles on a small drive, and viewers for three seconds of wall time.
const EXPERIMENT: &str = r#"
name = "small"
time_scale = 20
memory = "64MiB"
[drive]
preset = "wd-red-wd10efrx"
size = "1GB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 20
set.title.hd.count = 1
[phases]
ramp_up = "20s"
measured = "30s"
ramp_down = "10s"
[workload.sd]
preset = "youtube-sd"
rate = "3MiB/s"
[server.headlong]
kind = "headlong"
config = { admission = "accept", prefetch = "1MiB", read_max = "2MiB" }
[server.nginx]
kind = "nginx"
[server.apache]
kind = "apache"
# Two thousand, as by default, do not fit into this memory at every time.
workers = 64
[server.stillborn]
kind = "command"
command = ["sh", "-c", "echo the last words >&2; exit {port}"]
[server.dying]
kind = "command"
command = ["sh", "-c", "HEADLONG serve {root} --memory 16MiB --listen 127.0.0.1:{port} --admin off & sleep 1; kill -9 $!; echo the last words >&2; exit 1"]
"#;

/// The same with an SSD in front of the drive: few titles and little memory, so that evicted data
/// is requested again.
const WITH_SSD: &str = r#"
name = "with-ssd"
time_scale = 20
memory = "48MiB"
[drive]
preset = "wd-red-wd10efrx"
size = "1GB"
[flash]
preset = "ssd-sata-low-end"
size = "512MiB"
block = "2MiB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 8
set.title.hd.count = 1
[phases]
ramp_up = "60s"
measured = "60s"
ramp_down = "10s"
[workload.sd]
preset = "youtube-sd"
rate = "4MiB/s"
[server.with]
kind = "headlong"
config = { admission = "accept", prefetch = "1MiB", read_max = "2MiB" }
[server.without]
kind = "headlong"
flash = false
config = { admission = "accept", prefetch = "1MiB", read_max = "2MiB" }
"#;

/// Caches of other servers on the SSD: more titles than memory, each requested several times.
const WITH_CACHES: &str = r#"
name = "with-caches"
time_scale = 10
memory = "192MiB"
[drive]
preset = "wd-red-wd10efrx"
size = "1GB"
[flash]
preset = "ssd-sata-low-end"
size = "256MiB"
[files]
catalogue = "flashstream"
chunk = "segment"
set.title.dash.count = 10
set.title.dash.durations = 270
[climb]
fill = "60s"
fill_rate = "4MiB/s"
from = "3MiB/s"
step_time = "20s"
steps = 2
[workload.segments]
preset = "flashstream"
[server.nginx]
kind = "nginx"
cache = { kind = "nginx", slice = "256KiB" }
[server.trafficserver]
kind = "nginx"
cache = { kind = "trafficserver" }
[server.varnish]
kind = "nginx"
cache = { kind = "varnish" }
"#;

/// The same titles on two drives, each title on one of them, and one server.
fn with_two_drives() -> String {
    let (small, _) = EXPERIMENT
        .split_once("[server.")
        .expect("servers come last");
    let small = small.replace("name = \"small\"", "name = \"with-two-drives\"");
    let small = small.replace("\"64MiB\"", "\"256MiB\"");
    let small = small.replace("size = \"1GB\"", "size = \"1GB\"\ncount = 2");
    format!("{small}[server.nginx]\nkind = \"nginx\"\npreload = true\n")
}

/// Whether this machine can run the test; records the reason if not.
fn can(test: &str) -> bool {
    let has_memory = ["memory.limit_in_bytes", "../cgroup.controllers"]
        .iter()
        .any(|file| Path::new("/sys/fs/cgroup/memory").join(file).exists());
    if !has_memory {
        skip(test, "there are no control groups for memory");
    }
    has_memory
        && SlowDisk::available_or_skip(test)
        && ["nginx", "unshare", "nsenter", "ip"]
            .iter()
            .all(|program| have_or_skip(test, program))
}

struct Place {
    scratch: Scratch,
    /// The bench's folder of temporary files.
    below: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::of(EXPERIMENT)
    }

    fn of(experiment: &str) -> Self {
        let scratch = Scratch::new("bench").expect("a folder");
        let experiment = experiment.replace("HEADLONG", &binary().to_string_lossy());
        fs::write(scratch.path().join("small.toml"), experiment).expect("written");
        let below = scratch.directory("below").expect("a folder");
        Self { scratch, below }
    }

    fn bench(&self, server: &str) -> Command {
        self.does("run", server)
    }

    fn does(&self, what: &str, server: &str) -> Command {
        let path = |name: &str| self.scratch.path().join(name);
        let mut command = Command::new(binary());
        command
            .args(["bench", what])
            .arg(path("small.toml"))
            .args(["--server", server, "--json"])
            .arg("--store")
            .arg(path("store"))
            .arg("--results")
            .arg(path("results"))
            .env("TMPDIR", &self.below)
            .stdin(Stdio::null());
        command
    }

    /// Asserts that the bench left no mount, loop device, process, control group or file.
    fn expect_nothing_left(&self, groups: &[PathBuf]) {
        let below = &self.below;
        eventually("mounts", || leftovers::mounts_below(below), Vec::is_empty);
        let devices = || leftovers::loop_devices_below(below);
        eventually("loop devices", devices, Vec::is_empty);
        eventually("processes", || processes_naming(below), Vec::is_empty);
        let left = || -> Vec<PathBuf> {
            let there = groups.iter().filter(|group| group.exists());
            there.cloned().collect()
        };
        eventually("control groups", left, Vec::is_empty);
        let files = || -> Vec<PathBuf> {
            let entries = fs::read_dir(below).expect("ours").flatten();
            entries.map(|entry| entry.path()).collect()
        };
        eventually("files", files, Vec::is_empty);
    }

    /// The control groups that the bench has recorded so far.
    fn groups(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(&self.below).expect("ours").flatten();
        let notes =
            folders.filter_map(|folder| fs::read_to_string(folder.path().join("groups")).ok());
        let notes: Vec<String> = notes.collect();
        notes
            .iter()
            .flat_map(|text| text.lines())
            .map(PathBuf::from)
            .collect()
    }
}

impl Place {
    fn agree(&self, server: &str, rate: &str) -> Command {
        let mut command = self.does("agree", server);
        command.args(["--rate", rate]);
        command
    }
}

/// What a command printed, as JSON, its messages and its exit code, which must be one of these. On a
/// busy machine a run is refused with 3, and it has a record, too.
fn printed(command: &mut Command, codes: &[i32]) -> (Value, String, i32) {
    let run = ProgramRun::of(command);
    let code = run.code.unwrap_or(-1);
    assert!(codes.contains(&code), "{command:?}: {code}: {}", run.stderr);
    (run.json(), run.stderr, code)
}

#[test]
fn run_of_each_server_writes_record_and_cleans_up() {
    let test = "run_of_each_server_writes_record_and_cleans_up";
    if !can(test) {
        return;
    }
    let place = Place::new();
    let servers = ["headlong", "nginx", "apache"];
    let servers = servers
        .iter()
        .filter(|name| **name != "apache" || have_or_skip(test, "apache2"));
    for server in servers {
        let (record, stderr, _) = printed(&mut place.bench(server), &[0, 3]);
        assert_eq!(record["schema"], "headlong-bench-1");
        assert_eq!(record["server"], *server);
        assert_eq!(record["load"]["wrong_bytes"], 0);
        assert!(
            record["load"]["checked_bytes"].as_u64() > Some(0),
            "{stderr}"
        );
        assert!(
            record["disk"]["pattern"]["bytes"].as_u64() > Some(0),
            "{stderr}"
        );
        assert!(record["server_facts"]["memory"]["peak_bytes"].as_u64() > Some(0));
        assert_eq!(record["server_facts"]["died"], Value::Null);
    }
    let results = place.scratch.path().join("results");
    assert!(results.join("report.html").exists());
    place.expect_nothing_left(&[]);
}

#[test]
fn only_server_with_ssd_serves_from_ssd() {
    let test = "only_server_with_ssd_serves_from_ssd";
    if !can(test) {
        return;
    }
    let place = Place::of(WITH_SSD);
    for (server, has_ssd) in [("with", true), ("without", false)] {
        let (record, ..) = printed(&mut place.bench(server), &[0, 3]);
        assert_eq!(record["load"]["wrong_bytes"], 0);
        let tier = &record["server_facts"]["status"]["devices"][0]["flash"];
        let counters = &record["disk"]["ssd_counters"]["counters"];
        if !has_ssd {
            assert_eq!((tier, counters), (&Value::Null, &Value::Null));
            continue;
        }
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
        assert!(number(tier, "read_bytes") > 0, "{tier:#}");
        assert!(number(tier, "written_bytes") > 0, "{tier:#}");
        assert_eq!(number(tier, "reads_wrong"), 0);
        // The server's counts equal the SSD's, plus summaries and headers.
        let [read, written] = ["reads", "writes"].map(|of| number(&counters[of], "bytes"));
        assert!(read >= number(tier, "read_bytes"), "{counters:#}");
        assert!(
            written >= number(tier, "admitted_bytes") / 2,
            "{counters:#}"
        );
    }
    place.expect_nothing_left(&[]);
}

/// A block device over a sparse file; detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    fn new(file: &Path) -> Self {
        let made = fs::File::create(file).expect("created");
        made.set_len(1 << 30).expect("sparse");
        let mut attach = Command::new("losetup");
        let output = attach.args(["--find", "--show"]).arg(file).output();
        let output = output.expect("losetup");
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_device_is_written_once_and_only_if_allowed() {
    let test = "block_device_is_written_once_and_only_if_allowed";
    if !can(test) || !have_or_skip(test, "losetup") || !have_or_skip(test, "blkid") {
        return;
    }
    let folder = Scratch::new("bench-device").expect("a folder");
    let device = LoopDevice::new(&folder.path().join("disk"));
    let of = |overwrite: bool| {
        let experiment = EXPERIMENT.replace("time_scale = 20", "time_scale = 1");
        let experiment = experiment.replace("ramp_up = \"20s\"", "ramp_up = \"2s\"");
        let experiment = experiment.replace("measured = \"30s\"", "measured = \"4s\"");
        let experiment = experiment.replace("ramp_down = \"10s\"", "ramp_down = \"1s\"");
        let experiment = experiment.replace("rate = \"3MiB/s\"", "rate = \"40MiB/s\"");
        let drive = format!("device = \"{}\"\noverwrite = {overwrite}", device.0);
        Place::of(&experiment.replace("size = \"1GB\"", &drive))
    };
    let run = |place: &Place| ProgramRun::of(&mut place.bench("nginx"));

    let made = Command::new("mkfs.ext4")
        .args(["-q", "-L", "films", &device.0])
        .status();
    assert!(made.expect("mkfs").success());
    let place = of(false);
    let stderr = run(&place).exits_with(2).stderr;
    assert!(stderr.contains("overwrite = true"), "{stderr}");
    place.expect_nothing_left(&[]);

    let point = folder.directory("mounted").expect("a folder");
    let mut mount = Command::new("mount");
    assert!(
        mount
            .arg(&device.0)
            .arg(&point)
            .status()
            .expect("mount")
            .success()
    );
    let output = run(&of(true));
    assert!(
        Command::new("umount")
            .arg(&point)
            .status()
            .expect("umount")
            .success()
    );
    let stderr = output.exits_with(2).stderr;
    assert!(stderr.contains("is in use"), "{stderr}");

    for (overwrite, writes) in [(true, true), (false, false)] {
        let place = of(overwrite);
        let (record, stderr, _) = printed(&mut place.bench("nginx"), &[0, 3]);
        assert_eq!(stderr.contains("writing all titles"), writes, "{stderr}");
        assert_eq!(record["load"]["wrong_bytes"], 0);
        assert!(
            record["load"]["checked_bytes"].as_u64() > Some(0),
            "{stderr}"
        );
        let read = &record["disk"]["counters"]["counters"]["reads"]["bytes"];
        assert!(read.as_u64() > Some(0), "{stderr}");
        place.expect_nothing_left(&[]);
    }
}

#[test]
fn titles_on_two_drives_are_read_from_both() {
    let test = "titles_on_two_drives_are_read_from_both";
    if !can(test) {
        return;
    }
    let place = Place::of(&with_two_drives());
    // Its nginx runs under the preloaded library.
    library();
    let (record, stderr, _) = printed(&mut place.bench("nginx"), &[0, 3]);
    assert_eq!(record["load"]["wrong_bytes"], 0);
    let drives = [&record["disk"]["counters"], &record["disk"]["others"][0]];
    let read = drives.map(|drive| drive["counters"]["reads"]["bytes"].as_u64().unwrap_or(0));
    assert!(read.iter().all(|bytes| *bytes > 0), "{read:?}: {stderr}");
    // Each has its own device, by which reads are serialized.
    let devices = &record["server_facts"]["status"]["devices"];
    let devices = devices.as_array().cloned().unwrap_or_default();
    let budgets: Vec<u64> = devices
        .iter()
        .filter_map(|device| device["memory"]["budget_bytes"].as_u64())
        .collect();
    // Three quarters of the experiment's memory, for both together.
    assert_eq!(budgets, [96 << 20, 96 << 20], "{stderr}");
    place.expect_nothing_left(&[]);
}

#[test]
fn caches_of_other_servers_serve_from_ssd() {
    let test = "caches_of_other_servers_serve_from_ssd";
    if !can(test) {
        return;
    }
    let place = Place::of(WITH_CACHES);
    let servers = [
        ("nginx", "nginx"),
        ("trafficserver", "traffic_server"),
        ("varnish", "varnishd"),
    ];
    for (server, _) in (servers.iter()).filter(|(_, program)| have_or_skip(test, program)) {
        let (record, stderr, code) = printed(&mut place.bench(server), &[0, 3]);
        let load = &record["load"];
        assert_eq!(load["wrong_bytes"], 0, "{server}: {stderr}");
        assert_eq!(record["server_facts"]["died"], Value::Null, "{server}");
        let bytes = |of: &str, direction: &str| {
            let counters = &record["disk"][of]["counters"];
            counters[direction]["bytes"].as_u64().unwrap_or(0)
        };
        let checked = load["checked_bytes"].as_u64().unwrap_or(0);
        let (read, kept) = (bytes("counters", "reads"), bytes("ssd_counters", "writes"));
        assert!(kept > 0, "{server} kept nothing: {stderr}");
        assert!(
            bytes("ssd_counters", "reads") > 0,
            "{server} served nothing from the SSD: {stderr}"
        );
        // On a machine that is too busy, viewers leave before they receive the data read for them.
        assert!(
            code != 0 || read < checked * 3 / 4,
            "{server} read {read} of the disk for {checked}: {stderr}"
        );
        let steps = record["climbed"]["steps"].as_array();
        assert_eq!(steps.map(Vec::len), Some(2), "{server}: {stderr}");
    }
    place.expect_nothing_left(&[]);
}

/// Both worlds at a small load, far from any limit: the bytes delivered and read do not depend on
/// the speed of this machine.
#[test]
fn real_and_virtual_runs_agree_at_small_load() {
    let test = "real_and_virtual_runs_agree_at_small_load";
    if !can(test) {
        return;
    }
    // Six seconds of wall time: with one and a half, requests across the ends of the run would be a
    // tenth. The memory is large enough that the server's own share of its group is small.
    let place = Place::of(
        &EXPERIMENT
            .replace("measured = \"30s\"", "measured = \"120s\"")
            .replace("memory = \"64MiB\"", "memory = \"256MiB\""),
    );
    for server in ["headlong", "nginx"] {
        let (result, ..) = printed(&mut place.agree(server, "3MiB/s"), &[0, 4]);
        assert_eq!(result["schema"], "headlong-agree-1");
        let pair = &result["pairs"][0];
        assert_eq!(pair["server"], server);
        // On a machine that is too busy the run is refused and has no result.
        let figure = |world: &str, name: &str| pair[world][name].as_f64().unwrap_or(0.0);
        for (name, tolerance) in [("delivered", 0.1), ("disk", 0.25)] {
            let (real, simulated) = (figure("real", name), figure("simulated", name));
            assert!(real > 0.0 && simulated > 0.0, "{server}: {name}: {pair:#}");
            let apart = (real - simulated).abs() / real;
            assert!(
                apart <= tolerance,
                "{server}: {name}: {real} {simulated}: {pair:#}"
            );
        }
        let phases = pair["phases"].as_array().expect("phases");
        let has_both = |figure: &str| {
            let is_start = |one: &&Value| one["phase"] == "start" && one["figure"] == figure;
            let found = phases.iter().find(is_start).expect(figure);
            found["real"].is_f64() && found["simulated"].is_f64()
        };
        assert!(
            has_both("delivered") && has_both("bytes_per_seek"),
            "{server}: {pair:#}"
        );
        // Only headlong has jobs.
        assert_eq!(has_both("late_jobs"), server == "headlong", "{pair:#}");
    }
    place.expect_nothing_left(&[]);
}

#[test]
fn failed_server_start_is_reported_with_its_output() {
    let test = "failed_server_start_is_reported_with_its_output";
    if !can(test) {
        return;
    }
    let place = Place::new();
    let run = ProgramRun::of(&mut place.bench("stillborn"));
    let stderr = run.exits_with(2).stderr;
    assert!(stderr.contains("the last words"), "{stderr}");
    place.expect_nothing_left(&[]);
}

#[test]
fn run_with_dead_server_is_invalid_and_has_its_output() {
    let test = "run_with_dead_server_is_invalid_and_has_its_output";
    if !can(test) {
        return;
    }
    let place = Place::new();
    let (record, ..) = printed(&mut place.bench("dying"), &[3]);
    assert_eq!(record["verdict"]["outcome"], "refused");
    let died = record["server_facts"]["died"].as_str();
    assert_eq!(died, Some("exit status: 1"));
    let reasons = record["verdict"]["refused_because"].to_string();
    assert!(reasons.contains("the last words"), "{reasons}");
    place.expect_nothing_left(&[]);
}

/// A bench whose viewers are watching, with this many mounts.
fn watching(place: &Place, server: &str, mounts: usize) -> Child {
    let mut command = place.bench(server);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let bench = command.spawn().expect("the binary starts");
    eventually(
        "viewers",
        || processes_naming(&place.below),
        |lines| lines.iter().any(|line| line.contains(" load ")),
    );
    assert_eq!(leftovers::mounts_below(&place.below).len(), mounts);
    bench
}

#[test]
fn killed_or_interrupted_bench_leaves_nothing() {
    let test = "killed_or_interrupted_bench_leaves_nothing";
    if !can(test) {
        return;
    }
    let place = Place::of(WITH_SSD);
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let mut bench = watching(&place, "with", 3);
        assert_eq!(leftovers::loop_devices_below(&place.below).len(), 2);
        let groups = place.groups();
        assert!(!groups.is_empty());
        let pid = Pid::from_child(&bench);
        kill_process(pid, signal).expect("the bench is running");
        let status = bench.wait().expect("the bench has ended");
        if signal != Signal::KILL {
            assert_eq!(status.code(), Some(128 + signal.as_raw()), "{status}");
        }
        place.expect_nothing_left(&groups);
    }
}
