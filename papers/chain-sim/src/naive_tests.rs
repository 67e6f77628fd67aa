//! The simulation compared with a naive one that processes every event and every second.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use headlong_engine::Policy;
use headlong_units::BitRate;
use proptest::prelude::*;

use crate::point::{CostPoint, SimulationSettings};
use crate::sizes::{Algorithm, SizingRule};
use crate::table::{ChainRow, ChainTable};
use crate::{DriveRates, Megabyte};

/// A direct implementation of rules B1 to B12. It shares only the settings with the simulation;
/// sizes are computed here, too.
struct NaiveSimulation {
    work: BTreeMap<(u64, u16), (u64, u64)>,
    /// Buffers of each chain: from, to, bytes.
    buffers: Vec<Vec<(u64, u64, u64)>>,
    prefetches: u64,
    read: u64,
}

fn size(policy: Policy, mb: u64, size_mb: u64, row: &ChainRow, sum: u64) -> u64 {
    let bytes = mb * size_mb;
    let kbps = row.bit_rate.map_or(2_000, |rate| rate.0 / 1000).max(1);
    let proportional = (2 * bytes * kbps + 2_000) / 4_000;
    let mut root = (bytes as f64 * (kbps as f64 / 2_000.0).sqrt()) as u64;
    // Round half up: the smallest n with (2n + 1)^2 / 4 > bytes^2 kbps / 2000.
    let too_small = |n: u64| {
        u128::from(2 * n + 1).pow(2) * 2_000 <= 4 * u128::from(bytes).pow(2) * u128::from(kbps)
    };
    root = root.saturating_sub(3);
    while too_small(root) {
        root += 1;
    }
    let grow = |most: u64| {
        let next = match (sum, row.start, row.is_open) {
            (0, 0, true) => 1_049_212,
            (0, 0, false) => 131_073,
            (0, _, _) => 2_936_037,
            _ => (2 * 335 * sum + 100) / 200,
        };
        next.min(most)
    };
    let size = match policy {
        Policy::Fixed => bytes,
        Policy::Proportional => proportional,
        Policy::SquareRoot => root,
        Policy::FirstGrow => grow(bytes),
        Policy::FirstGrowSr => grow(root),
    };
    size.max(1)
}

fn naive(rows: &[ChainRow], policy: Policy, mb: u64, size_mb: u64, drives: u16) -> NaiveSimulation {
    let mut naive = NaiveSimulation {
        work: BTreeMap::new(),
        buffers: Vec::new(),
        prefetches: 0,
        read: 0,
    };
    for row in rows {
        let start = u64::try_from(row.start_ms).unwrap_or(0);
        let end = u64::try_from(row.end_ms).unwrap_or(0).max(start);
        let mut issues = Vec::new();
        let mut sum = 0;
        while sum < row.length {
            let into = u128::from(sum) * u128::from(end - start) / u128::from(row.length);
            let bytes = size(policy, mb, size_mb, row, sum);
            issues.push((start + into as u64, bytes));
            sum += bytes;
        }
        let mut buffers = Vec::new();
        for (index, (ms, bytes)) in issues.iter().enumerate() {
            naive.prefetches += 1;
            naive.read += bytes;
            if row.disk < drives {
                let work = naive.work.entry((ms / 60_000, row.disk)).or_default();
                work.0 += bytes;
                work.1 += 1;
            }
            let until = issues.get(index + 1).map_or(end + 40_000, |next| next.0);
            buffers.push((*ms, until, *bytes));
        }
        naive.buffers.push(buffers);
    }
    naive
}

impl NaiveSimulation {
    /// Highest mean of memory over bins of this length in ms.
    fn mean(&self, bin_ms: u64) -> f64 {
        let last = self.buffers.iter().flatten().map(|buffer| buffer.1).max();
        let bins = last.map_or(0, |ms| ms / bin_ms + 1);
        let in_bin = |bin: u64| -> u64 {
            let (from, to) = (bin * bin_ms, (bin + 1) * bin_ms);
            let all = self.buffers.iter().flatten();
            all.map(|(start, end, bytes)| (*end).min(to).saturating_sub((*start).max(from)) * bytes)
                .sum()
        };
        (0..bins).map(in_bin).max().unwrap_or(0) as f64 / bin_ms as f64
    }

    /// Highest sum over chains of the bytes held at any time in a minute.
    fn touched(&self) -> u64 {
        let last = self.buffers.iter().flatten().map(|buffer| buffer.1).max();
        let minutes = last.map_or(0, |ms| ms / 60_000 + 1);
        let in_minute = |minute: u64| -> u64 {
            let (from, to) = (minute * 60_000, (minute + 1) * 60_000);
            let of_chain = |buffers: &Vec<(u64, u64, u64)>| {
                let held = buffers
                    .iter()
                    .filter(|(start, end, _)| *start < to && *end > from && end > start);
                held.map(|buffer| buffer.2).max().unwrap_or(0)
            };
            self.buffers.iter().map(of_chain).sum()
        };
        (0..minutes).map(in_minute).max().unwrap_or(0)
    }

    fn utilisation(&self, drive: &DriveRates, minute: u64, disk: u16) -> f64 {
        let (bytes, seeks) = self.work.get(&(minute, disk)).copied().unwrap_or_default();
        drive.utilisation(bytes, seeks, 60.0)
    }
}

fn chain() -> impl Strategy<Value = ChainRow> {
    let kbps = prop_oneof![
        Just(None),
        Just(Some(2_000)),
        Just(Some(235)),
        (1_u64..20_000).prop_map(Some)
    ];
    let start = prop_oneof![Just(0), 1_u64..1 << 32];
    let length = prop_oneof![
        Just(786_432),
        0_u64..200_000,
        1_u64..60_000_000,
        Just(7 << 20),
        Just(14_000_000)
    ];
    let start_ms = prop_oneof![-5_000_i64..200_000, Just(60_000), Just(0)];
    let lasts_ms = prop_oneof![Just(0_i64), 0_i64..300_000, Just(60_000)];
    let rest = (any::<bool>(), 0_u16..5);
    (start, length, start_ms, lasts_ms, kbps, rest).prop_map(
        |(start, length, start_ms, lasts_ms, kbps, (is_open, disk))| ChainRow {
            session: 0,
            file: 0,
            start,
            length,
            start_ms,
            end_ms: start_ms + lasts_ms,
            is_open,
            bit_rate: kbps.map(BitRate::from_kbps),
            disk,
        },
    )
}

fn agree(
    rows: &[ChainRow],
    policy: Policy,
    megabyte: Megabyte,
    size_mb: u64,
    threads: usize,
) -> Result<(), TestCaseError> {
    let Ok(table) = ChainTable::new(rows.iter().copied()) else {
        // Only empty chains.
        return Ok(());
    };
    let settings = SimulationSettings {
        megabyte,
        drive: DriveRates::deskstar(megabyte),
        disks: Some(4),
        threads: NonZeroUsize::new(threads).expect("threads"),
    };
    let rule = SizingRule::new(Algorithm::plain(policy), size_mb as f64, megabyte);
    let point = CostPoint::simulate(&table, &rule, &settings).expect("a point");
    let naive = naive(rows, policy, megabyte.bytes(), size_mb, 4);
    let gigabyte = megabyte.gigabyte() as f64;
    prop_assert_eq!(point.prefetches, naive.prefetches);
    prop_assert_eq!(point.read, naive.read);
    prop_assert_eq!(point.mem, naive.mean(60_000) / gigabyte);
    prop_assert_eq!(point.mem_peak, naive.mean(1_000) / gigabyte);
    prop_assert_eq!(point.mem_touch, naive.touched() as f64 / gigabyte);
    let busy = |minute, disk| naive.utilisation(&settings.drive, minute, disk);
    let minutes = table.minutes().start as u64..table.minutes().end as u64;
    let mut worst = (0.0, 0, 0);
    let (mut mean, mut busiest) = (0.0, 0.0_f64);
    for minute in minutes.clone() {
        let of_minute: f64 = (0..4).map(|disk| busy(minute, disk)).sum();
        mean += of_minute;
        busiest = busiest.max(of_minute / 4.0);
        for disk in 0..4 {
            if busy(minute, disk) > worst.0 {
                worst = (busy(minute, disk), u64::from(disk), minute);
            }
        }
    }
    prop_assert_eq!((point.util, point.util_drive, point.util_minute), worst);
    let mean = mean / (minutes.count() * 4) as f64;
    prop_assert!((point.util_mean - mean).abs() < 1e-12);
    prop_assert!((point.util_busiest - busiest).abs() < 1e-12);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn simulation_equals_naive_implementation(
        rows in prop::collection::vec(chain(), 1..12),
        policy in prop::sample::select(Policy::ALL),
        binary in any::<bool>(),
        size_mb in 1_u64..17,
        threads in 1_usize..4,
    ) {
        let megabyte = if binary { Megabyte::Binary } else { Megabyte::Decimal };
        agree(&rows, policy, megabyte, size_mb, threads)?;
    }
}

#[test]
fn many_prefetches_per_minute_equal_single_accounting() {
    // 64 bytes each in a chain of five minutes, and in one of zero length in time.
    let row = ChainRow {
        session: 0,
        file: 0,
        start: 1,
        length: 100_003,
        start_ms: 59_123,
        end_ms: 359_777,
        is_open: false,
        bit_rate: Some(BitRate::from_kbps(2_000)),
        disk: 0,
    };
    let at_once = ChainRow {
        end_ms: 59_123,
        ..row
    };
    let table = ChainTable::new([row, at_once]).expect("chains");
    let rule = SizingRule {
        algorithm: Algorithm::plain(Policy::Fixed),
        size_bytes: 64,
    };
    let accounts = super::point::account(
        &table,
        &super::sizes::ShapePlans::new(&table, &rule),
        &SimulationSettings::default(),
    )
    .expect("books");
    let mut expected = vec![0_u64; 6];
    for position in (0..100_003_u64).step_by(64) {
        let ms = 59_123 + position * 300_654 / 100_003;
        expected[(ms / 60_000) as usize] += 1;
        expected[0] += 1;
    }
    let seeks: Vec<u64> = accounts.work.iter().map(|work| work.seeks).collect();
    assert_eq!(seeks, expected);
}

#[test]
fn single_chain_matches_manual_result() {
    // 20 MB in two minutes, read in 8 MB prefetches at 0 s, 48 s and 96 s; freed at 160 s.
    let row = ChainRow {
        session: 0,
        file: 0,
        start: 5,
        length: 20_000_000,
        start_ms: 0,
        end_ms: 120_000,
        is_open: false,
        bit_rate: None,
        disk: 0,
    };
    let table = ChainTable::new([row]).expect("a chain");
    let megabyte = Megabyte::Decimal;
    let settings = SimulationSettings {
        megabyte,
        drive: DriveRates::deskstar(megabyte),
        ..SimulationSettings::default()
    };
    let rule = SizingRule::new(Algorithm::plain(Policy::Fixed), 8.0, megabyte);
    let point = CostPoint::simulate(&table, &rule, &settings).expect("a point");
    assert_eq!((point.prefetches, point.read), (3, 24_000_000));
    assert_eq!((point.util_minute, point.util_drive), (0, 0));
    let two = 16.0 / 125.5 / 60.0 + 2.0 / 39.4 / 60.0;
    assert!((point.util - two).abs() < 1e-12, "{}", point.util);
    // The chain ends at the start of minute 2, so three minutes count.
    assert!((point.util_mean - two * 1.5 / 3.0).abs() < 1e-12);
    assert_eq!(
        (point.mem, point.mem_touch, point.mem_peak),
        (0.008, 0.008, 0.008)
    );
}
