//! The machine whose limit is searched for: its drives, memory and SSDs.

use headlong_drive::{DriveSpec, random_rate};
use headlong_units::{Bytes, GIB, MIB};

/// Most drives of a machine.
const DRIVES_MAX: u32 = 256;

/// A number of SSDs of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashDrives {
    /// How many.
    pub count: u16,
    /// The model.
    pub drive: DriveSpec,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Number of disks.
    pub disks: u32,
    /// Their model.
    pub drive: DriveSpec,
    /// Memory for the server, bytes.
    pub memory_bytes: u64,
    /// The SSDs of the flash tier, if any.
    pub flash: Option<FlashDrives>,
}

impl Machine {
    /// Parses `4xnearline-20tb`, or the drive alone for one of it; `drive` finds a model by name.
    ///
    /// # Errors
    /// The mistake, with the form.
    pub fn drives(
        text: &str,
        drive: impl Fn(&str) -> Result<DriveSpec, String>,
    ) -> Result<(u32, DriveSpec), String> {
        let counted = text.split_once('x').and_then(|(count, name)| {
            let count = count.parse::<u32>().ok()?;
            Some((count, name))
        });
        let (count, name) = counted.unwrap_or((1, text));
        match (1..=DRIVES_MAX).contains(&count) {
            true => Ok((count, drive(name)?)),
            false => Err(format!(
                "`{text}` has {count} drives; write 1 to {DRIVES_MAX}, like 4xnearline-20tb"
            )),
        }
    }

    /// Bytes of all disks.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.disks) * self.drive.capacity_bytes()
    }

    /// The rate at which the disks read random blocks of 2 MiB, bytes per second: where a search
    /// begins.
    pub fn random_bytes_per_s(&self) -> f64 {
        random_rate(&mut *self.drive.build(), 2 * MIB, 200, 1) * f64::from(self.disks)
    }

    /// In words: `4 x nearline-20tb, 32 GiB, 1 x ssd-nvme-data-centre`.
    pub fn told(&self) -> String {
        let memory = Bytes(self.memory_bytes);
        let mut told = format!("{} x {}, {memory} of memory", self.disks, self.drive.name());
        if let Some(flash) = &self.flash {
            told += &format!(", {} x {}", flash.count, flash.drive.name());
        }
        told
    }

    /// The same with one more disk.
    #[must_use]
    pub fn with_disk(&self) -> Self {
        Self {
            disks: self.disks + 1,
            ..self.clone()
        }
    }

    /// The same with 16 GiB more memory.
    #[must_use]
    pub fn with_memory(&self) -> Self {
        Self {
            memory_bytes: self.memory_bytes + 16 * GIB,
            ..self.clone()
        }
    }

    /// The same with one more SSD: of the model that is there, or of this one.
    #[must_use]
    pub fn with_ssd(&self, model: &DriveSpec) -> Self {
        let flash = match &self.flash {
            Some(flash) => FlashDrives {
                count: flash.count + 1,
                ..flash.clone()
            },
            None => FlashDrives {
                count: 1,
                drive: model.clone(),
            },
        };
        Self {
            flash: Some(flash),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_counted_and_named() {
        let parse = |text| {
            Machine::drives(text, |name| {
                headlong_drive::preset(name).map_err(|error| error.to_string())
            })
        };
        let (count, drive) = parse("4xnearline-20tb").expect("right");
        assert_eq!((count, drive.name()), (4, "nearline-20tb"));
        assert_eq!(parse("wd-red-wd10efrx").expect("right").0, 1);
        for wrong in ["0xnearline-20tb", "999xnearline-20tb", "4xnearline", "x"] {
            parse(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn changes_are_one_step_each() {
        let drive = headlong_drive::preset("nearline-20tb").expect("a preset");
        let ssd = headlong_drive::preset("ssd-qlc-consumer").expect("a preset");
        let machine = Machine {
            disks: 4,
            drive,
            memory_bytes: 32 * GIB,
            flash: None,
        };
        assert_eq!(machine.with_disk().disks, 5);
        assert_eq!(machine.with_memory().memory_bytes, 48 * GIB);
        let two = machine.with_ssd(&ssd).with_ssd(&machine.drive);
        assert_eq!(
            two.told(),
            "4 x nearline-20tb, 32GiB of memory, 2 x ssd-qlc-consumer"
        );
    }
}
