//! Reproduction of FlashStream (ACM Multimedia 2013) in virtual time: its SSDs, its systems, its
//! machines, and this server in comparison.
//!
//! The paper's system and its competitors are small models over the drive models of this
//! repository, each in its own file, with the same requests; this server is the real engine in the
//! world of `headlong simulate`. The paper's disk and processor are unknown, so ratios are judged
//! and rates are only shown.
//!
//! Invariant: the results depend only on the choice, not on the number of threads.

mod block_layer;
mod flashcache;
mod flashstream_model;
mod headlong_tier;
mod l2arc;
mod library;
mod machine;
mod memory;
mod page;
mod results;
mod ssds;
mod tier;
mod tiered_systems;
mod writes;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Instant as WallInstant;

use headlong_bench::{BenchError, BenchOptions, CommandOutcome, in_parallel};
use headlong_plan::PriceTable;
use headlong_units::{Duration, MIB};

use results::{FillTime, FlashstreamResult, MachineResult, MeasurementResult};
use tiered_systems::{FIGURE_7, FlashstreamScope, TABLE_5, TierKind};

/// A part of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashstreamPart {
    /// Table 2, Figures 1 to 3: the SSDs, and block sizes.
    Ssds,
    /// Figure 7 and the fill times: the systems.
    Systems,
    /// Figure 8: blocks of 4 KB and of 16 MB.
    Blocks,
    /// Table 5: the machines, and their energy.
    Machines,
    /// This server in place of the paper's system.
    Headlong,
}

impl FlashstreamPart {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ssds", Self::Ssds),
        ("systems", Self::Systems),
        ("blocks", Self::Blocks),
        ("machines", Self::Machines),
        ("headlong", Self::Headlong),
    ];
}

/// Default scale.
const SCALE: u64 = 16;
const SCALE_QUICK: u64 = 40;
/// The paper says "Zipf with 0.2"; the page explains this exponent.
const ALPHA: f64 = 0.8;

/// Selection of parts and accuracy.
#[derive(Debug, Clone, Default)]
pub struct FlashstreamOptions {
    /// A smaller scale, shorter times, one seed.
    pub is_quick: bool,
    /// Parts to reproduce; all if empty.
    pub parts: Vec<FlashstreamPart>,
    /// Reduction factor of titles, memory and flash; 16 if `None`, 40 if quick.
    pub scale: Option<NonZeroU64>,
    /// Exponent of Zipf's law; 0.8 if `None`.
    pub alpha: Option<f64>,
    /// The first seed.
    pub seed: u64,
    /// Number of seeds a rate has to pass; two if `None`, one if quick.
    pub seeds: Option<NonZeroU32>,
    /// Concurrent measurements; the number of processors if `None`.
    pub threads: Option<NonZeroUsize>,
}

impl FlashstreamOptions {
    fn effort(&self) -> FlashstreamScope {
        let usual = match self.is_quick {
            true => (SCALE_QUICK, 1, 60, 300, 2.0),
            false => (SCALE, 2, 300, 1_200, 1.0),
        };
        let (scale, seeds, ramp, measured, resolution) = usual;
        FlashstreamScope {
            scale: self.scale.map_or(scale, NonZeroU64::get),
            seed: self.seed,
            seeds: self.seeds.map_or(seeds, NonZeroU32::get),
            alpha: self.alpha.unwrap_or(ALPHA),
            ramp: Duration::from_secs(ramp),
            measured: Duration::from_secs(measured),
            resolution,
        }
    }

    fn has(&self, part: FlashstreamPart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// Reproduces the figures, writes the page and prints the tables. `progress` receives the numbers
/// of finished measurements and of all.
///
/// # Errors
/// If a result cannot be written.
pub fn flashstream(
    flashing: &FlashstreamOptions,
    options: &BenchOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<CommandOutcome, BenchError> {
    let started = WallInstant::now();
    let effort = flashing.effort();
    let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = flashing.threads.unwrap_or_else(processors);
    let mut streamed = FlashstreamResult {
        schema: "headlong-flashstream-1",
        is_quick: flashing.is_quick,
        scale: effort.scale,
        alpha: effort.alpha,
        seeds: (effort.seed..).take(effort.seeds as usize).collect(),
        ..FlashstreamResult::default()
    };
    // First the independent measurements, then those that need the limit without an SSD.
    let first = first_tasks(flashing);
    let later = later_tasks(flashing);
    let all = first.len() + later.len();
    let mut done = 0;
    let mut count = |_: usize, _: &MeasurementResult| {
        done += 1;
        progress(done, all);
    };
    let work = |task: &Measurement| task.answer(&effort, None);
    let found = in_parallel(&first, threads, work, &mut count);
    found.into_iter().for_each(|answer| streamed.take(answer));
    let bare = streamed.rate_of("no SSD");
    let work = |task: &Measurement| {
        let own = match task {
            Measurement::Fill(index) => streamed.rate_of(FIGURE_7[*index].name),
            _ => None,
        };
        // A system slower than the disk alone is filled at its own rate.
        let slowest = own.into_iter().chain(bare).reduce(f64::min);
        task.answer(&effort, slowest)
    };
    let found = in_parallel(&later, threads, work, &mut count);
    found.into_iter().for_each(|answer| streamed.take(answer));
    streamed.seconds = started.elapsed().as_secs_f64();
    page::publish(&streamed, options)
}

/// A measurement.
#[derive(Debug, Clone, Copy)]
enum Measurement {
    Ssds(bool),
    Limit(usize),
    Machine(usize),
    Fill(usize),
    Blocks(u64),
    Ours(usize),
}

fn first_tasks(flashing: &FlashstreamOptions) -> Vec<Measurement> {
    let mut tasks = Vec::new();
    let needs_bare = flashing.has(FlashstreamPart::Blocks);
    if flashing.has(FlashstreamPart::Ssds) {
        tasks.push(Measurement::Ssds(flashing.is_quick));
    }
    if flashing.has(FlashstreamPart::Headlong) {
        let count = if flashing.is_quick {
            3
        } else {
            headlong_tier::ALL.len()
        };
        tasks.extend((0..count).map(Measurement::Ours));
    }
    match flashing.has(FlashstreamPart::Systems) {
        true => tasks.extend((0..FIGURE_7.len()).map(Measurement::Limit)),
        false if needs_bare => tasks.push(Measurement::Limit(0)),
        false => {}
    }
    if flashing.has(FlashstreamPart::Machines) {
        tasks.extend((0..TABLE_5.len()).map(Measurement::Machine));
    }
    tasks
}

fn later_tasks(flashing: &FlashstreamOptions) -> Vec<Measurement> {
    let mut tasks = Vec::new();
    if flashing.has(FlashstreamPart::Systems) {
        let with_ssd = (0..FIGURE_7.len()).filter(|index| FIGURE_7[*index].kind != TierKind::None);
        tasks.extend(with_ssd.map(Measurement::Fill));
    }
    if flashing.has(FlashstreamPart::Blocks) {
        tasks.extend([16 * MIB, 4096].map(Measurement::Blocks));
    }
    tasks
}

/// Default rate if none was found: that of the paper's disk alone (Table 5, half of B).
const RATE_UNKNOWN: f64 = 24.0;

impl Measurement {
    fn answer(&self, effort: &FlashstreamScope, rate: Option<f64>) -> MeasurementResult {
        let rate = rate.unwrap_or(RATE_UNKNOWN);
        match *self {
            Self::Ssds(is_quick) => MeasurementResult::Ssds(Box::new(writes::figures(is_quick))),
            Self::Limit(index) => MeasurementResult::Limit(FIGURE_7[index].limit(effort)),
            Self::Machine(index) => {
                let system = &TABLE_5[index];
                let limit = system.limit(effort);
                // The file is part of the program, and a test covers it.
                let prices = PriceTable::flashstream().expect("prices-2013.toml is right");
                MeasurementResult::Machine(MachineResult::new(
                    limit,
                    tiered_systems::watts(system, &prices),
                ))
            }
            Self::Fill(index) => {
                let system = &FIGURE_7[index];
                MeasurementResult::Fill(FillTime {
                    name: system.name,
                    requests_per_s: rate,
                    minutes: system.minutes_to_fill(effort, rate),
                })
            }
            Self::Blocks(bytes) => {
                MeasurementResult::Blocks(tiered_systems::block_run(effort, bytes, rate))
            }
            Self::Ours(index) => MeasurementResult::Ours(headlong_tier::ALL[index].limit(effort)),
        }
    }
}
