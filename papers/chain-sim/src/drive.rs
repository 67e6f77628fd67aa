//! The two rates of a drive, and the definition of a megabyte.

use headlong_drive::{DriveSpec, random_rate, sequential_rate};
use headlong_units::{GIB, KIB, MIB};
use serde::Serialize;

/// Definition of MB for sizes and rates, and of GB for memory (rule B9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Megabyte {
    /// 2^20 bytes, and 2^30 for a GB: thesis 5.6 (131,073 bytes are 128 KB and one).
    #[default]
    Binary,
    /// 10^6 and 10^9 bytes.
    Decimal,
}

impl Megabyte {
    /// Bytes of a MB.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Binary => MIB,
            Self::Decimal => 1_000_000,
        }
    }

    /// Bytes of a GB.
    pub const fn gigabyte(self) -> u64 {
        match self {
            Self::Binary => GIB,
            Self::Decimal => 1_000_000_000,
        }
    }
}

/// The two rates that share a drive's time: `t / t_max + s / s_max = 1` when it is fully busy
/// (thesis 5.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DriveRates {
    /// Bytes per second without seeks, `t_max`.
    pub bytes_per_s: f64,
    /// Seeks per second without transfers, `s_max`.
    pub seeks_per_s: f64,
}

impl DriveRates {
    /// Hitachi Deskstar 5K3000 (thesis 5.6.2): 125.5 MB/s and 39.4 seeks/s, rounded as published.
    pub fn deskstar(megabyte: Megabyte) -> Self {
        Self {
            bytes_per_s: 125.5 * megabyte.bytes() as f64,
            seeks_per_s: 39.4,
        }
    }

    /// Rates of a modelled drive, measured in virtual time with the thesis' method (Eq. 5.4): the
    /// rate of sequential reads in the middle of the drive, and of random blocks. Hard disks read 2
    /// MiB blocks one at a time. Flash, whose seek time cannot be measured with 2 MiB, reads 4 KiB
    /// blocks at a queue depth of 32, and its `t_max` is that of 1 MiB at a queue depth of 8.
    pub fn of(spec: &DriveSpec) -> Self {
        let middle = spec.capacity_bytes() / 1024;
        let (bytes_per_s, block_bytes, blocks_rate) = match spec {
            DriveSpec::SolidState(_) => (
                random_rate(&mut *spec.build(), MIB, 400, 8),
                4 * KIB,
                random_rate(&mut *spec.build(), 4 * KIB, 4_000, 32),
            ),
            DriveSpec::HardDrive(_) | DriveSpec::DualActuator(_) => (
                sequential_rate(&mut *spec.build(), middle, 2 * MIB, 400),
                2 * MIB,
                random_rate(&mut *spec.build(), 2 * MIB, 400, 1),
            ),
        };
        let blocks_per_s = blocks_rate / block_bytes as f64;
        // A drive with random reads as fast as sequential ones has no seek time; a thousandth of
        // the rate is below the accuracy of either.
        let seeking = (bytes_per_s - blocks_rate).max(bytes_per_s / 1000.0);
        Self {
            bytes_per_s,
            seeks_per_s: blocks_per_s * bytes_per_s / seeking,
        }
    }

    /// Share of the given seconds that this work takes.
    pub fn utilisation(&self, bytes: u64, seeks: u64, seconds: f64) -> f64 {
        (bytes as f64 / self.bytes_per_s + seeks as f64 / self.seeks_per_s) / seconds
    }

    /// Bytes transferred in the time of a seek.
    pub fn seek_bytes(&self) -> f64 {
        self.bytes_per_s / self.seeks_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deskstar_utilisation_follows_equation_5_4() {
        let drive = DriveRates::deskstar(Megabyte::Binary);
        let bytes = (48.4 * MIB as f64) as u64 * 60;
        let busy = drive.utilisation(bytes, (24.2 * 60.0) as u64, 60.0);
        assert!((busy - 1.0).abs() < 0.001, "{busy}");
    }

    #[test]
    fn modelled_drive_is_fully_busy_at_its_random_rate() {
        for preset in headlong_drive::presets() {
            let drive = DriveRates::of(&preset.spec());
            assert!(
                drive.bytes_per_s > 20e6 && drive.bytes_per_s < 20e9,
                "{}: {drive:?}",
                preset.name
            );
            assert!(
                drive.seeks_per_s > 20.0 && drive.seeks_per_s < 1e9,
                "{}: {drive:?}",
                preset.name
            );
        }
        let red = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
        let rates = DriveRates::of(&red);
        let random = random_rate(&mut *red.build(), 2 * MIB, 400, 1);
        let seeks = random / (2 * MIB) as f64;
        let busy = random / rates.bytes_per_s + seeks / rates.seeks_per_s;
        assert!((busy - 1.0).abs() < 1e-9, "{busy}");
    }
}
