//! Specification of a hard disk.

use alloc::string::String;

use headlong_disk::Rates;
use serde::{Deserialize, Serialize};

use super::seek::SeekCurve;

/// Order of queued requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// The oldest request.
    Fcfs,
    /// The request that the head reaches first, by seek plus rotation.
    #[default]
    Nearest,
    /// The next higher address after the last request, then the lowest again: a sweep in one
    /// direction (C-LOOK).
    Sweep,
}

/// The queue in the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Most requests in the drive, including the active one.
    pub depth: u32,
    /// Order of service.
    pub order: QueueOrder,
    /// Age at which a request goes first, whatever the order, in milliseconds; 0 for no limit.
    pub wait_ms_max: u32,
}

/// The read cache, which also holds the readahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCacheSpec {
    /// Number of cache segments; 0 disables the cache.
    pub segments: u32,
    /// Size of a segment, and readahead of the drive, bytes.
    pub segment_bytes: u64,
}

/// The write cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCacheSpec {
    /// Size in bytes; 0 disables the cache.
    pub bytes: u64,
    /// Idle time after which the drive starts to empty it, milliseconds. A cache more than half
    /// full is emptied at once.
    pub idle_ms: u32,
}

/// One arm on a stack of platters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardDriveSpec {
    /// Name of the drive.
    pub name: String,
    /// Sources of the figures, with the synthetic ones named.
    pub sources: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Rotations per minute.
    pub rpm: u32,
    /// Surfaces in use: tracks of a cylinder.
    pub heads: u32,
    /// Number of zones; an odd number has one in the middle.
    pub zones: u32,
    /// Sequential rates.
    pub rates: Rates,
    /// Seek curve.
    pub seek: SeekCurve,
    /// Switch between heads of a cylinder, microseconds.
    pub head_switch_us: u32,
    /// Switch from the last track of a cylinder to the first of the next while streaming,
    /// microseconds.
    pub cylinder_switch_us: u32,
    /// Additional settle time of a write, microseconds.
    pub write_settle_us: u32,
    /// From a request's arrival until the drive starts to move, microseconds.
    pub command_overhead_us: u32,
    /// Rate of the interface, bytes per second.
    pub interface_bytes_per_s: u64,
    /// The queue in the drive.
    pub queue: QueueSpec,
    /// Read cache.
    pub read_cache: ReadCacheSpec,
    /// Write cache.
    pub write_cache: WriteCacheSpec,
}

impl HardDriveSpec {
    /// Time of one turn in nanoseconds.
    pub fn turn_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm.clamp(1, 1_000_000))
    }

    /// The sequential rate at a fraction (0 to 1) of the addresses, bytes per second.
    ///
    /// Between the three rates, the square of the rate is linear in the address, as on a disk of
    /// constant density, where both the length of a track and the area inside it depend on the
    /// radius.
    pub fn rate_at(&self, part: f64) -> f64 {
        let (outer, middle, inner) = (
            self.rates.outer_bytes_per_s as f64,
            self.rates.middle_bytes_per_s as f64,
            self.rates.inner_bytes_per_s as f64,
        );
        let part = part.clamp(0.0, 1.0);
        let (from, to, share) = if part < 0.5 {
            (outer, middle, part * 2.0)
        } else {
            (middle, inner, part * 2.0 - 1.0)
        };
        libm::sqrt(from * from + (to * to - from * from) * share)
    }

    /// The rate of zone `index` of `count`, bytes per second: the first has the outer rate, the
    /// last the inner one.
    pub(crate) fn zone_rate(&self, index: u64, count: u64) -> u64 {
        let last = count.saturating_sub(1).max(1);
        self.rate_at(index as f64 / last as f64) as u64
    }

    /// The fraction of the tracks before a fraction (0 to 1) of the addresses. Outer tracks hold
    /// more, so half the addresses take less than half the stroke.
    pub fn stroke_at(&self, part: f64) -> f64 {
        let tracks = |until: f64| -> f64 {
            const STEPS: u32 = 400;
            let step = until / f64::from(STEPS);
            let inverse = |i: u32| 1.0 / self.rate_at((f64::from(i) + 0.5) * step).max(1.0);
            (0..STEPS).map(inverse).sum::<f64>() * step
        };
        let whole = tracks(1.0);
        if whole > 0.0 {
            tracks(part.clamp(0.0, 1.0)) / whole
        } else {
            part
        }
    }

    /// The same drive with another capacity: rates, strokes and times stay the same at the same
    /// fraction of the addresses.
    ///
    /// With few tracks left, a cylinder would be a large part of the stroke, with free seeks within
    /// it: heads are removed until there are enough cylinders, or one head.
    pub fn scaled_to(&self, capacity_bytes: u64) -> Self {
        const CYLINDERS_MIN: u64 = 20_000;
        let track_bytes = (self.rate_at(0.5) * self.turn_ns() as f64 / 1e9) as u64;
        let tracks = capacity_bytes / track_bytes.max(1);
        let heads = u32::try_from(tracks / CYLINDERS_MIN).unwrap_or(u32::MAX);
        Self {
            capacity_bytes,
            heads: self.heads.min(heads).max(1),
            ..self.clone()
        }
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
pub(crate) mod tests;
