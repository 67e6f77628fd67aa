//! Measures how many viewers one emulated hard disk serves without a late reply, with this server
//! and with nginx.
//!
//!     cargo run --release -p headlong-e2e-tests --example beside_nginx
//!
//! Arguments, if any, are prefixes of the names of the peers to run.
//!
//! Each viewer watches its own title for a minute, in requests of 512 KiB at a steady pace. A run
//! fails if any reply ends more than 5 s after its request was due: as much as a small playout
//! buffer covers, and too little to hide a disk that does not keep up. For each server the example
//! searches the largest number of viewers without a failure and prints the failure-free rate in the
//! drive's model time.
//!
//! The peers: nginx with threads for its reads and the kernel's default read-ahead of 128 KiB, and
//! the same with read_ahead_kb 2048 and max_sectors_kb raised to the device's limit. nginx has the
//! whole page cache; this server has the budget given below.

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
const COMPRESSION: f64 = 2.0;
/// Bytes of each viewer in a second of model time: 8 Mbit/s.
const PACE_BYTES: u64 = MIB;
const TITLES: u64 = 96;
/// One minute of model time.
const TITLE_BYTES: u64 = 60 * MIB;
const PATIENCE: Duration = Duration::from_secs(5);
/// Their starts are spread over this much model time, so that their prefetches do not fall into
/// step.
const RAMP: Duration = Duration::from_secs(20);
const STEP: u64 = 8;
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
    let only: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |peer: &Peer| {
        only.is_empty()
            || only
                .iter()
                .any(|name| peer.name().starts_with(name.as_str()))
    };
    let mut found = Vec::new();
    for peer in Peer::ALL.into_iter().filter(is_wanted) {
        found.push((peer, most_viewers(peer, &device, &titles, &mut seed)?));
    }
    println!("peer\tviewers without a failure\tMiB/s of model time\tratio of the first to it");
    let first = found.first().map_or(0, |(_, viewers)| *viewers);
    for (peer, viewers) in &found {
        let rate = (viewers * PACE_BYTES) as f64 / MIB as f64;
        let ratio = first as f64 / (*viewers).max(1) as f64;
        println!("{}\t{viewers}\t{rate:.0}\t{ratio:.2}", peer.name());
    }
    Ok(())
}

/// Searches the largest number of viewers without a failure, by bisection in steps.
fn most_viewers(
    peer: Peer,
    device: &BlockDevice,
    titles: &[Title],
    seed: &mut Seed,
) -> io::Result<u64> {
    let (mut good, mut bad) = (0, TITLES / STEP + 1);
    while bad - good > 1 {
        let steps = (good + bad) / 2;
        let run = run(peer, device, &titles[..(steps * STEP) as usize], seed)?;
        eprintln!(
            "{}: {} viewers: {}; {:.1} s behind at most, drive {:.0} % busy, {} KiB a read",
            peer.name(),
            steps * STEP,
            if run.is_in_time() { "ok" } else { "fail" },
            run.behind_max.as_secs_f64(),
            run.busy_share * 100.0,
            run.read_bytes_mean / KIB,
        );
        if run.is_in_time() {
            good = steps;
        } else {
            bad = steps;
        }
    }
    Ok(good * STEP)
}

fn run(peer: Peer, device: &BlockDevice, titles: &[Title], seed: &mut Seed) -> io::Result<Run> {
    let queue = format!("/sys/block/{}/queue", device.device_name());
    let sectors_max = std::fs::read_to_string(format!("{queue}/max_hw_sectors_kb"))?;
    std::fs::write(format!("{queue}/max_sectors_kb"), sectors_max.trim())?;
    std::fs::write(format!("{queue}/scheduler"), "mq-deadline")?;
    // Last: the kernel resets it whenever another limit of the queue changes.
    std::fs::write(
        format!("{queue}/read_ahead_kb"),
        peer.read_ahead_kib().to_string(),
    )?;
    device.start()?;
    if peer == Peer::Headlong {
        let config = format!(
            "admission = \"accept\"\n[device.\"{}\"]\nrotational = true",
            device.device_name()
        );
        let server = ServerBuilder::new([device.root()])
            .memory(MEMORY)
            .config(&config)
            .try_start();
        let server = server.map_err(io::Error::other)?;
        return Ok(observe(device, || watch(server.address(), titles, seed)));
    }
    let directives = "sendfile on; aio threads; tcp_nodelay on; keepalive_requests 10000;";
    let server = Nginx::start_with(device.root(), directives)?;
    Ok(observe(device, || watch(server.address(), titles, seed)))
}

/// Result of one run, in model time.
struct Run {
    behind_max: Duration,
    /// Share of the time during which the drive was busy.
    busy_share: f64,
    /// Mean length of a request to the drive.
    read_bytes_mean: u64,
}

impl Run {
    fn is_in_time(&self) -> bool {
        self.behind_max <= PATIENCE
    }
}

fn observe(device: &BlockDevice, watch: impl FnOnce() -> Duration) -> Run {
    let from = device.disk().now();
    let behind_max = watch();
    let passed = device.disk().now() - from;
    let trace = device.disk().trace().since(from);
    Run {
        behind_max,
        busy_share: trace.service_time().as_secs_f64() / passed.as_secs_f64().max(1e-9),
        read_bytes_mean: trace.run_bytes_mean(),
    }
}

/// The largest lag of any viewer behind its pace; infinite if one was not served at all.
fn watch(address: SocketAddr, titles: &[Title], seed: &mut Seed) -> Duration {
    let pace = (PACE_BYTES as f64 * COMPRESSION) as u64;
    let ramp_ms = RAMP.div_f64(COMPRESSION).as_millis() as u64;
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
        let mut behind_max = Duration::ZERO;
        for viewer in watching {
            let report = viewer.await.ok().and_then(Result::ok);
            let behind = report.map_or(Duration::MAX, |report| {
                report.behind_max.mul_f64(COMPRESSION)
            });
            behind_max = behind_max.max(behind);
        }
        behind_max
    })
}
