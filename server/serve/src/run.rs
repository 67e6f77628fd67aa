//! The server's life cycle: from a checked configuration to listeners and devices, and to the stop.
//!
//! Everything that can fail at start-up fails before the first request is accepted, and components
//! stop in the reverse order of their start. Signals at run time: HUP reloads, USR1 reopens the
//! logs, USR2 upgrades to the installed program, TERM and INT drain and stop.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use headlong_edge::{EdgeServer, Pulls};
use headlong_kernel::descriptors::{self, DescriptorLimits};
use headlong_net::{
    ConnectionCounters, ConnectionLimits, Encryption, ListenAddress, ListenerContext,
    ReloadingCertificates, TrustedProxies, serve_listener, shutdown,
};
use headlong_storage::Device;
use headlong_storage::memory_transfer;
use headlong_telemetry::degraded_parts::{DegradedPartKind, DegradedParts};
use tokio::sync::watch;

use crate::admin::serve_admin;
use crate::config::{Admin, Config};
use crate::core_dumps;
use crate::devices;
use crate::flash_attachment::{self, TierHolder};
use crate::handover::Handover;
use crate::http::{LookupThreads, MediaService, MediaState};
use crate::listeners::Listeners;
use crate::media_view;
use crate::pending_scans::PendingScans;
pub use crate::reload::ReadConfig;
use crate::reload::Reloader;
pub use crate::run_error::RunError;
use crate::service_manager::{self, NotifyState};
use crate::signals::{ServerExit, Signals};
use crate::start;
use crate::state_folder::StateFolder;
use crate::tasks::{self, RootScans};
use crate::upgrade::{InheritedSockets, Predecessor, Program};

/// Serves until it is stopped. `config` comes from [`Config::load`], which checked it for this
/// machine; `read_config` returns the next one on SIGHUP.
///
/// # Errors
/// If the server cannot start. Once it runs, it ends only when it is stopped.
pub fn run(config: Config, read_config: ReadConfig) -> Result<(), RunError> {
    // Must come first, before this process opens a descriptor.
    let of_manager = InheritedSockets::of_manager()?;
    let program = Program::of_this_process()?;
    let daemon_log = headlong_telemetry::init_daemon_log(config.log.level.name())?;
    core_dumps::disable();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let flush = daemon_log.clone();
    let result = runtime.block_on(serve(
        config,
        read_config,
        daemon_log,
        (program, of_manager),
    ));
    // A lookup that hangs in a dead file system must not keep the process alive.
    runtime.shutdown_background();
    flush.flush();
    result
}

async fn serve(
    config: Config,
    read_config: ReadConfig,
    daemon_log: headlong_telemetry::DaemonLog,
    (program, of_manager): (Program, InheritedSockets),
) -> Result<(), RunError> {
    let mut signals = Signals::listen()?;
    let (predecessor, mut inherited) = match Predecessor::meet().await? {
        Some((predecessor, inherited)) => (Some(predecessor), inherited),
        None => (None, of_manager),
    };
    let tls = match config.tls.files() {
        None => None,
        Some((certificate, key)) => {
            let loaded = ReloadingCertificates::load(certificate.into(), key.into())?;
            Some(Arc::new(loaded))
        }
    };
    let encryption = tls.clone().map(Encryption::new);
    let encryption = encryption.transpose()?;
    let degraded = Arc::new(DegradedParts::default());
    let library = start::library(&config)?;
    let edge = EdgeServer {
        library: &library,
        scale: config.time_scale(),
        is_heir: predecessor.is_some(),
        degraded: &degraded,
    };
    let pulls = Pulls::open(&config.pull, &config.folders(), &edge);
    let pulls = pulls.map_err(RunError::Pull)?;
    let engines = devices::engines(&config, &library.devices(), !library.had_missing_root())?;
    let mut doors = Listeners::new(config.unix_mode);
    let listeners = doors.open_all(&config, &mut inherited)?;
    let admin_listener = match &config.admin {
        Admin::Off => None,
        Admin::Address(address) => Some(doors.open(address, &mut inherited)?),
    };
    match &predecessor {
        // Addresses no longer configured end with the old process.
        Some(_) => doors.close(inherited),
        None => inherited.all_taken()?,
    }
    let log = Arc::new(start::open_log(&config, &degraded)?);
    let wanted = DescriptorLimits {
        connections_max: config.limits.connections_max as usize,
        open_files_max: config.open_files_max as usize,
    };
    let shares = descriptors::share_out(descriptors::raise_limit(), wanted, engines.len());
    if let Some(predecessor) = &predecessor {
        predecessor.checked().await?;
    }
    let tier = match &predecessor {
        // The old process still holds it.
        Some(_) => None,
        None => start::tier(&config, engines.len(), &degraded)?,
    };
    let devices = devices::start(
        &config,
        library.devices(),
        engines,
        tier.as_ref(),
        shares.open_files_max,
    )?;
    pulls.attach(&devices);
    let lookups = LookupThreads::start(&library)?;
    // Everything that may fail does so before the handover.
    let threads = start::connection_threads()?;
    let settings = start::http_settings(&config);
    let state = Arc::new(MediaState::new(
        library,
        lookups,
        devices,
        log,
        settings,
        Arc::new(pulls),
    ));
    let tier = TierHolder::new(tier);
    let rescan = config.time_scale().wall(config.rescan);
    if let (Some(folder), Some(trouble)) = (&config.state, config.state_trouble()) {
        degraded.lose(DegradedPartKind::State, folder.display(), trouble);
    }
    let folder = StateFolder::new(config.state.clone(), Arc::clone(&degraded));
    if let Some(facts) = folder.facts() {
        facts.read(&state.library);
    }
    let scanned = watch::Sender::new(0);
    let scans = scanned.subscribe();
    let unscanned = Arc::new(PendingScans::new(state.library.roots()));
    let missing = Arc::clone(&unscanned);
    let roots = RootScans {
        rescan,
        scanned,
        unscanned: missing,
        degraded: Arc::clone(&degraded),
    };
    let upkeep = tokio::spawn(tasks::upkeep(Arc::clone(&state), folder.clone(), roots));
    if let Some(predecessor) = &predecessor {
        tasks::until_scanned_or_soon(scans.clone(), &unscanned).await;
        let pieces = predecessor.take_over().await?;
        doors.take_over();
        tasks::recall(&state, &folder, config.time_scale()).await;
        if let Some(pieces) = pieces {
            memory_transfer::take(&state.devices, pieces);
        }
    }
    let late_flash = tokio::spawn(flash_attachment::keep_attached(
        config.clone(),
        Arc::clone(&state),
        tier.clone(),
        Arc::clone(&degraded),
        predecessor.is_none(),
    ));

    let (trigger, signal) = shutdown();
    let counters = Arc::new(ConnectionCounters::default());
    let limits = ConnectionLimits {
        connections_max: shares.connections_max,
        ..start::limits(&config)
    };
    let mut context =
        ListenerContext::new(limits, start::tcp_options(&config), Arc::clone(&counters));
    let alive = tokio::spawn(tasks::keep_alive(threads.pulse()));
    context.threads = Some(Arc::new(threads));
    let addresses = listeners.iter().filter_map(|(on, listener)| {
        let scheme = if on.speaks_tls { "https" } else { "http" };
        let address = listener.address().ok()?;
        // Addresses for browsers.
        let is_for_browsers = matches!(address, ListenAddress::Ip(_)) && !on.is_for_proxies;
        Some((is_for_browsers, format!("{scheme}://{address}")))
    });
    let (are_for_browsers, addresses): (Vec<bool>, Vec<String>) = addresses.unzip();
    let media_addresses = are_for_browsers.iter().zip(&addresses);
    let media_addresses = media_addresses.filter(|(is_for_browsers, _)| **is_for_browsers);
    let media_addresses = media_addresses
        .map(|(_, address)| address.clone())
        .collect();
    let mut serving = tokio::task::JoinSet::new();
    let of_trust = Arc::clone(&state);
    let trusted = TrustedProxies::new(move |address| of_trust.settings().proxies.trust(address));
    let service = MediaService::new(Arc::clone(&state));
    for (on, listener) in listeners {
        let service = service.clone();
        let (mut context, signal) = (context.clone(), signal.clone());
        context.exempt = Some(trusted.clone());
        context.proxies = on.is_for_proxies.then(|| trusted.clone());
        serving.spawn(serve_listener(
            listener,
            encryption.clone().filter(|_| on.speaks_tls),
            service,
            context,
            signal,
        ));
    }
    let is_ready = Arc::new(AtomicBool::new(false));
    let drained = Arc::clone(&counters);
    let admin = admin_listener.map(|listener| {
        let is_ready = Arc::clone(&is_ready);
        let unscanned = Arc::clone(&unscanned);
        let view = media_view::admin_state(
            &state,
            &config,
            counters,
            media_addresses,
            signal,
            (is_ready, unscanned, degraded),
        );
        let address = listener.address();
        // Outlives the other listeners, so that the operator can watch the drain to its end.
        let (trigger, signal) = shutdown();
        let task = tokio::spawn(serve_admin(listener, Arc::new(view), signal));
        if let Ok(address) = address {
            tracing::info!(%address, "operator's pages: http://{address}/");
        }
        (trigger, task)
    });
    let addresses = addresses.join(" ");
    tracing::info!(addresses, "serving");

    let drain_timeout = config.time_scale().wall(config.limits.drain_timeout);
    let reloader = Reloader {
        state: Arc::clone(&state),
        read_config,
        tls,
        daemon_log,
        started: config.clone(),
        last: Mutex::new(config.clone()),
    };
    let ready = tokio::spawn(tasks::say_ready(
        Arc::clone(&state),
        scans,
        unscanned,
        (is_ready, addresses),
    ));
    let heir = Handover {
        program,
        listeners: doors.lend(),
        state: Arc::clone(&state),
        folder: folder.clone(),
        memory_prefault: config.memory_prefault,
    };
    let end = signals.serve(&reloader, &heir, predecessor.is_some()).await;
    // Closes the duplicates, so that the accepting tasks hold the only listening sockets.
    drop(heir);
    ready.abort();
    upkeep.abort();
    late_flash.abort();

    let (successor, pieces) = match end {
        ServerExit::Stop => (None, None),
        ServerExit::Replaced(successor, pieces) => (Some(successor), Some(pieces)),
    };
    let is_replaced = successor.is_some();
    if let (Some(successor), Some(pieces)) = (&successor, pieces) {
        doors.leave();
        // The service manager now listens to the new process.
        alive.abort();
        trigger.retire();
        if let Some((admin, _)) = &admin {
            admin.retire();
        }
        state.devices.iter().for_each(Device::replaced);
        let passing = memory_transfer::send_pieces(&state.devices, pieces).await;
        // Awaited together with the last replies.
        serving.spawn(async { drop(passing.await) });
        // The remaining pieces are useful only to running replies.
        for device in state.devices.clone() {
            tokio::spawn(async move { device.retire(true).await });
        }
        state.devices.iter().for_each(Device::leave_flash);
        tier.finish().await;
        let within = config.time_scale().wall(config.limits.upgrade_timeout);
        let neighbours = (predecessor.as_ref(), successor);
        signals
            .retire(&state, within, &mut serving, neighbours)
            .await;
    } else {
        let status = NotifyState::Status("stopping: waiting for replies in progress");
        service_manager::notify(&[NotifyState::Stopping, status]);
    }
    tracing::info!(
        "stopping: no new connections; replies in progress have limits.drain_timeout to complete"
    );
    trigger.drain();
    if let Some(predecessor) = &predecessor {
        predecessor.stop();
    }
    // Each listener ends its connections within the drain timeout, and so does the old process.
    let ended = async {
        while serving.join_next().await.is_some() {}
        if let Some(predecessor) = &predecessor {
            predecessor.ended().await;
        }
    };
    let _ = tokio::time::timeout(drain_timeout + DRAIN_SPARE, ended).await;
    let cut = drained.counts().drain_aborts;
    tracing::info!(
        cut,
        "drained; cut: connections closed with replies in progress"
    );
    if !is_replaced {
        tasks::remember(&state, &folder).await;
    }
    let mut stopping = tokio::task::JoinSet::new();
    for device in state.devices.clone() {
        stopping.spawn(async move { device.shutdown().await });
    }
    while stopping.join_next().await.is_some() {}
    tier.finish().await;
    let log = Arc::clone(&state);
    tasks::finish(move || log.log.finish()).await;
    if let Some((trigger, task)) = admin {
        trigger.drain();
        let _ = tokio::time::timeout(DRAIN_SPARE, task).await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Allowance for bookkeeping beyond the drain itself.
const DRAIN_SPARE: std::time::Duration = std::time::Duration::from_secs(5);
