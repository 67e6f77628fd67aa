//! Builds the parts of the server from the configuration, one function each.

use std::io;
use std::sync::Arc;

use headlong_http::{RangeLimits, SessionRule};
use headlong_library::{Library, LibraryOptions};
use headlong_net::{ConnectionLimits, ConnectionThreads};
use headlong_storage::flash::{FlashError, FlashTier};
use headlong_telemetry::degraded_parts::{DegradedPartKind, DegradedParts};
use headlong_telemetry::{AccessLog, LogConfig, SessionLimits, SinkError};
use headlong_units::Duration;

use crate::http::{AccessRules, HttpSettings, SharedRates, Sites};
use crate::run_error::RunError;
use headlong_config::Config;

/// Opens the roots; they are scanned while the server runs.
pub(crate) fn library(config: &Config) -> Result<Library, RunError> {
    let folders = config.folders();
    let options = LibraryOptions {
        revalidate: config.time_scale().wall(config.revalidate),
        unserved_roots: folders.len() - config.served().len(),
        link_targets: config.link_targets.len(),
        server_names: config.server_names.clone(),
        ..LibraryOptions::default()
    };
    Library::open_mounted(&folders, options).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        RunError::Roots(lines.join("\n"))
    })
}

/// Opens the usable SSDs of the flash tier, if any, for `disks` disks.
///
/// # Errors
/// If another process holds one of them.
pub(crate) fn tier(
    config: &Config,
    disks: usize,
    degraded: &DegradedParts,
) -> Result<Option<Arc<FlashTier>>, FlashError> {
    let (tier, ill) = FlashTier::open(&config.flash, config.engine.piece_bytes, disks)?;
    for path in &config.flash {
        match ill.iter().find(|error| error.path == *path) {
            Some(error) => degraded.lose(DegradedPartKind::Flash, path.display(), &error.trouble),
            None => degraded.recover(DegradedPartKind::Flash, path.display()),
        }
    }
    Ok(tier)
}

/// Settings of replies.
pub(crate) fn http_settings(config: &Config) -> HttpSettings {
    let cache_control = Some(config.cache_control.clone()).filter(|value| !value.is_empty());
    let logged = config.log.headers.iter();
    HttpSettings {
        cors: config.cors_policy(),
        session: SessionRule {
            header: config.session.header.clone(),
            cookie: config.session.cookie.clone(),
            query: config.session.query.clone(),
        },
        proxies: config.proxies.clone(),
        ranges: RangeLimits::default(),
        etag: config.etag,
        cache_control,
        sites: Sites::new(&config.site),
        access: AccessRules::new(config),
        logged_headers: logged
            .map(|name| name.to_ascii_lowercase().into())
            .collect(),
        reply_fields: config.reply_fields.clone(),
        gzip: config.gzip.clone(),
        // The description of a fleet is read once, by the caller.
        steering: None,
        package_segment: config.package_segment,
        package_memory: config.package_memory,
        direct: config.direct,
        acme_folder: config.acme_folder.clone(),
        shared_rates: SharedRates {
            per_address: config.pacing.bytes_per_second_per_address_max,
            per_session: config.pacing.bytes_per_second_per_session_max,
        },
        requests_per_address_max: config.limits.requests_per_address_max as usize,
        lookup_timeout: config.time_scale().wall(config.engine.read_timeout),
        slow_after: Some(config.log.slow_after).filter(|time| *time > Duration::ZERO),
        time_scale: config.time_scale(),
    }
}

/// Limits of connections.
pub(crate) fn limits(config: &Config) -> ConnectionLimits {
    let limits = &config.limits;
    let wall = |model| config.time_scale().wall(model);
    ConnectionLimits {
        connections_max: limits.connections_max as usize,
        connections_per_address_max: limits.connections_per_address_max as usize,
        header_bytes_max: usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX),
        header_timeout: wall(limits.header_timeout),
        idle_timeout: wall(limits.idle_timeout),
        send_timeout: wall(limits.send_timeout),
        send_bytes_min: limits.send_bytes_min,
        requests_per_connection_max: u64::from(limits.requests_per_connection_max),
        request_bytes_max: config.request_bytes_max(),
        drain_timeout: wall(limits.drain_timeout),
        ..ConnectionLimits::default()
    }
}

/// Starts one connection thread per available processor.
pub(crate) fn connection_threads() -> io::Result<ConnectionThreads> {
    ConnectionThreads::start(std::thread::available_parallelism().map_or(1, usize::from))
}

/// Opens the access and session logs.
pub(crate) fn open_log(
    config: &Config,
    degraded: &Arc<DegradedParts>,
) -> Result<AccessLog, SinkError> {
    AccessLog::open(&LogConfig {
        degraded: Arc::clone(degraded),
        access: config.log.access.clone(),
        format: config.log.format,
        sessions: config.log.sessions.clone(),
        slow: config.log.slow.clone(),
        session_limits: SessionLimits {
            idle: config.log.session_gap,
            ..SessionLimits::default()
        },
        time_scale: config.time_scale(),
        ..LogConfig::default()
    })
}

/// The state of a server for this folder, scanned once; for tests.
#[cfg(test)]
pub(crate) fn media_state(root: &std::path::Path) -> crate::http::MediaState {
    use crate::devices;
    let flags = headlong_config::Flags {
        roots: vec![root.to_path_buf()],
        memory: Some("64MiB".to_string()),
        ..headlong_config::Flags::default()
    };
    let config = Config::load(None, &flags).expect("valid");
    let library = library(&config).expect("a library");
    library.rescan();
    let engines = devices::engines(&config, &library.devices(), true).expect("engines");
    let devices = devices::start(&config, library.devices(), engines, None, 64).expect("devices");
    let lookups = crate::http::LookupThreads::start(&library).expect("threads");
    let log = Arc::new(open_log(&config, &Arc::default()).expect("a log"));
    let settings = http_settings(&config);
    crate::http::MediaState::new(library, lookups, devices, log, settings, Arc::default())
}
