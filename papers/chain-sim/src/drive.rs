//! What a drive can do, as two rates, and what a megabyte is.

use headlong_drive::{DriveSpec, random_rate, sequential_rate};
use headlong_units::{GIB, KIB, MIB};
use serde::Serialize;

/// What "MB" means for sizes and rates, and with it what "GB" means for memory (rule B9).
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

/// The two rates that a drive's time is shared by: `t / t_max + s / s_max = 1` when it is busy all
/// the time (thesis 5.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DriveRates {
    /// Bytes per second without any seek, `t_max`.
    pub bytes_per_s: f64,
    /// Seeks per second without any byte, `s_max`.
    pub seeks_per_s: f64,
}

impl DriveRates {
    /// Hitachi Deskstar 5K3000 (thesis 5.6.2): 125.5 MB/s and 39.4 seeks/s, rounded as printed.
    pub fn deskstar(megabyte: Megabyte) -> Self {
        Self {
            bytes_per_s: 125.5 * megabyte.bytes() as f64,
            seeks_per_s: 39.4,
        }
    }

    /// From a modelled drive, in virtual time, as the thesis got its own (Eq. 5.4): the rate of
    /// reading on in the middle of the drive, and of blocks from anywhere. Blocks are of 2 MiB one
    /// at a time on what turns. Flash, which seeks in no time that one could find under 2 MiB, is
    /// asked for 32 blocks of 4 KiB at once, and its `t_max` is that of 1 MiB, 8 at once.
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
        // A drive whose blocks come as fast as they can be moved needs no time to seek; a
        // thousandth of it is beyond what either rate is known to.
        let seeking = (bytes_per_s - blocks_rate).max(bytes_per_s / 1000.0);
        Self {
            bytes_per_s,
            seeks_per_s: blocks_per_s * bytes_per_s / seeking,
        }
    }

    /// Share of so many seconds that this work takes.
    pub fn utilisation(&self, bytes: u64, seeks: u64, seconds: f64) -> f64 {
        (bytes as f64 / self.bytes_per_s + seeks as f64 / self.seeks_per_s) / seconds
    }

    /// Bytes that could be moved in the time of a seek.
    pub fn seek_bytes(&self) -> f64 {
        self.bytes_per_s / self.seeks_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deskstars_time_adds_up_as_in_equation_5_4() {
        let drive = DriveRates::deskstar(Megabyte::Binary);
        let bytes = (48.4 * MIB as f64) as u64 * 60;
        let busy = drive.utilisation(bytes, (24.2 * 60.0) as u64, 60.0);
        assert!((busy - 1.0).abs() < 0.001, "{busy}");
    }

    #[test]
    fn a_modelled_drive_is_busy_all_the_time_at_its_own_random_rate() {
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
