//! A mount and its disks: the disk is read in long runs, a bad sector is an error only for its
//! readers, and a disk that hangs delays only its own readers, and those for a limited time.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Mount, Title, eventually};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, SlowDisk, pattern};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;

fn available_or_skip(test: &str) -> bool {
    Mount::available_or_skip(test) && SlowDisk::available_or_skip(test)
}

/// A mount with these settings.
fn mounted(scratch: &Scratch, tree: &Path, settings: &str) -> Mount {
    let config = scratch.path().join("mount.toml");
    fs::write(&config, settings).expect("written");
    let config = config.to_str().expect("a text");
    Mount::start_with(tree, &scratch.path().join("point"), &["--config", config])
}

#[test]
fn paced_readers_cause_long_disk_reads() {
    if !available_or_skip("a mount on a slow disk") {
        return;
    }
    let device = BlockDevice::new(512 * MIB, DriveModel::WD_RED, 4.0).expect("a device");
    let titles: Vec<Title> = fill_root(device.root(), 6, 32 * MIB).expect("titles");
    device.start().expect("start");
    let scratch = Scratch::new("mount-disks").expect("a folder");
    let settings = "memory = \"128MiB\"\npolicy = \"fixed\"\nprefetch = \"4MiB\"\n";
    let mount = mounted(&scratch, device.root(), settings);
    device.disk().forget_trace();
    std::thread::scope(|scope| {
        for title in &titles {
            let path = mount.path(title.target.trim_start_matches('/'));
            scope.spawn(move || {
                let mut file = File::open(path).expect("opened");
                let (mut bytes, mut at) = (vec![0; 100_000], 0);
                while at < 16 * MIB {
                    file.read_exact(&mut bytes).expect("read");
                    pattern::verify(title.number, at, &bytes).expect("correct bytes");
                    at += bytes.len() as u64;
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
    });
    let trace = device.disk().trace();
    let bytes = |trace: &headlong_testkit::slow_disk::Trace| -> u64 {
        trace.records().iter().map(|record| record.length).sum()
    };
    // The kernel splits one read into consecutive requests; without the engine it reads 128 KiB
    // ahead.
    let reads = trace.reads(200 << 10);
    let (long, all) = (bytes(&reads), bytes(&trace.reads(0)));
    assert!(long >= 90 * MIB, "{long} of {all} bytes in long reads");
    assert!(long * 10 > all * 9, "{long} of {all} bytes in long reads");
    let jobs = mount.counter("jobs");
    assert!(jobs < 80, "{jobs} jobs for 96 MiB");
}

#[test]
fn bad_sector_is_an_error_only_for_its_readers() {
    if !available_or_skip("a mount on a disk with a bad place") {
        return;
    }
    let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
    let titles = fill_root(device.root(), 2, 8 * MIB).expect("titles");
    device.start().expect("start");
    let extents = device.extents(&titles[0].path).expect("extents");
    let bad = extents
        .iter()
        .find(|extent| (extent.offset..extent.offset + extent.length).contains(&(4 * MIB)));
    let bad = bad
        .map(|extent| extent.physical + 4 * MIB - extent.offset)
        .expect("an extent");
    device.disk().fail_reads(bad..bad + 64 * 1024);
    let scratch = Scratch::new("mount-disks").expect("a folder");
    let mount = mounted(
        &scratch,
        device.root(),
        "memory = \"64MiB\"\nread_ahead = \"0B\"\n",
    );
    let file = File::open(mount.path("title-0.bin")).expect("opened");
    let read = |file: &File, offset: u64| {
        let mut bytes = vec![0; 32 * 1024];
        file.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    for offset in [0, 4 * MIB - 64 * 1024, 4 * MIB + 128 * 1024, 7 * MIB] {
        let bytes = read(&file, offset).expect("a range beside the bad sector");
        pattern::verify(0, offset, &bytes).expect("correct bytes");
    }
    let error = read(&file, 4 * MIB + 16 * 1024).expect_err("the bad sector");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    let other = fs::read(mount.path("title-1.bin")).expect("another file");
    pattern::verify(1, 0, &other).expect("correct bytes");
    device.disk().heal();
    let again = || read(&file, 4 * MIB + 16 * 1024).ok();
    let bytes = eventually("the repaired sector", again, Option::is_some).expect("read");
    pattern::verify(0, 4 * MIB + 16 * 1024, &bytes).expect("correct bytes");
}

/// A bind mount; removed when dropped.
struct Bound(PathBuf);

impl Bound {
    fn new(from: &Path, to: PathBuf) -> Self {
        fs::create_dir(&to).expect("made");
        mount_bind(from, &to).expect("bound");
        Self(to)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn hung_disk_fails_only_its_own_readers_in_time() {
    if !available_or_skip("a mount on a disk that hangs") {
        return;
    }
    let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
    fill_root(device.root(), 2, 8 * MIB).expect("titles");
    device.start().expect("start");
    let scratch = Scratch::new("mount-disks").expect("a folder");
    let tree = scratch.directory("tree").expect("a folder");
    let good = Title::create(&tree, "good.bin", 7, 4 * MIB).expect("written");
    let _bound = Bound::new(device.root(), tree.join("slow"));
    let settings = "memory = \"64MiB\"\nread_timeout = \"1s\"\nwait_timeout = \"2s\"\n\
                    offline_retry = \"200ms\"\npage_cache = false\nchunk_files_ahead = false\n";
    let mount = mounted(&scratch, &tree, settings);
    let slow = |number: u64| mount.path(&format!("slow/title-{number}.bin"));
    pattern::verify(0, 0, &fs::read(slow(0)).expect("read")).expect("correct bytes");

    let file = File::open(slow(1)).expect("opened");
    device.disk().hang(None);
    let failed = std::thread::scope(|scope| {
        let read = || {
            let mut bytes = vec![0; 4096];
            file.read_exact_at(&mut bytes, 5 * MIB)
        };
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        // Meanwhile, more often than there are threads for requests.
        for _ in 0..50 {
            let bytes = fs::read(mount.path("good.bin")).expect("the other disk is healthy");
            pattern::verify(good.number, 0, &bytes).expect("correct bytes");
        }
        let ends = readers
            .into_iter()
            .map(|reader| reader.join().expect("no panic"));
        ends.collect::<Vec<_>>()
    });
    for end in failed {
        let error = end.expect_err("the disk hangs");
        assert_eq!(
            Errno::from_io_error(&error),
            Some(Errno::IO),
            "{}",
            mount.log()
        );
    }
    device.disk().release();
    let again = || {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, 5 * MIB).map(|()| bytes).ok()
    };
    let bytes = eventually("the released disk", again, Option::is_some).expect("read");
    pattern::verify(1, 5 * MIB, &bytes).expect("correct bytes");
}

/// More than a file system has threads for look-ups.
const LOOKERS: usize = 40;

#[test]
fn hung_nested_mount_does_not_delay_its_parent_folder() {
    if !Mount::available_or_skip("a mount below a mount that hangs") {
        return;
    }
    let scratch = Scratch::new("mount-disks").expect("a folder");
    let [tree, far] = ["tree", "far"].map(|name| scratch.directory(name).expect("a folder"));
    let good = Title::create(&tree, "good.bin", 7, MIB).expect("written");
    fs::write(far.join("file"), "far").expect("written");
    // No look-up is cached, so each one sends a request.
    let config = scratch.path().join("far.toml");
    fs::write(&config, "memory = \"64MiB\"\nrevalidate = \"0s\"\n").expect("written");
    let config = config.to_str().expect("a text");
    let inner = Mount::start_with(&far, &tree.join("inner"), &["--config", config]);
    let settings = "memory = \"64MiB\"\nread_timeout = \"1s\"\nwait_timeout = \"2s\"\n\
                    revalidate = \"0s\"\n";
    let mount = mounted(&scratch, &tree, settings);
    // Dropped first, also if the test fails: processes that wait for it cannot end earlier.
    let inner = inner;
    let read_far = || fs::read(mount.path("inner/file")).ok();
    assert_eq!(read_far().as_deref(), Some(&b"far"[..]));

    inner.signal(Signal::STOP);
    let listed = fs::read_dir(mount.point()).expect("the folder is on the other disk");
    let names: Vec<_> = listed
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    for name in ["good.bin", "inner"] {
        assert!(names.contains(&name.into()), "{name}: {names:?}");
    }
    std::thread::scope(|scope| {
        let look = || fs::metadata(mount.path("inner"));
        let lookers: Vec<_> = (0..LOOKERS).map(|_| scope.spawn(look)).collect();
        loop {
            let bytes = fs::read(mount.path("good.bin")).expect("the other disk is healthy");
            pattern::verify(good.number, 0, &bytes).expect("correct bytes");
            if lookers.iter().any(|looker| looker.is_finished()) {
                break;
            }
        }
        // The kernel serializes look-ups, so not all of them have failed.
        inner.signal(Signal::CONT);
        let ends = lookers
            .into_iter()
            .map(|looker| looker.join().expect("no panic"));
        let errors: Vec<_> = ends.filter_map(Result::err).collect();
        assert!(!errors.is_empty(), "some look-ups fail");
        for error in errors {
            assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
        }
    });
    eventually("the resumed file system", read_far, Option::is_some);
}

#[test]
fn reopening_program_is_one_chain_and_two_are_two() {
    if !Mount::available_or_skip("chains of a mount") {
        return;
    }
    let library = headlong_e2e_tests::Library::new(1, 16 * MIB).expect("titles");
    let scratch = Scratch::new("mount-disks").expect("a folder");
    let settings = "memory = \"64MiB\"\nread_ahead = \"0B\"\n";
    let mount = mounted(&scratch, library.root(), settings);
    let part = |offset: u64| {
        let file = File::open(mount.path("title-0.bin")).expect("opened");
        let mut bytes = vec![0; 256 * 1024];
        file.read_exact_at(&mut bytes, offset).expect("read");
        pattern::verify(0, offset, &bytes).expect("correct bytes");
    };
    let places = (0..24).map(|number| number * 256 * 1024);
    for place in places.clone() {
        part(place);
    }
    assert_eq!(mount.counter("chains"), 1, "{}", mount.status());
    for place in places.skip(1) {
        part(place + 7 * MIB);
        part(place + 7 * MIB / 2);
    }
    assert!(mount.counter("chains") <= 3, "{}", mount.status());
    assert_eq!(mount.counter("requests_failed"), 0);
}
