//! Speed of a simulation point: times every rule on a synthetic table with the published shapes,
//! best of five, in wall time and in CPU time, which depends less on other load.
//!
//!     cargo run --release -p headlong-chain-sim --example points_speed [CHAINS] [THREADS]
//!
//! 2,200,000 chains by default, as in the thesis' log, and two threads.
//!
//!     cargo run --release -p headlong-chain-sim --example points_speed CHAINS write > chains.csv
//!
//! writes the table instead.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::time::Instant;

use headlong_chain_sim::{
    Algorithm, ChainTable, CostPoint, SimulationSettings, SizingRule, read_chains,
};
use headlong_engine::Policy;

const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place: usize| std::env::args().nth(place);
    let chains: usize = argument(1).map_or(Ok(2_200_000), |text| text.parse())?;
    if argument(2).as_deref() == Some("write") {
        return write(chains, &mut std::io::stdout().lock());
    }
    let threads: usize = argument(2).map_or(Ok(2), |text| text.parse())?;
    let settings = SimulationSettings {
        threads: NonZeroUsize::new(threads).ok_or("THREADS is at least 1")?,
        ..SimulationSettings::default()
    };
    let mut text = Vec::new();
    write(chains, &mut text)?;
    let began = Instant::now();
    let read = read_chains("made up", text.as_slice(), None)?;
    println!(
        "reading {} MB: {:.2} s",
        text.len() / 1_000_000,
        began.elapsed().as_secs_f64()
    );
    drop(text);
    time(&read.table, &settings)
}

fn time(
    table: &ChainTable,
    settings: &SimulationSettings,
) -> Result<(), Box<dyn std::error::Error>> {
    for policy in Policy::ALL {
        let rule = SizingRule::new(Algorithm::plain(*policy), 7.0, settings.megabyte);
        let (mut best, mut processors) = (f64::INFINITY, f64::INFINITY);
        let mut prefetches = 0;
        for _ in 0..5 {
            let (began, used) = (Instant::now(), processor_s());
            prefetches = CostPoint::simulate(table, &rule, settings)?.prefetches;
            best = best.min(began.elapsed().as_secs_f64());
            processors = processors.min(processor_s() - used);
        }
        println!(
            "{:<14} {} chains, {prefetches} prefetches: {:.1} ms, {:.1} ms of CPU time",
            policy.name(),
            table.len(),
            best * 1e3,
            processors * 1e3
        );
    }
    Ok(())
}

/// CPU time of this process.
fn processor_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn write(chains: usize, to: &mut impl std::io::Write) -> Result<(), Box<dyn std::error::Error>> {
    let mut to = std::io::BufWriter::new(to);
    writeln!(
        to,
        "file,session,start,length,t_start,t_end,open,kind,kbps,disk"
    )?;
    for (session, row) in synthetic::rows(chains, SEED).iter().enumerate() {
        writeln!(
            to,
            "{},{session},{},{},{},{},{},1,{},{}",
            row.file,
            row.start,
            row.length,
            row.start_ms,
            row.end_ms,
            u8::from(row.is_open),
            row.bit_rate.map_or(0, |rate| rate.0 / 1000),
            row.disk
        )?;
    }
    to.flush()?;
    Ok(())
}
