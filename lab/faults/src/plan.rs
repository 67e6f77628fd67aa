//! What a seed is: the machine, its settings, who comes, and what goes wrong when.
//!
//! The one idea: all of it is drawn before anything runs, as a list of steps. So a failing seed can
//! be shrunk by leaving out steps, and what is left fails for the same reason.

use headlong_engine::EngineConfig;
use headlong_random::Generator;
use headlong_units::{BitRate, Duration, Instant};

use crate::draw::Draw;
use crate::fault::{DiskFault, FileChange, SsdFault, faults};
use crate::session::{Session, session};
use crate::settings::{self, SettingChange};

/// Everything that a seed says.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    pub(crate) disks: Vec<DiskPlan>,
    pub(crate) ssds: Vec<SsdPlan>,
    /// What happens when, in order.
    pub(crate) steps: Vec<(Instant, Step)>,
    /// How long what was found on disk is believed.
    pub(crate) revalidate: Duration,
}

/// One disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskPlan {
    pub(crate) engine: EngineConfig,
    pub(crate) position_time: Duration,
    pub(crate) rate: BitRate,
    pub(crate) titles: Vec<TitlePlan>,
    /// A step of its file system's clock, nanoseconds.
    pub(crate) tick_ns: u64,
}

/// One title.
#[derive(Debug, Clone)]
pub(crate) struct TitlePlan {
    /// Bytes of its files, in playing order.
    pub(crate) sizes: Vec<u64>,
    pub(crate) bit_rate: Option<BitRate>,
    /// Whether the disk says where its files lie.
    pub(crate) is_placed: bool,
}

/// One SSD.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SsdPlan {
    /// Microseconds that a read and a write take, at least.
    pub(crate) read_us: u64,
    pub(crate) write_us: u64,
    /// Blocks of it that each disk has.
    pub(crate) disk_blocks: u32,
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A viewer comes.
    Session(Session),
    /// A disk becomes ill for a time.
    Disk(usize, DiskFault, Duration),
    /// An SSD does.
    Ssd(usize, SsdFault, Duration),
    /// A file changes: disk, title and part.
    File(usize, usize, usize, FileChange),
    /// The server ends and starts again.
    Restart(Restart),
    /// The wall clock jumps by so many milliseconds.
    Clock(i64),
    /// New settings for a disk.
    Settings(usize, SettingChange),
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// By order: it saves the index of flash.
    Clean,
    /// At once; what was written stays.
    Kill,
    /// With the machine's power; of what was not flushed any part may be there.
    PowerCut,
}

impl Step {
    /// The disk that it is all about, if it is about one.
    pub(crate) fn disk(&self) -> Option<usize> {
        match self {
            Self::Session(session) => Some(session.disk),
            Self::Disk(disk, ..) | Self::File(disk, ..) | Self::Settings(disk, _) => Some(*disk),
            Self::Ssd(..) | Self::Restart(_) | Self::Clock(_) => None,
        }
    }

    fn is_trouble(&self) -> bool {
        !matches!(self, Self::Session(_))
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let chance = Generator::new(seed);
        let mut draw = Draw(chance.fork("machine"));
        let ssd_count = draw.pick(&[0, 0, 1, 1, 2]);
        let piece_bytes = match ssd_count {
            0 => draw.pick(&[4096, 4096, 8192]),
            // With large pieces the blocks of a tier go round soon.
            _ => draw.pick(&[4096, 16_384, 32_768]),
        };
        let disk_count = draw.pick(&[1, 1, 2, 2, 3]);
        let disks: Vec<DiskPlan> = (0..disk_count)
            .map(|disk| {
                disk_plan(
                    Draw(chance.fork("disk").fork_at(disk)),
                    piece_bytes,
                    ssd_count > 0,
                )
            })
            .collect();
        let ssds = (0..ssd_count)
            .map(|_| SsdPlan {
                read_us: draw.scaled(50, 3000),
                write_us: draw.scaled(100, 20_000),
                disk_blocks: draw.pick(&[2, 2, 3, 4]),
            })
            .collect();
        let length = draw.millis(4000, 60_000);
        let mut steps = Vec::new();
        let mut coming = Draw(chance.fork("viewers"));
        let viewers_max = if ssd_count > 0 { 24 } else { 14 };
        for number in 0..coming.between(3, viewers_max) {
            let at = Instant(coming.0.below(length.0));
            let drawing = Draw(chance.fork("viewer").fork_at(number));
            steps.push((at, Step::Session(session(drawing, number, &disks))));
        }
        faults(&chance, length, &disks, ssd_count as usize, &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        let revalidate = draw.pick(&[0, 200, 1000, 1000]);
        Self {
            seed,
            disks,
            ssds,
            steps,
            revalidate: Duration::from_millis(revalidate),
        }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happens at all.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same with only those steps that `keep` says, by number.
    #[must_use]
    pub fn with_steps(&self, keep: &[usize]) -> Self {
        let steps = keep.iter().filter_map(|at| self.steps.get(*at).cloned());
        Self {
            steps: steps.collect(),
            ..self.clone()
        }
    }

    /// The same without what goes wrong on other disks than this.
    pub(crate) fn with_trouble_of(&self, disk: usize) -> Self {
        let mut plan = self.clone();
        let is_of = |step: &Step| !step.is_trouble() || step.disk().is_none_or(|of| of == disk);
        plan.steps.retain(|(_, step)| is_of(step));
        plan
    }

    /// The steps, a line for each.
    pub fn lines(&self) -> Vec<String> {
        let line = |(at, step): &(Instant, Step)| format!("{:>10.3} {step:?}", at.0 as f64 / 1e9);
        self.steps.iter().map(line).collect()
    }
}

fn disk_plan(mut draw: Draw, piece_bytes: u64, has_tier: bool) -> DiskPlan {
    let titles = (0..draw.between(1, 4)).map(|_| title_plan(&mut draw, piece_bytes));
    let titles = titles.collect();
    DiskPlan {
        titles,
        position_time: Duration::from_micros(draw.scaled(100, 20_000)),
        rate: BitRate(8 * draw.scaled(10_000_000, 200_000_000)),
        tick_ns: draw.pick(&[1, 1, 10_000_000, 1_000_000_000]),
        engine: settings::engine(&mut draw, piece_bytes, if has_tier { 16 } else { 64 }),
    }
}

fn title_plan(draw: &mut Draw, piece_bytes: u64) -> TitlePlan {
    let size = |draw: &mut Draw| match draw.between(0, 9) {
        0 => draw.between(0, 2),
        1 => piece_bytes * draw.between(1, 4),
        2 | 3 => draw.between(1, 3 * piece_bytes),
        _ => draw.scaled(piece_bytes, 24 * piece_bytes),
    };
    let parts = draw.pick(&[1, 1, 1, 3, 4]);
    TitlePlan {
        sizes: (0..parts).map(|_| size(draw)).collect(),
        bit_rate: draw
            .percent(60)
            .then(|| BitRate::from_kbps(draw.scaled(100, 8000))),
        is_placed: draw.percent(80),
    }
}
