//! Starts the devices of a configuration, with or without a server.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use headlong_engine::EngineConfig;
use headlong_library::DeviceInfo;
use headlong_storage::flash::{FlashShare, FlashTier};
use headlong_storage::{Device, DeviceConfig, StartError};

use crate::state_folder::{DeviceIdentity, StateFolder};
use headlong_config::{Config, Mistakes, names};

/// Persistent names of disks, which identify their shares of the flash tier.
pub(crate) fn owners(devices: &[DeviceInfo]) -> Vec<u64> {
    let names = devices
        .iter()
        .map(|info| lasting_name(info.lasting_paths()));
    names.collect()
}

/// A persistent name of a disk: kernel names may change at the next boot.
fn lasting_name(paths: &[PathBuf]) -> u64 {
    let mut paths: Vec<_> = paths
        .iter()
        .map(|path| path.as_os_str().as_bytes())
        .collect();
    paths.sort_unstable();
    xxhash_rust::xxh3::xxh3_64(&paths.join(&0))
}

/// Starts the thread of every device, with the settings from [`engines`] in the same order. Each
/// keeps at most `open_files_max` files open, besides those being read.
///
/// # Errors
/// The error of the first device that cannot be started; devices started before are stopped.
pub fn start(
    config: &Config,
    found: Vec<DeviceInfo>,
    engines: Vec<EngineConfig>,
    tier: Option<&Arc<FlashTier>>,
    open_files_max: usize,
) -> Result<Vec<Device>, StartError> {
    let names = names(&found);
    for warning in config.warnings(&names) {
        tracing::warn!("{warning}");
    }
    warn_of_kernel(&names);
    let folder = StateFolder::new(config.state.clone(), Arc::default());
    let mut devices = Vec::new();
    let owners = owners(&found);
    let mut parts = tier.map(|tier| tier.deal(&owners).into_iter());
    for ((info, engine), (name, rotational)) in found.into_iter().zip(engines).zip(names) {
        let rotational = config.device(&name).rotational.unwrap_or(rotational);
        tracing::info!(
            device = %name,
            rotational,
            memory = %headlong_units::Bytes(engine.memory_bytes),
            policy = engine.sizing.policy.name(),
            control = engine.control.mode.name(),
            order = engine.order.name(),
            "starting device"
        );
        let learned = folder.read(DeviceIdentity::of(&info), &engine, config.time_scale());
        if let Some(told) = &learned {
            tracing::info!(
                device = %name,
                age_s = told.age.as_secs_f64(),
                chains = told.chains.len(),
                "loaded learned state"
            );
        }
        let io = config.io_for(&name);
        devices.push(Device::start(DeviceConfig {
            name,
            roots: info.roots,
            rotational,
            capacity_bytes: info.capacity_bytes,
            engine,
            hot_bytes: config.hot_bytes(engine.memory_bytes),
            io,
            memory_prefault: config.memory_prefault,
            open_files_max,
            time_scale: config.time_scale(),
            flash: FlashShare::new(parts.as_mut().and_then(Iterator::next)),
            learned: learned.map(Arc::new),
        })?);
    }
    Ok(devices)
}

/// Warns about unsuitable kernel settings of devices, in the background.
fn warn_of_kernel(devices: &[(String, bool)]) {
    let names: Vec<String> = devices.iter().map(|(name, _)| name.clone()).collect();
    std::thread::spawn(move || {
        for device in names {
            if let Some(warning) = headlong_survey::kernel_warning(&device) {
                tracing::warn!(device, "{warning}");
            }
        }
    });
}

/// Settings of every device's shard, from the configuration and the device.
///
/// # Errors
/// As [`Config::engines_for`].
pub fn engines(
    config: &Config,
    devices: &[DeviceInfo],
    are_all: bool,
) -> Result<Vec<EngineConfig>, Mistakes> {
    let mut engines = config.engines_for(&names(devices), are_all)?;
    for (engine, device) in engines.iter_mut().zip(devices) {
        if let Some(bytes) = device.request_bytes_max {
            engine.request_bytes_max = bytes;
        }
    }
    Ok(engines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_below_one_root_have_different_shares_of_the_tier() {
        let info = |roots: &[&str], beneath: &[&str]| DeviceInfo {
            name: String::new(),
            has_kernel_name: true,
            rotational: None,
            capacity_bytes: 1 << 40,
            request_bytes_max: None,
            request_segments_max: None,
            st_devs: Vec::new(),
            roots: roots.iter().map(PathBuf::from).collect(),
            beneath: beneath.iter().map(PathBuf::from).collect(),
        };
        let [first, second] = ["/srv/d1", "/srv/d2"].map(|at| info(&[], &[at]));
        let owners = owners(&[first, second, info(&["/srv"], &["/srv/d3"])]);
        assert_ne!(owners[0], owners[1]);
        assert_eq!(
            owners[2],
            lasting_name(&["/srv".into()]),
            "stable across releases"
        );
    }
}
