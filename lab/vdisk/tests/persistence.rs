//! A persistent disk has the same content when it is reopened.

mod rig;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use headlong_vdisk::store::{StoreManifest, WordSequence};
use headlong_vdisk::{DiskOptions, FileSystem, StoreOptions, VirtualDisk};
use rig::{can_run, options};

const MIB: u64 = 1 << 20;
/// The minimum size of all kinds of file systems.
const SIZE: u64 = 512 * MIB;

fn kept(directory: &Path, kind: FileSystem) -> DiskOptions {
    let mut options = options(SIZE, 1.0);
    options.file_system = Some(kind);
    options.file.store = Some(StoreOptions {
        directory: directory.to_owned(),
        drive: "wd-red".to_owned(),
        force_new: false,
    });
    options
}

fn title(bytes: u64) -> Vec<u8> {
    let mut title = vec![0; bytes as usize];
    let sequence = WordSequence {
        first: 17,
        step: 0x0123_4567_89ab_cdef,
    };
    sequence.fill(&mut title);
    title
}

fn disk_usage(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(directory).expect("the store").flatten();
    entries
        .map(|entry| entry.metadata().expect("its metadata").blocks() * 512)
        .sum()
}

#[test]
fn persistent_disk_is_reopened_with_files_in_little_space() {
    if !can_run("persistent_disk_is_reopened_with_files_in_little_space") {
        return;
    }
    for &kind in FileSystem::ALL {
        let missing = VirtualDisk::missing(Some(kind));
        if !missing.is_empty() {
            headlong_testkit::skip(&format!("persistent_disk with {kind}"), &missing.join("; "));
            continue;
        }
        let store = tempfile::tempdir().expect("a directory");
        // Not a whole number of pages: the last one ends in zeros.
        let title = title(100 * MIB + 1234);
        let disk = VirtualDisk::start(kept(store.path(), kind)).expect("a new disk");
        assert!(!disk.info().is_reopened);
        let root = disk.mount().expect("mounted");
        fs::write(root.join("title"), &title).expect("write");
        fs::write(root.join("note"), "nothing regular about this").expect("write");
        disk.close().expect("clean");
        assert!(disk_usage(store.path()) < 40 * MIB, "{kind}");

        let disk = VirtualDisk::start(kept(store.path(), kind)).expect("the disk again");
        assert!(disk.info().is_reopened);
        let root = disk.mount().expect("mounted");
        assert!(
            fs::read(root.join("title")).expect("read") == title,
            "{kind}"
        );
        let note = fs::read_to_string(root.join("note")).expect("read");
        assert_eq!(note, "nothing regular about this");
    }
}

#[test]
fn vanished_disk_leaves_store_unclean() {
    if !can_run("vanished_disk_leaves_store_unclean") {
        return;
    }
    let store = tempfile::tempdir().expect("a directory");
    let is_clean = || {
        StoreManifest::read(store.path())
            .expect("a store")
            .expect("a manifest")
            .is_clean
    };
    let disk = VirtualDisk::start(kept(store.path(), FileSystem::Ext4)).expect("a disk");
    assert!(is_clean(), "unchanged since the start");
    let root = disk.mount().expect("mounted");
    let mut file = fs::File::create(root.join("file")).expect("a file");
    file.write_all(b"before").expect("write");
    file.sync_all().expect("written");
    assert!(!is_clean());
    disk.file().add_fault(headlong_vdisk::Fault::Vanish);
    file.write_all(b"after").expect("into the page cache");
    file.sync_all().expect_err("the disk has vanished");
    drop(file);
    let error = disk.close().expect_err("not clean").to_string();
    assert!(error.contains("refused"), "{error}");
    assert!(!is_clean());
}
