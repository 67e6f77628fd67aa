//! From the configuration of the server to the settings of each device's engine.

use headlong_engine::{ConfigError as EngineError, EngineConfig, Prefetch};
use headlong_settings::{Mistakes, Place, one_line};
use headlong_units::{Bytes, Duration, nearest};

use super::settings::{Admin, Config, DeviceOverride};
use crate::disk::IoMode;
use crate::log::LogTarget;
use crate::net::ListenAddress;
use crate::time_scale::TimeScale;

/// Requests in progress over HTTP/2 may take one part of so many of `memory` beside it.
const REQUEST_PART: u64 = 8;
const REQUEST_BYTES_MIN: u64 = 8 * headlong_units::MIB;

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
    pub fn io_for(&self, name: &str) -> IoMode {
        self.device(name).io.unwrap_or(self.io)
    }

    /// Settings of one device. `rotational` is what the kernel says, and the file may know
    /// better. `share_count` is how many of the devices served have no `memory` of their own in
    /// the file; they share what the others leave.
    pub fn engine_for(&self, name: &str, rotational: bool, share_count: usize) -> EngineConfig {
        let device = self.device(name);
        let share = self.memory_unnamed() / (share_count.max(1) as u64);
        let has_arm = device.rotational.unwrap_or(rotational);
        let mut engine = self.engine.for_device(has_arm);
        engine.memory_bytes = device.memory.unwrap_or(share);
        let outstanding_reads = device.outstanding_reads;
        engine.outstanding_reads_max = outstanding_reads.unwrap_or(engine.outstanding_reads_max);
        engine.sizing.policy = device.policy.unwrap_or(engine.sizing.policy);
        if let Some(prefetch) = device.prefetch {
            engine.set_prefetch(prefetch);
        }
        engine
    }

    /// Settings of every device served, given as kernel name and whether it rotates, in the same
    /// order. `are_all`: whether they are those of all roots; else some may be away.
    ///
    /// # Errors
    /// Every reason why the budget does not go round, and every table for a device that is not
    /// there and may not be away.
    pub fn engines_for(
        &self,
        devices: &[(String, bool)],
        are_all: bool,
    ) -> Result<Vec<EngineConfig>, Mistakes> {
        let is_named = |name: &String| self.device(name).memory.is_some();
        let share_count = devices.iter().filter(|(name, _)| !is_named(name)).count();
        let mut mistakes = Mistakes::default();
        let mut wrong = |key: &str, text| mistakes.push(Place::Machine, key, text);
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

    /// What an operator should know although nothing is wrong: optional devices that are away.
    pub fn warnings(&self, devices: &[(String, bool)]) -> Vec<String> {
        let away = self.absent(devices);
        away.map(|name| one_line(&format!("device.{name}: the device is away, as it may be")))
            .chain(self.memory_warning())
            .chain(self.pipe_warnings())
            .chain(self.admin_warning())
            .chain(self.slow_warning())
            .collect()
    }

    /// Of `memory`, what requests in progress over HTTP/2 may take beside it.
    pub fn request_bytes_max(&self) -> u64 {
        (self.engine.memory_bytes / REQUEST_PART).max(REQUEST_BYTES_MIN)
    }

    /// Who may reach the operator's pages can purge titles and see what is watched.
    fn admin_warning(&self) -> Option<String> {
        let Admin::Address(ListenAddress::Ip(address)) = &self.admin else {
            return None;
        };
        (!address.ip().to_canonical().is_loopback()).then(|| {
            format!(
                "admin: {address} is not loopback, and the operator's pages have no password: let \
                 only those reach it who may see and purge everything, or put something with a \
                 password in front"
            )
        })
    }

    /// Why replies that are to be told of are not.
    fn slow_warning(&self) -> Option<String> {
        let log = &self.log;
        let is_in_vain = log.slow_after > Duration::ZERO && log.slow == LogTarget::Off;
        is_in_vain.then(|| {
            "log.slow_after: log.slow is \"off\", so slow replies are not told; name a file there"
                .to_owned()
        })
    }

    /// Devices with a table of which no root lies on any.
    fn absent<'a>(&'a self, devices: &'a [(String, bool)]) -> impl Iterator<Item = &'a String> {
        let is_there = |name: &String| devices.iter().any(|(there, _)| there == name);
        self.device.keys().filter(move |name| !is_there(name))
    }

    /// What the devices named with a `memory` of their own leave of the budget.
    fn memory_unnamed(&self) -> u64 {
        let named = self.device.values().filter_map(|device| device.memory);
        named.fold(self.engine.memory_bytes, u64::saturating_sub)
    }
}
