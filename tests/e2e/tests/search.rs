//! What is read while the folders of a slow disk are still being searched.

use std::fs;
use std::path::Path;
use std::time::Duration;

use headlong_e2e_tests::eventually;
use headlong_testkit::client::Connection;
use headlong_testkit::server::{ServerBuilder, Status};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, SlowDisk, pattern};

const MIB: u64 = 1 << 20;
const SEGMENTS: u64 = 40;
const SEGMENT_BYTES: u64 = 256 << 10;
/// Folders of other titles, each with its inodes and its names elsewhere on the disk.
const OTHERS: u64 = 300;
/// A search of an idle disk takes long enough that all requests come before its end.
const COMPRESSION: f64 = 0.25;

fn write_title(folder: &Path, segments: u64, bytes: u64) {
    fs::create_dir(folder).expect("a folder");
    let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n".to_string();
    for number in 0..segments {
        text.push_str(&format!("#EXTINF:4,\n{number}.ts\n"));
        let path = folder.join(format!("{number}.ts"));
        pattern::write_file(&path, number, bytes).expect("a segment");
    }
    fs::write(folder.join("index.m3u8"), text + "#EXT-X-ENDLIST\n").expect("a playlist");
}

fn get(connection: &mut Connection, target: &str) -> Vec<u8> {
    let reply = connection.request("GET", target, &[]).expect("a reply");
    assert_eq!(reply.status(), 200, "{target}");
    reply.body
}

#[test]
fn segments_are_read_ahead_although_no_search_has_been_to_their_folder() {
    if !SlowDisk::available_or_skip("segments_are_read_ahead_although_no_search_has_been_there") {
        return;
    }
    let device = BlockDevice::new(512 * MIB, DriveModel::WD_RED, COMPRESSION).expect("a device");
    for number in 0..OTHERS {
        write_title(&device.root().join(format!("other-{number}")), 8, 4096);
    }
    write_title(&device.root().join("asked-for"), SEGMENTS, SEGMENT_BYTES);
    device.start().expect("start");
    let server = ServerBuilder::new([device.root()])
        .memory("128MiB")
        .config(&format!(
            "policy = \"fixed\"\nprefetch = \"2MiB\"\n[device.\"{}\"]\nrotational = true",
            device.device_name()
        ))
        .start()
        .expect("a server");
    let mut viewer = Connection::open(server.address()).expect("a connection");
    let listed = |viewer: &mut Connection| {
        let text = String::from_utf8(get(viewer, "/library.json")).expect("text");
        (text.contains("/asked-for/index.m3u8"), text.matches("index.m3u8").count() as u64)
    };
    get(&mut viewer, "/asked-for/index.m3u8");
    let first = get(&mut viewer, "/asked-for/0.ts");
    pattern::verify(0, 0, &first).expect("the right bytes");
    eventually("the title", || listed(&mut viewer), |(is_listed, _)| *is_listed);
    let at = |what: &str| server.status().map(|status: Status| status.counter(what));
    let before = (at("jobs").expect("/status"), at("reads").expect("/status"));
    for number in 1..SEGMENTS {
        let bytes = get(&mut viewer, &format!("/asked-for/{number}.ts"));
        pattern::verify(number, 0, &bytes).expect("the right bytes");
    }
    let (jobs, reads) = (at("jobs").expect("/status"), at("reads").expect("/status"));
    let (jobs, reads) = (jobs - before.0, reads - before.1);
    assert!(reads >= 2 * jobs, "{jobs} jobs of {reads} reads: each reads one segment");
    let (_, count) = listed(&mut viewer);
    assert!(count < OTHERS, "the search was over, so that this says nothing");
    let log = server.output();
    assert!(!log.contains("scanned the roots"), "it was not: {log}");
}
