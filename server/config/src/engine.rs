//! Derives the settings of each device's engine from the configuration.

use headlong_engine::{ConfigError as EngineError, EngineConfig, Prefetch};
use headlong_kernel::time_scale::TimeScale;
use headlong_settings::{Mistakes, ValueLocation};
use headlong_storage::IoMode;
use headlong_units::{Bytes, nearest};

use crate::settings::{Config, DeviceOverride};

impl Config {
    /// Speed of the server's clocks.
    pub fn time_scale(&self) -> TimeScale {
        TimeScale::new(self.time_scale)
    }

    /// Overrides for the device with this kernel name; empty if the file has none.
    pub fn device(&self, name: &str) -> DeviceOverride {
        self.device.get(name).cloned().unwrap_or_default()
    }

    /// I/O interface of the device with this kernel name.
    pub fn io_for(&self, name: &str) -> IoMode {
        self.device(name).io.unwrap_or(self.io)
    }

    /// Settings of one device. `rotational` is the kernel's value, which the file may override.
    /// `share_count` is the number of devices without a `memory` of their own; they divide the rest
    /// of the budget.
    pub fn engine_for(&self, name: &str, rotational: bool, share_count: usize) -> EngineConfig {
        let device = self.device(name);
        let share = self.memory_unnamed() / (share_count.max(1) as u64);
        let has_arm = device.rotational.unwrap_or(rotational);
        let mut engine = self.engine.for_device(has_arm);
        // A reply needs a whole piece to make progress.
        engine.send_window_bytes = engine.send_window_bytes.max(engine.piece_bytes);
        engine.memory_bytes = device.memory.unwrap_or(share);
        let outstanding_reads = device.outstanding_reads;
        engine.outstanding_reads_max = outstanding_reads.unwrap_or(engine.outstanding_reads_max);
        if let Some(prefetch) = device.prefetch {
            engine.set_prefetch(prefetch);
        }
        engine
    }

    /// Settings of the served devices, given by kernel name and whether they rotate, in the same
    /// order. `are_all`: whether these are the devices of all roots; otherwise some may be absent.
    ///
    /// # Errors
    /// Every device whose share of the budget is too small, and every table of an absent device
    /// that is not optional.
    pub fn engines_for(
        &self,
        devices: &[(String, bool)],
        are_all: bool,
    ) -> Result<Vec<EngineConfig>, Mistakes> {
        let is_named = |name: &String| self.device(name).memory.is_some();
        let share_count = devices.iter().filter(|(name, _)| !is_named(name)).count();
        let mut mistakes = Mistakes::default();
        let mut wrong = |key: &str, text| mistakes.push(ValueLocation::Machine, key, text);
        for name in self
            .absent(devices)
            .filter(|name| are_all && !self.device[*name].optional)
        {
            let served = || devices.iter().map(|(name, _)| name.as_str());
            let meant = nearest(name, served());
            let meant =
                meant.map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"));
            let served: Vec<&str> = served().collect();
            let text = format!(
                "no root lies on a device of that name; those served are {}{meant}. If the disk may \
                 be away, write optional = true in its table",
                served.join(", ")
            );
            wrong(&format!("device.{name}"), text);
        }
        let mut engines = Vec::new();
        for (name, rotational) in devices {
            let engine = self.engine_for(name, *rotational, share_count);
            let share = format!(
                "the share of `{name}`, {} of {} for {} devices,",
                Bytes(engine.memory_bytes),
                Bytes(self.engine.memory_bytes),
                devices.len()
            );
            for error in engine.check() {
                let text = match error {
                    EngineError::Memory => {
                        format!(
                            "{share} holds fewer than eight pieces; raise memory or lower piece"
                        )
                    }
                    other => format!("for `{name}`: {}", other.reason()),
                };
                wrong(error.setting(), text);
            }
            if let Prefetch::Size(size) = engine.prefetch()
                && size > engine.memory_bytes
            {
                let size = Bytes(size);
                let text = format!(
                    "{share} is smaller than one prefetch ({size}); raise memory or lower prefetch"
                );
                wrong("prefetch", text);
            }
            engines.push(engine);
        }
        mistakes.or(engines)
    }

    /// Devices with a table but without a root.
    pub(crate) fn absent<'a>(
        &'a self,
        devices: &'a [(String, bool)],
    ) -> impl Iterator<Item = &'a String> {
        let is_there = |name: &String| devices.iter().any(|(there, _)| there == name);
        self.device.keys().filter(move |name| !is_there(name))
    }

    /// Memory budget minus the memory of devices with a `memory` of their own.
    fn memory_unnamed(&self) -> u64 {
        let named = self.device.values().filter_map(|device| device.memory);
        named.fold(self.engine.memory_bytes, u64::saturating_sub)
    }
}
