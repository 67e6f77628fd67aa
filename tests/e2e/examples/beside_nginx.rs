//! How many viewers one emulated hard disk serves in time, from this server and from nginx.
//!
//!     cargo run --release -p headlong-e2e-tests --example beside_nginx
//!
//! Each viewer watches a title of its own in requests of 512 KiB at a steady pace; a run fails if
//! any reply ends more than 10 s (the timeout of thesis Table 3.2) after its request was due.
//! For each server the largest number of viewers without a failure is looked for in steps, and the
//! servers take turns. What is printed is the failure-free rate in the drive's own time.
//!
//! The peers: nginx with threads for its reads and the kernel's default read-ahead of 128 KiB, and
//! the same with read_ahead_kb 2048 and max_sectors_kb raised to what the device takes. nginx has
//! the whole page cache; this server has the budget given below.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::nginx::Nginx;
use headlong_e2e_tests::{Title, bounded};
use headlong_testkit::client::{Asking, Viewer};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Seed};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The drive is this many times faster than its model, and so are the viewers.
const COMPRESSION: f64 = 4.0;
/// Of the model's time, each viewer takes this many bytes in a second: 8 Mbit/s.
const PACE_BYTES: u64 = MIB;
const TITLES: u64 = 96;
/// Model time of one run: 40 s of watching.
const TITLE_BYTES: u64 = 40 * MIB;
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: u64 = 4;
const ROUNDS: usize = 2;
const MEMORY: &str = "512MiB";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Headlong,
    Nginx,
    NginxTuned,
}

impl Peer {
    const ALL: [Self; 3] = [Self::Headlong, Self::Nginx, Self::NginxTuned];

    fn name(self) -> &'static str {
        match self {
            Self::Headlong => "headlong, 512 MiB",
            Self::Nginx => "nginx, read_ahead_kb 128",
            Self::NginxTuned => "nginx, read_ahead_kb 2048",
        }
    }

    fn read_ahead_kib(self) -> u64 {
        if self == Self::NginxTuned { 2048 } else { 128 }
    }
}

fn main() -> io::Result<()> {
    let device = BlockDevice::new((TITLES + 8) * TITLE_BYTES, DriveModel::WD_RED, COMPRESSION)?;
    eprintln!("filling {TITLES} titles of {} MiB", TITLE_BYTES / MIB);
    let titles = fill_root(device.root(), TITLES, TITLE_BYTES)?;
    let mut seed = Seed::announced("beside_nginx", 1);
    let mut best = [[0; ROUNDS]; Peer::ALL.len()];
    for round in 0..ROUNDS {
        for (index, peer) in Peer::ALL.into_iter().enumerate() {
            best[index][round] = most_viewers(peer, &device, &titles, &mut seed)?;
        }
    }
    println!("peer\tviewers without a failure, by round\tMiB/s of model time (mean)\tratio");
    let mean = |rounds: [u64; ROUNDS]| rounds.iter().sum::<u64>() as f64 / ROUNDS as f64;
    let rate = |viewers: f64| viewers * PACE_BYTES as f64 / MIB as f64;
    for (peer, rounds) in Peer::ALL.into_iter().zip(best) {
        let ratio = mean(best[0]) / mean(rounds).max(1.0);
        println!(
            "{}\t{rounds:?}\t{:.1}\t{ratio:.2}",
            peer.name(),
            rate(mean(rounds))
        );
    }
    Ok(())
}

/// The most viewers, in steps, that all get everything in time: the bounds close in by halves.
fn most_viewers(
    peer: Peer,
    device: &BlockDevice,
    titles: &[Title],
    seed: &mut Seed,
) -> io::Result<u64> {
    let (mut good, mut bad) = (0, TITLES / STEP + 1);
    while bad - good > 1 {
        let steps = (good + bad) / 2;
        let is_good = run(peer, device, &titles[..(steps * STEP) as usize], seed)?;
        eprintln!(
            "{}: {} viewers: {}",
            peer.name(),
            steps * STEP,
            if is_good { "ok" } else { "fail" }
        );
        if is_good { good = steps } else { bad = steps }
    }
    Ok(good * STEP)
}

fn run(peer: Peer, device: &BlockDevice, titles: &[Title], seed: &mut Seed) -> io::Result<bool> {
    let queue = format!("/sys/block/{}/queue", device.device_name());
    std::fs::write(
        format!("{queue}/read_ahead_kb"),
        peer.read_ahead_kib().to_string(),
    )?;
    let sectors_max = std::fs::read_to_string(format!("{queue}/max_hw_sectors_kb"))?;
    std::fs::write(format!("{queue}/max_sectors_kb"), sectors_max.trim())?;
    device.start()?;
    if peer == Peer::Headlong {
        let config = format!(
            "admission = \"accept\"\n[device.\"{}\"]\nrotational = true",
            device.device_name()
        );
        let server = ServerBuilder::new([device.root()])
            .memory(MEMORY)
            .config(&config)
            .start();
        let server = server.map_err(io::Error::other)?;
        return Ok(watch(server.address(), titles, seed));
    }
    let directives = "sendfile on; aio threads; tcp_nodelay on; keepalive_requests 10000;";
    let server = Nginx::start_with(device.root(), directives)?;
    Ok(watch(server.address(), titles, seed))
}

/// Whether every viewer got everything in time.
fn watch(address: SocketAddr, titles: &[Title], seed: &mut Seed) -> bool {
    let pace = (PACE_BYTES as f64 * COMPRESSION) as u64;
    let patience = PATIENCE.div_f64(COMPRESSION);
    // They come one after the other, or their prefetches fall into step.
    let ramp_ms = (TITLE_BYTES * 1000 / pace) / 2;
    let delays: Vec<u64> = titles.iter().map(|_| seed.below(ramp_ms)).collect();
    bounded(Duration::from_secs(300), async {
        let watching: Vec<_> = titles
            .iter()
            .zip(delays)
            .map(|(title, delay)| {
                let viewer = Viewer {
                    asking: Asking::Chunks(512 * KIB),
                    bytes_per_second: Some(pace),
                    ..title.viewer(address)
                };
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                    viewer.watch().await
                })
            })
            .collect();
        let mut all_in_time = true;
        for viewer in watching {
            let report = viewer.await.ok().and_then(Result::ok);
            all_in_time &= report.is_some_and(|report| report.behind_max <= patience);
        }
        all_in_time
    })
}
