//! The seek test of FreeBSD's `diskinfo -t`: its requests, and what their times come to.
//!
//! The requests of each phase are a list of their own, so that the same ones go to a real device,
//! timed by the clock, and to a model.

use alloc::vec::Vec;

use headlong_units::Duration;
use serde::{Deserialize, Serialize};

use crate::request::{Direction, Request, SECTOR_BYTES};

/// Sectors of one read of the rate phases.
const MEGABYTE_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;

/// Most reads of a rate phase (`bulk` in `diskinfo.c`).
const RATE_READS_MAX: u64 = 100;

/// A part of the test, in the order in which they are run. One request at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// 250 sectors, by turns from the two ends.
    FullStroke,
    /// 250 sectors, by turns from one quarter and from three quarters.
    HalfStroke,
    /// 500 sectors, by turns from one quarter and from the middle.
    QuarterStroke,
    /// 400 sectors upwards from the middle, 8 MiB apart.
    ShortForward,
    /// 400 sectors downwards from the middle, 8 MiB apart.
    ShortBackward,
    /// 100 reads of 1 MiB at the start.
    Outer,
    /// 100 reads of 1 MiB around the middle.
    Middle,
    /// 100 reads of 1 MiB up to the end.
    Inner,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::FullStroke,
        Self::HalfStroke,
        Self::QuarterStroke,
        Self::ShortForward,
        Self::ShortBackward,
        Self::Outer,
        Self::Middle,
        Self::Inner,
    ];

    /// Whether bytes count, not requests.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Outer | Self::Middle | Self::Inner)
    }

    /// A read to be done before the clock starts: the rate phases begin with the head in place.
    pub fn first(self, sectors: u64) -> Option<Request> {
        self.is_rate().then(|| read(self.rate_start(sectors), 1))
    }

    fn rate_start(self, sectors: u64) -> u64 {
        let length = rate_reads(sectors) * MEGABYTE_SECTORS;
        match self {
            Self::Middle => (sectors / 2).saturating_sub(length / 2 + 1),
            Self::Inner => sectors.saturating_sub(length + 1),
            _ => 0,
        }
    }

    /// What is timed, on a drive of so many sectors. Nothing on one below 1 MiB.
    pub fn requests(self, sectors: u64) -> Vec<Request> {
        if sectors < MEGABYTE_SECTORS {
            return Vec::new();
        }
        let step = step_sectors(sectors);
        let quarter = sectors / 4;
        let by_turns = |count: u64, from: &dyn Fn(u64) -> u64, to: &dyn Fn(u64) -> u64| {
            let pair = |i| [read(from(i), 1), read(to(i), 1)];
            (0..count).flat_map(pair).collect()
        };
        match self {
            Self::FullStroke => by_turns(125, &|i| i * step, &|i| sectors - (i + 1) * step),
            Self::HalfStroke => by_turns(125, &|i| quarter + i * step, &|i| {
                quarter + sectors / 2 + i * step
            }),
            Self::QuarterStroke => by_turns(250, &|i| quarter + i * step, &|i| {
                quarter + quarter + i * step
            }),
            Self::ShortForward => (0..400).map(|i| read(sectors / 2 + i * step, 1)).collect(),
            Self::ShortBackward => (0..400).map(|i| read(sectors / 2 - i * step, 1)).collect(),
            Self::Outer | Self::Middle | Self::Inner => {
                let start = self.rate_start(sectors);
                let at = |i| read(start + i * MEGABYTE_SECTORS, MEGABYTE_SECTORS as u32);
                (0..rate_reads(sectors)).map(at).collect()
            }
        }
    }
}

fn rate_reads(sectors: u64) -> u64 {
    (sectors / MEGABYTE_SECTORS).min(RATE_READS_MAX)
}

/// How long each phase took, to be made into [`Measurements`].
#[derive(Debug, Clone, Default)]
pub struct Timings {
    phases: Vec<(Phase, Duration)>,
}

impl Timings {
    /// Notes the time from the first timed request of a phase to the end of its last.
    pub fn record(&mut self, phase: Phase, elapsed: Duration) {
        self.phases.push((phase, elapsed));
    }

    /// The figures, of a drive of so many bytes that turns so often. A phase that was not recorded
    /// has a rate or a time of zero.
    pub fn measurements(&self, capacity_bytes: u64, rpm: u32) -> Measurements {
        let sectors = capacity_bytes / SECTOR_BYTES;
        let elapsed = |phase| {
            let found = self.phases.iter().find(|(known, _)| *known == phase);
            found.map(|(_, elapsed)| elapsed.as_secs_f64())
        };
        let rate = |phase: Phase| {
            let bytes = rate_reads(sectors) << 20;
            elapsed(phase).map_or(0, |seconds| (bytes as f64 / seconds.max(1e-9)) as u64)
        };
        let each_us = |phase: Phase| {
            let count = phase.requests(sectors).len().max(1);
            elapsed(phase).map(|seconds| seconds * 1e6 / count as f64)
        };
        Measurements {
            capacity_bytes,
            rpm,
            rates: Rates {
                outer_bytes_per_s: rate(Phase::Outer),
                middle_bytes_per_s: rate(Phase::Middle),
                inner_bytes_per_s: rate(Phase::Inner),
            },
            full_stroke_us: each_us(Phase::FullStroke).unwrap_or(0.0),
            half_stroke_us: each_us(Phase::HalfStroke).unwrap_or(0.0),
            quarter_stroke_us: each_us(Phase::QuarterStroke).unwrap_or(0.0),
            short_forward_us: each_us(Phase::ShortForward),
            short_backward_us: each_us(Phase::ShortBackward),
        }
    }
}

fn read(sector: u64, sectors: u32) -> Request {
    Request {
        sector,
        sectors,
        direction: Direction::Read,
    }
}

/// Sectors between one read and the next near to it: 8 MiB, less on a very small drive (step in
/// FreeBSD's `diskinfo.c`, `speeddisk`).
pub fn step_sectors(sectors: u64) -> u64 {
    let bits = u64::BITS - (sectors / 800).leading_zeros();
    (1u64 << bits.saturating_sub(1)).min(16_384)
}

/// Rates of reading on and on, switches of heads and cylinders included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// At the lowest addresses, bytes per second.
    pub outer_bytes_per_s: u64,
    /// In the middle of the addresses, bytes per second.
    pub middle_bytes_per_s: u64,
    /// At the highest addresses, bytes per second.
    pub inner_bytes_per_s: u64,
}

/// What a seek test in the manner of FreeBSD's `diskinfo -t` says about a drive.
///
/// Its seek times are those of whole reads of one sector: half a turn of the spindle and the
/// command's overhead are in them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    /// Turns per minute; not measured but read off the label. 0 for what does not turn.
    pub rpm: u32,
    /// Sequential rates at start, middle and end of the addresses.
    pub rates: Rates,
    /// From one end of the addresses to the other, microseconds.
    pub full_stroke_us: f64,
    /// Between a quarter and three quarters of the addresses, microseconds.
    pub half_stroke_us: f64,
    /// Between a quarter and a half of the addresses, microseconds.
    pub quarter_stroke_us: f64,
    /// Steps of some MB upwards, microseconds; depends on the angle between them, so nothing is
    /// fitted to it.
    pub short_forward_us: Option<f64>,
    /// The same downwards, microseconds.
    pub short_backward_us: Option<f64>,
}
