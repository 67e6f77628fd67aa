//! An edge that sends bytes on as they come from the origin: while a slice is being fetched, and
//! while its disk cannot store slices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headlong_e2e_tests::edge::{
    SLICE, assert_right, disk_usage_below, edge, files_below, ground, metric, range, right_range,
    settings, settle,
};
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_e2e_tests::origin::{Mode, Origin};
use headlong_e2e_tests::{eventually, until_logged};
use headlong_testkit::client::{ClientError, Connection, fetch};
use headlong_testkit::server::{Server, ServerBuilder, binary};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, ProgramRun, SlowDisk, pattern};

const HIT: &str = "headlong; hit; detail=slice";
const DEGRADED: &str = "headlong_degraded_parts{kind=\"edge\"}";

/// Requests a whole title, and receives the head of the reply.
fn begun(edge: &Server, path: &str) -> Connection {
    let mut connection = Connection::open(edge.address()).expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    connection.send(request.as_bytes()).expect("sent");
    let head = connection.receive_head().expect("a head");
    assert_eq!(head.status, 200);
    connection
}

/// Receives the bytes `first..end` of a title.
fn receive(connection: &mut Connection, title: u64, first: u64, end: u64) {
    let bytes = connection.receive_body(end - first).expect("bytes");
    pattern::verify(title, first, &bytes).expect("correct bytes");
}

fn health(edge: &Server) -> String {
    let reply = edge.admin_request("GET", "/healthz", &[]);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    reply.text()
}

fn until_healthy(edge: &Server) {
    eventually("a healthy edge", || health(edge), |text| text == "ok");
    assert_eq!(metric(edge, DEGRADED), 0);
}

/// Requests the beginning of a title, and waits until it is stored.
fn assert_stores(edge: &Server, title: u64) {
    let path = format!("/vod/{title}-400000");
    for _ in 0..2 {
        right_range(edge, &path, title, 0, SLICE);
        settle(edge);
    }
    let reply = range(edge, &path, 0, SLICE).expect("a reply");
    assert_eq!(reply.field("cache-status"), Some(HIT));
}

/// Requests titles whose slices cannot be stored.
fn assert_passes_on(edge: &Server, titles: std::ops::Range<u64>) {
    for title in titles {
        let reply = range(edge, &format!("/vod/{title}-400000"), 0, 400_000);
        assert_right(&reply.expect("a reply"), title, 0, 400_000);
    }
    settle(edge);
    let text = health(edge);
    assert!(text.starts_with("ok, but degraded"), "{text}");
    assert!(text.contains("edge") && text.contains("/vod/"), "{text}");
    assert_eq!(metric(edge, DEGRADED), 1);
    assert!(metric(edge, "headlong_pull_unstored_bytes_total") > 0);
}

/// Writes a file that leaves no space.
fn fill_disk(path: &Path) {
    let mut file = fs::File::create(path).expect("a file");
    let zeros = vec![0; 1 << 20];
    while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
}

fn slices_below(folder: &Path) -> Vec<PathBuf> {
    let files = files_below(folder).into_iter();
    let is_slice = |name: &str| name.len() == 7 && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_slice = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_slice)
    };
    files.filter(is_slice).collect()
}

#[test]
fn replies_begin_before_their_slice_is_whole() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    let path = format!("/vod/1-{SLICE}");
    origin.be(Mode::Hang);
    let mut replies: Vec<_> = (0..3).map(|_| begun(&edge, &path)).collect();
    let half = SLICE / 2;
    for reply in &mut replies {
        receive(reply, 1, 0, half);
    }
    assert_eq!(origin.asked(), 2, "one HEAD and one fetch");
    assert_eq!(slices_below(cache.path()), Vec::<PathBuf>::new());
    origin.be(Mode::Well);
    for reply in &mut replies {
        receive(reply, 1, half, SLICE);
    }
    settle(&edge);
    assert_eq!(origin.sent_bytes(), SLICE);
    let reply = right_range(&edge, &path, 1, 0, SLICE);
    assert_eq!(reply.field("cache-status"), Some(HIT));
    assert_eq!(origin.sent_bytes(), SLICE);
}

#[test]
fn failing_origin_cuts_replies_that_have_begun() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    let path = format!("/vod/1-{SLICE}");
    origin.be(Mode::Short);
    let cut = fetch(edge.address(), "GET", &path, &[]);
    match cut {
        Err(ClientError::CutShort {
            status: 200,
            received_bytes,
            ..
        }) => assert!(received_bytes >= SLICE / 2, "{received_bytes}"),
        other => panic!("{other:?}"),
    }
    settle(&edge);
    assert_eq!(slices_below(cache.path()), Vec::<PathBuf>::new());
    origin.be(Mode::Well);
    right_range(&edge, &path, 1, 0, SLICE);
}

#[test]
fn edge_with_full_disk_serves_and_later_stores_again() {
    let test = "edge_with_full_disk_serves_and_later_stores_again";
    let Some(disk) = LoopFs::new_or_skip(test, "tmpfs", &[]) else {
        return;
    };
    let origin = Origin::start().expect("an origin");
    let edge = edge(&origin, disk.root(), "");
    let filler = disk.root().join("filler");
    fill_disk(&filler);
    assert_passes_on(&edge, 0..6);
    let no_space = "headlong_pull_faults_total{path=\"/vod/\",kind=\"no-space\"}";
    let unstored = metric(&edge, no_space);
    assert!(unstored >= 6 * 400_000 / (128 << 10), "{unstored}");
    let said = edge.output();
    let lines = said.matches("slice sent on without being stored").count();
    assert!((1..=2).contains(&lines), "{said}");
    assert_eq!(slices_below(disk.root()), Vec::<PathBuf>::new());
    let reply = range(&edge, "/vod/100-400000", 0, SLICE).expect("a reply");
    let expected = Some("headlong; fwd=miss; detail=origin");
    assert_eq!(reply.field("cache-status"), expected);
    fs::remove_file(filler).expect("removed");
    until_healthy(&edge);
    assert_stores(&edge, 5);
}

#[test]
fn slow_client_of_edge_with_full_disk_gets_right_bytes() {
    let test = "slow_client_of_edge_with_full_disk_gets_right_bytes";
    let Some(disk) = LoopFs::new_or_skip(test, "tmpfs", &[]) else {
        return;
    };
    let origin = Origin::start().expect("an origin");
    let edge = edge(&origin, disk.root(), "");
    fill_disk(&disk.root().join("filler"));
    assert_passes_on(&edge, 0..1);
    let size = 16_000_000;
    let mut slow = begun(&edge, &format!("/vod/7-{size}"));
    receive(&mut slow, 7, 0, 100_000);
    // Memory holds sixteen slices that cannot be stored.
    assert_passes_on(&edge, 1..5);
    receive(&mut slow, 7, 100_000, size);
}

#[test]
fn stopped_clients_of_full_edge_hold_little_memory() {
    let test = "stopped_clients_of_full_edge_hold_little_memory";
    let Some(disk) = LoopFs::new_or_skip(test, "tmpfs", &[]) else {
        return;
    };
    let origin = Origin::start().expect("an origin");
    let edge = edge(&origin, disk.root(), "");
    fill_disk(&disk.root().join("filler"));
    assert_passes_on(&edge, 0..4);
    let memory = || edge.memory().expect("a process").anonymous_bytes;
    let before = memory();
    let clients: Vec<_> = (0..16).map(|_| begun(&edge, "/vod/5-32000000")).collect();
    // Until the buffers of all sockets are full.
    let more = || {
        let sent = origin.sent_bytes();
        std::thread::sleep(std::time::Duration::from_secs(1));
        origin.sent_bytes() - sent
    };
    eventually("an idle origin", more, |more| *more == 0);
    // Without a bound, a connection takes 2 MiB out of a reply.
    let held = memory().saturating_sub(before);
    assert!(held < 16 << 20, "{held} of {} clients", clients.len());
}

#[test]
fn edge_whose_folder_disappears_serves_and_later_stores_again() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "");
    assert_stores(&edge, 1);
    let (folder, away) = (
        cache.path().join(".headlong-pull"),
        cache.path().join("away"),
    );
    fs::rename(&folder, &away).expect("renamed");
    fs::write(&folder, "").expect("a file in its place");
    assert_passes_on(&edge, 1..4);
    let disk = "headlong_pull_faults_total{path=\"/vod/\",kind=\"disk\"}";
    assert!(metric(&edge, disk) > 0);
    fs::remove_file(&folder).expect("removed");
    fs::rename(&away, &folder).expect("renamed");
    until_healthy(&edge);
    assert_stores(&edge, 2);
}

#[test]
fn edge_starts_on_read_only_disk_and_uses_it_later() {
    let test = "edge_starts_on_read_only_disk_and_uses_it_later";
    let Some(disk) = LoopFs::new_or_skip(test, "tmpfs", &[]) else {
        return;
    };
    let remount = |how: &str| {
        let mut mount = Command::new("mount");
        let done = mount.args(["-o", how]).arg(disk.root()).status();
        assert!(done.expect("started").success(), "{how}");
    };
    let origin = Origin::start().expect("an origin");
    let first = edge(&origin, disk.root(), "ahead_bytes = \"0B\"");
    assert_stores(&first, 1);
    first.stop();
    remount("remount,ro");
    let edge = edge(&origin, disk.root(), "ahead_bytes = \"0B\"");
    assert_passes_on(&edge, 2..4);
    let mut check = Command::new(binary());
    check.arg("check").arg("--config").arg(edge.config_path());
    let checked = ProgramRun::of(&mut check);
    let checked = checked.stderr + &checked.stdout;
    let text = health(&edge);
    let reason = text.split_once("/vod/").expect("the part").1;
    let reason = reason.trim_start_matches([':', ' ']).trim_end();
    assert!(reason.contains("Read-only file system"), "{reason}");
    assert!(checked.contains(reason), "{reason:?} in {checked}");
    remount("remount,rw");
    until_healthy(&edge);
    // The slice of the earlier process is still there.
    let sent = origin.sent_bytes();
    right_range(&edge, "/vod/1-400000", 1, 0, SLICE);
    assert_eq!(origin.sent_bytes(), sent);
    assert_stores(&edge, 2);
}

#[test]
fn small_titles_stay_within_the_size_limit() {
    let (origin, cache) = ground();
    let bytes_max = 1 << 20;
    let first = edge(&origin, cache.path(), "bytes_max = \"1MiB\"");
    for title in 0..300 {
        right_range(&first, &format!("/vod/{title}-1"), title, 0, 1);
    }
    settle(&first);
    let used = metric(&first, "headlong_pull_used_bytes");
    assert!((bytes_max / 2..=bytes_max).contains(&used), "{used}");
    // The folders of the prefix and the lock file are not counted.
    let is_few = |bytes: &u64| *bytes <= bytes_max + 20_000;
    eventually("the disk usage", || disk_usage_below(cache.path()), is_few);
    first.stop();
    let again = edge(&origin, cache.path(), "bytes_max = \"1MiB\"");
    assert_eq!(metric(&again, "headlong_pull_used_bytes"), used);
}

#[test]
fn slice_that_the_disk_cannot_read_is_fetched_again() {
    if !SlowDisk::available_or_skip("slice_that_the_disk_cannot_read_is_fetched_again") {
        return;
    }
    let device = BlockDevice::new(128 << 20, DriveModel::WD_RED, 20.0).expect("a device");
    let origin = Origin::start().expect("an origin");
    let path = "/vod/1-400000";
    let start = || edge(&origin, device.root(), "ahead_bytes = \"0B\"");
    let filling = start();
    let reply = filling.get(path);
    pattern::verify(1, 0, &reply.body).expect("correct bytes");
    settle(&filling);
    // Its memory may hold bytes of slices.
    drop(filling);
    device.start().expect("nothing is left in the page cache");
    let edge = start();
    let slices = files_below(device.root());
    let slice = |name: &str| slices.iter().find(|file| file.ends_with(name));
    let (first, third) = (slice("0000000"), slice("0000002"));
    let (first, third) = (first.expect("a slice"), third.expect("a slice"));
    let before = origin.sent_bytes();
    // The first bytes of a reply, which are awaited before its status, and bytes in its midst.
    for file in [third, first] {
        for extent in device.extents(file).expect("extents") {
            let bytes = extent.physical..extent.physical + extent.length;
            device.disk().fail_reads(bytes);
        }
    }
    let reply = edge.get(path);
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.body.len(), 400_000);
    pattern::verify(1, 0, &reply.body).expect("correct bytes");
    // A read that covers neighbouring slices fails for all of them.
    let fetched = (origin.sent_bytes() - before) / SLICE;
    assert!((2..=4).contains(&fetched), "{fetched} slices of seven");
    until_logged(&edge, "the disk cannot read a slice");
}

#[test]
fn stored_slices_come_from_the_origin_while_their_disk_is_offline() {
    let test = "stored_slices_come_from_the_origin_while_their_disk_is_offline";
    if !SlowDisk::available_or_skip(test) {
        return;
    }
    let device = BlockDevice::new(128 << 20, DriveModel::WD_RED, 20.0).expect("a device");
    let origin = Origin::start().expect("an origin");
    let start = || {
        let url = format!("http://{}/o/", origin.address());
        let pull = settings(&url, device.root(), "ahead_bytes = \"0B\"");
        let config = format!("errors_offline = 1\noffline_retry = \"1h\"\n{pull}");
        ServerBuilder::without_roots().config(&config).start()
    };
    let titles = || 1..12;
    let assert_whole = |edge: &Server, title: u64| {
        let path = format!("/vod/{title}-400000");
        let reply = edge.get(&path);
        assert_eq!(reply.status(), 200, "title {title}: {}", reply.text());
        assert_eq!(reply.body.len(), 400_000);
        pattern::verify(title, 0, &reply.body).expect("correct bytes");
    };
    let filling = start();
    titles().for_each(|title| assert_whole(&filling, title));
    settle(&filling);
    let stored = slices_below(device.root()).len();
    // Its memory may hold bytes of slices.
    drop(filling);
    device.start().expect("nothing is left in the page cache");
    let edge = start();
    for file in slices_below(device.root()) {
        for extent in device.extents(&file).expect("extents") {
            let bytes = extent.physical..extent.physical + extent.length;
            device.disk().fail_reads(bytes);
        }
    }
    titles().for_each(|title| assert_whole(&edge, title));
    let offline = metrics_with(&edge, "state=\"offline\"} 1");
    assert_eq!(offline, 1, "the device is offline");
    let left = slices_below(device.root()).len();
    assert!(left > stored / 2, "{left} of {stored} slices are left");
}

/// Number of metrics whose line ends so.
fn metrics_with(edge: &Server, end: &str) -> usize {
    let metrics = edge.metrics();
    metrics.lines().filter(|line| line.ends_with(end)).count()
}
