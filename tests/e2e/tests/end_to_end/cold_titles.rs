//! The first request of a title: its cost on the disk, and the facts that are learned from it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::{DriveModel, Record};
use headlong_testkit::{BlockDevice, Scratch, Server, SlowDisk};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes of a title without its headers.
const MEDIA_BYTES: u64 = 8 * MIB;
/// Start offset of a viewer that does not begin at the start.
const MIDST: u64 = 4 * MIB;
const TITLE_SECONDS: u32 = 40;

/// Position of a title's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moov {
    Front,
    End,
    Absent,
}

fn boxed(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 8) as u32;
    [&length.to_be_bytes(), kind, body].concat()
}

/// An MP4 file of [`TITLE_SECONDS`].
fn film(moov: Moov) -> Vec<u8> {
    let time = [1_u32.to_be_bytes(), TITLE_SECONDS.to_be_bytes()].concat();
    let mvhd = boxed(b"mvhd", &[&[0; 12][..], &time, &[0; 80]].concat());
    let table = boxed(b"udta", &[0; 20_000]);
    let header = boxed(b"moov", &[mvhd, table].concat());
    let ftyp = boxed(b"ftyp", b"isom\0\0\x02\0isom");
    let mdat = boxed(b"mdat", &vec![7; MEDIA_BYTES as usize]);
    match moov {
        Moov::Front => [ftyp, header, mdat].concat(),
        Moov::End => [ftyp, mdat, header].concat(),
        Moov::Absent => [ftyp, mdat].concat(),
    }
}

/// Writes films dated in the past: facts about a file written a moment ago are not stored.
fn fill(root: &Path, titles: &[(String, Moov)]) {
    for (name, moov) in titles {
        let path = root.join(name);
        fs::write(&path, film(*moov)).expect("written");
        let file = File::options().write(true).open(&path).expect("there");
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(long_ago).expect("set");
        // So that it has a position on the disk.
        file.sync_all().expect("on disk");
    }
}

/// Some of each kind.
fn titles() -> Vec<(String, Moov)> {
    let kinds = [Moov::Front, Moov::End, Moov::Absent];
    let names = kinds.into_iter().flat_map(|moov| {
        (0..4).map(move |number| (format!("{moov:?}-{number}.mp4").to_lowercase(), moov))
    });
    names.collect()
}

fn ask(server: &Server, name: &str, first: u64, length: u64) {
    let range = format!("bytes={first}-{}", first + length - 1);
    let target = format!("/{name}");
    let reply = server.request("GET", &target, &[("range", &range)]);
    assert_eq!(reply.status(), 206, "{name}");
    assert_eq!(reply.body.len() as u64, length, "{name}");
}

/// Durations by path, as listed on the library page.
fn durations(server: &Server) -> Vec<(String, Option<f64>)> {
    let library = server.admin_json("/library.json");
    let titles = library["titles"].as_array().expect("a list");
    let title = |title: &Value| {
        let path = title["path"].as_str().expect("a path");
        (path.to_owned(), title["duration_s"].as_f64())
    };
    titles.iter().map(title).collect()
}

/// First requests of cold titles from `first` on: one read for each title, and no read of a title
/// that the engine did not request.
fn reads_of_cold_titles(first: u64) {
    if !SlowDisk::available_or_skip("first requests of cold titles") {
        return;
    }
    let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 50.0).expect("a device");
    let titles = titles();
    fill(device.root(), &titles);
    let extents = titles.iter().flat_map(|(name, _)| {
        let path = device.root().join(name);
        device.extents(&path).expect("extents")
    });
    let extents: Vec<_> = extents.collect();
    device.start().expect("caches are cold");
    let server = ServerBuilder::new([device.root()])
        .memory("128MiB")
        .config(&format!(
            "policy = \"fixed\"\nprefetch = \"1MiB\"\nadmission = \"accept\"\n\
             [device.\"{}\"]\nrotational = true",
            device.device_name()
        ))
        .start();
    for (name, _) in &titles {
        ask(&server, name, first, 64 * KIB);
    }
    let idle = |status: &headlong_testkit::server::Status| {
        status.counter("reads") == status.counter("reads_done")
    };
    let status = eventually("no read", || server.status(), idle);
    assert_eq!(status.counter("reads"), titles.len() as u64);
    let is_of_a_title = |record: &&Record| {
        let at = record.offset;
        let holds = |extent: &headlong_testkit::block_device::FileExtent| {
            (extent.physical..extent.physical + extent.length).contains(&at)
        };
        !record.write && extents.iter().any(holds)
    };
    let trace = device.disk().trace();
    let read: u64 = trace
        .records()
        .iter()
        .filter(is_of_a_title)
        .map(|record| record.length)
        .sum();
    assert_eq!(read, status.counter("bytes_read"), "{trace:?}");
}

#[test]
fn cold_title_costs_one_read_from_the_middle() {
    reads_of_cold_titles(MIDST);
}

#[test]
fn cold_title_costs_one_read_from_the_start() {
    reads_of_cold_titles(0);
}

/// System calls of a server, by `strace`.
struct Calls {
    strace: Child,
    scratch: Scratch,
}

impl Calls {
    /// `None` if the server cannot be traced on this machine.
    fn of(server: &Server) -> Option<Self> {
        let test = "system calls of a first request";
        if !have_or_skip(test, "strace") {
            return None;
        }
        let scratch = Scratch::new("strace").expect("a folder");
        let pid = server.pid();
        let mut strace = scratch
            .command("strace")
            .args(["-f", "-qq", "-y", "-p", &pid.to_string(), "-o"])
            .arg(scratch.path().join("log"))
            .args(["-e", "trace=file,ioctl,read,readv,pread64,preadv,preadv2"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        let is_traced = || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
            let mut texts = tasks.flatten().map(|task| {
                let status = fs::read_to_string(task.path().join("status"));
                status.unwrap_or_default()
            });
            let is_refused = strace.try_wait().expect("its state").is_some();
            is_refused || texts.all(|text| !text.contains("TracerPid:\t0\n"))
        };
        eventually("all threads", is_traced, |is_traced| *is_traced);
        if strace.try_wait().expect("its state").is_some() {
            headlong_testkit::skip(test, "this process may not trace another");
            return None;
        }
        Some(Self { strace, scratch })
    }

    /// The lines, after it has detached from the server.
    fn end(mut self) -> Vec<String> {
        let pid = Pid::from_child(&self.strace);
        kill_process(pid, Signal::INT).expect("strace is running");
        self.strace.wait().expect("strace ends");
        let text = fs::read_to_string(self.scratch.path().join("log")).expect("a log");
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn first_request_in_the_middle_makes_one_open_and_no_read() {
    let library = Scratch::new("library").expect("a folder");
    fill(library.path(), &titles());
    let server = ServerBuilder::new([library.path()]).memory("64MiB").start();
    let status = server.status();
    let io = status.devices()[0]["io"].as_str().unwrap_or_default();
    if !io.starts_with("io_uring") {
        return headlong_testkit::skip("system calls of a first request", "io_uring is refused");
    }
    let Some(calls) = Calls::of(&server) else {
        return;
    };
    ask(&server, "front-1.mp4", MIDST, 64 * KIB);
    ask(&server, "front-1.mp4", MIDST + MIB, 64 * KIB);
    let lines = calls.end();
    let of_the_title = |line: &&String| line.contains("front-1.mp4");
    let lines: Vec<&String> = lines.iter().filter(of_the_title).collect();
    let count = |of: &dyn Fn(&str) -> bool| lines.iter().filter(|line| of(line)).count();
    // `O_PATH` opens no file: a name is looked up.
    let opens = count(&|line| line.contains("openat2(") && !line.contains("O_PATH"));
    assert_eq!(opens, 1, "{lines:#?}");
    assert_eq!(
        count(&|line| line.contains("FS_IOC_FIEMAP")),
        1,
        "{lines:#?}"
    );
    let is_read = |line: &str| {
        let calls = ["read(", "readv(", "pread64(", "preadv(", "preadv2("];
        calls.iter().any(|call| line.contains(&format!(" {call}")))
    };
    assert_eq!(count(&is_read), 0, "{lines:#?}");
}

#[test]
fn facts_about_titles_survive_a_restart_without_a_read() {
    let library = Scratch::new("library").expect("a folder");
    let state = Scratch::new("state").expect("a folder");
    let titles = titles();
    fill(library.path(), &titles);
    let start = || {
        let config = format!("state = {:?}", state.path());
        ServerBuilder::new([library.path()])
            .memory("64MiB")
            .config(&config)
            .start()
    };
    let server = start();
    assert!(
        durations(&server)
            .iter()
            .all(|(_, length)| length.is_none())
    );
    let known = || {
        let names = titles.iter().map(|(name, moov)| {
            let length = f64::from(TITLE_SECONDS);
            (
                format!("/{name}"),
                (*moov != Moov::Absent).then_some(length),
            )
        });
        let mut known: Vec<_> = names.collect();
        known.sort_by(|one, other| one.0.cmp(&other.0));
        known
    };
    for (name, moov) in &titles {
        ask(&server, name, MIDST, 64 * KIB);
        ask(&server, name, 0, 32 * KIB);
        if *moov == Moov::End {
            let size = film(*moov).len() as u64;
            ask(&server, name, size - 32 * KIB, 32 * KIB);
        }
    }
    assert_eq!(durations(&server), known());
    server.stop();

    let server = start();
    assert_eq!(durations(&server), known());
    assert_eq!(server.status().counter("reads"), 0);
    server.stop();

    // A crash truncates the last record, and one title has another version.
    let facts = state.path().join("media-1.facts");
    let file = File::options().write(true).open(&facts).expect("a file");
    let length = file.metadata().expect("its length").len();
    file.set_len(length - 7).expect("cut");
    let path = library.path().join("front-0.mp4");
    let file = File::options().write(true).open(path).expect("there");
    file.set_modified(SystemTime::now() - Duration::from_secs(600))
        .expect("set");
    let server = start();
    let unknown = |lengths: &[(String, Option<f64>)]| {
        lengths
            .iter()
            .filter(|(_, length)| length.is_none())
            .count()
    };
    let (now, before) = (durations(&server), known());
    assert!(
        now.iter()
            .any(|(path, length)| path == "/front-0.mp4" && length.is_none())
    );
    let lost = unknown(&now) - unknown(&before);
    assert!((1..=2).contains(&lost), "{now:?}");
    let output = server.output();
    let said = output.matches("are truncated or damaged").count();
    assert_eq!(said, 1, "{output}");
}

/// Bytes of an extent, and of the hole behind it.
const EXTENT_BYTES: u64 = 128 * KIB;
const HOLE_BYTES: u64 = 64 * KIB;

/// Writes a file of this many extents, filled with `value`; ext4 keeps four in an inode.
fn write_in_extents(path: &Path, count: u64, value: u8) {
    let file = File::create(path).expect("created");
    for number in 0..count {
        let start = number * (EXTENT_BYTES + HOLE_BYTES);
        let bytes = vec![value; EXTENT_BYTES as usize];
        file.write_all_at(&bytes, start).expect("written");
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(long_ago).expect("set");
    file.sync_all().expect("on disk");
}

/// A library of titles in few extents, whose maps are in their inodes, and in many.
struct FragmentedLibrary {
    device: BlockDevice,
    state: Scratch,
    titles: Vec<String>,
}

/// Titles of each kind.
const KIND_TITLES: u64 = 6;

impl FragmentedLibrary {
    fn new() -> Self {
        let device = BlockDevice::new(64 * MIB, DriveModel::WD_RED, 50.0).expect("a device");
        let mut titles = Vec::new();
        for number in 0..KIND_TITLES {
            for extents in [4, 8] {
                let name = format!("{extents}-extents-{number}.bin");
                write_in_extents(&device.root().join(&name), extents, 7);
                titles.push(name);
            }
        }
        Self {
            device,
            state: Scratch::new("state").expect("a folder"),
            titles,
        }
    }

    /// A server over the library, after its scan, with cold caches before.
    fn serve(&self) -> Server {
        self.device.start().expect("caches are cold");
        let server = ServerBuilder::new([self.device.root()])
            .memory("64MiB")
            .config(&format!("state = {:?}", self.state.path()))
            .start();
        self.device.disk().forget_trace();
        server
    }

    fn places(&self) -> PathBuf {
        self.state.path().join("media-1.places")
    }

    /// Requests the last extent of a title; returns its bytes.
    fn last_extent(&self, server: &Server, name: &str) -> Vec<u8> {
        let extents = if name.starts_with('4') { 4 } else { 8 };
        let first = (extents - 1) * (EXTENT_BYTES + HOLE_BYTES);
        let range = format!("bytes={first}-{}", first + EXTENT_BYTES - 1);
        let target = format!("/{name}");
        let reply = server.request("GET", &target, &[("range", &range)]);
        assert_eq!(reply.status(), 206, "{name}");
        reply.body
    }

    /// Requests all titles; returns the number of blocks read besides their bytes.
    fn metadata_reads(&self, server: &Server) -> usize {
        let extents = self.titles.iter().flat_map(|name| {
            let path = self.device.root().join(name);
            // This reads the maps, too, so it comes after the requests.
            assert_eq!(
                self.last_extent(server, name),
                vec![7; EXTENT_BYTES as usize]
            );
            path.exists().then_some(path)
        });
        let paths: Vec<_> = extents.collect();
        let trace = self.device.disk().trace();
        let extents = paths
            .iter()
            .flat_map(|path| self.device.extents(path).expect("extents"));
        let extents: Vec<_> = extents.collect();
        let is_of_a_title = |record: &Record| {
            let holds = |extent: &headlong_testkit::block_device::FileExtent| {
                (extent.physical..extent.physical + extent.length).contains(&record.offset)
            };
            extents.iter().any(holds)
        };
        let metadata = trace.records().iter();
        let metadata = metadata.filter(|record| !record.write && !is_of_a_title(record));
        metadata.count()
    }
}

#[test]
fn cold_title_costs_one_map_read_if_its_inode_has_no_map() {
    if !SlowDisk::available_or_skip("metadata reads of cold titles") {
        return;
    }
    let library = FragmentedLibrary::new();
    let server = library.serve();
    assert_eq!(library.metadata_reads(&server), KIND_TITLES as usize);
    server.stop();
    // 56 bytes for each file, and 24 for each extent.
    let places = fs::metadata(library.places()).expect("a file").len();
    assert_eq!(places, KIND_TITLES * (2 * 56 + (4 + 8) * 24));

    // A known library: no file is mapped to be placed, so the reads are the same.
    let server = library.serve();
    assert_eq!(library.metadata_reads(&server), KIND_TITLES as usize);
    server.stop();
    let length = fs::metadata(library.places()).expect("a file").len();
    assert_eq!(length, places, "nothing new");
}
