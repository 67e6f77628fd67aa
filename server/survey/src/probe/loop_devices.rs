//! Loop devices over a device or a file. The kernel does not count them as users: it allows opening
//! either exclusively, and writing below the file system of a mounted loop device.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

/// The loop devices over `below`, by their kernel names and numbers. `sys` is a tree like `/sys`.
pub(super) fn loops_over(sys: &Path, below: &Metadata) -> Vec<(String, u64)> {
    let Ok(devices) = fs::read_dir(sys.join("block")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for device in devices.flatten() {
        let of = |path: &str| fs::read_to_string(device.path().join(path)).ok();
        // Only loop devices with a file have this entry.
        let Some(backing) = of("loop/backing_file") else {
            continue;
        };
        // A file whose name was removed cannot be given as an argument either.
        let Ok(backing) = fs::metadata(backing.trim_end_matches('\n')) else {
            continue;
        };
        if share_bytes(sys, below, &backing) {
            let name = device.file_name().to_string_lossy().into_owned();
            found.push((name, of("dev").and_then(|dev| number(&dev)).unwrap_or(0)));
        }
    }
    found.sort();
    found
}

/// Whether both are the same file or device, or one is a partition of the other.
fn share_bytes(sys: &Path, one: &Metadata, other: &Metadata) -> bool {
    match (is_device(one), is_device(other)) {
        (false, false) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (true, true) => match (folder(sys, one.rdev()), folder(sys, other.rdev())) {
            (Some(one), Some(other)) => one.starts_with(&other) || other.starts_with(&one),
            _ => one.rdev() == other.rdev(),
        },
        _ => false,
    }
}

fn is_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_block_device()
}

/// The kernel's folder of a device: for a partition, below its disk.
pub(super) fn folder(sys: &Path, device: u64) -> Option<PathBuf> {
    let number = format!("{}:{}", major(device), minor(device));
    sys.join("dev/block").join(number).canonicalize().ok()
}

/// Parses a device number such as `7:3`.
fn number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_device_is_found_by_its_backing_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (film, other) = (folder.path().join("a film"), folder.path().join("other"));
        for file in [&film, &other] {
            fs::write(file, "bytes").expect("written");
        }
        let linked = folder.path().join("linked");
        fs::hard_link(&film, &linked).expect("linked");
        let sys = folder.path().join("sys");
        for (name, dev, backing) in [
            ("loop3", "7:3\n", Some(&linked)),
            ("loop4", "7:4\n", Some(&other)),
            ("loop5", "7:5\n", None),
            ("sda", "8:0\n", None),
        ] {
            let device = sys.join("block").join(name);
            fs::create_dir_all(device.join("loop")).expect("made");
            fs::write(device.join("dev"), dev).expect("written");
            if let Some(backing) = backing {
                let text = format!("{}\n", backing.display());
                fs::write(device.join("loop/backing_file"), text).expect("written");
            }
        }
        let over = |path: &Path| loops_over(&sys, &fs::metadata(path).expect("there"));
        assert_eq!(over(&film), [("loop3".to_owned(), makedev(7, 3))]);
        assert!(over(&sys).is_empty());
    }
}
