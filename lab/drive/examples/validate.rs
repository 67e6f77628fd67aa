//! Prints modelled figures beside published ones:
//! `cargo run --release -p headlong-drive --example validate`

// The tests and this table share one list of figures.
#[path = "../tests/all/published/mod.rs"]
mod published;

use std::process::ExitCode;
use std::time::Instant;

use headlong_drive::{preset, random_rate};
use published::PublishedFigure;

/// All figures, by heading.
fn all() -> Vec<(&'static str, Vec<PublishedFigure>)> {
    vec![
        (
            "diskinfo: libception, Table 1",
            published::diskinfo_figures(),
        ),
        (
            "Sequential and random reading: thesis 5.6.2, makers' figures",
            published::thesis_figures(),
        ),
        (
            "Random reading: a model of three parameters",
            published::prediction_figures(),
        ),
        (
            "wc over titles in random order: thesis, Table 3.4",
            published::wc_figures(),
        ),
        ("SSDs", published::flash_figures()),
    ]
}

fn main() -> ExitCode {
    let mut outside = 0;
    for (heading, figures) in all() {
        println!("### {heading}\n");
        println!("| drive | figure | published | modelled | difference | bound |");
        println!("|---|---|---:|---:|---:|---:|");
        for figure in figures {
            outside += u32::from(!figure.is_met());
            println!("{}", figure.row());
        }
        println!();
    }
    println!("### Random against sequential writes of the OCZ: Kullback-Leibler divergence\n");
    println!("| size, MiB | divergence |\n|---:|---:|");
    for mebibytes in [1u64, 2, 4, 8, 16, 32, 64] {
        let found = published::divergence_of("ssd-ocz-core-v2", mebibytes << 20);
        println!("| {mebibytes} | {found:.3} |");
    }
    speed();
    if outside > 0 {
        eprintln!("{outside} figures are outside their bounds");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Speed of the model itself: not a figure of a drive, and different on every machine.
fn speed() {
    for depth in [1, 4, 32] {
        let Ok(spec) = preset("wd-red-wd10efrx") else {
            return;
        };
        let began = Instant::now();
        random_rate(&mut *spec.build(), 1 << 20, 1_000_000, depth);
        let rate = 1.0 / began.elapsed().as_secs_f64();
        eprintln!("{rate:.2} million random reads of 1 MiB a second, {depth} at a time");
    }
}
