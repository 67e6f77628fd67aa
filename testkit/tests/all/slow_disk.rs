//! The slow disk, its block device and its guards, on the real kernel.

use std::fs::{self, File};

use headlong_testkit::slow_disk::{DriveModel, SlowDisk};
use headlong_testkit::{BlockDevice, leftovers, pattern};

const MIB: u64 = 1 << 20;
/// High enough for a fast test, low enough to be visible in the trace.
const COMPRESSION: f64 = 20.0;

#[test]
fn file_system_on_disk_serves_correct_bytes() {
    if !SlowDisk::available_or_skip("file_system_on_disk_serves_correct_bytes") {
        return;
    }
    let device = BlockDevice::new(128 * MIB, DriveModel::WD_RED, COMPRESSION).expect("a device");
    let path = device.root().join("title.bin");
    pattern::write_file(&path, 4, 20 * MIB).expect("fill");
    device.start().expect("start");

    let data = fs::read(&path).expect("read");
    pattern::verify(4, 0, &data).expect("right bytes");
    let reads = device.disk().trace().reads(0);
    assert!(
        reads.bytes() >= 20 * MIB,
        "{} bytes came from the disk",
        reads.bytes()
    );
    assert!(reads.service_time() > DriveModel::WD_RED.transfer_time(20 * MIB));
}

#[test]
fn panic_leaves_nothing_behind() {
    if !SlowDisk::available_or_skip("panic_leaves_nothing_behind") {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let device = BlockDevice::new(32 * MIB, DriveModel::WD_RED, COMPRESSION).expect("a device");
        sender
            .send(device.disk().directory().to_owned())
            .expect("the receiver lives");
        device.disk().hang(None);
        let _held = File::open(device.root()).expect("the root");
        panic!("on purpose");
    })
    .join();
    assert!(outcome.is_err());
    let directory = receiver.recv().expect("a directory");
    assert_eq!(leftovers::mounts_below(&directory), []);
    assert_eq!(
        leftovers::loop_devices_below(&directory),
        Vec::<std::path::PathBuf>::new()
    );
    assert!(!directory.exists());
}
