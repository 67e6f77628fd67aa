//! Disks that fail, hang and vanish: their requests fail cleanly, and requests to other disks are
//! unaffected.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Library, Title, bounded, eventually};
use headlong_testkit::client::{ClientError, Connection, fetch, request_text};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Server, SlowDisk, pattern};

const MIB: u64 = 1 << 20;

/// The access log.
const LOG: &str = "access.log";

/// A server over a disk with fault injection, and over a folder on a healthy disk.
struct Rig {
    server: Server,
    titles: Vec<Title>,
    good: Title,
    device: BlockDevice,
    // Dropped after the server that reads it.
    _library: Library,
    scratch: Scratch,
}

impl Rig {
    /// `None` where this machine has no emulated disks.
    fn new(test: &str) -> Option<Self> {
        if !SlowDisk::available_or_skip(test) {
            return None;
        }
        let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
        let titles = fill_root(device.root(), 6, 16 * MIB).expect("titles");
        let library = Library::new(0, 0).expect("a library");
        let scratch = Scratch::new("faults").expect("a folder");
        let good = Title::create(library.root(), "good.bin", 100, 4 * MIB).expect("a title");
        device.start().expect("start");
        let server = ServerBuilder::new([device.root(), library.root()])
            .memory("32MiB")
            .config(&format!(
                "admission = \"accept\"\nread_timeout = \"1s\"\nerrors_offline = 4\n\
                     offline_retry = \"500ms\"\nprefetch = \"1MiB\"\npolicy = \"fixed\"\n\
                     [log]\naccess = {:?}",
                scratch.path().join(LOG)
            ))
            .start();
        Some(Self {
            server,
            titles,
            good,
            device,
            _library: library,
            scratch,
        })
    }

    fn state(&self) -> String {
        let status = self.server.status();
        let device = status
            .device(&self.device.device_name())
            .expect("the device is listed");
        device.state().unwrap_or_default().to_owned()
    }

    /// The healthy device serves its whole title.
    fn check_good_one(&self) {
        let viewer = self.good.viewer(self.server.address());
        let report = bounded(Duration::from_secs(60), viewer.watch()).expect("the other device");
        assert_eq!(report.bytes, self.good.size_bytes);
    }

    /// Requests a range of a title; returns the number of verified bytes, or the status of an
    /// error. A truncated reply is `None`. Anything else fails the test.
    fn ask(&self, title: usize, first: u64, last: u64) -> Result<u64, Option<u16>> {
        let title = &self.titles[title];
        let range = format!("bytes={first}-{last}");
        match fetch(
            self.server.address(),
            "GET",
            &title.target,
            &[("Range", &range)],
        ) {
            Ok(response) if response.status() == 206 => {
                assert_eq!(
                    response.head.content_range(),
                    Some((first, last, title.size_bytes))
                );
                pattern::verify(title.number, first, &response.body).expect("correct bytes");
                Ok(response.body.len() as u64)
            }
            Ok(response) => Err(Some(response.status())),
            Err(error) if error.is_cut() => Err(None),
            Err(error) => panic!("{error}"),
        }
    }

    /// Position of a byte of a title on the disk.
    fn physical(&self, path: &Path, offset: u64) -> u64 {
        let extents = self.device.extents(path).expect("extents");
        let holds = |e: &&headlong_testkit::block_device::FileExtent| {
            (e.offset..e.offset + e.length).contains(&offset)
        };
        let extent = extents
            .iter()
            .find(holds)
            .expect("an extent holds the byte");
        extent.physical + (offset - extent.offset)
    }

    /// Waits until the disk serves title 5 again.
    fn wait_until_served(&self) {
        let ask = || self.ask(5, 0, 99);
        let answer = eventually("the repaired disk", ask, Result::is_ok);
        assert_eq!(answer, Ok(100));
    }
}

fn is_server_error(answer: Result<u64, Option<u16>>) -> bool {
    matches!(answer, Err(Some(500..=599)))
}

#[test]
fn bad_sector_fails_its_requests_before_the_first_byte() {
    let Some(rig) = Rig::new("bad_sector_fails_its_requests") else {
        return;
    };
    let bad = rig.physical(&rig.titles[0].path, 8 * MIB);
    rig.device.disk().fail_reads(bad..bad + 4096);
    assert_eq!(rig.ask(0, 0, MIB - 1), Ok(MIB), "far from the bad sector");
    let answer = rig.ask(0, 8 * MIB, 8 * MIB + 99);
    assert!(is_server_error(answer), "{answer:?}");
    assert_eq!(
        rig.ask(1, 0, MIB - 1),
        Ok(MIB),
        "another title of the same disk"
    );
    rig.check_good_one();
    let status = rig.server.status();
    assert!(status.counter("read_errors") >= 1);
    assert_ne!(rig.state(), "offline", "one bad sector is not a dead disk");
}

#[test]
fn reply_is_cut_at_bad_sector() {
    let Some(rig) = Rig::new("reply_is_cut_at_bad_sector") else {
        return;
    };
    let title = &rig.titles[0];
    let bad = rig.physical(&title.path, 8 * MIB);
    rig.device.disk().fail_reads(bad..bad + 4096);
    let mut connection = Connection::open(rig.server.address()).expect("connects");
    connection
        .send(request_text("GET", &title.target, &[]).as_bytes())
        .expect("sent");
    let head = connection.receive_head().expect("the beginning is good");
    assert_eq!(
        (head.status, head.content_length()),
        (200, Some(title.size_bytes))
    );
    // Bytes before the bad sector may arrive; bytes after it must not.
    let mut at = 0;
    let error = loop {
        match connection.receive_body(64 << 10) {
            Ok(bytes) => {
                pattern::verify(title.number, at, &bytes).expect("correct bytes");
                at += bytes.len() as u64;
                assert!(at <= 8 * MIB, "bytes of an unreadable sector");
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Io(_)), "{error}");
    rig.check_good_one();
}

#[test]
fn transient_error_fails_one_request_at_most() {
    let Some(rig) = Rig::new("transient_error_fails_one_request") else {
        return;
    };
    let start = rig.physical(&rig.titles[0].path, 0);
    rig.device.disk().fail_read_once(start..start + 4096);
    let answer = rig.ask(0, 0, 99);
    assert!(answer == Ok(100) || is_server_error(answer), "{answer:?}");
    assert_eq!(rig.ask(0, 0, 99), Ok(100));
    assert_ne!(rig.state(), "offline");
}

#[test]
fn hung_disk_fails_its_requests_in_time() {
    let Some(rig) = Rig::new("hung_disk_fails_its_requests_in_time") else {
        return;
    };
    // Until released, however busy this machine is.
    rig.device.disk().hang(None);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|title| {
                scope.spawn({
                    let rig = &rig;
                    move || rig.ask(title, 0, 99)
                })
            })
            .collect();
        rig.check_good_one();
        while !waiting.iter().all(ScopedJoinHandle::is_finished) {
            rig.check_good_one();
        }
        for answer in waiting {
            let answer = answer.join().expect("no panic");
            assert!(is_server_error(answer), "{answer:?}");
        }
    });
    rig.device.disk().release();
    let status = rig.server.status();
    let device = status.device(&rig.device.device_name()).expect("listed");
    assert!(
        device.counter("read_errors") >= 1,
        "a read that takes longer than its limit is an error"
    );
    rig.wait_until_served();
    assert_eq!(
        rig.ask(4, 0, MIB - 1),
        Ok(MIB),
        "right bytes after the hang"
    );
}

#[test]
fn reset_connection_during_hang_is_logged() {
    let Some(rig) = Rig::new("reset_connection_during_hang_is_logged") else {
        return;
    };
    let address = rig.server.address();
    rig.device.disk().hang(None);
    let mut client = TcpStream::connect(address).expect("connects");
    let target = &rig.titles[0].target;
    write!(client, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").expect("asks");
    let active = || rig.server.status().0["connections"]["requests_active"].clone();
    eventually("the request", active, |active| active.as_u64() == Some(1));
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("is set");
    drop(client);
    let path = rig.scratch.path().join(LOG);
    let lines = || std::fs::read_to_string(&path).unwrap_or_default();
    let text = eventually("its line", lines, |text| text.contains("client-gone"));
    let line = text.lines().find(|line| line.contains("client-gone"));
    assert!(
        line.is_some_and(|line| line.contains("499") && line.contains(target)),
        "{text}"
    );
    rig.device.disk().release();
    rig.wait_until_served();
}

/// So that metadata is read from the disk again. Without the permission, the test covers less.
fn drop_caches() {
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

#[test]
fn disk_hung_at_start_does_not_block_other_disks_or_stop() {
    let test = "a_server_whose_disk_hangs_at_the_start";
    if !SlowDisk::available_or_skip(test) {
        return;
    }
    let device = BlockDevice::new(64 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
    let titles = fill_root(device.root(), 2, MIB).expect("titles");
    let library = Library::new(0, 0).expect("a library");
    let good = Title::create(library.root(), "good.bin", 100, MIB).expect("a title");
    device.start().expect("start");
    drop_caches();
    device.disk().hang(None);
    let server = ServerBuilder::new([device.root(), library.root()])
        .config("read_timeout = \"1s\"")
        .start();
    let reply = server.get(&good.target);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    device.disk().release();
    let ask = || fetch(server.address(), "GET", &titles[0].target, &[]);
    let reply = eventually("the released disk", ask, |reply| {
        reply.as_ref().is_ok_and(|reply| reply.status() == 200)
    });
    pattern::verify(0, 0, &reply.expect("served").body).expect("correct bytes");
    device.disk().hang(None);
    let _ = fetch(server.address(), "GET", &titles[1].target, &[]);
    assert!(
        server.stop().is_some(),
        "the server ends although a disk hangs"
    );
    device.disk().release();
}

#[test]
fn vanished_disk_goes_offline_and_recovers() {
    let Some(rig) = Rig::new("vanished_disk_goes_offline_and_recovers") else {
        return;
    };
    assert_eq!(rig.ask(0, 0, 99), Ok(100));
    assert_eq!(rig.state(), "online");
    rig.device.disk().vanish();
    let mut seen = Vec::new();
    for attempt in 0..12u64 {
        // Never the same position twice: data in memory may still be served.
        let first = attempt * MIB;
        let answer = rig.ask(1 + (attempt % 4) as usize, first, first + 99);
        assert!(is_server_error(answer), "{answer:?}");
        seen.push(rig.state());
    }
    assert!(seen.iter().any(|state| state == "failing"), "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("offline"), "{seen:?}");
    rig.check_good_one();
    let metrics = rig.server.metrics();
    assert!(
        metrics.contains(&rig.device.device_name()),
        "the device is in the metrics"
    );

    rig.device.disk().heal();
    rig.wait_until_served();
    eventually("the state", || rig.state(), |state| state != "offline");
}

#[test]
fn reply_in_progress_is_cut_when_disk_vanishes() {
    let Some(rig) = Rig::new("reply_in_progress_is_cut_when_disk_vanishes") else {
        return;
    };
    let title = &rig.titles[2];
    let connection = Connection::open(rig.server.address()).expect("connects");
    let mut connection = connection.begin(&title.target, &[]);
    let mut at = 0;
    let error = loop {
        match connection.receive_body(64 << 10) {
            Ok(bytes) => {
                pattern::verify(title.number, at, &bytes).expect("correct bytes");
                at += bytes.len() as u64;
                if at == MIB {
                    rig.device.disk().vanish();
                }
                // The buffers of memory and kernel may all be sent; 16 MiB exceed them.
                assert!(
                    at < title.size_bytes,
                    "the whole title came from a vanished disk"
                );
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Io(_)), "{error}");
    assert!(at >= MIB);
}
