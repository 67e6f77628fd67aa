//! What the start makes of the configuration: one function for each part of the server.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use headlong_engine::EngineConfig;
use headlong_http::{CorsPolicy, RangeLimits, SessionRule};
use headlong_library::{DeviceInfo, Library, LibraryOptions};

use crate::config::{AccessFormat, Config, Io, LogSink};
use crate::disk::{Device, DeviceConfig, IoMode};
use crate::flash::{FlashError, Tier};
use crate::http::{AccessRules, HttpSettings};
use crate::log::{AccessLog, LogConfig, LogFormat, LogTarget, SessionLimits, SinkError};
use crate::net::{Limits, TcpOptions};
use crate::run_error::RunError;
use crate::state_folder::{StateFolder, Who};

/// Opens the roots; they are scanned while the server runs.
pub(crate) fn library(config: &Config) -> Result<Library, RunError> {
    let options = LibraryOptions {
        revalidate: config.time_scale().wall(config.revalidate),
        ..LibraryOptions::default()
    };
    Library::open(&config.roots, options).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        RunError::Roots(lines.join("\n"))
    })
}

/// Takes the SSDs of the flash tier, if there is one, for so many disks.
pub(crate) fn tier(config: &Config, disks: usize) -> Result<Option<Arc<Tier>>, FlashError> {
    if config.flash.is_empty() {
        return Ok(None);
    }
    Tier::open(&config.flash, config.engine.piece_bytes, disks).map(Some)
}

/// A disk's name that lasts: a kernel name may be another's after the next start of the machine.
fn lasting_name(roots: &[PathBuf]) -> u64 {
    let mut roots: Vec<_> = roots
        .iter()
        .map(|root| root.as_os_str().as_bytes())
        .collect();
    roots.sort_unstable();
    xxhash_rust::xxh3::xxh3_64(&roots.join(&0))
}

/// Starts the thread of every device that the library lies on, with these settings.
pub(crate) fn devices(
    config: &Config,
    library: &Library,
    engines: Vec<EngineConfig>,
    tier: Option<&Arc<Tier>>,
    open_files_max: usize,
) -> Result<Vec<Device>, RunError> {
    let found = library.devices();
    let names = names(&found);
    for warning in config.warnings(&names) {
        tracing::warn!("{warning}");
    }
    warn_of_kernel(&names);
    let folder = StateFolder::new(config.state.clone());
    let mut devices = Vec::new();
    let owners: Vec<u64> = found.iter().map(|info| lasting_name(&info.roots)).collect();
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
            "starting a device"
        );
        let who = Who {
            name: &name,
            roots: &info.roots,
            capacity_bytes: info.capacity_bytes,
        };
        let learned = folder.read(who, &engine, config.time_scale());
        if let Some(told) = &learned {
            tracing::info!(
                device = %name,
                age_s = told.age.as_secs_f64(),
                chains = told.chains.len(),
                "what was learned before is taken over"
            );
        }
        let io = io_mode(config.io_for(&name));
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
            flash: parts.as_mut().and_then(Iterator::next),
            learned: learned.map(Arc::new),
        })?);
    }
    Ok(devices)
}

/// Says which devices the kernel has set badly; the start does not wait for it.
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

/// Settings of every device's shard: as configured, and as the device is.
pub(crate) fn engines(
    config: &Config,
    devices: &[DeviceInfo],
) -> Result<Vec<EngineConfig>, headlong_settings::Mistakes> {
    let mut engines = config.engines_for(&names(devices))?;
    for (engine, device) in engines.iter_mut().zip(devices) {
        if let Some(bytes) = device.request_bytes_max {
            engine.request_bytes_max = bytes;
        }
    }
    Ok(engines)
}

/// The devices as the configuration asks for them: by name, and whether they rotate.
pub(crate) fn names(devices: &[DeviceInfo]) -> Vec<(String, bool)> {
    let name = |device: &DeviceInfo| (device.name.clone(), device.rotates());
    devices.iter().map(name).collect()
}

/// What replies are made by.
pub(crate) fn http_settings(config: &Config) -> HttpSettings {
    let cors = &config.cors;
    let max_age_seconds = cors.max_age.0 / 1_000_000_000;
    // The configuration was checked with the same function, so that only an empty list is left.
    let none = || CorsPolicy::new(&[], &[], 0);
    let policy = CorsPolicy::new(&cors.origins, &cors.headers, max_age_seconds).or_else(|_| none());
    let cache_control = Some(config.cache_control.clone()).filter(|value| !value.is_empty());
    HttpSettings {
        cors: policy.unwrap_or_else(|_| unreachable!("an empty policy has nothing wrong in it")),
        session: SessionRule {
            header: config.session.header.clone(),
            cookie: config.session.cookie.clone(),
            query: config.session.query.clone(),
        },
        proxies: config.proxies.clone(),
        ranges: RangeLimits {
            ranges_max: config.limits.ranges_max as usize,
        },
        cache_control,
        access: AccessRules::new(&config.path),
        server_timing: config.server_timing,
        direct: config.direct,
        requests_per_address_max: config.limits.requests_per_address_max as usize,
        lookup_timeout: config.time_scale().wall(config.engine.read_timeout),
        time_scale: config.time_scale(),
    }
}

/// Bounds on connections.
pub(crate) fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    let wall = |model| config.time_scale().wall(model);
    Limits {
        connections_max: limits.connections_max as usize,
        connections_per_address_max: limits.connections_per_address_max as usize,
        header_bytes_max: usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX),
        header_timeout: wall(limits.header_timeout),
        idle_timeout: wall(limits.idle_timeout),
        send_timeout: wall(limits.send_timeout),
        send_bytes_min: limits.send_bytes_min,
        requests_per_connection_max: u64::from(limits.requests_per_connection_max),
        headers_max: limits.headers_max as usize,
        streams_max: limits.requests_at_once_max,
        keep_alive_interval: wall(limits.keep_alive_interval),
        drain_timeout: wall(limits.drain_timeout),
    }
}

/// What is set on each socket.
pub(crate) fn tcp_options(config: &Config) -> TcpOptions {
    TcpOptions {
        congestion_control: config.tcp.congestion_control.clone(),
        unsent_bytes_max: u32::try_from(config.tcp.unsent_max).unwrap_or(u32::MAX),
    }
}

/// Opens the access and session logs.
pub(crate) fn open_log(config: &Config) -> Result<AccessLog, SinkError> {
    let target = |sink: &LogSink| match sink {
        LogSink::Off => LogTarget::Off,
        LogSink::Stdout => LogTarget::Stdout,
        LogSink::File(path) => LogTarget::File(path.clone()),
    };
    AccessLog::open(&LogConfig {
        access: target(&config.log.access),
        format: match config.log.format {
            AccessFormat::Json => LogFormat::Json,
            AccessFormat::Combined => LogFormat::Combined,
        },
        sessions: target(&config.log.sessions),
        session_limits: SessionLimits {
            idle: config.log.session_gap,
            ..SessionLimits::default()
        },
        time_scale: config.time_scale(),
        ..LogConfig::default()
    })
}

/// Tells the service manager; without one, nothing happens.
pub(crate) fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "no service manager to tell");
    }
}

fn io_mode(io: Io) -> IoMode {
    match io {
        Io::Auto => IoMode::Auto,
        Io::IoUring => IoMode::IoUring,
        Io::Pread => IoMode::Pread,
    }
}
