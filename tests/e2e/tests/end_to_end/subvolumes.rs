//! A btrfs, whose files have a different device number in each subvolume, none of which belongs to
//! a disk.

use std::path::Path;
use std::process::Command;

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_testkit::pattern;
use headlong_testkit::server::{Server, ServerBuilder};

const BYTES: u64 = 300_000;

/// A btrfs with `top.mp4` and a subvolume `sub` with `below.mp4`.
fn btrfs_or_skip(test: &str) -> Option<LoopFs> {
    if !have_or_skip(test, "btrfs") {
        return None;
    }
    let btrfs = LoopFs::new_or_skip(test, "btrfs", &["-q"])?;
    let mut create = Command::new("btrfs");
    create.args(["-q", "subvolume", "create"]);
    let created = create.arg(btrfs.root().join("sub")).output();
    let created = created.expect("started");
    assert!(created.status.success(), "{created:?}");
    for path in ["top.mp4", "sub/below.mp4"] {
        pattern::write_file(&btrfs.root().join(path), 1, BYTES).expect("written");
    }
    Some(btrfs)
}

fn served(root: &Path) -> Server {
    ServerBuilder::new([root]).memory("32MiB").start()
}

fn check(server: &Server, target: &str) {
    let reply = server.get(target);
    assert_eq!(reply.status(), 200, "{target}: {}", server.output());
    pattern::verify(1, 0, &reply.body).expect("correct bytes");
    assert_eq!(reply.body.len() as u64, BYTES);
}

/// Names of the devices.
fn devices(server: &Server) -> Vec<String> {
    let status = server.status();
    let names = status
        .devices()
        .iter()
        .map(|device| device["name"].as_str());
    names.map(|name| name.expect("a name").to_owned()).collect()
}

#[test]
fn subvolume_in_a_root_is_served_by_the_roots_engine() {
    let Some(btrfs) = btrfs_or_skip("a subvolume in a root") else {
        return;
    };
    let server = served(btrfs.root());
    check(&server, "/top.mp4");
    check(&server, "/sub/below.mp4");
    let names = devices(&server);
    assert!(
        names.len() == 1 && names[0].starts_with("loop"),
        "{names:?}"
    );
}

#[test]
fn btrfs_mounted_below_a_root_is_served() {
    let Some(btrfs) = btrfs_or_skip("a btrfs below a root") else {
        return;
    };
    let server = served(btrfs.root().parent().expect("a folder around it"));
    check(&server, "/root/top.mp4");
    check(&server, "/root/sub/below.mp4");
    let names = devices(&server);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].starts_with("loop"), "{names:?}");
}
