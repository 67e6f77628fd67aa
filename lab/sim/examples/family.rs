//! Cold starts of randomly drawn drives in virtual time, at shares of the failure-free limit of each.
//!
//!     cargo run --release -p headlong-sim --example family -- youtube-sd FROM TO [--json]
//!     [KEY=VALUE,...]...
//!
//! Each drive of the seeds `FROM..TO` ([`DrawnDrive`]) runs with each set of engine settings, or
//! with the defaults if no set is given. Admission control is off; viewers have no session ids.
//!
//! The limit is the highest rate, in steps of 4 %, without a failure in 1,800 s after a ramp of 900
//! s, with the first set. The starts are 300 s after a restart in which all viewers return within
//! 225 s, at 60, 80 and 95 % of it, beside the least number of viewers that any server must lose
//! ([`LossBound`]).

use headlong_drive::{DrawnDrive, DriveSpec};
use headlong_sim::{
    LossBound, MeasuredWindow, Placement, RunFigures, VirtualExperiment, WorldSetup, settings,
};
use headlong_units::{Duration, GIB, Instant, KIB};
use headlong_workload::Specification;
use serde::Serialize;

type SettingList = Vec<(String, String)>;

/// Two seeds, so that the cold starts have other viewers than the limit.
const SEED_OF_LIMIT: u64 = 7;
const SEED_OF_STARTS: u64 = 9;
const STEP: f64 = 1.04;
const RATE_FIRST_MIB_S: f64 = 70.0;
/// Steps from the first rate to the lowest and the highest: 1 MiB/s and 1.8 GiB/s.
const STEPS_MAX: i32 = 108;
const STEPS_MIN: i32 = -STEPS_MAX;
/// Steps of the coarse part of a search.
const STRIDE: i32 = 4;
/// Shares of the limit for cold starts.
const SHARES: [f64; 3] = [0.6, 0.8, 0.95];
/// Viewers that a start may lose above the bound.
const ABOVE_BOUND_MAX: f64 = 0.002;

/// A cold start.
#[derive(Debug, Serialize)]
struct ColdStart {
    drive: String,
    settings: SettingList,
    share_of_limit: f64,
    rate_mib_s: f64,
    sessions: u64,
    lost: u64,
    bound: LossBound,
    /// Lost viewers above the bound, by viewers.
    above_bound: f64,
    first_byte_ms_p99: f64,
    mb_per_seek: f64,
    late_jobs: f64,
    asked_for_mib_s: f64,
    disk_mib_s: f64,
}

fn experiment(
    workload: &str,
    drawn: &DrawnDrive,
    engine: &SettingList,
    is_start: bool,
) -> VirtualExperiment {
    let (ramp, measured) = if is_start { (1, 300) } else { (900, 1_800) };
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let mut setup = WorldSetup {
        window: MeasuredWindow {
            from: at(ramp),
            to: at(ramp + measured),
        },
        request_bytes_max: drawn.request_bytes_max,
        turnaround: drawn.turnaround,
        extents_per_file: drawn.extents_per_file,
        placement: Placement::Spread,
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = 7 * GIB / 2;
    let usual = [("prefetch", "auto"), ("admission", "accept")];
    let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (name, value) in usual.iter().chain(engine) {
        settings::set(&mut setup.engine, name, value).expect("a valid engine setting");
    }
    let resuming = [("sessions.resume_time".to_owned(), "225s".to_owned())];
    let overrides = if is_start { &resuming[..] } else { &[] };
    VirtualExperiment {
        workload: Specification::preset(workload, overrides).expect("a preset"),
        drive: drawn.drive.clone(),
        setup,
        steps: Vec::new(),
    }
}

fn rate_of(step: i32) -> f64 {
    RATE_FIRST_MIB_S * STEP.powi(step)
}

fn holds(experiment: &VirtualExperiment, step: i32) -> bool {
    let mut strict = experiment.clone();
    strict.setup.stops_at_failure = true;
    let record = strict.run(rate_of(step), SEED_OF_LIMIT).expect("a world");
    record.failures == 0
}

/// The highest rate without a failure, if there is one.
fn limit(experiment: &VirtualExperiment) -> Option<f64> {
    let (mut passed, mut failed) = (None, None);
    let mut next = 0;
    loop {
        match holds(experiment, next) {
            true => passed = Some(next),
            false => failed = Some(next),
        }
        next = match (passed, failed) {
            (Some(passed), None) if passed < STEPS_MAX => passed + STRIDE,
            (None, Some(failed)) if failed > STEPS_MIN => failed - STRIDE,
            (Some(passed), Some(failed)) if failed - passed > 1 => (passed + failed) / 2,
            _ => return passed.map(rate_of),
        };
    }
}

fn bytes_per_seek(record: &RunFigures) -> f64 {
    record.read_kib * KIB as f64 / record.repositions_per_read.max(0.01)
}

fn name_of(drawn: &DrawnDrive) -> String {
    format!("family-{}", drawn.seed)
}

fn show_drive(drawn: &DrawnDrive) {
    if let DriveSpec::HardDrive(disk) = &drawn.drive {
        eprintln!(
            "{}: {:?}, requests of {} KiB, {:?} to the host, read cache {:?}, files in {} extents",
            disk.name,
            disk.queue,
            drawn.request_bytes_max / KIB,
            drawn.turnaround,
            disk.read_cache,
            drawn.extents_per_file,
        );
    }
}

fn starts(workload: &str, drawn: &DrawnDrive, sets: &[SettingList]) -> Vec<ColdStart> {
    let Some(limit_mib_s) = limit(&experiment(workload, drawn, &sets[0], false)) else {
        return Vec::new();
    };
    eprintln!("  limit {limit_mib_s:.1} MiB/s");
    let each = SHARES
        .iter()
        .flat_map(|share| sets.iter().map(move |set| (*share, set)));
    each.map(|(share, set)| {
        let start = start(workload, drawn, set, (share, limit_mib_s));
        eprintln!(
            "  at {:.0} % {set:?}: {:.1} MiB/s, {} sessions, lost {}, bound {}, above it {:.2} %; \
             first byte p99 {:.0} ms; {:.2} MB a seek; {:.1} MiB/s asked for, {:.1} read; late jobs \
             {:.1} %; drive used {:.0} % at least",
            100.0 * share,
            start.rate_mib_s,
            start.sessions,
            start.lost,
            start.bound.lost,
            100.0 * start.above_bound,
            start.first_byte_ms_p99,
            start.mb_per_seek,
            start.asked_for_mib_s,
            start.disk_mib_s,
            100.0 * start.late_jobs,
            100.0 * start.bound.disk_share,
        );
        start
    })
    .collect()
}

fn start(
    workload: &str,
    drawn: &DrawnDrive,
    set: &SettingList,
    (share, limit_mib_s): (f64, f64),
) -> ColdStart {
    let cold = experiment(workload, drawn, set, true);
    let rate = limit_mib_s * share;
    let record = cold.run(rate, SEED_OF_STARTS).expect("a world");
    let bound = cold.loss_bound(rate, SEED_OF_STARTS).expect("a bound");
    // A viewer leaves at its first failure.
    let lost = record.failures + record.ramp_failures;
    ColdStart {
        drive: name_of(drawn),
        settings: set.clone(),
        share_of_limit: share,
        rate_mib_s: rate,
        sessions: record.sessions,
        lost,
        bound,
        above_bound: (lost as f64 - bound.lost as f64) / record.sessions.max(1) as f64,
        first_byte_ms_p99: record.wait_ms.p99,
        mb_per_seek: bytes_per_seek(&record) / 1e6,
        late_jobs: record.jobs_late_ratio,
        asked_for_mib_s: record.asked_for_mib_s,
        disk_mib_s: record.disk_mib_s,
    }
}

/// Drives whose starts are all within the bound, of all drives, and the worst start.
fn show_starts(starts: &[ColdStart]) {
    println!("| drive | share | MiB/s | sessions | lost | bound | above, % | first byte p99, ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for start in starts {
        println!(
            "| {} | {:.0} % | {:.1} | {} | {} | {} | {:.2} | {:.0} |",
            start.drive,
            100.0 * start.share_of_limit,
            start.rate_mib_s,
            start.sessions,
            start.lost,
            start.bound.lost,
            100.0 * start.above_bound,
            start.first_byte_ms_p99,
        );
    }
    let drives = starts.chunk_by(|a, b| a.drive == b.drive);
    let is_good = |starts: &&[ColdStart]| {
        let is_within = |start: &ColdStart| start.above_bound <= ABOVE_BOUND_MAX;
        starts.iter().all(is_within)
    };
    let (all, good) = (drives.clone().count(), drives.filter(is_good).count());
    let most = 100.0 * ABOVE_BOUND_MAX;
    println!("\n{good} of {all} drives lose at most {most} % of viewers above the bound");
    let worst = starts
        .iter()
        .max_by(|a, b| a.above_bound.total_cmp(&b.above_bound));
    if let Some(worst) = worst {
        println!(
            "worst: {} at {:.0} %: lost {} of {}, bound {}",
            worst.drive,
            100.0 * worst.share_of_limit,
            worst.lost,
            worst.sessions,
            worst.bound.lost,
        );
    }
}

fn main() {
    let (options, words): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let is_json = options.iter().any(|word| word == "--json");
    let [workload, from, to, sets @ ..] = &words[..] else {
        eprintln!("usage: family WORKLOAD FROM TO [--json] [KEY=VALUE,...]...");
        std::process::exit(2);
    };
    let seed = |text: &str| text.parse::<u64>().expect("a seed");
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').expect("KEY=VALUE");
        (name.to_owned(), value.to_owned())
    };
    let of_set = |set: &String| {
        let words = set.split(',').filter(|word| !word.is_empty());
        words.map(pair).collect()
    };
    let mut sets: Vec<SettingList> = sets.iter().map(of_set).collect();
    if sets.is_empty() {
        sets.push(SettingList::new());
    }
    let drives = (seed(from)..seed(to)).map(|seed| {
        let drawn = DrawnDrive::draw(seed).expect("presets of the family exist");
        show_drive(&drawn);
        drawn
    });
    let rows: Vec<ColdStart> = drives
        .flat_map(|drawn| starts(workload, &drawn, &sets))
        .collect();
    match is_json {
        true => println!(
            "{}",
            serde_json::to_string_pretty(&rows).expect("no map keys")
        ),
        false => show_starts(&rows),
    }
}
