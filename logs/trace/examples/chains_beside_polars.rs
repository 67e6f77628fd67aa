//! Benchmark: time from a log to a table of chains, compared with a gaps-and-islands query in
//! Polars.
//!
//! ```text
//! cargo run --release -p headlong-chains --example chains_speed -- 4 csv > log.csv
//! (mkdir polars && cd polars && npm install nodejs-polars)
//! cargo run --release -p headlong-trace --example chains_beside_polars -- log.csv 3 polars
//! ```
//!
//! The first run of Polars over `log.csv` leaves `log.parquet` beside it; pass that file to compare
//! with Parquet as input. The programs alternate, so that other load affects both. Prints wall time
//! and total CPU time; CPU time is more reliable on a busy machine, and for Polars it includes the
//! start of node, about 0.15 s. Polars finds other, more numerous chains: content read again
//! interrupts its first read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use headlong_chains::ChainRules;
use headlong_trace::{ChainSettings, Intake, SilentProgress, TableFile, take_in};

const SCRIPT: &str = include_str!("gaps_and_islands.cjs");

fn main() {
    let mut arguments = std::env::args().skip(1);
    let log = PathBuf::from(arguments.next().expect("LOG [ROUNDS] [FOLDER_WITH_POLARS]"));
    let rounds: u32 = arguments
        .next()
        .map_or(3, |text| text.parse().expect("ROUNDS"));
    let polars = arguments.next().map(PathBuf::from);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut least = [RunCost::MOST; 2];
    for _ in 0..rounds {
        let before = processor_s();
        let (requests, chains, clock_s) = ours(&log, folder.path());
        let millions = requests as f64 / 1e6;
        let cost = RunCost::of(clock_s, processor_s()[0] - before[0], millions);
        println!("ours: {chains} chains of {requests} requests, {cost}");
        least[0] = least[0].least(cost);
        if let Some(polars) = &polars {
            let clock_s = theirs(&log, polars);
            let cost = RunCost::of(clock_s, processor_s()[1] - before[1], millions);
            println!("Polars: {cost}");
            least[1] = least[1].least(cost);
        }
    }
    if polars.is_some() {
        println!(
            "minimum of each: {:.1} times less wall time, {:.1} times less CPU time",
            least[1].clock_s / least[0].clock_s,
            least[1].processor_s / least[0].processor_s,
        );
    }
}

/// Seconds per million requests.
#[derive(Clone, Copy)]
struct RunCost {
    clock_s: f64,
    processor_s: f64,
}

impl RunCost {
    const MOST: Self = Self {
        clock_s: f64::INFINITY,
        processor_s: f64::INFINITY,
    };

    fn of(clock_s: f64, processor_s: f64, millions: f64) -> Self {
        Self {
            clock_s: clock_s / millions,
            processor_s: processor_s / millions,
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            clock_s: self.clock_s.min(other.clock_s),
            processor_s: self.processor_s.min(other.processor_s),
        }
    }
}

impl std::fmt::Display for RunCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.3} s per million, {:.3} s CPU",
            self.clock_s, self.processor_s
        )
    }
}

/// CPU time of this program, and of the child processes it has waited for, s.
fn processor_s() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = behind_name
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map(|text| text.parse().expect("a number"))
        .collect();
    // A tick is 10 ms on current Linux.
    [(ticks[0] + ticks[1]) / 100.0, (ticks[2] + ticks[3]) / 100.0]
}

/// From the file to the table on disk.
fn ours(log: &Path, folder: &Path) -> (u64, u64, f64) {
    let start = Instant::now();
    let intake = Intake {
        logs: vec![log.to_owned()],
        estimates: false,
        devices_and_drives: false,
        ..Intake::default()
    };
    let taken = take_in(&intake, &SilentProgress).expect("a log");
    let read = start.elapsed().as_secs_f64();
    let settings = ChainSettings {
        rules: ChainRules::default(),
        threads: intake.threads,
        keep_bytes_max: 256 << 20,
    };
    let table = TableFile::begin(&folder.join("chains.csv")).expect("a table");
    let sums = table.finish(&taken, &settings).expect("written");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "  (reading {read:.3} s, joining and writing {:.3} s)",
        seconds - read
    );
    (sums.requests, sums.chains, seconds)
}

/// From the file to a table in memory, as measured by Polars itself.
fn theirs(log: &Path, polars: &Path) -> f64 {
    let output = Command::new("node")
        .arg("-e")
        .arg(SCRIPT)
        .env("LOG", std::path::absolute(log).expect("a path"))
        .current_dir(polars)
        .output()
        .expect("node is installed");
    let told = String::from_utf8_lossy(&output.stdout);
    let seconds = told.trim().parse();
    seconds.unwrap_or_else(|_| panic!("{told}{}", String::from_utf8_lossy(&output.stderr)))
}
