//! Shared by these tests: whether they can run, and a small disk.

use headlong_drive::{DriveSpec, preset};
use headlong_vdisk::control::StopSignal;
use headlong_vdisk::{DiskOptions, FileOptions, FileSystem, QueueSettings, VirtualDisk};

/// Whether this machine can emulate disks; otherwise marks the test as skipped.
pub(crate) fn can_run(test: &str) -> bool {
    let missing = VirtualDisk::missing(Some(FileSystem::Ext4));
    if missing.is_empty() {
        return true;
    }
    headlong_testkit::skip(test, &missing.join("; "));
    false
}

/// A small hard drive.
pub(crate) fn spec(size_bytes: u64) -> DriveSpec {
    let spec = preset("wd-red-wd10efrx").expect("a preset");
    spec.scaled_to(size_bytes)
}

/// A disk with that drive: ext4, not persistent, without a control socket.
pub(crate) fn options(size_bytes: u64, time_scale: f64) -> DiskOptions {
    DiskOptions {
        file: FileOptions {
            drive: spec(size_bytes).build(),
            queue_depth: None,
            time_scale,
            store: None,
        },
        file_system: Some(FileSystem::Ext4),
        inodes: None,
        mount: None,
        queue: QueueSettings {
            is_rotational: true,
            ..QueueSettings::default()
        },
        control: None,
        stop: StopSignal::default(),
    }
}
