//! Speed of the engine's decisions and the drive model on one core, without players or networks.
//!
//!     cargo run --release -p headlong-sim --example engine_speed -- [seconds of model time [KiB of a piece ...]]
//!
//! Calls are drawn before the clock starts: the usual ones of ten seconds of video, and small ones
//! of one piece. Reports the fastest of three runs.

mod timing;

use headlong_sim::PlannedCalls;
use headlong_units::KIB;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"));
    let seconds = numbers.next().unwrap_or(3600);
    let mut pieces_kib: Vec<u64> = numbers.collect();
    if pieces_kib.is_empty() {
        pieces_kib = vec![128, 512, 2048];
    }
    for (name, rate, call) in [
        ("youtube-sd", 60.0, "128KiB"),
        ("youtube-sd", 60.0, "10s"),
        ("youtube-hd", 75.0, "10s"),
    ] {
        let mut experiment = timing::experiment(name, call, seconds);
        let calls =
            PlannedCalls::drawn(&experiment, rate, 1).expect("titles that fit on the drive");
        for kib in &pieces_kib {
            experiment.setup.engine.piece_bytes = kib * KIB;
            let (took, run) = timing::fastest(|| calls.run(&experiment).expect("valid settings"));
            let handed = run.stats.bytes_sent / experiment.setup.engine.piece_bytes;
            let operations =
                run.stats.requests + 2 * handed + run.stats.reads + run.stats.reads_done;
            println!(
                "{name} at {rate} MiB/s, pieces of {kib} KiB: {seconds} s in {took:.2} s ({:.0} times): \
                 {:.3} M calls/s of {} kB, {:.2} M engine operations/s, {:.2} M drive requests/s; {} refused",
                seconds as f64 / took,
                run.stats.requests as f64 / took / 1e6,
                calls.bytes() / 1000 / (calls.len() as u64).max(1),
                operations as f64 / took / 1e6,
                run.drive.requests as f64 / took / 1e6,
                run.stats.requests_refused,
            );
        }
    }
}
