//! Who watches beside an ill disk, a crowd of idle clients or a client that says nonsense does not
//! notice: not by an answer, and not by how long it takes.

use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Neighbours, Title, eventually};
use headlong_testkit::client::{Connection, fetch};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Seed, Server, SlowDisk, pattern};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// How long a read may take, so that who is held up by a disk stands out.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// A server over a disk that can be made to fail, and over a folder on a good one.
struct Rig {
    server: Server,
    /// On the disk that can be made to fail.
    titles: Vec<Title>,
    /// On the good one, in a folder `s` that both have.
    good: Vec<Title>,
    device: BlockDevice,
    // Dropped after the server that reads it.
    _scratch: Scratch,
}

impl Rig {
    /// `None` where slow disks cannot be made.
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
            .start()
            .expect("a server");
        Some(Self {
            server,
            titles,
            good: good.expect("titles"),
            device,
            _scratch: scratch,
        })
    }

    fn neighbours<'a>(&self, titles: &'a [Title]) -> Neighbours<'a> {
        Neighbours {
            address: self.server.address(),
            titles,
            request_bytes: 32 * KIB,
            held_up: READ_TIMEOUT,
        }
    }

    /// The status of a request for a range of a title of the disk that can be made to fail.
    fn ask(&self, title: &Title, first: u64, fields: &[(&str, &str)]) -> u16 {
        let range = format!("bytes={first}-{}", first + 99);
        let mut all = vec![("Range", range.as_str())];
        all.extend(fields);
        let reply = fetch(self.server.address(), "GET", &title.target, &all).expect("an answer");
        if reply.status() == 206 {
            pattern::verify(title.number, first, &reply.body).expect("right bytes");
        }
        reply.status()
    }
}

/// So that what was looked at is asked of the disk again. Where that is not allowed, less is tested.
fn drop_caches() {
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

#[test]
fn six_hundred_requests_to_a_hung_disk_are_answered_and_nobody_else_notices() {
    let Some(rig) = Rig::new("six_hundred_requests_to_a_hung_disk", "") else {
        return;
    };
    // A film is looked at for its header before anything else.
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
            // A name that nobody knows yet lies on the other disk.
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
    eventually("the disk that was released", ask, |status| *status == 206);
}

#[test]
fn an_unreadable_first_root_is_not_noticed_by_who_watches_from_the_second() {
    let Some(rig) = Rig::new("an_unreadable_first_root", "") else {
        return;
    };
    let address = rig.server.address();
    let unreadable = || {
        drop_caches();
        rig.device.disk().fail_reads(0..256 * MIB);
        for n in 0..200_u64 {
            // What both roots may have and nobody knows, and what the ill one has.
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
fn four_bad_mebibytes_are_not_noticed_by_who_watches_from_the_same_disk() {
    let Some(rig) = Rig::new("four_bad_mebibytes", "errors_offline = 10") else {
        return;
    };
    let (bad, others) = rig.titles.split_first().expect("titles");
    let extents = rig.device.extents(&bad.path).expect("extents");
    let holds = |e: &&headlong_testkit::block_device::FileExtent| {
        e.offset <= 8 * MIB && e.offset + e.length >= 12 * MIB
    };
    let extent = extents.iter().find(holds).expect("four mebibytes together");
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
    let status = rig.server.status().expect("/status");
    let device = rig.device.device_name();
    let device = status.device(&device).expect("listed");
    assert!(device.counter("read_errors") >= 10, "they were read");
    assert_ne!(device.state(), Some("offline"));
    assert_eq!(rig.ask(bad, 0, &[]), 206, "what else the bad title has");
}

#[test]
fn what_one_client_says_of_its_bit_rate_and_its_hurry_is_not_noticed_by_others() {
    let Some(rig) = Rig::new("what_one_client_says", "") else {
        return;
    };
    let device = rig.device.device_name();
    let jobs = || {
        let status = rig.server.status().expect("/status");
        let device = status.device(&device).expect("listed");
        (device.counter("jobs"), device.counter("job_bytes"))
    };
    let (liar, others) = rig.titles.split_first().expect("titles");
    // The same client, once silent and once not: what it reads costs the disk the same.
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
    let silent = neighbours.do_not_notice("a client that says nothing", || ask_often(&[]));
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
fn two_hundred_and_thirty_idle_connections_are_not_noticed_where_256_files_may_be_open() {
    let scratch = Scratch::new("idle").expect("a folder");
    let titles = fill_root(scratch.path(), 12, MIB).expect("titles");
    let server = ServerBuilder::new([scratch.path()])
        .open_files_max(256)
        .start()
        .expect("a server");
    let neighbours = Neighbours {
        address: server.address(),
        titles: &titles,
        request_bytes: 32 * KIB,
        held_up: READ_TIMEOUT,
    };
    let idle = || {
        // Those that had to make room come back, as players do.
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
    let status = server.status().expect("/status");
    let seen = (status.state(), status.counter("read_errors"));
    assert_eq!(seen, (Some("online"), 0));
}
