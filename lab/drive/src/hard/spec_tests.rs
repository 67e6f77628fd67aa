use super::*;
use alloc::string::ToString;

/// A drive of 1 GB with round numbers: 6000 rpm, 100 to 50 MB/s.
pub(crate) fn small_drive() -> HardDriveSpec {
    HardDriveSpec {
        name: "small".to_string(),
        sources: "synthetic".to_string(),
        capacity_bytes: 1_000_000_000,
        rpm: 6_000,
        heads: 2,
        zones: 5,
        rates: Rates {
            outer_bytes_per_s: 100_000_000,
            middle_bytes_per_s: 80_000_000,
            inner_bytes_per_s: 50_000_000,
        },
        seek: SeekCurve::through([(0.25, 6_000.0), (0.5, 9_000.0), (1.0, 14_000.0)]),
        head_switch_us: 800,
        cylinder_switch_us: 1_000,
        write_settle_us: 500,
        command_overhead_us: 100,
        interface_bytes_per_s: 500_000_000,
        queue: QueueSpec {
            depth: 32,
            order: QueueOrder::Nearest,
            wait_ms_max: 3_000,
        },
        read_cache: ReadCacheSpec {
            segments: 4,
            segment_bytes: 2 << 20,
        },
        write_cache: WriteCacheSpec {
            bytes: 0,
            idle_ms: 20,
        },
    }
}

#[test]
fn rate_curve_meets_given_rates() {
    let spec = small_drive();
    assert_eq!(spec.rate_at(0.0) as u64, 100_000_000);
    assert_eq!(spec.rate_at(0.5) as u64, 80_000_000);
    assert_eq!(spec.rate_at(1.0) as u64, 50_000_000);
}

#[test]
fn half_of_addresses_take_less_than_half_stroke() {
    let spec = small_drive();
    let half = spec.stroke_at(0.5);
    assert!(half > 0.35 && half < 0.5, "{half}");
    assert!((spec.stroke_at(1.0) - 1.0).abs() < 1e-12);
}
