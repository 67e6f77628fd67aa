//! Randomly drawn drives in virtual time: the failure-free limit of each, and the cost of a cold
//! start at shares of it.
//!
//!     cargo run --release -p headlong-sim --example family -- limit|cold youtube-sd FROM TO [KEY=VALUE,...]...
//!
//! Each drive of the seeds `FROM..TO` ([`DrawnDrive`]) runs with each set of engine settings, or
//! with the defaults if no set is given. `limit`: the highest rate, in steps of 6 %, without a
//! failure in 600 s after a ramp of 300 s. `cold`: 300 s after a restart in which all viewers
//! return within 225 s, at 60, 80 and 95 % of the limit of the first set. Admission control is off;
//! viewers have no session ids.

use headlong_drive::{DrawnDrive, DriveSpec};
use headlong_sim::{Experiment, Placement, Record, Setup, Window, settings};
use headlong_units::{Duration, GIB, Instant, KIB};
use headlong_workload::Specification;

type Settings = Vec<(String, String)>;

/// Two seeds, so that the cold starts have other viewers than the limit.
const SEED_OF_LIMIT: u64 = 7;
const SEED_OF_STARTS: u64 = 9;
const STEP: f64 = 1.06;
const RATE_FIRST_MIB_S: f64 = 70.0;

fn experiment(workload: &str, drawn: &DrawnDrive, engine: &Settings, is_cold: bool) -> Experiment {
    let (ramp, measured) = if is_cold { (1, 300) } else { (300, 600) };
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let mut setup = Setup {
        window: Window {
            from: at(ramp),
            to: at(ramp + measured),
        },
        request_bytes_max: drawn.request_bytes_max,
        turnaround: drawn.turnaround,
        placement: Placement::Spread,
        stops_at_failure: !is_cold,
        ..Setup::default()
    };
    setup.engine.memory_bytes = 7 * GIB / 2;
    let usual = [("prefetch", "auto"), ("admission", "accept")];
    let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (name, value) in usual.iter().chain(engine) {
        settings::set(&mut setup.engine, name, value).expect("a valid engine setting");
    }
    let resuming = [("sessions.resume_time".to_owned(), "225s".to_owned())];
    let overrides = if is_cold { &resuming[..] } else { &[] };
    Experiment {
        workload: Specification::preset(workload, overrides).expect("a preset"),
        drive: drawn.drive.clone(),
        setup,
        steps: Vec::new(),
    }
}

/// The highest rate without a failure, MiB/s.
fn limit(experiment: &Experiment) -> f64 {
    let holds = |rate: f64| {
        let record = experiment.run(rate, SEED_OF_LIMIT).expect("a world");
        record.failures == 0
    };
    let mut rate = RATE_FIRST_MIB_S;
    match holds(rate) {
        true => {
            while rate < 1_000.0 && holds(rate * STEP) {
                rate *= STEP;
            }
        }
        false => {
            while rate > 1.0 && !holds(rate) {
                rate /= STEP;
            }
        }
    }
    rate
}

fn print_start(share: f64, settings: &Settings, record: &Record) {
    let bytes_for_each_reposition =
        record.read_kib * KIB as f64 / record.repositions_per_read.max(0.01);
    println!(
        "  at {share:.2} {settings:?}: {} of {} calls failed; {} sessions; first byte p99 {:.0} ms; {:.2} \
         MB a seek; {:.1} MiB/s asked for, {:.1} read; late jobs {:.1} %",
        record.failures,
        record.calls,
        record.sessions,
        record.wait_ms.p99,
        bytes_for_each_reposition / 1e6,
        record.asked_for_mib_s,
        record.disk_mib_s,
        100.0 * record.jobs_late_ratio,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mode, workload, from, to, sets @ ..] = &words[..] else {
        eprintln!("usage: family limit|cold WORKLOAD FROM TO [KEY=VALUE,...]...");
        std::process::exit(2);
    };
    let seed = |text: &str| text.parse::<u64>().expect("a seed");
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').expect("KEY=VALUE");
        (name.to_owned(), value.to_owned())
    };
    let of_set = |set: &String| {
        set.split(',')
            .filter(|word| !word.is_empty())
            .map(pair)
            .collect()
    };
    let mut sets: Vec<Settings> = sets.iter().map(of_set).collect();
    if sets.is_empty() {
        sets.push(Settings::new());
    }
    for seed in seed(from)..seed(to) {
        let drawn = DrawnDrive::draw(seed).expect("presets of the family exist");
        if let DriveSpec::HardDrive(disk) = &drawn.drive {
            println!(
                "{}: {:?}, requests of {} KiB, {:?} to the host, read cache {:?}",
                disk.name,
                disk.queue,
                drawn.request_bytes_max / KIB,
                drawn.turnaround,
                disk.read_cache
            );
        }
        let limits = sets.iter().map(|set| {
            let limit = limit(&experiment(workload, &drawn, set, false));
            println!("  {set:?}: limit {limit:.1} MiB/s");
            limit
        });
        if mode == "limit" {
            limits.for_each(drop);
            continue;
        }
        let of_first = { limits }.next().unwrap_or_default();
        for share in [0.6, 0.8, 0.95] {
            for set in &sets {
                let cold = experiment(workload, &drawn, set, true);
                let record = cold.run(of_first * share, SEED_OF_STARTS).expect("a world");
                print_start(share, set, &record);
            }
        }
    }
}
