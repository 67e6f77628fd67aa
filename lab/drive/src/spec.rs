//! Specification of a drive of any kind.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::dual::{DualActuator, DualActuatorSpec};
use crate::flash::{Mapping, SolidState, SolidStateSpec};
use crate::hard::{HardDrive, HardDriveSpec};
use crate::{Drive, SECTOR_BYTES};

/// A drive. Serialized as TOML, with `kind = "hard-drive"` and so on at the top.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveSpec {
    /// One arm on a stack of platters.
    HardDrive(HardDriveSpec),
    /// Two arms, each for one half of the addresses.
    DualActuator(DualActuatorSpec),
    /// Flash with a controller.
    SolidState(SolidStateSpec),
}

/// Errors of a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("drive \"{name}\": {}", problems.join("; "))]
pub struct InvalidSpec {
    /// Name of the drive.
    pub name: String,
    /// Every invalid figure, with its valid range.
    pub problems: Vec<String>,
}

impl DriveSpec {
    /// Name of the drive.
    pub fn name(&self) -> &str {
        match self {
            Self::HardDrive(spec) => &spec.name,
            Self::DualActuator(spec) => &spec.name,
            Self::SolidState(spec) => &spec.name,
        }
    }

    /// Sources of its figures.
    pub fn sources(&self) -> &str {
        match self {
            Self::HardDrive(spec) => &spec.sources,
            Self::DualActuator(spec) => &spec.sources,
            Self::SolidState(spec) => &spec.sources,
        }
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::HardDrive(spec) => spec.capacity_bytes,
            Self::DualActuator(spec) => {
                // Each arm has whole sectors.
                let half_sectors = spec.half.capacity_bytes / SECTOR_BYTES;
                half_sectors.saturating_mul(2 * SECTOR_BYTES)
            }
            Self::SolidState(spec) => spec.capacity_bytes,
        }
    }

    /// Rotations per minute, for drives that rotate.
    pub fn rpm(&self) -> Option<u32> {
        match self {
            Self::HardDrive(spec) => Some(spec.rpm),
            Self::DualActuator(spec) => Some(spec.half.rpm),
            Self::SolidState(_) => None,
        }
    }

    /// The same drive with another capacity: times stay the same at the same fraction of the
    /// addresses.
    pub fn scaled_to(&self, capacity_bytes: u64) -> Self {
        match self {
            Self::HardDrive(spec) => Self::HardDrive(spec.scaled_to(capacity_bytes)),
            Self::DualActuator(spec) => Self::DualActuator(spec.scaled_to(capacity_bytes)),
            Self::SolidState(spec) => Self::SolidState(spec.scaled_to(capacity_bytes)),
        }
    }

    /// Builds a new drive of this kind. Figures that [`Self::check`] would reject are replaced by
    /// the nearest valid ones.
    pub fn build(&self) -> Box<dyn Drive> {
        match self {
            Self::HardDrive(spec) => Box::new(HardDrive::new(spec)),
            Self::DualActuator(spec) => Box::new(DualActuator::new(spec)),
            Self::SolidState(spec) => Box::new(SolidState::new(spec)),
        }
    }

    /// Validates the figures of user-written specifications.
    ///
    /// # Errors
    /// All invalid figures.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        let mut problems = Vec::new();
        match self {
            Self::HardDrive(spec) => check_hard(spec, "", &mut problems),
            Self::DualActuator(spec) => check_hard(&spec.half, "half.", &mut problems),
            Self::SolidState(spec) => check_flash(spec, &mut problems),
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(InvalidSpec {
            name: self.name().to_string(),
            problems,
        })
    }
}

/// Reports a figure outside its range.
fn range(problems: &mut Vec<String>, key: &str, value: u64, least: u64, most: u64) {
    if value < least || value > most {
        problems.push(format!(
            "{key} is {value}; it must be from {least} to {most}"
        ));
    }
}

const CAPACITY_MAX: u64 = 1 << 50;
const RATE_MAX: u64 = 1_000_000_000_000;

fn check_hard(spec: &HardDriveSpec, under: &str, problems: &mut Vec<String>) {
    let mut check = |key: &str, value: u64, least: u64, most: u64| {
        range(problems, &format!("{under}{key}"), value, least, most);
    };
    check("capacity_bytes", spec.capacity_bytes, 1 << 20, CAPACITY_MAX);
    check("rpm", u64::from(spec.rpm), 60, 100_000);
    check("heads", u64::from(spec.heads), 1, 1_000);
    check("zones", u64::from(spec.zones), 1, 1_000);
    let rates = spec.rates;
    for (key, rate) in [
        ("rates.outer_bytes_per_s", rates.outer_bytes_per_s),
        ("rates.middle_bytes_per_s", rates.middle_bytes_per_s),
        ("rates.inner_bytes_per_s", rates.inner_bytes_per_s),
        ("interface_bytes_per_s", spec.interface_bytes_per_s),
    ] {
        check(key, rate, 100_000, RATE_MAX);
    }
    check("queue.depth", u64::from(spec.queue.depth), 1, 65_536);
    check(
        "read_cache.segments",
        u64::from(spec.read_cache.segments),
        0,
        1_024,
    );
    let mut before = 0.0;
    for (index, knot) in spec.seek.knots.iter().enumerate() {
        // Negated, so that it rejects NaN as well.
        if !(knot.stroke > before && knot.stroke <= 1.0) {
            problems.push(format!(
                "{under}seek.knots[{index}].stroke is {}; strokes must grow from above 0 to at most 1",
                knot.stroke
            ));
        }
        before = knot.stroke;
    }
}

fn check_flash(spec: &SolidStateSpec, problems: &mut Vec<String>) {
    let mut check = |key: &str, value: u64, least: u64, most: u64| {
        range(problems, key, value, least, most);
    };
    check("capacity_bytes", spec.capacity_bytes, 1 << 20, CAPACITY_MAX);
    check("queue_depth", u64::from(spec.queue_depth), 1, 65_536);
    check("read.lanes", u64::from(spec.read.lanes), 1, 4_096);
    check(
        "read.page_bytes",
        u64::from(spec.read.page_bytes),
        512,
        1 << 24,
    );
    for (key, rate) in [
        ("interface_bytes_per_s", spec.interface_bytes_per_s),
        ("read.bytes_per_s", spec.read.bytes_per_s),
        ("write.bytes_per_s", spec.write.bytes_per_s),
        ("write.copy_bytes_per_s", spec.write.copy_bytes_per_s),
    ] {
        check(key, rate, 100_000, RATE_MAX);
    }
    for (index, tier) in spec.write.tiers.iter().enumerate() {
        let key = format!("write.tiers[{index}].bytes_per_s");
        check(&key, tier.bytes_per_s, 100_000, RATE_MAX);
    }
    match spec.mapping {
        Mapping::Pages {
            unit_bytes,
            superblock_bytes,
            over_provisioning,
            ..
        } => {
            check("mapping.unit_bytes", unit_bytes, 512, 1 << 30);
            check(
                "mapping.superblock_bytes",
                superblock_bytes,
                unit_bytes,
                1 << 40,
            );
            if !(0.0..=10.0).contains(&over_provisioning) {
                problems.push(format!(
                    "mapping.over_provisioning is {over_provisioning}; it must be from 0 to 10"
                ));
            }
        }
        Mapping::Blocks {
            block_bytes,
            open_blocks,
        } => {
            check("mapping.block_bytes", block_bytes, 4_096, 1 << 40);
            check("mapping.open_blocks", u64::from(open_blocks), 1, 1_024);
        }
    }
}
