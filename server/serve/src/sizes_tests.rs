use headlong_engine::{Control, ControlView, DeviceState, EngineConfig, Policy, Reason};

use super::*;
use crate::admin::testing;

fn engine(mode: Control) -> EngineConfig {
    let mut engine = EngineConfig::default();
    engine.control.mode = mode;
    engine
}

/// A device whose controller found this size.
fn device(found_bytes: u64) -> DeviceSnapshot {
    let mut device = testing::device("sda", DeviceState::Online);
    device.control = Some(ControlView {
        mode: Control::Auto,
        bytes: found_bytes,
        target_bytes: found_bytes,
        score: None,
        reason: Some(Reason::Optimum),
        drive: None,
    });
    device
}

fn who(device: &DeviceSnapshot) -> Who<'_> {
    Who {
        name: &device.name,
        roots: &device.roots,
        capacity_bytes: device.capacity_bytes,
    }
}

#[test]
fn a_size_that_was_found_is_where_the_next_start_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = Sizes::new(Some(folder.path().into()));
    let mut device = device(5 << 20);
    sizes.remember(std::slice::from_ref(&device));
    // The kernel found it in another order.
    device.name = "sdb".into();
    let begun = sizes.begin(who(&device), engine(Control::Auto));
    assert_eq!(begun.control.start_bytes, Some(5 << 20));
    let off = sizes.begin(who(&device), engine(Control::Off));
    assert_eq!(off.control.start_bytes, None);
}

#[test]
fn another_device_or_rule_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = Sizes::new(Some(folder.path().into()));
    let mut device = device(5 << 20);
    sizes.remember(std::slice::from_ref(&device));
    let mut other = engine(Control::Auto);
    other.sizing.policy = Policy::Fixed;
    assert_eq!(sizes.begin(who(&device), other).control.start_bytes, None);
    device.capacity_bytes += 1;
    let begun = sizes.begin(who(&device), engine(Control::Auto));
    assert_eq!(begun.control.start_bytes, None);
}

#[test]
fn a_broken_file_is_ignored_and_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = Sizes::new(Some(folder.path().into()));
    let device = device(5 << 20);
    let path = sizes.path(who(&device)).expect("a folder is set");
    std::fs::write(&path, b"{\"roots\": [").expect("a file");
    let begun = sizes.begin(who(&device), engine(Control::Auto));
    assert_eq!(begun.control.start_bytes, None);
    sizes.remember(std::slice::from_ref(&device));
    let begun = sizes.begin(who(&device), engine(Control::Auto));
    assert_eq!(begun.control.start_bytes, Some(5 << 20));
}

#[test]
fn without_a_folder_or_a_finding_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = device(5 << 20);
    Sizes::new(None).remember(std::slice::from_ref(&device));
    if let Some(control) = &mut device.control {
        control.reason = None;
    }
    Sizes::new(Some(folder.path().into())).remember(std::slice::from_ref(&device));
    let mut files = std::fs::read_dir(folder.path()).expect("readable");
    assert!(files.next().is_none());
}
