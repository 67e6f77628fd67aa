//! Inspection of a real block device: the layout of files on it, and its performance.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use headlong_testkit::server::binary;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, SlowDisk};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn headlong(args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).output().expect("the binary starts")
}

fn json(args: &[&str]) -> Value {
    let output = headlong(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// Two files that grow in turn, each growth synced before the next: fragmented as by a recorder of
/// two channels.
fn torn(folder: &Path) {
    fs::create_dir_all(folder).expect("made");
    let mut files =
        ["000001.bin", "000002.bin"].map(|name| File::create(folder.join(name)).expect("made"));
    for _ in 0..4 {
        for file in &mut files {
            file.write_all(&vec![7; MIB as usize]).expect("written");
            file.sync_all().expect("on disk");
        }
    }
}

#[test]
fn layout_matches_file_system_and_disk_reads() {
    if !SlowDisk::available_or_skip("a layout on a real block device") {
        return;
    }
    let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 1.0).expect("a device");
    let folder = device.root().join("sd");
    torn(&folder);
    let all = json(&["disk", "layout", name(&folder), "--json"]);
    assert_eq!(all["layout"]["device"], device.device_name());
    assert_eq!(all["layout"]["device_sectors"], 256 * MIB / 512);
    let titles = all["layout"]["titles"].as_array().expect("a list");
    assert_eq!(titles.len(), 2);
    for title in titles {
        let file = &title["files"][0];
        let path = folder.join(file["path"].as_str().expect("a path"));
        let number = |extent: &Value, key: &str| extent[key].as_u64().expect("a number");
        let told: Vec<(u64, u64, u64)> = file["extents"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|e| {
                (
                    number(e, "offset_bytes"),
                    number(e, "lba") * 512,
                    number(e, "length_bytes"),
                )
            })
            .collect();
        // e2fsprogs queries the same kernel independently, and does not join adjacent extents.
        let extents = device.extents(&path).expect("extents");
        assert_eq!(told.iter().map(|e| e.2).sum::<u64>(), 4 * MIB);
        for extent in &extents {
            let holds = |(offset, physical, length): &(u64, u64, u64)| {
                (*offset..offset + length).contains(&extent.offset)
                    && physical + (extent.offset - offset) == extent.physical
            };
            assert!(told.iter().any(holds), "{extent:?} {told:?}");
        }
        // Reads reach the disk at the first reported position.
        device.start().expect("caches are cold");
        fs::read(&path).expect("read");
        let records = device.disk().trace();
        let start = told[0].1;
        let is_read = |record: &headlong_testkit::slow_disk::Record| {
            !record.write && (record.offset..record.offset + record.length).contains(&start)
        };
        assert!(records.records().iter().any(is_read), "{start} {records:?}");
    }
}

#[test]
fn probe_of_mounted_device_does_not_write() {
    if !SlowDisk::available_or_skip("a probe of a real block device") {
        return;
    }
    let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 1.0).expect("a device");
    let path = format!("/dev/{}", device.device_name());
    let written = device.disk().counters().written_bytes;
    let output = headlong(&["disk", "probe", &path, "--write", "--yes-destroy-data"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    let point = name(device.root());
    assert!(
        stderr.contains("in use") && stderr.contains(point),
        "{stderr}"
    );
    assert_eq!(device.disk().counters().written_bytes, written);

    // Without timing, so this checks no speed: only that every request arrives.
    device.disk().forget_trace();
    let probe = json(&["disk", "probe", &path, "--rpm", "5400", "--json"]);
    assert_eq!(probe["capacity_bytes"], 256 * MIB);
    let trace = device.disk().trace();
    let reads = trace.records().iter().filter(|record| !record.write);
    let bytes: u64 = reads.map(|record| record.length).sum();
    // 1800 single blocks, and three times 100 MiB and one block.
    let block_bytes = 512;
    let probed = 300 * MIB + 1803 * block_bytes;
    // The mounted file system may read a few blocks of its own meanwhile.
    assert!((probed..probed + MIB).contains(&bytes), "{bytes}");
    assert_eq!(device.disk().counters().written_bytes, written);
}
