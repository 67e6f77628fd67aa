//! Randomly drawn drives: known mechanics with varied rates, seeks and firmware, behind hosts that
//! split and delay requests differently.
//!
//! A controller that was tuned on one drive fits that drive. The family serves to find drives that
//! it does not fit: tune on some seeds, report on others. A seed gives the same drive on every
//! machine.

use alloc::format;

use headlong_random::Generator;
use headlong_units::{Duration, KIB, MIB};

use crate::firmware::Firmware;
use crate::hard::{HardDriveSpec, QueueOrder};
use crate::presets::{UnknownPreset, preset};
use crate::spec::DriveSpec;

/// A drive of the family, and its host.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnDrive {
    /// Its seed.
    pub seed: u64,
    /// Mechanics and firmware.
    pub drive: DriveSpec,
    /// Largest request of the host, bytes.
    pub request_bytes_max: u64,
    /// From the completion of a request until the host sees it.
    pub turnaround: Duration,
    /// Extents of each file. The host reads the map of a file with many from the drive before the
    /// first bytes of it.
    pub extents_per_file: u32,
}

/// Mechanics of drawn drives: all presets with one arm that hold a library of 1 TB.
const MECHANICS: [&str; 4] = [
    "wd-red-wd10efrx",
    "seagate-st1000dm003",
    "hitachi-5k3000",
    "nearline-20tb",
];
/// Largest relative deviation of rates and seeks from the preset's.
const MECHANICS_SPREAD: f64 = 0.15;
/// Order of the drive's queue, and the age in milliseconds at which a request goes first (0:
/// never).
const QUEUES: [(QueueOrder, u32); 7] = [
    (QueueOrder::Fcfs, 0),
    (QueueOrder::Nearest, 0),
    (QueueOrder::Nearest, 300),
    (QueueOrder::Nearest, 1_000),
    (QueueOrder::Nearest, 3_000),
    (QueueOrder::Sweep, 0),
    (QueueOrder::Sweep, 1_000),
];
const QUEUE_DEPTHS: [u32; 3] = [1, 4, 32];
const CACHE_SEGMENTS: [u32; 4] = [0, 8, 16, 32];
const CACHE_SEGMENT_BYTES: [u64; 4] = [256 * KIB, 512 * KIB, MIB, 2 * MIB];
const REQUEST_BYTES_MAX: [u64; 5] = [128 * KIB, 256 * KIB, 512 * KIB, 1_280 * KIB, 4 * MIB];
const EXTENTS_PER_FILE: [u32; 5] = [1, 2, 4, 8, 20];
/// Delays of completions, microseconds.
const TURNAROUNDS: [u64; 5] = [0, 200, 1_000, 3_000, 5_000];

impl DrawnDrive {
    /// The drive of this seed.
    ///
    /// # Errors
    /// If a preset of the family does not exist.
    pub fn draw(seed: u64) -> Result<Self, UnknownPreset> {
        let root = Generator::new(seed).fork("drive family");
        let name = pick(&mut root.fork("mechanics"), &MECHANICS);
        let mut drive = preset(name)?;
        if let DriveSpec::HardDrive(disk) = &mut drive {
            vary(disk, &mut root.fork("rates and seeks"));
            disk.name = format!("family-{seed} (like {name})");
            disk.sources = format!("drawn by seed {seed} from {name}; not a real drive");
        }
        let mut firmware = root.fork("firmware");
        let (order, wait_ms_max) = pick(&mut firmware, &QUEUES);
        let drive = drive.with_firmware(&Firmware {
            order: Some(order),
            wait_ms_max: Some(wait_ms_max),
            depth: Some(pick(&mut firmware, &QUEUE_DEPTHS)),
            cache_segments: Some(pick(&mut firmware, &CACHE_SEGMENTS)),
            cache_segment_bytes: Some(pick(&mut firmware, &CACHE_SEGMENT_BYTES)),
        });
        let mut host = root.fork("host");
        Ok(Self {
            seed,
            drive,
            request_bytes_max: pick(&mut host, &REQUEST_BYTES_MAX),
            turnaround: Duration::from_micros(pick(&mut host, &TURNAROUNDS)),
            extents_per_file: pick(&mut root.fork("metadata"), &EXTENTS_PER_FILE),
        })
    }
}

/// The drive of this name: a preset, or a drive of the family by its seed, as `family-17`.
///
/// # Errors
/// If there is none; the error lists the most similar names of presets.
pub fn named_drive(name: &str) -> Result<DriveSpec, UnknownPreset> {
    let seed = name.strip_prefix("family-");
    match seed.and_then(|seed| seed.parse().ok()) {
        Some(seed) => DrawnDrive::draw(seed).map(|drawn| drawn.drive),
        None => preset(name),
    }
}

fn pick<T: Copy>(generator: &mut Generator, choices: &[T]) -> T {
    choices[generator.below(choices.len() as u64) as usize]
}

/// Scales all rates by one factor and all seeks by another, so that zones and knots keep their
/// order.
fn vary(disk: &mut HardDriveSpec, generator: &mut Generator) {
    let mut factor = || 1.0 + MECHANICS_SPREAD * (2.0 * generator.unit() - 1.0);
    let rates = factor();
    let seeks = factor();
    let scaled = |rate: u64| (rate as f64 * rates) as u64;
    disk.rates.outer_bytes_per_s = scaled(disk.rates.outer_bytes_per_s);
    disk.rates.middle_bytes_per_s = scaled(disk.rates.middle_bytes_per_s);
    disk.rates.inner_bytes_per_s = scaled(disk.rates.inner_bytes_per_s);
    disk.seek = disk.seek.scaled(seeks);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn same_seed_draws_same_sound_drive() {
        for seed in 0..200 {
            let drawn = DrawnDrive::draw(seed).expect("presets exist");
            assert_eq!(drawn, DrawnDrive::draw(seed).expect("presets exist"));
            assert_eq!(drawn.drive.check(), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn drive_is_found_by_name_of_preset_or_seed() {
        let drawn = DrawnDrive::draw(17).expect("presets exist");
        assert_eq!(named_drive("family-17"), Ok(drawn.drive));
        assert_eq!(named_drive(MECHANICS[0]), preset(MECHANICS[0]));
        for wrong in ["family-", "family-x", "family--1", "familie-17"] {
            assert!(named_drive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hundred_seeds_cover_every_queue_and_host() {
        let drawn = |seed| DrawnDrive::draw(seed).expect("presets exist");
        let (mut queues, mut hosts, mut extents) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for drawn in (0..100).map(drawn) {
            let DriveSpec::HardDrive(disk) = drawn.drive else {
                continue;
            };
            let order = format!("{:?}", disk.queue.order);
            queues.insert((order, disk.queue.wait_ms_max));
            hosts.insert((drawn.request_bytes_max, drawn.turnaround.0));
            extents.insert(drawn.extents_per_file);
        }
        assert_eq!(queues.len(), QUEUES.len());
        assert!(hosts.len() > 15, "{hosts:?}");
        assert_eq!(extents.len(), EXTENTS_PER_FILE.len());
    }
}
