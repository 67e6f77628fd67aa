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
mod headlong_tier;
mod library;
mod machine;
mod memory;
mod results;
mod ssds;
mod tiered_systems;
mod tiers;

use std::num::NonZeroU64;
use std::time::Instant as WallInstant;

use headlong_bench::{BenchError, BenchOptions, CommandOutcome, in_parallel};
use headlong_plan::PriceTable;
use headlong_units::{Duration, MIB};

use crate::claims::Claim;
use crate::report::RunChoice;
use results::{FillTime, FlashstreamResult, MachineResult};
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

/// Selection of parts and accuracy; quick is a smaller scale, shorter times, and one seed.
#[derive(Debug, Clone, Default)]
pub struct FlashstreamOptions {
    /// Seeds that a rate has to pass, and threads.
    pub choice: RunChoice,
    /// Parts to reproduce; all if empty.
    pub parts: Vec<FlashstreamPart>,
    /// Reduction factor of titles, memory and flash; 16 if `None`, 40 if quick.
    pub scale: Option<NonZeroU64>,
    /// Exponent of Zipf's law; 0.8 if `None`.
    pub alpha: Option<f64>,
}

impl FlashstreamOptions {
    fn effort(&self) -> FlashstreamScope {
        let (scale, seeds, ramp, measured, resolution) = match self.choice.is_quick {
            true => (SCALE_QUICK, 1, 60, 300, 2.0),
            false => (SCALE, 2, 300, 1_200, 1.0),
        };
        FlashstreamScope {
            scale: self.scale.map_or(scale, NonZeroU64::get),
            seed: self.choice.seed,
            seeds: self.choice.seeds(seeds),
            alpha: self.alpha.unwrap_or(ALPHA),
            ramp: Duration::from_secs(ramp),
            measured: Duration::from_secs(measured),
            resolution,
            windows: 1,
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
    progress: impl FnMut(usize, usize),
) -> Result<CommandOutcome, BenchError> {
    let streamed = measured(flashing, progress);
    streamed.report(&options.command_line).publish(options)
}

/// The claims of the chosen parts.
pub(crate) fn flashstream_claims(flashing: &FlashstreamOptions) -> Vec<Claim> {
    measured(flashing, |_, _| {}).claims()
}

fn measured(
    flashing: &FlashstreamOptions,
    mut progress: impl FnMut(usize, usize),
) -> FlashstreamResult {
    let started = WallInstant::now();
    let effort = flashing.effort();
    let threads = flashing.choice.threads();
    let mut streamed = FlashstreamResult {
        schema: "headlong-flashstream-1",
        is_quick: flashing.choice.is_quick,
        scale: effort.scale,
        alpha: effort.alpha,
        seeds: flashing.choice.all_seeds(effort.seeds),
        ..FlashstreamResult::default()
    };
    // First the independent measurements, then those that need the limit without an SSD.
    let stages = [first_tasks(flashing), later_tasks(flashing)];
    let all = stages.iter().map(Vec::len).sum();
    let mut done = 0;
    for tasks in stages {
        let bare = streamed.rate_of("no SSD");
        let work = |task: &Measurement| {
            let own = match task {
                Measurement::Fill(index) => streamed.rate_of(FIGURE_7[*index].name),
                _ => None,
            };
            // A system slower than the disk alone is filled at its own rate.
            let slowest = own.into_iter().chain(bare).reduce(f64::min);
            task.answer(&effort, slowest.unwrap_or(RATE_UNKNOWN))
        };
        let answers = in_parallel(&tasks, threads, work, |_, _| {
            done += 1;
            progress(done, all);
        });
        answers.into_iter().for_each(|answer| answer(&mut streamed));
    }
    streamed.seconds = started.elapsed().as_secs_f64();
    streamed
}

/// Outstanding windows of the paper's systems: as the disk model fits the paper's disk, and as an
/// asynchronous read-ahead would have.
const WINDOWS: [u32; 2] = [1, 2];

/// A measurement; of limits, with this number of outstanding windows.
#[derive(Debug, Clone, Copy)]
enum Measurement {
    Ssds(bool),
    Limit(usize, u32),
    Machine(usize, u32),
    Fill(usize),
    Blocks(u64),
    Ours(usize),
}

fn first_tasks(flashing: &FlashstreamOptions) -> Vec<Measurement> {
    let mut tasks = Vec::new();
    let needs_bare = flashing.has(FlashstreamPart::Blocks);
    if flashing.has(FlashstreamPart::Ssds) {
        tasks.push(Measurement::Ssds(flashing.choice.is_quick));
    }
    if flashing.has(FlashstreamPart::Headlong) {
        let count = if flashing.choice.is_quick {
            3
        } else {
            headlong_tier::ALL.len()
        };
        tasks.extend((0..count).map(Measurement::Ours));
    }
    match flashing.has(FlashstreamPart::Systems) {
        true => {
            for windows in WINDOWS {
                let limit = |index| Measurement::Limit(index, windows);
                tasks.extend((0..FIGURE_7.len()).map(limit));
            }
        }
        false if needs_bare => tasks.push(Measurement::Limit(0, WINDOWS[0])),
        false => {}
    }
    if flashing.has(FlashstreamPart::Machines) {
        for windows in WINDOWS {
            let machine = |index| Measurement::Machine(index, windows);
            tasks.extend((0..TABLE_5.len()).map(machine));
        }
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

/// Stores the result of a measurement.
type Answer = Box<dyn FnOnce(&mut FlashstreamResult) + Send>;

impl Measurement {
    fn answer(&self, effort: &FlashstreamScope, rate: f64) -> Answer {
        match *self {
            Self::Ssds(is_quick) => {
                let figures = ssds::figures(is_quick);
                Box::new(|result| result.ssds = Some(figures))
            }
            Self::Limit(index, windows) => {
                let effort = FlashstreamScope { windows, ..*effort };
                let limit = FIGURE_7[index].limit(&effort);
                Box::new(|result| result.limits.push(limit))
            }
            Self::Machine(index, windows) => {
                let system = &TABLE_5[index];
                let effort = FlashstreamScope { windows, ..*effort };
                let limit = system.limit(&effort);
                // The file is part of the program, and a test covers it.
                let prices = PriceTable::flashstream().expect("prices-2013.toml is right");
                let watts = tiered_systems::watts(system, &prices);
                let machine = MachineResult {
                    requests_per_joule: limit.requests_per_s.map(|rate| rate / watts),
                    limit,
                    watts,
                };
                Box::new(|result| result.machines.push(machine))
            }
            Self::Fill(index) => {
                let system = &FIGURE_7[index];
                let fill = FillTime {
                    name: system.name,
                    requests_per_s: rate,
                    minutes: system.minutes_to_fill(effort, rate),
                };
                Box::new(|result| result.fills.push(fill))
            }
            Self::Blocks(bytes) => {
                let run = tiered_systems::block_run(effort, bytes, rate);
                Box::new(|result| result.blocks.push(run))
            }
            Self::Ours(index) => {
                let limit = headlong_tier::ALL[index].limit(effort);
                Box::new(|result| result.ours.push(limit))
            }
        }
    }
}
