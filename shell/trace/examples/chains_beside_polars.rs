//! How fast a log becomes a table of chains, beside Polars' gaps and islands over the same file.
//!
//! ```text
//! cargo run --release -p headlong-chains --example chains_speed -- 4 csv > log.csv
//! (mkdir polars && cd polars && npm install nodejs-polars)
//! cargo run --release -p headlong-trace --example chains_beside_polars -- log.csv 3 polars
//! ```
//!
//! The first run of Polars over `log.csv` leaves `log.parquet` beside it; give that to compare with
//! Parquet as input. By turns, so that whatever else the machine does hits both. Polars' chains
//! are other ones, and more: content read again lies between its first reading.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use headlong_chains::Rules;
use headlong_trace::{ChainSettings, Intake, Silent, TableFile, take_in};

const SCRIPT: &str = include_str!("gaps_and_islands.cjs");

fn main() {
    let mut arguments = std::env::args().skip(1);
    let log = PathBuf::from(arguments.next().expect("LOG [ROUNDS] [FOLDER WITH POLARS]"));
    let rounds: u32 = arguments
        .next()
        .map_or(3, |text| text.parse().expect("ROUNDS"));
    let polars = arguments.next().map(PathBuf::from);
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let mut least = [f64::INFINITY; 2];
    for _ in 0..rounds {
        let (requests, chains, seconds) = ours(&log, folder.path());
        let million = seconds / (requests as f64 / 1e6);
        println!("ours: {chains} chains of {requests} requests, {million:.3} s per million");
        least[0] = least[0].min(million);
        if let Some(polars) = &polars {
            let seconds = theirs(&log, polars);
            let million = seconds / (requests as f64 / 1e6);
            println!("Polars: {million:.3} s per million");
            least[1] = least[1].min(million);
        }
    }
    if polars.is_some() {
        println!(
            "least against least: {:.1} times faster",
            least[1] / least[0]
        );
    }
}

/// From the file to the table on the disk.
fn ours(log: &Path, folder: &Path) -> (u64, u64, f64) {
    let start = Instant::now();
    let intake = Intake {
        logs: vec![log.to_owned()],
        ..Intake::default()
    };
    let taken = take_in(&intake, &Silent).expect("it is a log");
    let read = start.elapsed().as_secs_f64();
    let settings = ChainSettings {
        rules: Rules::default(),
        threads: intake.threads,
        keep_bytes_max: 256 << 20,
    };
    let table = TableFile::begin(&folder.join("chains.csv")).expect("there is room");
    let sums = table.finish(&taken, &settings).expect("there is room");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "  (reading {read:.3} s, joining and writing {:.3} s)",
        seconds - read
    );
    (sums.requests, sums.chains, seconds)
}

/// From the file to a table in memory, as Polars itself measures it.
fn theirs(log: &Path, polars: &Path) -> f64 {
    let output = Command::new("node")
        .arg("-e")
        .arg(SCRIPT)
        .env("LOG", std::path::absolute(log).expect("it has a path"))
        .current_dir(polars)
        .output()
        .expect("node is there");
    let told = String::from_utf8_lossy(&output.stdout);
    let seconds = told.trim().parse();
    seconds.unwrap_or_else(|_| panic!("{told}{}", String::from_utf8_lossy(&output.stderr)))
}
