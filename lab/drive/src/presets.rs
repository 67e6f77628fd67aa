//! Presets: drives that others measured or described, by name.

mod flash;
mod hard;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::spec::DriveSpec;
use headlong_units::nearest_three;

/// A named drive.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name, as in settings and on the command line.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    make: fn(&'static str) -> DriveSpec,
}

impl Preset {
    /// Its specification.
    pub fn spec(&self) -> DriveSpec {
        (self.make)(self.name)
    }
}

/// Error: no preset has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no drive \"{name}\"; the nearest names are {}", nearest.join(", "))]
pub struct UnknownPreset {
    /// The requested name.
    pub name: String,
    /// Similar names, the most similar first.
    pub nearest: Vec<&'static str>,
}

/// All presets.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The specification of the preset with this name.
///
/// # Errors
/// If there is none; the error lists the most similar names.
pub fn preset(name: &str) -> Result<DriveSpec, UnknownPreset> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(Preset::spec).ok_or_else(|| {
        let known = PRESETS.iter().map(|preset| preset.name);
        UnknownPreset {
            name: name.to_string(),
            nearest: nearest_three(name, known),
        }
    })
}

const PRESETS: &[Preset] = &[
    Preset {
        name: "wd-red-wd10efrx",
        summary: "Western Digital Red 1 TB, 5400 rpm SATA: libception's Linux server",
        make: hard::wd_red,
    },
    Preset {
        name: "hp-146-10k-sas",
        summary: "HP 146 GB, 10,000 rpm 2.5 inch SAS: the thesis' FreeBSD server",
        make: hard::hp_10k,
    },
    Preset {
        name: "seagate-st1000dm003",
        summary: "Seagate Barracuda 1 TB, 7200 rpm SATA; largely synthetic",
        make: hard::seagate,
    },
    Preset {
        name: "hitachi-5k3000",
        summary: "Hitachi Deskstar 5K3000 3 TB, 5700 rpm SATA: thesis 5.6.2; seeks derived",
        make: hard::hitachi,
    },
    Preset {
        name: "nearline-20tb",
        summary: "a 20 TB 7200 rpm nearline drive of 2022",
        make: hard::nearline,
    },
    Preset {
        name: "dual-actuator-14tb",
        summary: "a 14 TB 7200 rpm drive with two arms, 524 MB/s",
        make: hard::dual_actuator,
    },
    Preset {
        name: "ssd-sata-low-end",
        summary: "a small SATA SSD, 410 MB/s; writing is synthetic",
        make: flash::sata_low_end,
    },
    Preset {
        name: "ssd-qlc-consumer",
        summary: "a 4 TB SATA SSD of four-bit cells: 530 MB/s for 78 GB, then 160",
        make: flash::qlc_consumer,
    },
    Preset {
        name: "ssd-nvme-data-centre",
        summary: "a 2 TB NVMe SSD for servers, made to be read",
        make: flash::nvme_data_centre,
    },
    Preset {
        name: "ssd-ocz-core-v2",
        summary: "OCZ Core V2 120 GB: flashstream's SSD, optimal block 16 MB",
        make: flash::ocz_core_v2,
    },
];
