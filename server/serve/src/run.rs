//! The server as a whole: from a checked configuration to listeners and devices, and to a stop.
//!
//! The one idea: everything that can fail at the start fails before the first request is taken,
//! and everything that was started is stopped in the opposite order. While it runs, signals speak:
//! HUP reloads, USR1 reopens the logs, TERM and INT drain.

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::admin::serve_admin;
use crate::config::{Admin, Config, Mistakes};
use crate::disk::StartError;
use crate::http::{MediaService, MediaState};
use crate::log::{DaemonLogError, SinkError};
use crate::net::{
    BindError, ConnectionCounters, ListenerContext, ReloadingCertificates, TlsError, bind,
    serve_listener, shutdown, tls_acceptor,
};
use crate::reload::Reloader;
use crate::sizes::Sizes;
use crate::start;
use crate::tasks;
use crate::view;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings do not fit the devices that were found.
    #[error("{0}")]
    Config(#[from] Mistakes),
    /// Folders that cannot be served.
    #[error("{0}")]
    Roots(String),
    /// An address is taken or not this machine's.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A device cannot be started.
    #[error(transparent)]
    Device(#[from] StartError),
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A log file cannot be opened.
    #[error(transparent)]
    Log(#[from] SinkError),
    /// The daemon's own log cannot be set up.
    #[error(transparent)]
    DaemonLog(#[from] DaemonLogError),
    /// The system gives no threads or no signals.
    #[error("cannot start: {0}; raise the limits of the process")]
    System(#[from] std::io::Error),
}

/// Reads the configuration again, as the start did; errors name file, line, key and remedy.
pub type ReadConfig = Box<dyn Fn() -> Result<Config, Mistakes> + Send + Sync>;

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
    let result = runtime.block_on(serve(config, read_config, daemon_log));
    // A look-up that hangs in a dead file system must not keep the process alive.
    runtime.shutdown_background();
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
    let listeners = bind_all(&config)?;
    let admin_listener = match config.admin {
        Admin::Off => None,
        Admin::Address(address) => Some(bind(address)?),
    };
    let log = Arc::new(start::open_log(&config)?);
    let library = start::scan(&config)?;
    let devices = start::devices(&config, &library)?;
    let settings = start::http_settings(&config);
    let state = Arc::new(MediaState::new(library, devices, log, settings));

    let (trigger, signal) = shutdown();
    let counters = Arc::new(ConnectionCounters::default());
    let limits = start::limits(&config);
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
    for listener in listeners {
        let service = MediaService::new(Arc::clone(&state));
        let (context, signal) = (context.clone(), signal.clone());
        serving.spawn(serve_listener(
            listener,
            acceptor.clone(),
            service,
            context,
            signal,
        ));
    }
    let admin = admin_listener.map(|listener| {
        let view = view::admin_state(&state, &config, counters, addresses.clone(), signal);
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
    let sizes = Sizes::new(config.state.clone());
    let upkeep = tokio::spawn(tasks::upkeep(Arc::clone(&state), rescan, sizes.clone()));
    tracing::info!(addresses = addresses.join(" "), "serving");
    start::notify(&[sd_notify::NotifyState::Ready]);

    let drain_timeout = config.time_scale().wall(config.limits.drain_timeout);
    let reloader = Reloader {
        state: Arc::clone(&state),
        read_config,
        tls,
        daemon_log,
    };
    tasks::until_told_to_stop(&reloader).await?;

    tracing::info!(
        "stopping: no new connections; running replies may end within limits.drain_timeout"
    );
    start::notify(&[sd_notify::NotifyState::Stopping]);
    trigger.drain();
    // Each listener ends its connections within the drain timeout by itself.
    let ended = async { while serving.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(drain_timeout + DRAIN_SPARE, ended).await;
    upkeep.abort();
    tasks::remember_sizes(&state, &sizes).await;
    for device in &state.devices {
        device.shutdown().await;
    }
    state.log.finish();
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
    config.listen.iter().map(|address| bind(*address)).collect()
}
