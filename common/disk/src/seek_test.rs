//! The seek test of FreeBSD's `diskinfo -t`: its requests, and the results computed from their
//! times.
//!
//! The requests of each phase form a separate list, so that the same requests can be sent to a real
//! device, timed by the clock, and to a model.

use alloc::vec::Vec;

use headlong_units::Duration;
use serde::{Deserialize, Serialize};

use crate::request::{Direction, Request, SECTOR_BYTES};

/// Sectors per read in the rate phases.
const MEGABYTE_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;

/// Maximum number of reads in a rate phase (`bulk` in `diskinfo.c`).
const RATE_READS_MAX: u64 = 100;

/// A phase of the test, in execution order. Requests are sent one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// 250 sectors, alternating between the two ends.
    FullStroke,
    /// 250 sectors, alternating between one quarter and three quarters of the addresses.
    HalfStroke,
    /// 500 sectors, alternating between one quarter and one half of the addresses.
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
    /// All phases, in execution order.
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

    /// Whether the phase measures a transfer rate instead of request times.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Outer | Self::Middle | Self::Inner)
    }

    /// A read to be completed before the clock starts: the rate phases begin with the head in
    /// place.
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

    /// The timed requests, for a drive with `sectors` sectors. Empty for a drive smaller than 1
    /// MiB.
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

/// The duration of each phase, from which [`Measurements`] are computed.
#[derive(Debug, Clone, Default)]
pub struct Timings {
    phases: Vec<(Phase, Duration)>,
}

impl Timings {
    /// Records the time from the start of the first timed request of a phase to the end of the last
    /// one.
    pub fn record(&mut self, phase: Phase, elapsed: Duration) {
        self.phases.push((phase, elapsed));
    }

    /// Computes the results for a drive with this capacity and rotational speed. A phase that was
    /// not recorded has a rate or a time of zero.
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

/// Sectors between consecutive reads of the short-stroke phases: 8 MiB, less on a very small drive
/// (step in FreeBSD's `diskinfo.c`, `speeddisk`).
pub fn step_sectors(sectors: u64) -> u64 {
    let bits = u64::BITS - (sectors / 800).leading_zeros();
    (1u64 << bits.saturating_sub(1)).min(16_384)
}

/// Sequential read rates, including switches between heads and cylinders.
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

/// The results of a seek test like FreeBSD's `diskinfo -t`.
///
/// The seek times are the times of complete one-sector reads: they include half a revolution of the
/// spindle and the command overhead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
    /// Revolutions per minute; not measured but read from the label. 0 for a drive that does not
    /// rotate.
    pub rpm: u32,
    /// Sequential rates at the start, middle and end of the addresses.
    pub rates: Rates,
    /// From one end of the addresses to the other, microseconds.
    pub full_stroke_us: f64,
    /// Between a quarter and three quarters of the addresses, microseconds.
    pub half_stroke_us: f64,
    /// Between a quarter and a half of the addresses, microseconds.
    pub quarter_stroke_us: f64,
    /// Steps of several MiB to higher addresses, microseconds. The time depends on the angle
    /// between the sectors, so no model parameter is fitted to it.
    pub short_forward_us: Option<f64>,
    /// The same towards lower addresses, microseconds.
    pub short_backward_us: Option<f64>,
}
