//! A disk that hangs answers all requests after the hang, whatever was switched meanwhile.

mod rig;

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use headlong_vdisk::{DiskOptions, Fault, VirtualDisk};
use rig::{can_run, options};

const PAGE: usize = 4096;

/// Waits until the condition holds; returns whether it does.
fn comes_to_be(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    is_so()
}

#[test]
fn held_read_is_answered_if_timing_starts_during_hang() {
    if !can_run("held_read_is_answered_if_timing_starts_during_hang") {
        return;
    }
    let disk = VirtualDisk::start(DiskOptions {
        file_system: None,
        ..options(64 << 20, 1.0)
    });
    let disk = disk.expect("a disk");
    disk.file().add_fault(Fault::Hang(None));
    let device = disk.device().to_owned();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 2 * PAGE];
        let skip = buffer.as_ptr().align_offset(PAGE);
        let mut options = File::options();
        // Bypasses the page cache: one request, and no other that would pull it along.
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        let file = options.read(true).open(device)?;
        file.read_exact_at(&mut buffer[skip..skip + PAGE], 32 << 20)
    });
    let has_come = comes_to_be(|| disk.file().outstanding_bytes() > 0);
    disk.file().switch_timing(true);
    disk.file().release();
    let is_answered = comes_to_be(|| reader.is_finished());
    // Lets the reader end in any case.
    disk.close().expect("clean");
    let read = reader.join().expect("no panic");
    assert!(has_come && is_answered);
    read.expect("a successful read");
}
