use headlong_engine::{
    Control, EngineConfig, Policy, ReaderIdentity, SavedChain, ShardMeasurements, StreamId,
    ViewerId,
};
use headlong_units::{BitRate, Duration, MIB};

use super::*;
use crate::whole_file::new_path;

fn engine(mode: Control) -> EngineConfig {
    let mut engine = EngineConfig::default();
    engine.control.mode = mode;
    engine
}

/// Learned state with this prefetch size and one viewer.
fn learned(found_bytes: u64) -> LearnedState {
    let chain = SavedChain {
        viewer: ReaderIdentity::Named(ViewerId(u64::MAX)),
        stream: StreamId(0),
        start: 1,
        end: 5,
        position: 4,
        last_request_bytes: 7,
        open_ended: true,
        pace: BitRate(8),
        idle: Duration(9),
    };
    LearnedState {
        learned: ShardMeasurements {
            reference_bytes: Some(found_bytes),
            carried: BitRate(77),
            ..ShardMeasurements::default()
        },
        chains: vec![(u64::MAX - 1, chain)],
        age: Duration::ZERO,
        told_at: std::time::Instant::now(),
    }
}

fn who<'a>(name: &'a str, paths: &'a [PathBuf]) -> DeviceIdentity<'a> {
    DeviceIdentity {
        name,
        paths,
        capacity_bytes: 1 << 40,
    }
}

fn info() -> DeviceInfo {
    DeviceInfo {
        name: "sda".into(),
        has_kernel_name: true,
        rotational: Some(true),
        capacity_bytes: 1 << 40,
        request_bytes_max: None,
        request_segments_max: None,
        st_devs: Vec::new(),
        roots: vec!["/srv/video".into()],
        beneath: Vec::new(),
    }
}

fn folder() -> (tempfile::TempDir, StateFolder, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let state = StateFolder::new(Some(folder.path().into()), Arc::default());
    (folder, state, vec!["/srv/video".into()])
}

#[test]
fn learned_state_is_loaded_at_next_start() {
    let (_folder, state, roots) = folder();
    let auto = engine(Control::Auto);
    state.write(who("sda", &roots), &auto, &learned(5 * MIB));
    // The kernel lists the roots in another order.
    let found = state.read(who("sdb", &roots), &auto, TimeScale::ONE);
    let found = found.expect("state found");
    assert_eq!(found.learned, learned(5 * MIB).learned);
    assert_eq!(found.chains, learned(5 * MIB).chains);
    assert!(found.age < Duration::from_secs(600), "{:?}", found.age);
}

#[test]
fn prefetch_size_of_other_policy_is_ignored_but_drive_kept() {
    let (_folder, state, roots) = folder();
    state.write(
        who("sda", &roots),
        &engine(Control::Auto),
        &learned(5 * MIB),
    );
    let mut other = engine(Control::Auto);
    other.sizing.policy = Policy::Fixed;
    let found = state.read(who("sda", &roots), &other, TimeScale::ONE);
    let found = found.expect("state found").learned;
    assert_eq!((found.reference_bytes, found.carried), (None, BitRate(77)));
    // With the controller off, the size is not a learned one.
    state.write(who("sda", &roots), &engine(Control::Off), &learned(5 * MIB));
    let found = state.read(who("sda", &roots), &engine(Control::Auto), TimeScale::ONE);
    assert_eq!(found.expect("state found").learned.reference_bytes, None);
}

#[test]
fn file_of_another_device_is_ignored_despite_its_name() {
    let (_folder, state, roots) = folder();
    let auto = engine(Control::Auto);
    state.write(who("sda", &roots), &auto, &learned(5 * MIB));
    let other = vec![PathBuf::from("/srv/other")];
    let read = |roots| state.read(who("sda", roots), &auto, TimeScale::ONE);
    assert!(read(&other).is_none());
    let path = |roots| state.path(who("sda", roots)).expect("a folder is set");
    std::fs::copy(path(&roots), path(&other)).expect("copied");
    assert!(read(&other).is_none());
}

#[test]
fn equal_disks_below_one_root_have_separate_state() {
    let (_folder, state, _) = folder();
    let auto = engine(Control::Auto);
    let disks = [1, 2].map(|number| DeviceInfo {
        roots: Vec::new(),
        beneath: vec![format!("/srv/d{number}").into()],
        ..info()
    });
    for (disk, size) in disks.iter().zip([5, 6]) {
        state.write(DeviceIdentity::of(disk), &auto, &learned(size * MIB));
    }
    for (disk, size) in disks.iter().zip([5, 6]) {
        let found = state.read(DeviceIdentity::of(disk), &auto, TimeScale::ONE);
        let found = found.expect("state found").learned;
        assert_eq!(found.reference_bytes, Some(size * MIB));
    }
}

#[test]
fn device_without_kernel_name_is_identified_without_capacity() {
    let (_folder, state, _) = folder();
    let auto = engine(Control::Auto);
    let mut zfs = DeviceInfo {
        has_kernel_name: false,
        ..info()
    };
    state.write(DeviceIdentity::of(&zfs), &auto, &learned(5 * MIB));
    zfs.capacity_bytes -= 1 << 30;
    assert!(
        state
            .read(DeviceIdentity::of(&zfs), &auto, TimeScale::ONE)
            .is_some()
    );
    let mut disk = info();
    state.write(DeviceIdentity::of(&disk), &auto, &learned(5 * MIB));
    disk.capacity_bytes -= 1 << 30;
    let found = state.read(DeviceIdentity::of(&disk), &auto, TimeScale::ONE);
    assert!(found.is_none(), "another disk");
}

#[test]
fn invalid_or_newer_file_is_ignored_and_replaced() {
    let (_folder, state, roots) = folder();
    let auto = engine(Control::Auto);
    let path = state.path(who("sda", &roots)).expect("a folder is set");
    state.write(who("sda", &roots), &auto, &learned(5 * MIB));
    let whole = std::fs::read(&path).expect("written");
    let text = String::from_utf8(whole.clone()).expect("JSON");
    let newer = text.replace("\"version\":1", "\"version\":2").into_bytes();
    let mut broken = vec![
        newer,
        b"{\"roots\": [".to_vec(),
        b"\0\xff".to_vec(),
        Vec::new(),
    ];
    broken.extend(
        (0..whole.len())
            .step_by(97)
            .map(|end| whole[..end].to_vec()),
    );
    for bytes in broken {
        std::fs::write(&path, bytes).expect("written");
        let found = state.read(who("sda", &roots), &auto, TimeScale::ONE);
        assert!(found.is_none());
    }
    state.write(who("sda", &roots), &auto, &learned(5 * MIB));
    assert!(
        state
            .read(who("sda", &roots), &auto, TimeScale::ONE)
            .is_some()
    );
}

#[test]
fn nothing_is_read_or_written_without_a_folder() {
    let (folder, _, roots) = folder();
    let none = StateFolder::new(None, Arc::default());
    let auto = engine(Control::Auto);
    none.write(who("sda", &roots), &auto, &learned(5 * MIB));
    assert!(
        none.read(who("sda", &roots), &auto, TimeScale::ONE)
            .is_none()
    );
    let mut files = std::fs::read_dir(folder.path()).expect("readable");
    assert!(files.next().is_none());
}

#[test]
fn removes_temporary_files_of_ended_processes_only() {
    let (_folder, state, roots) = folder();
    let path = state.path(who("sda", &roots)).expect("a folder is set");
    let mut gone = std::process::Command::new("true").spawn().expect("started");
    gone.wait().expect("ended");
    let half = |process| {
        let path = new_path(&path, process);
        std::fs::write(&path, "half").expect("written");
        path
    };
    let (own, of_gone, of_running) = (half(std::process::id()), half(gone.id()), half(1));
    let auto = engine(Control::Auto);
    state.write(who("sda", &roots), &auto, &learned(5 * MIB));
    assert_eq!(
        [own, of_gone, of_running].map(|path| path.exists()),
        [false, false, true]
    );
    assert!(
        state
            .read(who("sda", &roots), &auto, TimeScale::ONE)
            .is_some()
    );
}

#[test]
fn failed_write_leaves_no_file() {
    let (folder, state, roots) = folder();
    let path = state.path(who("sda", &roots)).expect("a folder is set");
    std::fs::create_dir_all(path.join("in the way")).expect("made");
    state.write(
        who("sda", &roots),
        &engine(Control::Auto),
        &learned(5 * MIB),
    );
    let files = std::fs::read_dir(folder.path()).expect("readable");
    assert_eq!(files.count(), 1, "only the obstacle is left");
}

#[tokio::test]
async fn at_most_one_write_per_device_hangs() {
    let (folder, state, _) = folder();
    let root = tempfile::tempdir().expect("a folder");
    std::fs::write(root.path().join("film.mp4"), "film").expect("written");
    let media = crate::start::media_state(root.path());
    let device = &media.devices[0];
    let info = &media.library.devices()[0];
    let who = || DeviceIdentity::of(info);
    let path = state.path(who()).expect("a folder is set");
    // Opening the pipe for writing blocks until a reader opens it.
    let pipe = new_path(&path, std::process::id());
    let (at, mode) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(at, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let remember = || crate::tasks::remember(&media, &state);
    tokio::join!(remember(), remember(), remember());
    let text = std::fs::read(&pipe).expect("a write is in progress");
    let written: Result<DeviceStateFile, _> = serde_json::from_slice(&text);
    written.expect("one wrote");
    // Syncing a pipe fails; afterwards the file is absent.
    remember().await;
    let found = state.read(who(), &device.config(), TimeScale::ONE);
    assert!(found.is_some(), "the next write gets the lock");
    let files = std::fs::read_dir(folder.path()).expect("readable");
    assert_eq!(files.count(), 1);
    device.shutdown().await;
}
