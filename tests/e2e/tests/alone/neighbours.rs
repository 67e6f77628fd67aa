//! Viewers beside a faulty disk, many idle clients or a client with wrong hints are unaffected, in
//! their responses and in their latencies.

use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{BackgroundViewers, Title, eventually};
use headlong_testkit::client::{Connection, fetch};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Seed, Server, SlowDisk, pattern};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Read timeout, long enough for a delayed viewer to stand out.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// A server over a disk with fault injection, and over a folder on a healthy disk.
struct Rig {
    server: Server,
    /// Titles on the disk with fault injection.
    titles: Vec<Title>,
    /// Titles on the healthy disk, in a folder `s` that both have.
    good: Vec<Title>,
    device: BlockDevice,
    // Dropped after the server that reads it.
    _scratch: Scratch,
}

impl Rig {
    /// `None` where this machine has no emulated disks.
    fn new(test: &str, config: &str) -> Option<Self> {
        if !SlowDisk::available_or_skip(test) {
            return None;
        }
        let device = BlockDevice::new(256 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
        let titles = fill_root(device.root(), 10, 16 * MIB).expect("titles");
        let scratch = Scratch::new("good").expect("a folder");
        for root in [device.root(), scratch.path()] {
            std::fs::create_dir(root.join("s")).expect("a folder");
        }
        let title =
            |n: u64| Title::create(scratch.path(), &format!("s/good-{n}.bin"), 100 + n, MIB);
        let good: Result<Vec<_>, _> = (0..64).map(title).collect();
        device.start().expect("start");
        let server = ServerBuilder::new([device.root(), scratch.path()])
            .memory("32MiB")
            .config(&format!(
                "admission = \"accept\"\nread_timeout = \"{}s\"\n{config}",
                READ_TIMEOUT.as_secs()
            ))
            .start();
        Some(Self {
            server,
            titles,
            good: good.expect("titles"),
            device,
            _scratch: scratch,
        })
    }

    fn neighbours<'a>(&self, titles: &'a [Title]) -> BackgroundViewers<'a> {
        BackgroundViewers {
            address: self.server.address(),
            titles,
            request_bytes: 32 * KIB,
            held_up: READ_TIMEOUT,
        }
    }

    /// The status of a request for a range of a title on the disk with fault injection.
    fn ask(&self, title: &Title, first: u64, fields: &[(&str, &str)]) -> u16 {
        let range = format!("bytes={first}-{}", first + 99);
        let mut all = vec![("Range", range.as_str())];
        all.extend(fields);
        let reply = self.server.request("GET", &title.target, &all);
        if reply.status() == 206 {
            pattern::verify(title.number, first, &reply.body).expect("correct bytes");
        }
        reply.status()
    }
}

/// So that metadata is read from the disk again. Without the permission, the test covers less.
fn drop_caches() {
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

#[test]
fn hung_disk_does_not_affect_viewers_of_others() {
    let Some(rig) = Rig::new("hung_disk_does_not_affect_viewers_of_others", "") else {
        return;
    };
    // The header of a film is read before anything else.
    let film = |n: u64| {
        let name = format!("film-{n}.mp4");
        pattern::write_file(&rig.device.root().join(&name), 200 + n, MIB).expect("written");
        format!("/{name}")
    };
    let films: Vec<_> = (0..4).map(film).collect();
    drop_caches();
    let address = rig.server.address();
    let all_at_once = || {
        rig.device.disk().hang(None);
        std::thread::scope(|scope| {
            let ask = |n: usize| {
                let target = &films[n % films.len()];
                scope.spawn(move || fetch(address, "GET", target, &[("Range", "bytes=0-99")]))
            };
            let waiting: Vec<_> = (0..600).map(ask).collect();
            // A name that is not in the library yet is looked up on the other disk.
            let folder = rig.good[0].path.parent().expect("a folder");
            Title::create(folder, "new.bin", 300, MIB).expect("made");
            let new = || fetch(address, "GET", "/s/new.bin", &[]);
            let new = eventually("the new title", new, |reply| {
                reply.as_ref().is_ok_and(|reply| reply.status() == 200)
            });
            assert_eq!(new.expect("served").body.len() as u64, MIB);
            for answer in waiting {
                let answer = answer.join().expect("no panic").expect("an answer");
                assert!((500..600).contains(&answer.status()), "{}", answer.text());
            }
        });
    };
    rig.neighbours(&rig.good)
        .do_not_notice("a hung disk", all_at_once);
    rig.device.disk().release();
    let ask = || rig.ask(&rig.titles[5], 0, &[]);
    eventually("the released disk", ask, |status| *status == 206);
}

#[test]
fn unreadable_first_root_does_not_affect_second() {
    let Some(rig) = Rig::new("unreadable_first_root_does_not_affect_second", "") else {
        return;
    };
    let address = rig.server.address();
    let unreadable = || {
        drop_caches();
        rig.device.disk().fail_reads(0..256 * MIB);
        for n in 0..200_u64 {
            // A name that both roots may have and that is unknown yet, and a name on the faulty
            // root.
            let unknown = fetch(address, "HEAD", &format!("/s/nobody-{n}.bin"), &[]);
            let status = unknown.expect("an answer").status();
            assert!(status == 404 || (500..600).contains(&status), "{status}");
            let title = &rig.titles[(n % 10) as usize];
            let status = rig.ask(title, n * 64 * KIB, &[]);
            assert!((500..600).contains(&status), "{status}");
        }
    };
    rig.neighbours(&rig.good)
        .do_not_notice("an unreadable first root", unreadable);
}

#[test]
fn bad_sectors_do_not_affect_viewers_of_same_disk() {
    let Some(rig) = Rig::new(
        "bad_sectors_do_not_affect_viewers_of_same_disk",
        "errors_offline = 10",
    ) else {
        return;
    };
    let (bad, others) = rig.titles.split_first().expect("titles");
    let extents = rig.device.extents(&bad.path).expect("extents");
    let holds = |e: &&headlong_testkit::block_device::FileExtent| {
        e.offset <= 8 * MIB && e.offset + e.length >= 12 * MIB
    };
    let extent = extents
        .iter()
        .find(holds)
        .expect("an extent of four mebibytes");
    let start = extent.physical + (8 * MIB - extent.offset);
    let asked_for = || {
        rig.device.disk().fail_reads(start..start + 4 * MIB);
        for n in 0..64_u64 {
            let status = rig.ask(bad, 8 * MIB + n % 32 * 128 * KIB, &[]);
            assert!((500..600).contains(&status), "{status}");
        }
    };
    rig.neighbours(others)
        .do_not_notice("four bad mebibytes", asked_for);
    let status = rig.server.status();
    let device = rig.device.device_name();
    let device = status.device(&device).expect("listed");
    assert!(
        device.counter("read_errors") >= 10,
        "the bad sectors were read"
    );
    assert_ne!(device.state(), Some("offline"));
    assert_eq!(rig.ask(bad, 0, &[]), 206, "the rest of the bad title");
}

#[test]
fn hints_of_one_client_do_not_affect_others() {
    let Some(rig) = Rig::new("hints_of_one_client_do_not_affect_others", "") else {
        return;
    };
    let device = rig.device.device_name();
    let jobs = || {
        let status = rig.server.status();
        let device = status.device(&device).expect("listed");
        (device.counter("jobs"), device.counter("job_bytes"))
    };
    let (liar, others) = rig.titles.split_first().expect("titles");
    // The same client, without hints and with hints: its reads cost the disk the same.
    let ask_often = |fields: &[(&str, &str)]| {
        let (jobs_before, bytes_before) = jobs();
        let mut seed = Seed::new(7);
        for _ in 0..200 {
            let status = rig.ask(liar, seed.below(127) * 128 * KIB, fields);
            assert_eq!(status, 206);
        }
        let (jobs_after, bytes_after) = jobs();
        (bytes_after - bytes_before) / (jobs_after - jobs_before).max(1)
    };
    let neighbours = rig.neighbours(others);
    let silent = neighbours.do_not_notice("a client without hints", || ask_often(&[]));
    let said = [
        ("CMCD-Object", "br=999999999999999"),
        ("CMCD-Request", "dl=0,bl=0,su"),
        ("CMCD-Status", "bs"),
    ];
    let loud = neighbours.do_not_notice("br=10^15, dl=0", || ask_often(&said));
    assert!(
        loud * 2 >= silent,
        "reads of {loud} bytes on average instead of {silent}"
    );
}

#[test]
fn idle_connections_near_descriptor_limit_affect_no_viewer() {
    let scratch = Scratch::new("idle").expect("a folder");
    let titles = fill_root(scratch.path(), 12, MIB).expect("titles");
    let server = ServerBuilder::new([scratch.path()])
        .open_files_max(256)
        .start();
    let neighbours = BackgroundViewers {
        address: server.address(),
        titles: &titles,
        request_bytes: 32 * KIB,
        held_up: READ_TIMEOUT,
    };
    let idle = || {
        // Clients whose connection was closed reconnect, as players do.
        for _ in 0..3 {
            let open = |_| {
                let mut connection = Connection::open(server.address()).expect("connects");
                let reply = connection.request("HEAD", &titles[0].target, &[]);
                assert_eq!(reply.expect("served").status(), 200);
                connection
            };
            let _held: Vec<_> = (0..230).map(open).collect();
            std::thread::sleep(Duration::from_millis(500));
        }
    };
    neighbours.do_not_notice("230 idle connections", idle);
    let status = server.status();
    let seen = (status.state(), status.counter("read_errors"));
    assert_eq!(seen, (Some("online"), 0));
}
