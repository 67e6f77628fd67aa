//! A killed test takes its servers with it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Nginx, eventually, have_or_skip, processes_naming};
use headlong_testkit::client::Connection;
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, SlowDisk, leftovers};

const MIB: u64 = 1 << 20;
/// File to which the child process writes what it created; set for the child only.
const TOLD: &str = "HEADLONG_E2E_TOLD";

/// Not a test of its own: the child process of the next test. It is killed during a reply.
#[test]
fn child_that_is_killed() {
    let Some(told) = std::env::var_os(TOLD) else {
        return;
    };
    let device = BlockDevice::new(128 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
    let titles = fill_root(device.root(), 1, 64 * MIB).expect("a title");
    device.start().expect("start");
    let server = ServerBuilder::new([device.root()]).start();
    let nginx = Nginx::start(device.root()).expect("nginx");
    let begin = |address: SocketAddr| {
        let connection = Connection::open(address).expect("connects");
        connection.begin(&titles[0].target, &[])
    };
    let _replies = [begin(server.address()), begin(nginx.address())];
    let text = format!("{}\n{}\nend", server.address(), nginx.address());
    fs::write(told, text).expect("tell the parent");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn killed_test_leaves_no_server_mount_or_file() {
    let test = "killed_test_leaves_no_server_mount_or_file";
    if !SlowDisk::available_or_skip(test) || !have_or_skip(test, "nginx") {
        return;
    }
    let ours = Scratch::new("parent").expect("a folder");
    let told = ours.path().join("told");
    let below = ours.directory("below").expect("a folder");
    let mut child = Command::new(std::env::current_exe().expect("our path"))
        .args(["--exact", "killed::child_that_is_killed"])
        .env(TOLD, &told)
        .env("TMPDIR", &below)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let text = eventually(
        "the child began",
        || fs::read_to_string(&told).unwrap_or_default(),
        |text| text.ends_with("end"),
    );
    let lines = text.lines().filter_map(|line| line.parse().ok());
    let addresses: Vec<SocketAddr> = lines.collect();
    assert_eq!(addresses.len(), 2);
    assert_eq!(leftovers::mounts_below(&below).len(), 2);

    child.kill().expect("kill");
    child.wait().expect("wait");
    for address in addresses {
        eventually(
            "the end of the killed test's servers",
            || TcpStream::connect(address).err().map(|error| error.kind()),
            |error| *error == Some(std::io::ErrorKind::ConnectionRefused),
        );
    }
    eventually("processes", || processes_naming(&below), Vec::is_empty);
    eventually("mounts", || leftovers::mounts_below(&below), Vec::is_empty);
    let devices = || leftovers::loop_devices_below(&below);
    eventually("loop devices", devices, Vec::is_empty);
    let files = || fs::read_dir(&below).expect("ours").count();
    eventually("files", files, |files| *files == 0);
}
