//! A root that hangs or fails while clients attack the server: other titles are served as before.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_e2e_tests::http2::{Client, frame, initial_window, request};
use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{BackgroundViewers, Mount, Title, eventually};
use headlong_testkit::client::{Response, fetch};
use headlong_testkit::server::{ServerBuilder, binary, processor_time};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Server, SlowDisk, pattern};
use rustix::process::Signal;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Read timeout, long enough for a delayed viewer to stand out.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Ends a request that hangs: several times the read timeout and the look-up timeout.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file system of a root with faults.
enum IllRoot {
    /// FUSE; it hangs while its daemon is stopped.
    Fuse(Mount),
    /// A disk whose requests fail.
    Disk(BlockDevice),
}

impl IllRoot {
    fn fall_ill(&self) {
        match self {
            Self::Fuse(mount) => mount.signal(Signal::STOP),
            Self::Disk(device) => device.disk().vanish(),
        }
    }

    fn recover(&self) {
        match self {
            Self::Fuse(mount) => mount.signal(Signal::CONT),
            Self::Disk(device) => device.disk().heal(),
        }
    }
}

/// A server of a root with faults and of a healthy one.
struct Rig {
    server: Server,
    /// Titles on the healthy root.
    good: Vec<Title>,
    /// Titles on the other one.
    ill: Vec<Title>,
    // Dropped after the server that reads it.
    root: IllRoot,
    scratch: Scratch,
}

impl Rig {
    fn fuse(test: &str) -> Option<Self> {
        if !Mount::available_or_skip(test) {
            return None;
        }
        let scratch = Scratch::new("hostile-roots").expect("a folder");
        let tree = scratch.directory("tree").expect("a folder");
        let ill = fill_root(&tree, 8, 4 * MIB).expect("titles");
        let mount = Mount::start(&tree, &scratch.path().join("point"));
        let path = mount.point().to_owned();
        Some(Self::new(scratch, IllRoot::Fuse(mount), &path, ill))
    }

    fn disk(test: &str) -> Option<Self> {
        if !SlowDisk::available_or_skip(test) {
            return None;
        }
        let device = BlockDevice::new(64 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
        let ill = fill_root(device.root(), 8, 4 * MIB).expect("titles");
        device.start().expect("started");
        let scratch = Scratch::new("hostile-roots").expect("a folder");
        let path = device.root().to_owned();
        Some(Self::new(scratch, IllRoot::Disk(device), &path, ill))
    }

    fn new(scratch: Scratch, root: IllRoot, path: &Path, ill: Vec<Title>) -> Self {
        let folder = scratch.directory("good").expect("a folder");
        fs::create_dir(folder.join("s")).expect("a folder");
        let title = |n: u64| Title::create(&folder, &format!("s/good-{n}.bin"), 100 + n, MIB);
        let good: Result<Vec<_>, _> = (0..16).map(title).collect();
        let server = ServerBuilder::new([path, &folder])
            .memory("64MiB")
            .config(&format!(
                "admission = \"accept\"\nread_timeout = \"{}s\"\nerrors_offline = 4\n\
                 offline_retry = \"500ms\"\n[limits]\ndrain_timeout = \"1s\"",
                READ_TIMEOUT.as_secs()
            ))
            .start();
        Self {
            server,
            good: good.expect("titles"),
            ill,
            root,
            scratch,
        }
    }

    fn viewers(&self) -> BackgroundViewers<'_> {
        BackgroundViewers {
            address: self.server.address(),
            titles: &self.good,
            request_bytes: 32 * KIB,
            held_up: READ_TIMEOUT,
        }
    }

    /// Unread streams of titles on the ill root, and settings that change without end. Each attack
    /// is renewed when the server closes its connection.
    fn attack(&self, is_over: &AtomicBool) {
        let streams = |attacker: u32| -> Vec<u8> {
            let stream = |n: u32| {
                let title = &self.ill[((n + attacker) % 8) as usize];
                let range = format!("bytes={}-", u64::from(n) * 40_000);
                request(2 * n + 1, &title.target, &range)
            };
            (0..100).flat_map(stream).collect()
        };
        let flap = [initial_window(0), initial_window(65_535)].concat();
        let flap = flap.repeat(500);
        std::thread::scope(|scope| {
            for attacker in 0..8 {
                let (streams, flap) = (streams(attacker), &flap);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut client = Client::open(&self.server, &initial_window(0));
                        client.say(&streams);
                        client.say(&frame(6, 0, 0, &[7; 8]));
                        let is_flood = attacker % 2 == 0;
                        while !is_over.load(Ordering::Relaxed) {
                            if is_flood && client.stream.write_all(flap).is_err() {
                                break;
                            }
                            std::thread::sleep(Duration::from_millis(20));
                        }
                    }
                });
            }
        });
    }

    /// While the root is ill and under attack, its titles get errors in time, and those of the
    /// other root all they ask for.
    fn survives(&self, test: &str) {
        let address = self.server.address();
        let is_over = AtomicBool::new(false);
        let trouble = || {
            self.root.fall_ill();
            std::thread::scope(|scope| {
                scope.spawn(|| self.attack(&is_over));
                let _over = Over(&is_over);
                let ask = |n: usize| {
                    let title = &self.ill[n % self.ill.len()];
                    // Some are unknown: they may be on either root.
                    let target = match n % 3 {
                        0 => format!("/s/unknown-{n}.bin"),
                        _ => title.target.clone(),
                    };
                    let range = format!("bytes={}-{}", n * 1_000, n * 1_000 + 99);
                    scope.spawn(move || {
                        let asked = Instant::now();
                        let reply = fetch(address, "GET", &target, &[("Range", &range)]);
                        (target, reply, asked.elapsed())
                    })
                };
                let waiting: Vec<_> = (0..90).map(ask).collect();
                // A title that no request has named yet is found on the healthy root.
                let folder = self.scratch.path().join("good");
                Title::create(&folder, "s/new.bin", 300, MIB).expect("made");
                let new = || fetch(address, "GET", "/s/new.bin", &[]);
                let new = eventually("the new title", new, |reply| {
                    reply.as_ref().is_ok_and(|reply| reply.status() == 200)
                });
                let new = new.expect("served");
                pattern::verify(300, 0, &new.body).expect("correct bytes");
                for answer in waiting {
                    let (target, reply, took) = answer.join().expect("no panic");
                    let reply = reply.expect("an answer");
                    let is_expected = match &self.root {
                        IllRoot::Fuse(_) => [503, 504].contains(&reply.status()),
                        // The kernel may know its folders.
                        IllRoot::Disk(_) if target.contains("unknown") => reply.status() >= 404,
                        IllRoot::Disk(_) => reply.status() >= 500,
                    };
                    assert!(is_expected, "{target}: {}", reply.text());
                    assert!(took < PATIENCE, "{target}: {took:?}");
                }
            });
        };
        self.viewers().do_not_notice(test, trouble);
        let health = self.server.admin_request("GET", "/healthz", &[]);
        assert_eq!(health.status(), 200, "{}", health.text());
    }

    fn serves_ill_root_again(&self) {
        let title = &self.ill[7];
        let ask = || fetch(self.server.address(), "GET", &title.target, &[]);
        let is_served =
            |reply: &Result<Response, _>| reply.as_ref().is_ok_and(|reply| reply.status() == 200);
        let reply = eventually("the root after its recovery", ask, is_served);
        pattern::verify(7, 0, &reply.expect("served").body).expect("correct bytes");
    }

    /// On SIGTERM the server stops in time although the root is ill and clients wait for it.
    fn stops_while_ill(mut self) {
        // So that files of the root are open.
        self.serves_ill_root_again();
        self.root.fall_ill();
        let address = self.server.address();
        let mut client = Client::open(&self.server, &initial_window(0));
        let target = self.ill[3].target.clone();
        client.say(&request(1, &target, "bytes=2000000-"));
        let waiting = std::thread::spawn(move || {
            let _ = fetch(address, "GET", &target, &[("Range", "bytes=3000000-")]);
        });
        self.server.signal(Signal::TERM).expect("running");
        let said = || self.server.output();
        let said = eventually("its end", said, |said| said.contains("INFO stopped"));
        assert!(TcpStream::connect(address).is_err(), "{said}");
        // A process cannot end before the kernel has closed its files: FUSE asks the daemon.
        self.root.recover();
        let ended = self.server.wait(PATIENCE);
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
        waiting.join().expect("no panic");
    }
}

/// Ends the attack, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn hung_fuse_root_under_attack_delays_no_other_root() {
    let test = "hung_fuse_root_under_attack_delays_no_other_root";
    let Some(rig) = Rig::fuse(test) else {
        return;
    };
    rig.survives(test);
    rig.root.recover();
    rig.serves_ill_root_again();
}

#[test]
fn server_stops_while_fuse_root_hangs() {
    if let Some(rig) = Rig::fuse("server_stops_while_fuse_root_hangs") {
        rig.stops_while_ill();
    }
}

#[test]
fn failing_root_under_attack_delays_no_other_root() {
    let test = "failing_root_under_attack_delays_no_other_root";
    let Some(rig) = Rig::disk(test) else {
        return;
    };
    rig.survives(test);
    rig.root.recover();
    rig.serves_ill_root_again();
    rig.stops_while_ill();
}

#[test]
fn root_is_detached_while_its_scan_hangs() {
    if !Mount::available_or_skip("root_is_detached_while_its_scan_hangs") {
        return;
    }
    let scratch = Scratch::new("hung-detach").expect("a folder");
    let [tree, folder] = ["tree", "good"].map(|name| scratch.directory(name).expect("a folder"));
    let ill = fill_root(&tree, 2, MIB).expect("titles");
    let good = Title::create(&folder, "good.bin", 100, MIB).expect("a title");
    let mount = Mount::start(&tree, &scratch.path().join("point"));
    let server = ServerBuilder::new([mount.point(), &folder])
        .config("rescan = \"200ms\"")
        .start();
    let status = |title: &Title| server.get(&title.target).status();
    assert_eq!(status(&ill[0]), 200);
    mount.signal(Signal::STOP);
    // Longer than the kernel caches names, so that a scan hangs.
    std::thread::sleep(Duration::from_secs(3));
    let mut detach = scratch.command(binary());
    detach.args(["root", "detach"]).arg(mount.point());
    detach.args(["--admin", &server.admin().to_string()]);
    let mut detach = detach.spawn().expect("started");
    eventually(
        "it has no files",
        || status(&ill[1]),
        |status| *status == 404,
    );
    let (before, began) = (processor_time(server.pid()), Instant::now());
    for _ in 0..40 {
        assert_eq!(status(&good), 200);
        assert_eq!(status(&ill[0]), 404);
        std::thread::sleep(Duration::from_millis(50));
    }
    // A busy thread would take all of it, or its share of a busy machine.
    let took = processor_time(server.pid()) - before;
    assert!(
        took < began.elapsed() / 4,
        "{took:?} of {:?}",
        began.elapsed()
    );
    assert!(
        detach.try_wait().expect("asked").is_none(),
        "the scan did not hang"
    );
    mount.signal(Signal::CONT);
    assert!(
        detach.wait().expect("waited").success(),
        "{}",
        server.output()
    );
    assert_eq!((status(&good), status(&ill[0])), (200, 404));
}
