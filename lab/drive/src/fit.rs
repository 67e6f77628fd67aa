//! Fits a hard disk model to three rates and three strokes.

use alloc::format;
use alloc::string::ToString;

use headlong_disk::{Measurements, SECTOR_BYTES, step_sectors};

use crate::hard::{HardDriveSpec, QueueOrder, QueueSpec, ReadCacheSpec, SeekCurve, WriteCacheSpec};

/// The drive that would give these measurements.
///
/// Properties that cannot be measured from outside are assumed and can be changed in the result:
/// two heads, 25 zones, head and cylinder switches in the usual ratio to a turn (Seagate's
/// Constellation and HGST's Ultrastars are close), 0.1 ms of overhead, 16 cache segments of 2 MiB,
/// 32 queued commands, a write cache of 16 MiB.
pub fn fit(name: &str, measured: &Measurements) -> HardDriveSpec {
    let mut spec = assumed(name, measured);
    let sectors = measured.capacity_bytes / SECTOR_BYTES;
    let step = step_sectors(sectors) as f64 / sectors.max(1) as f64;
    // Each read moves by a step, so the average distance differs slightly from the nominal stroke.
    let (by_62, by_125) = (62.0 * step, 124.5 * step);
    let strokes = [
        (0.25 + by_125, 0.5 + by_125, measured.quarter_stroke_us),
        (0.25 + by_62, 0.75 + by_62, measured.half_stroke_us),
        (by_62, 1.0 - by_62 - step, measured.full_stroke_us),
    ];
    let sector_us = SECTOR_BYTES as f64 / spec.rate_at(0.5).max(1.0) * 1e6;
    let turn_us = spec.turn_ns() as f64 / 1e3;
    let not_the_arm_us = turn_us / 2.0 + f64::from(spec.command_overhead_us) + sector_us;
    let points = strokes.map(|(from, to, read_us)| {
        let stroke = spec.stroke_at(to) - spec.stroke_at(from);
        // Even a drive without a moving arm needs a valid curve.
        (stroke, (read_us - not_the_arm_us).max(10.0))
    });
    spec.seek = SeekCurve::through(points);
    spec
}

/// A drive with these rates and default assumptions, without a seek curve.
pub(crate) fn assumed(name: &str, measured: &Measurements) -> HardDriveSpec {
    let mut spec = HardDriveSpec {
        name: name.to_string(),
        sources: format!(
            "Fitted to measured rates and strokes. Assumed: heads, zones, switches, write settle, \
             overhead, caches, queue; {} rpm was stated, not measured.",
            measured.rpm
        ),
        capacity_bytes: measured.capacity_bytes,
        rpm: measured.rpm.max(1),
        heads: 2,
        zones: 25,
        rates: measured.rates,
        seek: SeekCurve::from_average(1.0),
        head_switch_us: 0,
        cylinder_switch_us: 0,
        write_settle_us: 800,
        command_overhead_us: 100,
        interface_bytes_per_s: 550_000_000,
        queue: QueueSpec {
            depth: 32,
            order: QueueOrder::Nearest,
            wait_ms_max: 3_000,
        },
        read_cache: ReadCacheSpec {
            segments: 16,
            segment_bytes: 2 << 20,
        },
        write_cache: WriteCacheSpec {
            bytes: 16 << 20,
            idle_ms: 20,
        },
    };
    let turn_us = u32::try_from(spec.turn_ns() / 1_000).unwrap_or(u32::MAX);
    spec.head_switch_us = turn_us / 10;
    spec.cylinder_switch_us = turn_us / 8;
    spec
}
