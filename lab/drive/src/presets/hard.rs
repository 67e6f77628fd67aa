//! Presets of hard disks.

use alloc::string::ToString;

use crate::Measurements;
use crate::Rates;
use crate::dual::DualActuatorSpec;
use crate::fit::{assumed, fit};
use crate::hard::{HardDriveSpec, ReadCacheSpec, SeekCurve, WriteCacheSpec};
use crate::spec::DriveSpec;

fn megabytes_per_s(outer: u64, middle: u64, inner: u64) -> Rates {
    Rates {
        outer_bytes_per_s: outer * 1_000_000,
        middle_bytes_per_s: middle * 1_000_000,
        inner_bytes_per_s: inner * 1_000_000,
    }
}

/// A row of a table of diskinfo figures: rates in MB/s, strokes in tenths of a millisecond.
fn row(capacity_bytes: u64, rpm: u32, rates: Rates, strokes: [u32; 3]) -> Measurements {
    let [full, half, quarter] = strokes.map(|tenths| f64::from(tenths) * 100.0);
    Measurements {
        capacity_bytes,
        rpm,
        rates,
        full_stroke_us: full,
        half_stroke_us: half,
        quarter_stroke_us: quarter,
        short_forward_us: None,
        short_backward_us: None,
    }
}

/// A drive with known rates and average seek only.
fn from_average_seek(
    name: &str,
    capacity_bytes: u64,
    rpm: u32,
    rates: Rates,
    average_us: f64,
) -> HardDriveSpec {
    HardDriveSpec {
        seek: SeekCurve::from_average(average_us),
        ..assumed(name, &row(capacity_bytes, rpm, rates, [0; 3]))
    }
}

pub(super) fn wd_red(name: &'static str) -> DriveSpec {
    let rates = megabytes_per_s(133, 115, 67);
    let measured = row(1_000_204_886_016, 5_400, rates, [326, 231, 189]);
    DriveSpec::HardDrive(HardDriveSpec {
        sources: "Rates and strokes: libception (TOMPECS 2018) section 4, Table 1, measured with \
                  diskinfo; MB taken as 10^6 bytes. Speed: the same section. Synthetic: heads, \
                  zones, switches, write settle, overhead, queue, and how 64 MB of cache are \
                  divided."
            .to_string(),
        ..fit(name, &measured)
    })
}

pub(super) fn hp_10k(name: &'static str) -> DriveSpec {
    let rates = megabytes_per_s(122, 107, 73);
    let measured = row(146_815_737_856, 10_000, rates, [105, 80, 68]);
    let spec = fit(name, &measured);
    DriveSpec::HardDrive(HardDriveSpec {
        sources: "Rates and strokes: libception (TOMPECS 2018) section 4, Table 1, measured with \
                  diskinfo; MB taken as 10^6 bytes. Speed: thesis 3.3.1. Synthetic: \
                  heads, zones, switches, write settle, overhead, queue, 300 MB/s of interface, 8 \
                  cache segments of 1 MiB; write cache off, as is usual with SAS."
            .to_string(),
        interface_bytes_per_s: 300_000_000,
        read_cache: ReadCacheSpec {
            segments: 8,
            segment_bytes: 1 << 20,
        },
        write_cache: WriteCacheSpec {
            bytes: 0,
            ..spec.write_cache
        },
        ..spec
    })
}

pub(super) fn seagate(name: &'static str) -> DriveSpec {
    // With inner = 0.48 outer and constant density, an average over all addresses of 156 MB/s gives
    // 202 outside and 97 inside; the middle is sqrt((202^2 + 97^2) / 2).
    let rates = megabytes_per_s(202, 158, 97);
    DriveSpec::HardDrive(HardDriveSpec {
        sources: "Average rate 156 MB/s and average seek 8.5 ms: the vendor's, for the 2 TB model of \
                  the family (itproportal 2013-08-22). Synthetic: outer and inner rate, derived from \
                  the average with the ratio 0.48 of measured drives (the successor ST1000DM010 \
                  states 210 MB/s outside); the shape of the seek curve (mean of five DiskSim \
                  curves), heads, zones, switches, overhead, caches, queue."
            .to_string(),
        ..from_average_seek(name, 1_000_204_886_016, 7_200, rates, 8_500.0)
    })
}

pub(super) fn hitachi(name: &'static str) -> DriveSpec {
    let rates = Rates {
        outer_bytes_per_s: 125_500_000,
        middle_bytes_per_s: 98_900_000,
        inner_bytes_per_s: 61_500_000,
    };
    DriveSpec::HardDrive(HardDriveSpec {
        sources: "125.5 MB/s sequential, taken as the outer rate, and 48.4 MB/s for random reads of 2 \
                  MB: thesis 5.6.2. The average seek of 15.1 ms was chosen to meet the latter, so it \
                  validates nothing. Synthetic: 5700 rpm, inner rate 0.49 of the outer as on measured \
                  drives, the shape of the seek curve (mean of five DiskSim curves), heads, zones, \
                  switches, overhead, caches, queue."
            .to_string(),
        ..from_average_seek(name, 3_000_592_982_016, 5_700, rates, 15_100.0)
    })
}

pub(super) fn nearline(name: &'static str) -> DriveSpec {
    let spec = from_average_seek(
        name,
        20_000_588_955_648,
        7_200,
        megabytes_per_s(285, 224, 139),
        7_400.0,
    );
    DriveSpec::HardDrive(HardDriveSpec {
        sources: "285 MB/s outside: Seagate Exos X20 (blocksandfiles 2022-03-28). Average seek 7.4 \
                  ms: WD Ultrastar DC HC310. Synthetic: inner rate 0.49 of the outer, middle at \
                  constant density, 18 heads (platter counts differ between articles), the shape of \
                  the seek curve (mean of five DiskSim curves), zones, switches, overhead, queue, and \
                  how 256 MB of cache are divided."
            .to_string(),
        heads: 18,
        read_cache: ReadCacheSpec {
            segments: 32,
            segment_bytes: 4 << 20,
        },
        write_cache: WriteCacheSpec {
            bytes: 64 << 20,
            ..spec.write_cache
        },
        ..spec
    })
}

pub(super) fn dual_actuator(name: &'static str) -> DriveSpec {
    let rates = megabytes_per_s(262, 206, 128);
    let half = from_average_seek(name, 7_000_259_821_568, 7_200, rates, 7_400.0);
    DriveSpec::DualActuator(DualActuatorSpec {
        name: name.to_string(),
        sources: "524 MB/s for both arms, 4.16 ms of latency, two units of 7 TB: Seagate Exos 2X14 \
                  (Tom's Hardware). Synthetic: average seek 7.4 ms as of ordinary nearline drives, \
                  inner rate 0.49 of the outer, middle at constant density, 8 heads to an arm, shape \
                  of the seek curve, zones, switches, overhead, caches, queue. The maker's 304 random \
                  reads a second are not fitted to."
            .to_string(),
        half: HardDriveSpec {
            sources: "see the drive as a whole".to_string(),
            heads: 8,
            read_cache: ReadCacheSpec {
                segments: 16,
                segment_bytes: 4 << 20,
            },
            ..half
        },
    })
}
