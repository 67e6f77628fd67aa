use super::*;
use crate::presets::preset;
use crate::{DriveSpec, closed_loop, random_rate};
use alloc::vec::Vec;
use headlong_random::Generator;

fn solid(name: &str) -> SolidStateSpec {
    match preset(name) {
        Ok(DriveSpec::SolidState(spec)) => spec,
        other => unreachable!("{name} is an SSD: {other:?}"),
    }
}

fn write(start_byte: u64, bytes: u64) -> Request {
    Request {
        sector: start_byte / SECTOR_BYTES,
        sectors: (bytes / SECTOR_BYTES) as u32,
        direction: Direction::Write,
    }
}

fn near(found: f64, expected: f64, part: f64) {
    assert!(
        (found / expected - 1.0).abs() <= part,
        "{found} instead of {expected}"
    );
}

#[test]
fn concurrent_small_reads_reach_rate_of_lanes() {
    let spec = solid("ssd-nvme-data-centre");
    let one = random_rate(&mut SolidState::new(&spec), 4_096, 2_000, 1) / 4_096.0;
    near(one, 1e6 / 85.0, 0.03);
    let many = random_rate(&mut SolidState::new(&spec), 4_096, 40_000, 256) / 4_096.0;
    near(many, 490_000.0, 0.1);
}

#[test]
fn write_rate_drops_when_tier_is_full() {
    let spec = solid("ssd-qlc-consumer").scaled_to(40_000_000_000);
    let mut drive = SolidState::new(&spec);
    let run = |drive: &mut SolidState, from: u64, to: u64, at| {
        let requests = (from..to).map(|i| write(i << 20, 1 << 20));
        closed_loop(drive, at, 1, requests, |_| ())
    };
    // 78 of 4000 GB correspond to 0.78 of 40.
    let fast = run(&mut drive, 0, 700, Instant::ZERO);
    near(fast.bytes_per_s(), 530e6, 0.05);
    let slow = run(&mut drive, 800, 2_000, fast.ended);
    near(slow.bytes_per_s(), 160e6, 0.05);
    // After an idle time long enough to empty the cache, it is fast again.
    let again = run(
        &mut drive,
        2_000,
        2_500,
        slow.ended + Duration::from_secs(10),
    );
    near(again.bytes_per_s(), 530e6, 0.05);
}

#[test]
fn full_fill_takes_measured_time() {
    // Average rates of filling the whole drive: techpowerup's HP FX700 2 TB and XPG Atom 50 1 TB.
    let cases = [
        (2_000, [(54, 5_000), (406, 3_500)], 130, 168e6),
        (1_000, [(280, 4_500), (220, 2_000)], 500, 800e6),
    ];
    for (gigabytes, tiers, slow, average) in cases {
        let mut spec = solid("ssd-qlc-consumer");
        spec.capacity_bytes = gigabytes * 1_000_000_000;
        let tier = |(bytes, rate): &(u64, u64)| WriteTier {
            bytes: bytes * 1_000_000_000,
            bytes_per_s: rate * 1_000_000,
        };
        spec.write.tiers = tiers.iter().map(tier).collect();
        spec.write.bytes_per_s = slow * 1_000_000;
        spec.interface_bytes_per_s = 7_000_000_000;
        let mut drive = SolidState::new(&spec);
        let requests = (0..gigabytes).map(|i| write(i * 1_000_000_000 / 512 * 512, 1_000_000_000));
        let run = closed_loop(&mut drive, Instant::ZERO, 1, requests, |_| ());
        near(run.bytes_per_s(), average, 0.15);
    }
}

#[test]
fn random_writes_reach_steady_state() {
    // 38,000 4 KB writes per second (Intel P4500 2 TB), on a smaller drive.
    let spec = solid("ssd-nvme-data-centre").scaled_to(1 << 29);
    let mut drive = SolidState::new(&spec);
    let blocks = spec.capacity_bytes / 4_096;
    let fill = closed_loop(
        &mut drive,
        Instant::ZERO,
        1,
        (0..512).map(|i| write(i << 20, 1 << 20)),
        |_| (),
    );
    let mut generator = Generator::new(2);
    let mut random = |drive: &mut SolidState, count: u64, at| {
        let requests = (0..count).map(|_| write(generator.below(blocks) * 4_096, 4_096));
        closed_loop(drive, at, 32, requests, |_| ())
    };
    let warm = random(&mut drive, blocks * 3, fill.ended);
    let run = random(&mut drive, blocks, warm.ended);
    near(run.bytes_per_s() / 4_096.0, 38_000.0, 0.15);
    assert!(drive.write_amplification() > 3.0);
}

#[test]
fn ocz_small_random_operations_match_measurement() {
    let spec = solid("ssd-ocz-core-v2").scaled_to(8_000_000_000);
    let mut drive = SolidState::new(&spec);
    let fill = (0..7_000).map(|i| write(i << 20, 1 << 20));
    let filled = closed_loop(&mut drive, Instant::ZERO, 1, fill, |_| ());
    let mut generator = Generator::new(4);
    let places: Vec<u64> = (0..400)
        .map(|_| generator.below(1_700_000) * 4_096)
        .collect();
    let writes = places.iter().map(|place| write(*place, 4_096));
    let run = closed_loop(&mut drive, filled.ended, 1, writes, |_| ());
    near(run.bytes_per_s(), 0.02e6, 0.1);
    let mut drive = SolidState::new(&spec);
    near(random_rate(&mut drive, 4_096, 1_000, 1), 14.8e6, 0.03);
}
