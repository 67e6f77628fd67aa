//! The slow disk, its block device and its guards, on the real kernel.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use headlong_testkit::slow_disk::{DriveModel, SlowDisk};
use headlong_testkit::{BlockDevice, leftovers, pattern};

const MIB: u64 = 1 << 20;
/// High enough for a fast test, low enough to be visible in the trace.
const COMPRESSION: f64 = 20.0;

fn disk(size_bytes: u64) -> SlowDisk {
    SlowDisk::new(size_bytes, DriveModel::WD_RED, COMPRESSION).expect("a slow disk")
}

fn open(disk: &SlowDisk) -> File {
    File::options()
        .read(true)
        .write(true)
        .open(disk.path())
        .expect("the disk's file")
}

/// Waits until the condition holds; returns false if it does not within a minute.
fn within_a_minute(is_it: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if is_it() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn written_data_is_read_back() {
    if !SlowDisk::available_or_skip("written_data_is_read_back") {
        return;
    }
    let disk = disk(16 * MIB);
    let file = open(&disk);
    let data = pattern::bytes(1, 0..4 * MIB);
    file.write_all_at(&data, 5 * MIB).expect("write");
    disk.switch_timing(true);
    let mut read = vec![0; data.len()];
    file.read_exact_at(&mut read, 5 * MIB).expect("read");
    assert!(read == data);
    assert_eq!(disk.counters().read_bytes, 4 * MIB);
    assert_eq!(disk.trace().reads(0).bytes(), 4 * MIB);
}

#[test]
fn service_time_grows_with_seek_distance() {
    if !SlowDisk::available_or_skip("service_time_grows_with_seek_distance") {
        return;
    }
    let disk = disk(256 * MIB);
    let file = open(&disk);
    disk.switch_timing(true);
    let mut buffer = vec![0; 64 << 10];
    for offset in [0, 64 << 10, 192 << 10, 255 * MIB] {
        file.read_exact_at(&mut buffer, offset).expect("read");
    }
    let trace = disk.trace();
    let service: Vec<Duration> = trace
        .records()
        .iter()
        .map(|record| record.service)
        .collect();
    let transfer = DriveModel::WD_RED.transfer_time(64 << 10);
    assert_eq!(service[1], transfer, "continued");
    assert!(
        service[2] > transfer + DriveModel::WD_RED.turn / 2,
        "near: {service:?}"
    );
    assert!(
        service[3] > service[2] + Duration::from_millis(15),
        "far: {service:?}"
    );
    for record in trace.records() {
        assert!(
            record.completed >= record.started + record.service,
            "{record:?}"
        );
    }
}

#[test]
fn concurrent_requests_are_served_one_at_a_time() {
    if !SlowDisk::available_or_skip("concurrent_requests_are_served_one_at_a_time") {
        return;
    }
    let disk = disk(64 * MIB);
    disk.switch_timing(true);
    // Hung until all have arrived, so that they are certain to overlap.
    disk.hang(None);
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let file = open(&disk);
            scope.spawn(move || {
                let mut buffer = vec![0; 4096];
                file.read_exact_at(&mut buffer, reader * 16 * MIB)
                    .expect("read");
            });
        }
        let met = || disk.counters().outstanding_max >= 4;
        let all_met = within_a_minute(met);
        // Released before any assertion can fail: the scope waits for the readers.
        disk.release();
        assert!(all_met);
    });
    let trace = disk.trace();
    assert_eq!(trace.outstanding_runs_max(), 4);
    let mut spans: Vec<_> = trace
        .records()
        .iter()
        .map(|record| (record.started, record.started + record.service))
        .collect();
    spans.sort();
    assert!(
        spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "{spans:?}"
    );
}

#[test]
fn faults_apply_until_healed() {
    if !SlowDisk::available_or_skip("faults_apply_until_healed") {
        return;
    }
    let disk = disk(16 * MIB);
    let file = open(&disk);
    let mut buffer = vec![0; 4096];
    let errno = |result: std::io::Result<()>| result.expect_err("an error").raw_os_error();
    let eio = Some(rustix::io::Errno::IO.raw_os_error());

    disk.fail_read_once(MIB..MIB + 1);
    assert_eq!(errno(file.read_exact_at(&mut buffer, MIB)), eio);
    file.read_exact_at(&mut buffer, MIB).expect("once only");

    disk.fail_reads(2 * MIB..3 * MIB);
    for _ in 0..3 {
        assert_eq!(errno(file.read_exact_at(&mut buffer, 2 * MIB + 4096)), eio);
    }
    file.read_exact_at(&mut buffer, 4 * MIB)
        .expect("outside the bad range");

    disk.vanish();
    assert_eq!(errno(file.read_exact_at(&mut buffer, 0)), eio);
    disk.heal();
    file.read_exact_at(&mut buffer, 2 * MIB).expect("healed");
    assert_eq!(disk.counters().errors, 5);
}

#[test]
fn hang_delays_requests_until_it_ends() {
    if !SlowDisk::available_or_skip("hang_delays_requests_until_it_ends") {
        return;
    }
    let disk = disk(16 * MIB);
    let file = open(&disk);
    let begun = disk.now();
    disk.hang(Some(Duration::from_millis(200)));
    let mut buffer = vec![0; 4096];
    file.read_exact_at(&mut buffer, 0)
        .expect("answered after the hang");
    let completed = disk.trace().records()[0].completed;
    assert!(completed - begun >= Duration::from_millis(200).mul_f64(COMPRESSION));
    // In an endless hang the guard can still be dropped; the reader gets an error.
    disk.hang(None);
    let reader = std::thread::spawn(move || file.read_exact_at(&mut [0; 4096], 0));
    assert!(within_a_minute(|| disk.outstanding_bytes() > 0));
    drop(disk);
    assert!(reader.join().expect("no panic").is_err());
}

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

#[test]
fn large_direct_read_is_one_run() {
    if !SlowDisk::available_or_skip("large_direct_read_is_one_run") {
        return;
    }
    let device = BlockDevice::new(128 * MIB, DriveModel::WD_RED, COMPRESSION).expect("a device");
    let path = device.root().join("title.bin");
    pattern::write_file(&path, 4, 32 * MIB).expect("fill");
    device.start().expect("start");
    let read = |block: &str, skip: u64| {
        Command::new("dd")
            .arg(format!("if={}", path.display()))
            .args(["of=/dev/null", "iflag=direct", "status=none", "count=1"])
            .args([format!("bs={block}"), format!("skip={skip}")])
            .spawn()
            .expect("dd")
    };
    // The first read makes the file system read its metadata.
    assert!(read("4k", 0).wait().expect("dd").success());
    let disk = device.disk();
    disk.forget_trace();
    for skip in [1, 3] {
        // Hung until the whole read is queued, so that a busy machine cannot spread it out.
        disk.hang(None);
        let mut dd = read("8M", skip);
        let is_whole = within_a_minute(|| disk.outstanding_bytes() >= 8 * MIB);
        disk.release();
        assert!(is_whole);
        assert!(dd.wait().expect("dd").success());
    }
    let reads = disk.trace().reads(0);
    let runs = reads.runs();
    let lengths: Vec<u64> = runs.iter().map(|run| run.length).collect();
    assert_eq!(
        lengths,
        [8 * MIB, 8 * MIB],
        "split into {:?}",
        reads.records()
    );
    assert_eq!(reads.outstanding_runs_max(), 1);
    assert!(
        reads.outstanding_requests_max() > 1,
        "the trace has the kernel's requests"
    );
}
