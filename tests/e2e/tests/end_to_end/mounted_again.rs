//! A disk that is unmounted while the server runs, and another that is mounted in its place; and
//! file systems over others.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;

use headlong_e2e_tests::eventually;
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_testkit::server::{Server, ServerBuilder, binary};
use headlong_testkit::{ProgramRun, Scratch, pattern};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

const BYTES: u64 = 300_000;

/// A disk with one title.
fn disk_or_skip(test: &str, title: u64) -> Option<LoopFs> {
    let disk = LoopFs::new_or_skip(test, "ext4", &["-q"])?;
    let path = disk.root().join(format!("{title}.mp4"));
    pattern::write_file(&path, title, BYTES).expect("written");
    Some(disk)
}

fn is_served(server: &Server, target: &str, title: u64) -> bool {
    let reply = server.get(target);
    if reply.status() != 200 {
        return false;
    }
    pattern::verify(title, 0, &reply.body).expect("correct bytes");
    reply.body.len() as u64 == BYTES
}

/// Checks which titles of `root` are served while the disk mounted at a point is replaced by
/// another. `prefix` leads from the root to the mount point.
fn check(root: &Path, prefix: &str, (first, second): (&LoopFs, &LoopFs)) {
    let server = ServerBuilder::new([root])
        .memory("32MiB")
        .config("rescan = \"1s\"")
        .start();
    let (old, new) = (format!("{prefix}/1.mp4"), format!("{prefix}/2.mp4"));
    assert!(is_served(&server, &old, 1), "{}", server.output());
    let devices = server.status().devices().len();
    unmount(first.root(), UnmountFlags::DETACH).expect("pulled");
    mount_bind(second.root(), first.root()).expect("mounted");
    let ask = || match is_served(&server, &new, 2) {
        true => String::new(),
        false => server.output(),
    };
    eventually("the other disk is served", ask, String::is_empty);
    let told = server.status();
    assert_eq!(told.devices().len(), devices, "by the existing engine");
}

#[test]
fn serves_disk_mounted_in_place_of_a_root() {
    let test = "a disk mounted at a root";
    let disks = (disk_or_skip(test, 1), disk_or_skip(test, 2));
    let (Some(first), Some(second)) = disks else {
        return;
    };
    check(first.root(), "", (&first, &second));
}

#[test]
fn serves_disk_mounted_in_place_of_another_below_a_root() {
    let test = "a disk mounted below a root";
    let disks = (disk_or_skip(test, 1), disk_or_skip(test, 2));
    let (Some(first), Some(second)) = disks else {
        return;
    };
    let root = first.root().parent().expect("a folder around it");
    check(root, "/root", (&first, &second));
}

#[test]
fn folder_below_an_unmounted_root_is_not_served() {
    let Some(disk) = disk_or_skip("a disk that was unmounted", 1) else {
        return;
    };
    let server = ServerBuilder::new([disk.root()])
        .memory("32MiB")
        .config("rescan = \"1s\"")
        .start();
    let held = File::open(disk.root()).expect("there");
    unmount(disk.root(), UnmountFlags::DETACH).expect("unmounted");
    let path = format!("/proc/self/fd/{}/2.mp4", held.as_raw_fd());
    pattern::write_file(Path::new(&path), 2, BYTES).expect("written");
    let listed = || {
        let reply = server.admin_request("GET", "/library.json", &[]);
        String::from_utf8_lossy(&reply.body).into_owned()
    };
    eventually("a search", listed, |titles| titles.contains("2.mp4"));
    assert!(is_served(&server, "/1.mp4", 1), "{}", server.output());
}

#[test]
fn detached_root_can_be_unmounted_while_others_are_served() {
    let test = "a root that is detached";
    let disks = (disk_or_skip(test, 1), disk_or_skip(test, 2));
    let (Some(first), Some(second)) = disks else {
        return;
    };
    let point = Scratch::new("detached").expect("a folder");
    mount_bind(first.root(), point.path()).expect("mounted");
    let server = ServerBuilder::new([point.path(), second.root()]).memory("32MiB");
    // Without periodic scans.
    let server = server.config("rescan = \"0s\"").start();
    assert!(is_served(&server, "/1.mp4", 1), "{}", server.output());
    let order = |verb: &str, folder: &Path| {
        let mut command = Command::new(binary());
        command.args(["root", verb]).arg(folder);
        let admin = server.admin().to_string();
        let run = ProgramRun::of(command.args(["--admin", &admin]));
        (run.code == Some(0), run.stderr)
    };
    let (is_done, errors) = order("detach", Path::new("/not/a/root"));
    assert!(
        !is_done && errors.contains("no root is called /not/a/root"),
        "{errors}"
    );
    assert!(
        errors.contains(&point.path().display().to_string()),
        "{errors}"
    );

    assert_eq!(order("detach", point.path()), (true, String::new()));
    // The device closes the files of removed titles on its own thread.
    let unmounted = || unmount(point.path(), UnmountFlags::empty());
    let unmounted = eventually("the disk is not in use", unmounted, Result::is_ok);
    unmounted.expect("unmounted");
    assert!(!is_served(&server, "/1.mp4", 1));
    assert!(is_served(&server, "/2.mp4", 2), "{}", server.output());

    mount_bind(first.root(), point.path()).expect("mounted again");
    assert!(!is_served(&server, "/1.mp4", 1), "it is still detached");
    assert_eq!(order("attach", point.path()), (true, String::new()));
    assert!(is_served(&server, "/1.mp4", 1), "{}", server.output());
    drop(server);
    unmount(point.path(), UnmountFlags::empty()).expect("unmounted");
}

#[test]
fn title_in_a_layer_of_an_overlay_is_served() {
    let Some(lower) = disk_or_skip("a title in a layer of an overlay", 1) else {
        return;
    };
    let scratch = Scratch::new("overlay").expect("a folder");
    let [upper, work, point] =
        ["upper", "work", "point"].map(|name| scratch.directory(name).expect("a folder"));
    let layers = [lower.root(), &upper, &work].map(|folder| folder.display().to_string());
    let [lower_dir, upper_dir, work_dir] = layers;
    let options = format!("lowerdir={lower_dir},upperdir={upper_dir},workdir={work_dir}");
    let options = CString::new(options).expect("no NUL");
    mount("overlay", &point, "overlay", MountFlags::empty(), &*options).expect("mounted");
    // A layer on another file system.
    pattern::write_file(&point.join("2.mp4"), 2, BYTES).expect("written");
    let server = ServerBuilder::new([&point]).memory("32MiB").start();
    for (target, title) in [("/1.mp4", 1), ("/2.mp4", 2)] {
        assert!(is_served(&server, target, title), "{}", server.output());
    }
    drop(server);
    unmount(&point, UnmountFlags::empty()).expect("unmounted");
}
