//! The search for the highest rate without a failed request.

use headlong_bench::{LimitSearch, Probe, QualityRules, RunOutcome, SearchRules, pool_memory};
use headlong_engine::EngineConfig;
use headlong_sim::{
    FlashSetup, MeasuredWindow, PageCacheServerSetup, Placement, RunMeasurements, ServerModel,
    SetupError, WarmContent, World, WorldSetup,
};
use headlong_units::{Duration, Instant, MIB};

use crate::draw::{Draw, DrawSettings, FlashContent};
use crate::machine::{FlashDrives, Machine};
use crate::sample::ViewerSample;

/// A search ends when the lowest rate that fails is above the highest that passes by at most this.
pub(crate) const RESOLUTION: f64 = 0.03;
/// No rate above so many times that of random blocks of 2 MiB is tried.
const CEILING: f64 = 8.0;
/// First step of a search whose start is a guess, and of one that begins near a known limit.
const STEP_OF_GUESS: f64 = 0.25;
const STEP_NEAR_LIMIT: f64 = 0.08;
/// Most runs of a search.
const PROBES_MAX: u32 = 24;
/// Block of a flash tier, as in the bench.
const FLASH_BLOCK_BYTES: u32 = 16 << 20;

/// Why a run cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The world cannot be built.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The disks do not limit, or the log does not show that they do.
    #[error(
        "no request fails up to {mbit_s} Mbit/s, {CEILING} times what the disks read at random: \
         memory and flash hold nearly all that these viewers request, or the log has too few titles \
         for viewers of such a rate; it gives no limit for this machine"
    )]
    Unlimited {
        /// The highest rate that was tried.
        mbit_s: u64,
    },
    /// The requested titles do not fit on the disks.
    #[error("{0}")]
    Titles(String),
}

/// A server on a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Server {
    /// Headlong with default settings.
    Headlong,
    /// nginx with `sendfile` and `aio threads`, above a kernel with this readahead, bytes.
    Nginx {
        /// `read_ahead_kb`, in bytes.
        read_ahead_bytes: u64,
    },
}

/// Times of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLengths {
    /// Before the measured window; demand is steady from the start, caches are empty.
    pub ramp: Duration,
    /// The measured window.
    pub window: Duration,
}

impl Default for RunLengths {
    fn default() -> Self {
        Self {
            ramp: Duration::from_secs(120),
            window: Duration::from_secs(240),
        }
    }
}

/// A server on a machine with the viewers of a sample.
#[derive(Debug, Clone)]
pub struct SampledLimit<'s> {
    /// The viewers.
    pub sample: &'s ViewerSample,
    /// How often each session counts.
    pub times: &'s [u32],
    /// The machine.
    pub machine: &'s Machine,
    /// The server.
    pub server: Server,
    /// Times of each run.
    pub lengths: RunLengths,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// Where a search begins, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchStart {
    /// The limit may be far from it.
    Guess(f64),
    /// The limit of a similar machine or sample.
    Near(f64),
}

impl SearchStart {
    pub(crate) fn bytes_per_s(self) -> f64 {
        match self {
            Self::Guess(rate) | Self::Near(rate) => rate,
        }
    }

    fn step(self) -> f64 {
        match self {
            Self::Guess(_) => STEP_OF_GUESS,
            Self::Near(_) => STEP_NEAR_LIMIT,
        }
    }
}

/// A run at a rate, with the measurements of its worlds: one, or one for each disk.
#[derive(Debug)]
pub struct RateRun {
    /// Bytes per second that viewers request.
    pub bytes_per_s: f64,
    /// The measurement.
    pub worlds: Vec<RunMeasurements>,
}

impl RateRun {
    /// Failed requests in the window.
    pub fn failures(&self) -> u64 {
        self.worlds.iter().map(|seen| seen.calls.failures()).sum()
    }

    /// Requests that ended in the window.
    pub fn ended(&self) -> u64 {
        self.worlds.iter().map(|seen| seen.calls.ended).sum()
    }
}

impl SampledLimit<'_> {
    /// The highest rate without a failed request, bytes per second, and the run at that rate;
    /// nothing if even a small part of `start` fails.
    ///
    /// # Errors
    /// If a run cannot be made.
    pub fn search(&self, start: SearchStart) -> Result<Option<(f64, RateRun)>, LimitError> {
        let rules = SearchRules {
            failures_max: 0.0,
            quality: QualityRules::default(),
            step: start.step(),
            resolution: RESOLUTION,
            confirm: 1,
            probes_max: PROBES_MAX,
        };
        let ceiling = CEILING * self.machine.random_bytes_per_s();
        let content = self.flash_content();
        let run = |probes: &[Probe]| {
            let runs = probes.iter().map(|probe| match probe.rate > ceiling {
                true => Err(LimitError::Unlimited {
                    mbit_s: (ceiling * 8.0 / 1e6) as u64,
                }),
                false => self.run(probe.rate, true, content.as_ref()),
            });
            runs.collect::<Result<Vec<RateRun>, LimitError>>()
        };
        let outcome = |run: &RateRun| match run.failures() {
            0 => RunOutcome::Passed,
            _ => RunOutcome::Failed,
        };
        let mut searched = LimitSearch::new(start.bytes_per_s(), rules).run(1, run, outcome)?;
        let passed = searched.passed.pop();
        Ok(searched.found.rate.zip(passed))
    }

    /// Whether the limit is that rate or a higher one, up to the resolution of a search.
    ///
    /// # Errors
    /// If a run cannot be made.
    pub(crate) fn reaches(&self, bytes_per_s: f64) -> Result<bool, LimitError> {
        let content = self.flash_content();
        let run = self.run(bytes_per_s, true, content.as_ref())?;
        Ok(run.failures() == 0)
    }

    /// The initial content of the flash tier; nothing without one.
    pub(crate) fn flash_content(&self) -> Option<FlashContent> {
        let flash = self.machine.flash.as_ref();
        let flash = flash.filter(|_| self.server == Server::Headlong)?;
        let disks = self.machine.disks.max(1);
        let bytes = flash_bytes(flash) * u64::from(flash.count) / u64::from(disks);
        let parts = (disks, bytes);
        Some(FlashContent::most_read(self.sample, self.times, parts))
    }

    /// A run at a rate, to its end or to its first failure, with this content of the flash tier.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn run(
        &self,
        bytes_per_s: f64,
        stops_at_failure: bool,
        content: Option<&FlashContent>,
    ) -> Result<RateRun, LimitError> {
        let disks = self.machine.disks;
        let mut run = RateRun {
            bytes_per_s,
            worlds: Vec::new(),
        };
        // The model of a page-cache server has one disk: each is a world of its own, with its
        // viewers and its part of the memory.
        let parts: Vec<Option<u32>> = match self.server {
            Server::Headlong => vec![None],
            Server::Nginx { .. } => (0..disks).map(Some).collect(),
        };
        for only_disk in parts {
            let draw = Draw::new(self.sample, self.draw_settings(bytes_per_s, only_disk));
            let setup = self.setup(stops_at_failure, &draw, content)?;
            let drives = (0..setup.disks)
                .map(|_| self.machine.drive.build())
                .collect();
            let world = World::of_disks(setup, &draw.files, &draw.trace, drives)?;
            run.worlds.push(world.run());
            if stops_at_failure && run.failures() > 0 {
                break;
            }
        }
        Ok(run)
    }

    fn draw_settings(&self, bytes_per_s: f64, only_disk: Option<u32>) -> DrawSettings<'_> {
        DrawSettings {
            times: self.times,
            bytes_per_s,
            length: self.lengths.ramp + self.lengths.window,
            disks: self.machine.disks,
            has_library: self.machine.flash.is_some(),
            only_disk,
            seed: self.seed,
        }
    }

    fn setup(
        &self,
        stops_at_failure: bool,
        draw: &Draw,
        content: Option<&FlashContent>,
    ) -> Result<WorldSetup, LimitError> {
        let from = Instant::ZERO + self.lengths.ramp;
        let machine = self.machine;
        let mut setup = WorldSetup {
            placement: Placement::Spread,
            window: MeasuredWindow {
                from,
                to: from + self.lengths.window,
            },
            stops_at_failure,
            ..WorldSetup::default()
        };
        match self.server {
            Server::Headlong => {
                setup.disks = machine.disks;
                setup.engine = EngineConfig {
                    memory_bytes: pool_memory(machine.memory_bytes).0,
                    ..setup.engine
                };
                self.add_flash(&mut setup, draw, content)?;
            }
            Server::Nginx { read_ahead_bytes } => {
                setup.server = ServerModel::Vanilla(PageCacheServerSetup {
                    memory_bytes: machine.memory_bytes / u64::from(machine.disks.max(1)),
                    read_ahead_bytes,
                    ..PageCacheServerSetup::default()
                });
            }
        }
        Ok(setup)
    }

    fn add_flash(
        &self,
        setup: &mut WorldSetup,
        draw: &Draw,
        content: Option<&FlashContent>,
    ) -> Result<(), LimitError> {
        let Some((flash, content)) = self.machine.flash.as_ref().zip(content) else {
            return Ok(());
        };
        let bytes = flash_bytes(flash);
        let all = u64::from(flash.count) * bytes;
        let disks = (setup.disks, &self.machine.drive);
        let reached = draw.reached(content);
        let content = WarmContent::of_calls(reached, &draw.files, disks, setup.placement, all);
        setup.flash = Some(FlashSetup {
            drive: flash.drive.clone(),
            ssds: flash.count,
            bytes,
            block_bytes: FLASH_BLOCK_BYTES,
            is_warm: true,
            content: content.map_err(LimitError::Titles)?,
        });
        Ok(())
    }
}

/// Bytes of each SSD for the tier.
fn flash_bytes(flash: &FlashDrives) -> u64 {
    flash.drive.capacity_bytes() / MIB * MIB
}
