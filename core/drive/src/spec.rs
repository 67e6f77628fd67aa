//! A drive as people write it down, of whatever kind.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::Drive;
use crate::hard::{HardDrive, HardDriveSpec};

/// A drive of some kind. Reads and writes as TOML, `kind = "hard-drive"` and so on at the top.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveSpec {
    /// One arm over a stack of platters.
    HardDrive(HardDriveSpec),
}

impl DriveSpec {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::HardDrive(spec) => &spec.name,
        }
    }

    /// Where its figures are from.
    pub fn sources(&self) -> &str {
        match self {
            Self::HardDrive(spec) => &spec.sources,
        }
    }

    /// Bytes of the drive.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::HardDrive(spec) => spec.capacity_bytes,
        }
    }

    /// The same drive with other bytes: times stay the same at the same part of the addresses.
    pub fn scaled_to(&self, capacity_bytes: u64) -> Self {
        match self {
            Self::HardDrive(spec) => Self::HardDrive(spec.scaled_to(capacity_bytes)),
        }
    }

    /// A drive of this kind, new.
    pub fn build(&self) -> Box<dyn Drive> {
        match self {
            Self::HardDrive(spec) => Box::new(HardDrive::new(spec)),
        }
    }
}
