//! Changes the load on the real server in steps, on an emulated hard disk, and records how the
//! prefetch size follows: half the viewers leave, the same number returns within seconds, and then
//! eight times as many viewers of an eighth of the bit rate replace them.
//!
//!     cargo run --release -p headlong-e2e-tests --example load_steps -- [VIEWERS [SCALE]]
//!
//! VIEWERS is the most viewers of 8 Mbit/s that the server serves (`--example beside_nginx` finds
//! it), 72 by default; the load is 80 % of them. SCALE, 1 by default, divides the length of every
//! phase. Needs root, as every emulated disk does. Writes docs/operate/load-steps.svg, samples to
//! standard output as CSV (model time), and exits with 4 if any viewer failed or lagged more than
//! five seconds behind its pace.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Title, bounded};
use headlong_report::{Axis, Chart, Figure, Series};
use headlong_testkit::client::{Asking, Viewer};
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Seed};
use tokio::task::JoinHandle;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Drive, server and viewers are this many times faster than real time.
const COMPRESSION: u32 = 2;
/// 8 Mbit/s, and the rate of the last phase.
const PACE_BYTES: u64 = MIB;
const PACE_BYTES_LOW: u64 = MIB / 8;
const TITLES: u64 = 96;
const TITLE_BYTES: u64 = 60 * MIB;
const MEMORY: &str = "512MiB";
/// Accepted lag of a viewer: what a small playout buffer covers.
const PATIENCE: Duration = Duration::from_secs(5);
/// New viewers start within this much model time, so that their prefetches do not fall into step.
const RAMP: Duration = Duration::from_secs(20);
const SAMPLE: Duration = Duration::from_secs(5);

/// One phase: the numbers of viewers of either kind, and its length in seconds.
struct Phase {
    what: &'static str,
    high: u64,
    low: u64,
    seconds: u64,
}

/// Outcome of the viewers.
#[derive(Default)]
struct Outcome {
    failed: AtomicU64,
    behind_ms_max: AtomicU64,
}

struct Sample {
    second: f64,
    viewers: u64,
    size_mib: f64,
    target_mib: f64,
    sent_mib_s: f64,
    reason: String,
}

fn main() -> io::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| match numbers.next() {
        None => Ok(default),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(io::Error::other(
            "write VIEWERS and SCALE as numbers above 0",
        )),
    };
    let (most, scale) = (number(72)?, number(1)?);
    let full = (most * 4 / 5).max(2);
    let phase = |what, high, low, seconds: u64| Phase {
        what,
        high,
        low,
        seconds: (seconds / scale).max(10),
    };
    let phases = [
        phase("80 % of the most", full, 0, 360),
        phase("half leave", full / 2, 0, 240),
        phase("twice as many", full, 0, 240),
        phase("an eighth of the bit rate", 0, full * 8, 360),
    ];
    let device = BlockDevice::new(
        (TITLES + 8) * TITLE_BYTES,
        DriveModel::WD_RED,
        f64::from(COMPRESSION),
    )?;
    eprintln!("filling {TITLES} titles of {} MiB", TITLE_BYTES / MIB);
    let titles = fill_root(device.root(), TITLES, TITLE_BYTES)?;
    device.start()?;
    // Admits every viewer: an overload must appear as lateness and not as refusals.
    let config = format!(
        "prefetch = \"auto\"\nadmission = \"accept\"\n[device.\"{}\"]\nrotational = true",
        device.device_name()
    );
    let server = ServerBuilder::new([device.root()])
        .memory(MEMORY)
        .config(&config)
        .argument("--time-scale")
        .argument(COMPRESSION.to_string())
        .try_start()
        .map_err(io::Error::other)?;
    let outcome = Arc::new(Outcome::default());
    let samples = watch(&server, &titles, &phases, &outcome);
    tell(&samples, &phases)?;
    let failed = outcome.failed.load(Ordering::Relaxed);
    let behind = Duration::from_millis(outcome.behind_ms_max.load(Ordering::Relaxed));
    eprintln!(
        "{failed} viewers failed; at most {:.1} s behind",
        behind.as_secs_f64()
    );
    for line in server
        .output()
        .lines()
        .filter(|line| line.contains("prefetch goes"))
    {
        eprintln!("{line}");
    }
    let is_well = failed == 0 && behind <= PATIENCE;
    Ok(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(4)
    })
}

/// Plays all phases; a viewer that has finished a title continues with the next.
fn watch(
    server: &Server,
    titles: &[Title],
    phases: &[Phase],
    outcome: &Arc<Outcome>,
) -> Vec<Sample> {
    let mut seed = Seed::announced("load_steps", 1);
    let length: u64 = phases.iter().map(|phase| phase.seconds).sum();
    let limit = Duration::from_secs(length / u64::from(COMPRESSION) + 120);
    bounded(limit, async {
        let begun = Instant::now();
        let (mut high, mut low) = (Vec::new(), Vec::new());
        let (mut samples, mut sent_before) = (Vec::new(), 0);
        let mut viewer_count = 0;
        for phase in phases {
            let ends = begun.elapsed() + Duration::from_secs(phase.seconds) / COMPRESSION;
            for (there, wanted, pace) in [
                (&mut high, phase.high, PACE_BYTES),
                (&mut low, phase.low, PACE_BYTES_LOW),
            ] {
                let there: &mut Vec<JoinHandle<()>> = there;
                there
                    .drain((wanted as usize).min(there.len())..)
                    .for_each(|leaver| leaver.abort());
                while (there.len() as u64) < wanted {
                    let delay = Duration::from_millis(seed.below(RAMP.as_millis() as u64));
                    viewer_count += 1;
                    let stay = stay(server, titles, pace, viewer_count, seed.below(TITLES));
                    let outcome = Arc::clone(outcome);
                    there.push(tokio::spawn(async move {
                        tokio::time::sleep(delay / COMPRESSION).await;
                        for viewer in stay {
                            watch_one(&viewer, &outcome).await;
                        }
                    }));
                }
            }
            while begun.elapsed() < ends {
                tokio::time::sleep(SAMPLE / COMPRESSION).await;
                let second = begun.elapsed().as_secs_f64() * f64::from(COMPRESSION);
                samples.extend(sample(
                    server,
                    second,
                    phase.high + phase.low,
                    &mut sent_before,
                ));
            }
        }
        high.iter().chain(&low).for_each(JoinHandle::abort);
        samples
    })
}

/// The titles of one viewer, one after the other, without end.
fn stay(
    server: &Server,
    titles: &[Title],
    pace: u64,
    session: u64,
    first: u64,
) -> impl Iterator<Item = Viewer> + Send + use<> {
    let viewers: Vec<Viewer> = titles
        .iter()
        .map(|title| {
            let viewer = Viewer {
                asking: Asking::Chunks(512 * KIB),
                bytes_per_second: Some(pace * u64::from(COMPRESSION)),
                ..title.viewer(server.address())
            };
            viewer.with_session(session)
        })
        .collect();
    // Steps of 41 through 96 titles meet each once, and no two viewers follow each other.
    (0..).map(move |step| viewers[((first + session * 7 + step * 41) % TITLES) as usize].clone())
}

async fn watch_one(viewer: &Viewer, outcome: &Outcome) {
    match viewer.watch().await {
        Ok(report) => {
            let behind = report.behind_max * COMPRESSION;
            let behind_ms = u64::try_from(behind.as_millis()).unwrap_or(u64::MAX);
            outcome
                .behind_ms_max
                .fetch_max(behind_ms, Ordering::Relaxed);
        }
        Err(error) => {
            outcome.failed.fetch_add(1, Ordering::Relaxed);
            eprintln!("a viewer failed: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The server's status; `None` if it does not answer.
fn sample(server: &Server, second: f64, viewers: u64, sent_before: &mut u64) -> Option<Sample> {
    let status = server.status();
    let device = status.devices().first()?;
    let mib = |bytes: f64| bytes / MIB as f64;
    let sent = device["counters"]["bytes_sent"].as_u64()?;
    let policy = &device["policy"];
    let grown = sent.saturating_sub(std::mem::replace(sent_before, sent));
    Some(Sample {
        second,
        viewers,
        size_mib: mib(policy["reference_bytes"].as_f64()?),
        target_mib: mib(policy["control"]["target_bytes"].as_f64()?),
        sent_mib_s: mib(grown as f64) / SAMPLE.as_secs_f64(),
        reason: policy["control"]["reason"]
            .as_str()
            .unwrap_or("")
            .to_owned(),
    })
}

fn tell(samples: &[Sample], phases: &[Phase]) -> io::Result<()> {
    println!("second,viewers,size_mib,target_mib,sent_mib_s,reason");
    for s in samples {
        println!(
            "{:.0},{},{:.2},{:.2},{:.1},{}",
            s.second, s.viewers, s.size_mib, s.target_mib, s.sent_mib_s, s.reason
        );
    }
    let points = |value: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        samples
            .iter()
            .map(|sample| (sample.second, value(sample)))
            .collect()
    };
    let mut chart = Chart::lines(
        "Prefetch size while the load changes in steps",
        Axis::new("time", "s"),
        Axis::new("reference size; sent / 10", "MiB; MiB/s").from(0.0),
    )
    .caption(
        "Headlong with prefetch = \"auto\" on an emulated WD Red, 512 MiB of memory; model time",
    )
    .series(Series::new("size in use", points(|sample| sample.size_mib)))
    .series(Series::new(
        "size it goes to",
        points(|sample| sample.target_mib),
    ))
    .series(Series::new(
        "sent / 10",
        points(|sample| sample.sent_mib_s / 10.0),
    ));
    let mut second = 0;
    for phase in phases {
        chart = chart.line_at_x(second as f64, phase.what);
        second += phase.seconds;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::write(
        docs.join("operate/load-steps.svg"),
        Figure::from(chart).to_svg(),
    )
}
