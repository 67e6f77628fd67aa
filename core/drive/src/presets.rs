//! Drives that others measured or described, by name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::fit::{Measurements, fit};
use crate::hard::{HardDriveSpec, Rates};
use crate::names::nearest;
use crate::spec::DriveSpec;

/// A drive with a name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// To ask for it by.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    make: fn(&Preset) -> DriveSpec,
}

impl Preset {
    /// Its figures.
    pub fn spec(&self) -> DriveSpec {
        (self.make)(self)
    }
}

/// A name that no preset has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPreset {
    /// What was asked for.
    pub name: String,
    /// What may have been meant, the likeliest first.
    pub nearest: Vec<&'static str>,
}

impl fmt::Display for UnknownPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = self.nearest.join(", ");
        write!(
            f,
            "there is no drive \"{}\"; the nearest names are {nearest}",
            self.name
        )
    }
}

impl core::error::Error for UnknownPreset {}

/// All presets.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The figures of the preset of this name.
///
/// # Errors
/// If there is none; the error names the nearest.
pub fn preset(name: &str) -> Result<DriveSpec, UnknownPreset> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(Preset::spec).ok_or_else(|| {
        let known: Vec<&'static str> = PRESETS.iter().map(|preset| preset.name).collect();
        UnknownPreset {
            name: name.to_string(),
            nearest: nearest(name, &known),
        }
    })
}

const PRESETS: &[Preset] = &[Preset {
    name: "wd-red-wd10efrx",
    summary: "Western Digital Red 1 TB, 5400 rpm, 3.5 inch SATA (libception's Linux server)",
    make: |preset| DriveSpec::HardDrive(wd_red(preset)),
}];

fn megabytes(outer: u64, middle: u64, inner: u64) -> Rates {
    Rates {
        outer_bytes_per_s: outer * 1_000_000,
        middle_bytes_per_s: middle * 1_000_000,
        inner_bytes_per_s: inner * 1_000_000,
    }
}

fn wd_red(preset: &Preset) -> HardDriveSpec {
    let measured = Measurements {
        capacity_bytes: 1_000_204_886_016,
        rpm: 5_400,
        rates: megabytes(133, 115, 67),
        full_stroke_us: 32_600.0,
        half_stroke_us: 23_100.0,
        quarter_stroke_us: 18_900.0,
        short_forward_us: None,
        short_backward_us: None,
    };
    HardDriveSpec {
        sources: "Rates and strokes: libception (TOMPECS 2018) section 4, Table 1, measured with \
                  diskinfo; MB taken as 10^6 bytes. Speed and capacity: the same section. \
                  Synthetic: heads, zones, switches, write settle, overhead, division of the 64 MB \
                  cache, queue."
            .to_string(),
        ..fit(preset.name, &measured)
    }
}
