//! What a hard disk is, as people write it down.

use alloc::string::String;

use headlong_disk::Rates;
use serde::{Deserialize, Serialize};

use super::seek::SeekCurve;

/// Which of the queued requests is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// The oldest.
    Fcfs,
    /// The one that the head reaches first, seek and rotation together.
    #[default]
    Nearest,
    /// The next one upwards by address from where the last one ended, and from the lowest again when
    /// none lies above: a sweep in one direction (C-LOOK).
    Sweep,
}

/// The queue in the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Most requests in the drive, the one being worked on included.
    pub depth: u32,
    /// Order of service.
    pub order: QueueOrder,
    /// A request that has waited as long as this goes first whatever the order, in milliseconds; with
    /// 0 there is no such bound.
    pub wait_ms_max: u32,
}

/// The memory for what was read, and for what comes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCacheSpec {
    /// How many runs of sectors are remembered; 0 switches the cache off.
    pub segments: u32,
    /// Size of a segment; also how far the drive reads on by itself, bytes.
    pub segment_bytes: u64,
}

/// The memory for what is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCacheSpec {
    /// Size; 0 switches the cache off, bytes.
    pub bytes: u64,
    /// The drive begins to empty it after being idle this long, milliseconds. A cache more than half
    /// full is emptied at once.
    pub idle_ms: u32,
}

/// One arm over a stack of platters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardDriveSpec {
    /// What it is called.
    pub name: String,
    /// Where each figure is from, and which are made up.
    pub sources: String,
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    /// Turns per minute.
    pub rpm: u32,
    /// Surfaces in use: tracks of a cylinder.
    pub heads: u32,
    /// How many zones; an odd number has one in the middle.
    pub zones: u32,
    /// Sequential rates.
    pub rates: Rates,
    /// The arm.
    pub seek: SeekCurve,
    /// From one head of a cylinder to the next, microseconds.
    pub head_switch_us: u32,
    /// From the last track of a cylinder to the first of the next while streaming, microseconds.
    pub cylinder_switch_us: u32,
    /// What a write settles longer than a read, microseconds.
    pub write_settle_us: u32,
    /// From a request's arrival until the drive begins to move, microseconds.
    pub command_overhead_us: u32,
    /// Speed of the cable, bytes per second.
    pub interface_bytes_per_s: u64,
    /// The queue in the drive.
    pub queue: QueueSpec,
    /// Memory for reading.
    pub read_cache: ReadCacheSpec,
    /// Memory for writing.
    pub write_cache: WriteCacheSpec,
}

impl HardDriveSpec {
    /// One turn in nanoseconds.
    pub fn turn_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm.clamp(1, 1_000_000))
    }

    /// The sequential rate at a part (0 to 1) of the addresses, bytes per second.
    ///
    /// Between the three rates, the square of the rate is linear in the address: so it is on a disk
    /// of constant density, where both the track's length and the area inside it follow the radius.
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

    /// The rate of zone `index` of `count`, bytes per second: the first has the outer rate, the last
    /// the inner one.
    pub(crate) fn zone_rate(&self, index: u64, count: u64) -> u64 {
        let last = count.saturating_sub(1).max(1);
        self.rate_at(index as f64 / last as f64) as u64
    }

    /// The part of the tracks that lies before a part (0 to 1) of the addresses. Outer tracks hold
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

    /// The same drive with other bytes: rates, strokes and times stay the same at the same part of
    /// the addresses.
    ///
    /// With few tracks left, a cylinder would be a large part of the stroke and seeks within it
    /// would come for nothing: heads are taken away until there are enough cylinders, or one head.
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
