//! Measurement of a real block device.

use std::path::Path;
use std::process::Command;

use headlong_testkit::server::binary;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, ProgramRun, SlowDisk};

const MIB: u64 = 1 << 20;

fn headlong(args: &[&str]) -> ProgramRun {
    ProgramRun::of(Command::new(binary()).args(args))
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
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
    let stderr = output.exits_with(64).stderr;
    let point = name(device.root());
    assert!(
        stderr.contains("in use") && stderr.contains(point),
        "{stderr}"
    );
    assert_eq!(device.disk().counters().written_bytes, written);

    // Without timing, so this checks no speed: only that every request arrives.
    device.disk().forget_trace();
    let probe = headlong(&["disk", "probe", &path, "--rpm", "5400", "--json"]);
    let probe = probe.exits_with(0).json();
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
