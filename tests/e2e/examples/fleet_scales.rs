//! Measures what four boxes on emulated hard disks serve through HAProxy, by what one serves.
//!
//!     cargo run --release -p headlong-e2e-tests --example fleet_scales -- [TIME_SCALE]
//!
//! Each box has one drive with titles of its own, and HAProxy has their places
//! (`fleet config --places`). Viewers read as fast as they get bytes, so the drives are the limit; at a
//! time scale above 1 (the default) they are as much faster than their model. The machine has to carry
//! four drives, four servers, HAProxy and the viewers: lower the time scale if its processors are busy.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use headlong_e2e_tests::{HaProxy, Title, bounded};
use headlong_testkit::client::Asking;
use headlong_testkit::server::{ServerBuilder, binary};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, ProgramRun, Scratch, Server};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Of each box.
const TITLES: u64 = 24;
const TITLE_BYTES: u64 = 60 * MIB;
/// Far less than the titles of a box.
const MEMORY: &str = "256MiB";
/// At a time, of each box.
const VIEWERS: u64 = 16;
const WARM_UP: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(30);

fn main() -> io::Result<()> {
    let scale = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse());
    let scale: f64 = scale.map_err(|_| io::Error::other("write the time scale as a number"))?;
    println!("boxes\tMiB/s\tratio\tdrives busy (%)");
    let mut alone = None;
    for count in [1, 4] {
        let (rate, busy) = measure(count, scale)?;
        let alone = *alone.get_or_insert(rate);
        println!(
            "{count}\t{rate:.1}\t{:.2}\t{:.0}",
            rate / alone,
            busy * 100.0
        );
    }
    Ok(())
}

/// Bytes that so many boxes send in a second, in MiB, and how busy their drives are.
fn measure(count: u64, scale: f64) -> io::Result<(f64, f64)> {
    let scratch = Scratch::new("fleet-scales")?;
    let (mut devices, mut titles) = (Vec::new(), Vec::new());
    for number in 0..count {
        let device = BlockDevice::new((TITLES + 8) * TITLE_BYTES, DriveModel::WD_RED, scale)?;
        eprintln!("filling {TITLES} titles of box {number}");
        for title in number * TITLES..(number + 1) * TITLES {
            let name = format!("title-{title}.bin");
            titles.push(Title::create(device.root(), &name, title, TITLE_BYTES)?);
        }
        devices.push(device);
    }
    let mut servers = Vec::new();
    for device in &devices {
        device.start()?;
        let config = format!("[device.\"{}\"]\nrotational = true", device.device_name());
        let server = ServerBuilder::new([device.root()])
            .memory(MEMORY)
            .config(&config);
        servers.push(server.try_start().map_err(io::Error::other)?);
    }
    let front = HaProxy::start(|listen| configuration(scratch.path(), &servers, listen))?;
    let sent = || -> u64 {
        let servers = servers.iter();
        servers
            .map(|server| server.status().counter("bytes_sent"))
            .sum()
    };
    let rate = bounded(WARM_UP + MEASURED + Duration::from_secs(60), async {
        let watching: Vec<_> = (0..count * VIEWERS)
            .map(|viewer| tokio::spawn(watch(viewer, titles.clone(), front.address())))
            .collect();
        tokio::time::sleep(WARM_UP).await;
        let (before, from) = (sent(), std::time::Instant::now());
        let busy = devices.iter().map(|device| device.disk().now());
        let busy: Vec<_> = busy.collect();
        tokio::time::sleep(MEASURED).await;
        let rate = (sent() - before) as f64 / from.elapsed().as_secs_f64() / MIB as f64;
        let shares = devices.iter().zip(busy).map(|(device, from)| {
            let passed = device.disk().now() - from;
            let trace = device.disk().trace().since(from);
            trace.service_time().as_secs_f64() / passed.as_secs_f64().max(1e-9)
        });
        let share = shares.sum::<f64>() / count as f64;
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        (rate, share)
    });
    Ok(rate)
}

/// Watches one title of a box after another.
async fn watch(viewer: u64, titles: Vec<Title>, front: SocketAddr) {
    let (of_box, first) = (viewer / VIEWERS, viewer % VIEWERS);
    for turn in 0.. {
        let number = of_box * TITLES + (first + turn * 5) % TITLES;
        let mut viewer = titles[number as usize]
            .viewer(front)
            .with_session(viewer << 32 | turn);
        viewer.asking = Asking::Chunks(512 * KIB);
        if let Err(error) = viewer.watch().await {
            eprintln!("title {number}: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The configuration of HAProxy for these boxes and the titles of each.
fn configuration(folder: &Path, servers: &[Server], listen: SocketAddr) -> String {
    // A bound would send viewers to boxes without their titles.
    let mut fleet = format!("title = \"file\"\nlisten = [\"{listen}\"]\nload_percent_max = 1000\n");
    let mut places = String::new();
    for (number, server) in (0..).zip(servers) {
        let (address, admin) = (server.address(), server.admin());
        fleet.push_str(&format!(
            "[box.{number}]\naddress = \"{address}\"\nadmin = \"{admin}\"\n"
        ));
        let titles = number * TITLES..(number + 1) * TITLES;
        places.extend(titles.map(|title| format!("title-{title}.bin\t{number}:d\n")));
    }
    let file = |name: &str| folder.join(name);
    std::fs::write(file("fleet.toml"), fleet).expect("written");
    std::fs::write(file("places.tsv"), places).expect("written");
    let mut command = Command::new(binary());
    command.args(["fleet", "config", "--for", "haproxy"]);
    command.arg("--places").arg(file("places.tsv"));
    command.arg("--map").arg(file("places.map"));
    let made = ProgramRun::of(command.arg(file("fleet.toml"))).exits_with(0);
    made.stdout
}
