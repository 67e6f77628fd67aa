//! A root that hangs or fails while clients attack the server, and a library with thousands of
//! changes: other titles are served as before, memory stays small, and the catalogue is right
//! in the end.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_e2e_tests::http2::{Client, frame, initial_window, request};
use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{BackgroundViewers, Mount, Title, eventually};
use headlong_testkit::client::{Response, fetch};
use headlong_testkit::server::{ProcessMemory, ServerBuilder, binary, processor_time};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Seed, Server, SlowDisk, pattern};
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

/// A library that changes.
struct Churn {
    root: PathBuf,
    folders: Vec<String>,
    /// Folder and name of each file, and the number of its pattern.
    files: Vec<(usize, String, u64)>,
    seed: Seed,
    made: u64,
}

const SMALL_BYTES: u64 = 100;

impl Churn {
    fn new(root: &Path, seed: Seed) -> Self {
        let folders: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
        for folder in &folders {
            fs::create_dir(root.join(folder)).expect("made");
        }
        Self {
            root: root.to_owned(),
            folders,
            files: Vec::new(),
            seed,
            made: 0,
        }
    }

    fn path(&self, (folder, name, _): &(usize, String, u64)) -> String {
        format!("{}/{name}", self.folders[*folder])
    }

    /// Creates, renames, replaces or removes a file, or renames a folder with all its files.
    fn change(&mut self) {
        let index = self.seed.below(self.files.len() as u64) as usize;
        let folder = self.seed.below(self.folders.len() as u64) as usize;
        self.made += 1;
        let new = (folder, format!("n{}.mp4", self.made), self.made);
        let kind = self.seed.below(100);
        if kind == 99 {
            let name = format!("g{}", self.made);
            self.rename(&self.folders[folder], &name);
            self.folders[folder] = name;
        } else if kind < 60 || self.files.is_empty() {
            let path = self.root.join(self.path(&new));
            fs::write(path, pattern::bytes(self.made, 0..SMALL_BYTES)).expect("written");
            self.files.push(new);
        } else if kind < 85 {
            let number = self.files[index].2;
            self.rename(&self.path(&self.files[index]), &self.path(&new));
            self.files[index] = (new.0, new.1, number);
        } else {
            let old = self.files.swap_remove(index);
            let path = self.path(&old);
            match self.files.last_mut() {
                Some(over) if kind < 90 => {
                    over.2 = old.2;
                    self.rename(&path, &self.path(&self.files[self.files.len() - 1]));
                }
                _ => fs::remove_file(self.root.join(path)).expect("removed"),
            }
        }
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.root.join(from), self.root.join(to)).expect("renamed");
    }

    /// Request targets, with the numbers of their patterns.
    fn targets(&self) -> impl Iterator<Item = (String, u64)> {
        let files = self.files.iter();
        files.map(|file| (format!("/{}", self.path(file)), file.2))
    }
}

/// Paths of the titles in the catalogue.
fn catalogue(admin: SocketAddr) -> BTreeSet<String> {
    let reply = fetch(admin, "GET", "/library.json", &[]).expect("a reply");
    let library: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
    let titles = library["titles"].as_array().expect("a list").iter();
    let path = |title: &serde_json::Value| title["path"].as_str().expect("a path").to_owned();
    titles.map(path).collect()
}

fn resident_bytes(server: &Server) -> u64 {
    ProcessMemory::of(server.pid())
        .expect("/proc")
        .resident_bytes
}

fn start(root: &Path) -> Server {
    ServerBuilder::new([root])
        .config("rescan = \"1s\"\nrevalidate = \"50ms\"")
        .start()
}

#[test]
fn catalogue_is_right_after_10_000_changes_while_served() {
    const CHANGES: u32 = 10_000;
    let seed = Seed::announced("catalogue_is_right_after_changes", 49);
    let scratch = Scratch::new("churn").expect("a folder");
    let title = |n: u64| {
        let name = format!("stable-{n}.mp4");
        Title::create(scratch.path(), &name, n, 128 * KIB)
    };
    let stable: Result<Vec<_>, _> = (0..4).map(title).collect();
    let stable = stable.expect("titles");
    let mut churn = Churn::new(scratch.path(), seed);
    let server = start(scratch.path());
    let (is_over, mut most) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for title in &stable {
                    let reply = server.get(&title.target);
                    assert_eq!(reply.status(), 200, "{}", reply.text());
                    pattern::verify(title.number, 0, &reply.body).expect("correct bytes");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        let _over = Over(&is_over);
        for n in 0..CHANGES {
            churn.change();
            if n % 200 == 0 {
                most = most.max(resident_bytes(&server));
                // A request for a file that has just changed may come too early, but gets no wrong
                // byte.
                let Some((target, number)) = churn.targets().last() else {
                    continue;
                };
                let reply = server.get(&target);
                if reply.status() == 200 {
                    pattern::verify(number, 0, &reply.body).expect("correct bytes");
                }
            }
        }
    });
    // The server compares folders; it has no queue of events that could overflow.
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("running");
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links: Vec<PathBuf> = links.collect();
    let watches = |link: &PathBuf| link.to_string_lossy().contains("notify");
    assert!(!links.iter().any(watches), "{links:?}");

    let targets = churn.targets().map(|(target, _)| target);
    let stable = stable.iter().map(|title| title.target.clone());
    let expected: BTreeSet<String> = targets.chain(stable).collect();
    assert!(expected.len() > 4_000, "{}", expected.len());
    let is_right = |server: &Server| {
        let differences = || {
            std::thread::sleep(Duration::from_millis(200));
            let catalogue = catalogue(server.admin());
            catalogue.symmetric_difference(&expected).count()
        };
        eventually("the catalogue", differences, |count| *count == 0);
    };
    is_right(&server);
    for (target, number) in churn.targets().step_by(97) {
        let reply = server.get(&target);
        assert_eq!(reply.status(), 200, "{target}");
        assert_eq!(reply.body.len() as u64, SMALL_BYTES, "{target}");
        pattern::verify(number, 0, &reply.body).expect("correct bytes");
    }
    // Nothing goes on, and nothing is kept of names that are gone.
    let (begun, worked) = (Instant::now(), processor_time(server.pid()));
    std::thread::sleep(Duration::from_millis(1_500));
    let worked = processor_time(server.pid()).saturating_sub(worked);
    assert!(worked * 2 < begun.elapsed(), "{worked:?}");
    let new = start(scratch.path());
    is_right(&new);
    let (old, new) = (resident_bytes(&server).max(most), resident_bytes(&new));
    eprintln!("at most {old} bytes resident, a new server {new}");
    assert!(
        old < new + 32 * MIB,
        "{old} bytes resident, a new server {new}"
    );
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
