//! The server as a whole: from a checked configuration to listeners and devices, and to a stop.
//!
//! The one idea: everything that can fail at the start fails before the first request is taken,
//! and everything that was started is stopped in the opposite order. While it runs, signals speak:
//! HUP reloads, USR1 reopens the logs, TERM and INT drain.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admin::serve_admin;
use crate::config::{Admin, Config};
use crate::descriptors::{self, Shares};
use crate::devices;
use crate::http::{Lookups, MediaService, MediaState};
use crate::net::{
    BindError, ConnectionCounters, Limits, ListenerContext, ReloadingCertificates, TrustedProxies,
    bind, serve_listener, shutdown, tls_acceptor,
};
pub use crate::reload::ReadConfig;
use crate::reload::Reloader;
pub use crate::run_error::RunError;
use crate::start;
use crate::state_folder::StateFolder;
use crate::tasks;
use crate::view;

/// Serves until it is told to stop. `config` is from [`Config::load`], which judged it for this
/// machine; `read_config`
/// gives the next one on SIGHUP.
///
/// # Errors
/// Why the server did not start. Once it runs, it ends only by being told to.
pub fn run(config: Config, read_config: ReadConfig) -> Result<(), RunError> {
    let daemon_log = crate::log::init_daemon_log(config.log.level.name())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let flush = daemon_log.clone();
    let result = runtime.block_on(serve(config, read_config, daemon_log));
    // A look-up that hangs in a dead file system must not keep the process alive.
    runtime.shutdown_background();
    flush.flush();
    result
}

async fn serve(
    config: Config,
    read_config: ReadConfig,
    daemon_log: crate::log::DaemonLog,
) -> Result<(), RunError> {
    let tls = match config.tls.files() {
        None => None,
        Some((certificate, key)) => {
            let loaded = ReloadingCertificates::load(certificate.into(), key.into())?;
            Some(Arc::new(loaded))
        }
    };
    let acceptor = tls.clone().map(tls_acceptor).transpose()?;
    let library = start::library(&config)?;
    let engines = devices::engines(&config, &library.devices())?;
    let listeners = bind_all(&config)?;
    let admin_listener = match config.admin {
        Admin::Off => None,
        Admin::Address(address) => Some(bind(address)?),
    };
    let log = Arc::new(start::open_log(&config)?);
    let wanted = Shares {
        connections_max: config.limits.connections_max as usize,
        open_files_max: config.open_files_max as usize,
    };
    let shares = descriptors::share_out(descriptors::raise_limit(), wanted, engines.len());
    let tier = start::tier(&config, engines.len())?;
    let devices = devices::start(
        &config,
        library.devices(),
        engines,
        tier.as_ref(),
        shares.open_files_max,
    )?;
    let lookups = Lookups::start(&library)?;
    let settings = start::http_settings(&config);
    let state = Arc::new(MediaState::new(library, lookups, devices, log, settings));

    let (trigger, signal) = shutdown();
    let counters = Arc::new(ConnectionCounters::default());
    let limits = Limits {
        connections_max: shares.connections_max,
        ..start::limits(&config)
    };
    let context = ListenerContext::new(limits, start::tcp_options(&config), Arc::clone(&counters));
    let addresses: Vec<String> = listeners
        .iter()
        .filter_map(|listener| listener.local_addr().ok())
        .map(|address| {
            format!(
                "{}://{address}",
                if tls.is_some() { "https" } else { "http" }
            )
        })
        .collect();
    let mut serving = tokio::task::JoinSet::new();
    let of_trust = Arc::clone(&state);
    let trusted = TrustedProxies::new(move |address| of_trust.settings().proxies.trust(address));
    for (index, listener) in listeners.into_iter().enumerate() {
        let service = MediaService::new(Arc::clone(&state));
        let (mut context, signal) = (context.clone(), signal.clone());
        // Those for proxies come last.
        context.exempt = Some(trusted.clone());
        context.proxies = (index >= config.listen.len()).then(|| trusted.clone());
        serving.spawn(serve_listener(
            listener,
            acceptor.clone(),
            service,
            context,
            signal,
        ));
    }
    let is_ready = Arc::new(AtomicBool::new(false));
    let drained = Arc::clone(&counters);
    let admin = admin_listener.map(|listener| {
        let is_ready = Arc::clone(&is_ready);
        let view = view::admin_state(
            &state,
            &config,
            counters,
            addresses.clone(),
            signal,
            is_ready,
        );
        let address = listener.local_addr();
        // The operator watches the drain to its end: this listener outlives the others.
        let (trigger, signal) = shutdown();
        let task = tokio::spawn(serve_admin(listener, Arc::new(view), signal));
        if let Ok(address) = address {
            tracing::info!(%address, "the operator's pages are at http://{address}/");
        }
        (trigger, task)
    });
    let rescan = config.time_scale().wall(config.rescan);
    let folder = StateFolder::new(config.state.clone());
    let scanned = watch::Sender::new(0);
    let scans = scanned.subscribe();
    let upkeep = tasks::upkeep(Arc::clone(&state), rescan, folder.clone(), scanned);
    let upkeep = tokio::spawn(upkeep);
    tracing::info!(addresses = addresses.join(" "), "serving");

    let drain_timeout = config.time_scale().wall(config.limits.drain_timeout);
    let reloader = Reloader {
        state: Arc::clone(&state),
        read_config,
        tls,
        daemon_log,
        started: config.clone(),
        last: Mutex::new(config.clone()),
    };
    let ready = tokio::spawn(tasks::say_ready(Arc::clone(&state), scans, is_ready));
    tasks::until_told_to_stop(&reloader).await?;
    ready.abort();

    tracing::info!(
        "stopping: no new connections; running replies may end within limits.drain_timeout"
    );
    start::notify(&[sd_notify::NotifyState::Stopping]);
    trigger.drain();
    // Each listener ends its connections within the drain timeout by itself.
    let ended = async { while serving.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(drain_timeout + DRAIN_SPARE, ended).await;
    let cut = drained.counts().drain_aborts;
    tracing::info!(
        cut,
        "drained; so many connections were cut with replies in progress"
    );
    upkeep.abort();
    tasks::remember(&state, &folder).await;
    let mut stopping = tokio::task::JoinSet::new();
    for device in state.devices.clone() {
        stopping.spawn(async move { device.shutdown().await });
    }
    while stopping.join_next().await.is_some() {}
    if let Some(tier) = tier {
        // It ends within a time of its own.
        let _ = tokio::task::spawn_blocking(move || tier.finish()).await;
    }
    let log = Arc::clone(&state);
    // It ends within a time of its own.
    let _ = tokio::task::spawn_blocking(move || log.log.finish()).await;
    if let Some((trigger, task)) = admin {
        trigger.drain();
        let _ = tokio::time::timeout(DRAIN_SPARE, task).await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// What the bookkeeping around a drain may take beyond the drain itself.
const DRAIN_SPARE: std::time::Duration = std::time::Duration::from_secs(5);

fn bind_all(config: &Config) -> Result<Vec<TcpListener>, BindError> {
    let all = config.listen.iter().chain(&config.proxies.listen);
    all.map(|address| bind(*address)).collect()
}
