//! Reads while the scan of a slow disk's folders is still running.

use std::fs;
use std::path::Path;

use headlong_e2e_tests::eventually;
use headlong_testkit::client::Connection;
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Server, SlowDisk, pattern};

/// The library has room for 4096 files.
const DISK_BYTES: u64 = 512 << 20;
/// Each title has its inodes and names elsewhere on the disk.
const TITLES: usize = 200;
const SEGMENTS: u64 = 16;
const SEGMENT_BYTES: u64 = 32 << 10;
/// A scan of an idle disk takes long enough for all requests to arrive before its end.
const COMPRESSION: f64 = 0.125;

fn write_title(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n".to_string();
    for number in 0..SEGMENTS {
        text.push_str(&format!("#EXTINF:4,\n{number}.ts\n"));
        let path = folder.join(format!("{number}.ts"));
        pattern::write_file(&path, number, SEGMENT_BYTES).expect("a segment");
    }
    fs::write(folder.join("index.m3u8"), text + "#EXT-X-ENDLIST\n").expect("a playlist");
}

fn get(connection: &mut Connection, target: &str) -> Vec<u8> {
    let reply = connection.request("GET", target, &[]).expect("a reply");
    assert_eq!(reply.status(), 200, "{target}");
    reply.body
}

/// Playlists of the titles listed on the library page.
fn listed(server: &Server) -> Vec<String> {
    let library = server.admin_json("/library.json");
    let titles = library["titles"].as_array().expect("titles").iter();
    let paths = titles.map(|title| title["path"].as_str().expect("a path").to_owned());
    paths.collect()
}

#[test]
fn reads_segments_ahead_before_their_folder_is_scanned() {
    if !SlowDisk::available_or_skip("segments_are_read_ahead_although_no_search_has_been_there") {
        return;
    }
    let device = BlockDevice::new(DISK_BYTES, DriveModel::WD_RED, COMPRESSION).expect("a device");
    for number in 0..TITLES {
        write_title(&device.root().join(format!("title-{number}")));
    }
    device.start().expect("start");
    let server = ServerBuilder::new([device.root()])
        .memory("128MiB")
        .config(&format!(
            "policy = \"fixed\"\nprefetch = \"1MiB\"\n[device.\"{}\"]\nrotational = true",
            device.device_name()
        ))
        .start();
    let mut viewer = Connection::open(server.address()).expect("a connection");
    let known = listed(&server);
    let playlist = |number: usize| format!("/title-{number}/index.m3u8");
    let unknown = (0..TITLES).map(playlist).find(|path| !known.contains(path));
    let unknown = unknown.expect("the scan is over");
    let folder = unknown.trim_end_matches("index.m3u8");
    get(&mut viewer, &unknown);
    let is_listed = |titles: &Vec<String>| titles.contains(&unknown);
    eventually("the title in the list", || listed(&server), is_listed);
    let before = server.status();
    for number in 0..SEGMENTS {
        let bytes = get(&mut viewer, &format!("{folder}{number}.ts"));
        pattern::verify(number, 0, &bytes).expect("correct bytes");
    }
    let after = server.status();
    let (found, log) = (listed(&server).len(), server.output());
    drop(server);
    // The kernel's writes at unmount would take minutes.
    device.disk().switch_timing(false);
    let jobs = after.counter("jobs") - before.counter("jobs");
    assert!(
        jobs <= SEGMENTS / 4,
        "{jobs} jobs for {SEGMENTS} segments: one by one"
    );
    assert!(found < TITLES, "the scan is over: the test proves nothing");
    assert!(log.contains("some roots are still being scanned"), "{log}");
    assert!(!log.contains("scanned the roots"), "{log}");
}
