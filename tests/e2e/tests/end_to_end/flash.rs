//! A server with a flash tier that is killed under load, repeatedly.

use std::time::{Duration, Instant};

use headlong_e2e_tests::{eventually, tier};
use headlong_testkit::server::Server;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{RawDevice, Scratch, Seed, SlowDisk};

/// Number of kills, unless `HEADLONG_FLASH_KILLS` is set.
const KILLS: u64 = 24;
/// One in this many kills happens before recovery of the tier is complete.
const EARLY: u64 = 5;
/// Every record is verified after this many kills.
const VERIFIED: u64 = 6;

fn kills() -> u64 {
    let said = std::env::var("HEADLONG_FLASH_KILLS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// Readable records after recovery is complete.
fn recovered(server: &Server) -> u64 {
    let is_known = |server: &Server| {
        let view = tier::view(server)?;
        (view["is_recovering"] == false).then_some(())
    };
    eventually("recovered", || is_known(server), Option::is_some);
    tier::flash_counter(server, "records").expect("a tier")
}

/// Three viewers play, and the server is killed while they do.
fn play_and_kill(server: &mut Server, after: Duration, seed: &mut Seed) {
    let end = Instant::now() + after;
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).expect("a process");
    let running = &*server;
    std::thread::scope(|scope| {
        for seed in [seed.next_u64(), seed.next_u64(), seed.next_u64()] {
            scope.spawn(move || tier::play(running, end, &mut Seed::new(seed)));
        }
        std::thread::sleep(after);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    });
    server.wait(Duration::from_secs(30)).expect("ended");
}

#[test]
fn killed_server_recovers_sealed_records() {
    let mut seed = Seed::announced("flash", 22);
    let scratch = Scratch::new("flash").expect("a folder");
    let root = tier::library(&scratch, "root");
    let path = scratch.path().join("tier");
    // Smaller than the library: blocks are overwritten.
    tier::format(&path, &["--size", "56MB", "--block", "512KiB"]);
    let (mut sealed, mut lost, mut most, mut reads) = (0, 0, 0, 0);
    let kills = kills();
    for kill in 0..kills {
        let mut server = tier::start(&root, &[&path]);
        if kill == 0 {
            let (is_made, text) = tier::flash("format", &path, &["--force"]);
            assert!(!is_made && text.contains("in use"), "{text}");
        }
        if seed.below(EARLY) == 0 {
            let after = Duration::from_millis(seed.below(100));
            play_and_kill(&mut server, after, &mut seed);
        } else {
            let records = recovered(&server);
            lost += u64::saturating_sub(sealed, records);
            assert!(
                records * 100 >= sealed * 99,
                "kill {kill}: {records} records of {sealed}"
            );
            let after = Duration::from_millis(200 + seed.below(1200));
            let end = Instant::now() + after / 2;
            tier::play(&server, end, &mut seed);
            reads += tier::flash_counter(&server, "reads").unwrap_or(0);
            assert_eq!(
                tier::flash_counter(&server, "reads_wrong"),
                Some(0),
                "kill {kill}"
            );
            play_and_kill(&mut server, after / 2, &mut seed);
        }
        if kill % VERIFIED == 0 {
            let (is_right, text) = tier::flash("verify", &path, &[]);
            assert!(is_right, "kill {kill}: {text}");
        }
        sealed = tier::count(&path, "records");
        most = sealed.max(most);
    }
    eprintln!("{kills} kills, {most} records sealed at most, {lost} lost in all, {reads} read");
    assert!(reads > 0, "reads from the SSD");
    assert!(most > 200, "{most} records: the tier was not filled");
}

#[test]
fn raw_device_is_a_tier_and_gets_discards() {
    let test = "a_raw_device_is_a_tier";
    if !SlowDisk::available_or_skip(test) {
        return;
    }
    let mut seed = Seed::announced(test, 4);
    let scratch = Scratch::new("flash-raw").expect("a folder");
    let root = tier::library(&scratch, "root");
    let device = RawDevice::new(56 << 20, DriveModel::WD_RED).expect("a device");
    tier::format(device.path(), &["--block", "512KiB"]);
    let (is_made, text) = tier::flash("format", device.path(), &[]);
    assert!(
        !is_made && text.contains("has a flash tier on it"),
        "{text}"
    );
    let server = tier::start(&root, &[device.path()]);
    tier::play_until(&server, &mut seed, "blocks go round", |server| {
        tier::flash_counter(server, "read_bytes") > Some(4 << 20)
            && tier::flash_counter(server, "blocks_dropped") > Some(8)
    });
    assert_eq!(tier::flash_counter(&server, "reads_wrong"), Some(0));
    let (is_made, text) = tier::flash("format", device.path(), &["--force"]);
    assert!(!is_made && text.contains("in use"), "{text}");
    assert!(server.stop().is_some_and(|status| status.success()));
    let (is_right, text) = tier::flash("verify", device.path(), &[]);
    assert!(is_right, "{text}");
    let there = tier::count(device.path(), "records");
    let server = tier::start(&root, &[device.path()]);
    let records = recovered(&server);
    assert!(records * 100 >= there * 99, "{records} records of {there}");
    assert!(server.stop().is_some_and(|status| status.success()));
    let is_empty = || {
        let bytes = std::fs::read(device.disk().path()).expect("read");
        bytes.iter().all(|byte| *byte == 0)
    };
    assert!(!is_empty());
    let (is_free, text) = tier::flash("drop", device.path(), &[]);
    assert!(is_free && text.contains("the device is free"), "{text}");
    assert!(is_empty(), "all of it is discarded");
}
