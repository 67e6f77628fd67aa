//! From the configuration of the server to the settings of each device's shard.

use headlong_engine::{
    ConfigError as EngineError, Control, ControlConfig, EngineConfig, SizingConfig,
};
use headlong_units::Bytes;

use super::error::{ConfigErrors, Place, one_line};
use super::settings::{Config, DeviceOverride, Io, Prefetch};
use crate::time_scale::TimeScale;

impl Config {
    /// How fast the server's own clocks go.
    pub fn time_scale(&self) -> TimeScale {
        TimeScale::new(self.time_scale)
    }

    /// What is different for the device of this kernel name; nothing, if the file is silent.
    pub fn device(&self, name: &str) -> DeviceOverride {
        self.device.get(name).cloned().unwrap_or_default()
    }

    /// How the device of this kernel name is read.
    pub fn io_for(&self, name: &str) -> Io {
        self.device(name).io.unwrap_or(self.io)
    }

    /// Settings of one device. `rotational` is what the kernel says, and the file may know
    /// better. `share_count` is how many of the devices served have no `memory` of their own in
    /// the file; they share what the others leave.
    pub fn engine_for(&self, name: &str, rotational: bool, share_count: usize) -> EngineConfig {
        let device = self.device(name);
        let share = self.memory_unnamed().0 / (share_count.max(1) as u64);
        let has_arm = device.rotational.unwrap_or(rotational);
        let outstanding = if has_arm {
            self.outstanding_reads_rotating
        } else {
            self.outstanding_reads_flash
        };
        let prefetch = device.prefetch.unwrap_or(self.prefetch);
        let standard = EngineConfig::default();
        EngineConfig {
            piece_bytes: self.piece.0,
            memory_bytes: device.memory.map_or(share, |memory| memory.0),
            sizing: SizingConfig {
                policy: device.policy.unwrap_or(self.policy),
                reference_bytes: prefetch
                    .size()
                    .map_or(standard.sizing.reference_bytes, |size| size.0),
                reference_bit_rate: self.reference_bit_rate,
            },
            control: ControlConfig {
                mode: match prefetch {
                    Prefetch::Size(_) => Control::Off,
                    Prefetch::Found(mode) => mode,
                },
                ..standard.control
            },
            order: self.order,
            retention: self.retention,
            outstanding_reads_max: device.outstanding_reads.unwrap_or(outstanding),
            outstanding_bytes_max: self.outstanding_max.0,
            has_arm,
            read_bytes_max: self.read_max.0,
            chain_gap: self.chain_gap,
            ahead_horizon: self.ahead_horizon,
            pace_default: self.pace_default,
            startup_patience: self.startup_patience,
            patience: self.patience,
            send_window_bytes: self.send_window.0,
            admission: self.admission,
            read_timeout: self.read_timeout,
            error_window: self.error_window,
            errors_offline: self.errors_offline,
            offline_retry: self.offline_retry,
            requests_max: self.requests_max as usize,
            chains_max: self.chains_max as usize,
            streams_max: self.streams_max as usize,
        }
    }

    /// Settings of every device served, given as kernel name and whether it rotates, in the same
    /// order; or every reason why the budget does not go round.
    pub fn engines_for(
        &self,
        devices: &[(String, bool)],
    ) -> Result<Vec<EngineConfig>, ConfigErrors> {
        let named = |name: &String| self.device(name).memory.is_some();
        let share_count = devices.iter().filter(|(name, _)| !named(name)).count();
        let mut errors = ConfigErrors::default();
        let mut engines = Vec::new();
        for (name, rotational) in devices {
            let engine = self.engine_for(name, *rotational, share_count);
            for error in engine.check() {
                let text = match error {
                    EngineError::Memory => format!(
                        "the share of `{name}`, {} of {} for {} devices, holds fewer than eight \
                         pieces; raise memory or lower piece",
                        Bytes(engine.memory_bytes),
                        self.memory,
                        devices.len()
                    ),
                    other => format!("for `{name}`: {other}"),
                };
                errors.push(Place::Machine, key_of(error, *rotational), text);
            }
            let is_written = engine.control.mode == Control::Off;
            if is_written && engine.sizing.reference_bytes > engine.memory_bytes {
                let text = format!(
                    "one prefetch ({}) is larger than the share of `{name}` ({} of {} for {} \
                     devices); raise memory or lower prefetch",
                    Bytes(engine.sizing.reference_bytes),
                    Bytes(engine.memory_bytes),
                    self.memory,
                    devices.len()
                );
                errors.push(Place::Machine, "prefetch", text);
            }
            engines.push(engine);
        }
        errors.or(engines)
    }

    /// What an operator should know although nothing is wrong: tables for devices that are not
    /// among those served. A disk may be away for a while, so this is no error.
    pub fn warnings(&self, devices: &[(String, bool)]) -> Vec<String> {
        let names: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
        let strangers = self
            .device
            .keys()
            .filter(|name| !names.contains(&name.as_str()));
        let say = |name: &String| {
            let served = names.join(", ");
            one_line(&format!(
                "device.{name}: no root lies on a device of that name; those served are {served}"
            ))
        };
        strangers.map(say).collect()
    }

    /// What the devices named with a `memory` of their own leave of the budget.
    pub(super) fn memory_unnamed(&self) -> Bytes {
        let named = self.device.values().filter_map(|device| device.memory);
        Bytes(named.fold(self.memory.0, |left, memory| left.saturating_sub(memory.0)))
    }
}

/// The key to change when the engine refuses a setting.
pub(super) fn key_of(error: EngineError, rotational: bool) -> &'static str {
    match error {
        EngineError::PieceSize => "piece",
        EngineError::Memory => "memory",
        EngineError::ReferenceSize => "prefetch",
        EngineError::ReadSize => "read_max",
        EngineError::OutstandingReads if rotational => "outstanding_reads_rotating",
        EngineError::OutstandingReads => "outstanding_reads_flash",
        EngineError::EmptyTable => "requests_max",
    }
}
