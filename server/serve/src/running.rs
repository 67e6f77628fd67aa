//! A server that accepts requests, until it hands over to a new process or stops.

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headlong_net::{
    ConnectionCounters, ConnectionLimits, ListenAddress, Listener, ListenerContext,
    ShutdownTrigger, TrustedProxies, serve_listener, shutdown,
};
use headlong_storage::Device;
use headlong_storage::memory_transfer;
use headlong_telemetry::DaemonLog;
use headlong_telemetry::degraded_parts::DegradedPartKind;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::admin::{sample_share, serve_admin, serve_agent};
use crate::certificate_expiry;
use crate::flash_attachment::{self, TierHolder};
use crate::handover::Handover;
use crate::http::{MediaService, MediaState};
use crate::listeners::Listeners;
use crate::media_view::{self, AdminSources};
use crate::pending_scans::PendingScans;
use crate::prepared::Prepared;
use crate::reload::{ReadConfig, Reloader};
use crate::root_attachment::RootAttachments;
use crate::run_error::RunError;
use crate::service_manager::{self, NotifyState};
use crate::signals::{ServerExit, Signals};
use crate::start;
use crate::state_folder::StateFolder;
use crate::tasks::{self, RootScans};
use crate::upgrade::{Predecessor, Program, Successor};
use headlong_config::{Config, ListenSetting};

/// Allowance for bookkeeping beyond the drain itself.
const DRAIN_SPARE: Duration = Duration::from_secs(5);

/// A server that accepts requests.
pub(crate) struct Running {
    config: Config,
    state: Arc<MediaState>,
    /// Where learned state is saved.
    folder: StateFolder,
    tier: TierHolder,
    /// The process that this one has taken over from, while it drains.
    predecessor: Option<Predecessor>,
    doors: Option<Listeners>,
    reloader: Reloader,
    /// Ends the listeners in `serving`.
    trigger: ShutdownTrigger,
    /// One task for each listener; it ends with the last connection of its listener.
    serving: JoinSet<()>,
    connections: Arc<ConnectionCounters>,
    /// The operator's listener and the agent. They outlive the other listeners, so that the operator
    /// and the balancer can watch the drain to its end.
    operators: (ShutdownTrigger, [Option<JoinHandle<()>>; 2]),
    /// Watchdog messages to the service manager.
    alive: JoinHandle<()>,
    /// Tasks that end when the server no longer serves alone.
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Takes over from the old process, if any, and starts to accept requests.
    ///
    /// # Errors
    /// If the old process does not hand over.
    pub(crate) async fn start(
        prepared: Prepared,
        config: Config,
        read_config: ReadConfig,
        daemon_log: DaemonLog,
    ) -> Result<Self, RunError> {
        let Prepared {
            mut doors,
            state,
            tier,
            degraded,
            predecessor,
            ..
        } = prepared;
        if let (Some(folder), Some(trouble)) = (&config.state, config.state_trouble()) {
            degraded.lose(DegradedPartKind::State, folder.display(), trouble);
        }
        let folder = StateFolder::new(config.state.clone(), Arc::clone(&degraded));
        for file in folder.records().iter() {
            file.read(&state.library);
        }
        if let Some(folder) = &config.state {
            state.keep_fragments_in(folder);
        }
        let unscanned = Arc::new(PendingScans::new(state.library.roots()));
        let scanned = watch::Sender::new(0);
        let scans = scanned.subscribe();
        let attachments = Arc::new(RootAttachments::new(&state.library));
        let roots = RootScans {
            rescan: config.time_scale().wall(config.rescan),
            scanned,
            unscanned: Arc::clone(&unscanned),
            degraded: Arc::clone(&degraded),
            attachments: Arc::clone(&attachments),
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
        let alive = tokio::spawn(tasks::keep_alive(prepared.threads.pulse()));

        let connections = Arc::new(ConnectionCounters::default());
        let limits = ConnectionLimits {
            connections_max: prepared.connections_max,
            ..start::limits(&config)
        };
        let tcp = config.tcp_options();
        let mut context = ListenerContext::new(limits, tcp, Arc::clone(&connections));
        context.threads = Some(Arc::new(prepared.threads));
        let (trusting, service) = (Arc::clone(&state), MediaService::new(Arc::clone(&state)));
        let trusted =
            TrustedProxies::new(move |address| trusting.settings().proxies.trust(address));
        let certificates = prepared.certificates.clone();
        let names = certificates.iter().flat_map(|all| all.validities());
        let name = names.take(1).find_map(|first| first.name);
        let addresses = Addresses::of(&prepared.media_listeners, name.as_deref());
        let (trigger, signal) = shutdown();
        let mut serving = JoinSet::new();
        for (on, listener) in prepared.media_listeners {
            let mut context = context.clone();
            context.exempt = Some(trusted.clone());
            context.proxies = on.is_for_proxies.then(|| trusted.clone());
            serving.spawn(serve_listener(
                listener,
                prepared.encryption.clone().filter(|_| on.speaks_tls),
                service.clone().at(&on),
                context,
                signal.clone(),
            ));
        }
        let is_ready = Arc::new(AtomicBool::new(false));
        let view = media_view::admin_state(
            &state,
            &config,
            AdminSources {
                connections: Arc::clone(&connections),
                media_addresses: match &config.media_url {
                    Some(url) => vec![url.clone()],
                    None => addresses.for_browsers,
                },
                draining: signal,
                is_ready: Arc::clone(&is_ready),
                unscanned: Arc::clone(&unscanned),
                degraded,
                certificates,
                roots: attachments,
            },
        );
        let view = Arc::new(view);
        let (admin_trigger, admin_signal) = shutdown();
        let is_share_asked = config.agent.is_some() || state.settings().steering.is_some();
        let sampler = is_share_asked.then(|| tokio::spawn(sample_share(Arc::clone(&view))));
        let agent = prepared.agent_listener.map(|listener| {
            let (view, signal) = (Arc::clone(&view), admin_signal.clone());
            tokio::spawn(serve_agent(listener, view, signal))
        });
        let admin = prepared.admin_listener.map(|listener| {
            let address = listener.address();
            let task = tokio::spawn(serve_admin(listener, view, admin_signal));
            if let Ok(address) = address {
                tracing::info!(%address, "operator's pages: http://{address}/");
            }
            task
        });
        tracing::info!(addresses = addresses.all, "serving");
        let ready = tokio::spawn(tasks::say_ready(
            Arc::clone(&state),
            scans,
            unscanned,
            is_ready,
            addresses.all,
        ));
        let mut tasks = vec![ready, upkeep, late_flash];
        tasks.extend(sampler);
        if let Some(certificates) = prepared.certificates.clone() {
            tasks.push(tokio::spawn(certificate_expiry::watch(certificates)));
        }
        let reloader = Reloader {
            state: Arc::clone(&state),
            read_config,
            tls: prepared.certificates,
            daemon_log,
            started: config.clone(),
            last: Mutex::new(config.clone()),
        };
        Ok(Self {
            config,
            state,
            folder,
            tier,
            predecessor,
            doors: Some(doors),
            reloader,
            trigger,
            serving,
            connections,
            operators: (admin_trigger, [admin, agent]),
            alive,
            tasks,
        })
    }

    /// Serves until the server is stopped or another process has taken over.
    pub(crate) async fn until_end(
        &mut self,
        signals: &mut Signals,
        program: Program,
    ) -> ServerExit {
        let listeners = self.doors.as_mut().map(Listeners::lend);
        let heir = Handover {
            program,
            listeners: listeners.unwrap_or_default(),
            state: Arc::clone(&self.state),
            folder: self.folder.clone(),
            memory_prefault: self.config.memory_prefault,
        };
        let has_taken_over = self.predecessor.is_some();
        let end = signals.serve(&self.reloader, &heir, has_taken_over).await;
        // Closes the duplicates, so that the accepting tasks hold the only listening sockets.
        drop(heir);
        self.tasks.iter().for_each(JoinHandle::abort);
        end
    }

    /// Another process serves now: sends it the cached pieces, and completes the replies in
    /// progress until the last connection ends, the time for an upgrade has passed, or a signal
    /// stops this process.
    pub(crate) async fn hand_over(
        &mut self,
        signals: &mut Signals,
        successor: &Successor,
        pieces: UnixStream,
    ) {
        if let Some(doors) = self.doors.take() {
            doors.leave();
        }
        // The service manager now listens to the new process.
        self.alive.abort();
        self.trigger.retire();
        self.operators.0.retire();
        self.state.devices.iter().for_each(Device::replaced);
        let passing = memory_transfer::send_pieces(&self.state.devices, pieces).await;
        // Awaited together with the last replies.
        self.serving.spawn(async { drop(passing.await) });
        // The remaining pieces are useful only to running replies.
        for device in self.state.devices.clone() {
            tokio::spawn(async move { device.retire(true).await });
        }
        self.state.devices.iter().for_each(Device::leave_flash);
        self.tier.finish().await;
        let within = self.wall(self.config.limits.upgrade_timeout);
        let neighbours = (self.predecessor.as_ref(), successor);
        signals
            .retire(&self.state, within, &mut self.serving, neighbours)
            .await;
    }

    /// Announces the stop to the service manager.
    pub(crate) fn begin_stop(&self) {
        let status = NotifyState::Status("stopping: waiting for replies in progress");
        service_manager::notify(&[NotifyState::Stopping, status]);
    }

    /// Accepts no more connections and waits for the replies in progress.
    pub(crate) async fn drain(&mut self) {
        tracing::info!(
            "stopping: no new connections; replies in progress have limits.drain_timeout to complete"
        );
        self.trigger.drain();
        if let Some(predecessor) = &self.predecessor {
            predecessor.stop();
        }
        let drain_timeout = self.wall(self.config.limits.drain_timeout);
        // Each listener ends its connections within the drain timeout, and so does the old process.
        let ended = async {
            while self.serving.join_next().await.is_some() {}
            if let Some(predecessor) = &self.predecessor {
                predecessor.ended().await;
            }
        };
        let _ = timeout(drain_timeout + DRAIN_SPARE, ended).await;
        let cut = self.connections.counts().drain_aborts;
        tracing::info!(
            cut,
            "drained; cut: connections closed with replies in progress"
        );
    }

    /// Saves what the devices have learned.
    pub(crate) async fn save_state(&self) {
        tasks::remember(&self.state, &self.folder).await;
    }

    /// Stops devices, flash tier, logs and the admin address, in this order.
    pub(crate) async fn close(self) {
        let mut stopping = JoinSet::new();
        for device in self.state.devices.clone() {
            stopping.spawn(async move { device.shutdown().await });
        }
        while stopping.join_next().await.is_some() {}
        self.tier.finish().await;
        let log = Arc::clone(&self.state);
        tasks::finish(move || log.log.finish()).await;
        let (trigger, tasks) = self.operators;
        trigger.drain();
        for task in tasks.into_iter().flatten() {
            let _ = timeout(DRAIN_SPARE, task).await;
        }
        tracing::info!("stopped");
    }

    fn wall(&self, time: headlong_units::Duration) -> Duration {
        self.config.time_scale().wall(time)
    }
}

/// URLs of the media listeners.
struct Addresses {
    /// All, separated by spaces.
    all: String,
    /// Those that a browser can open, the most suitable first: without TLS, then by the name in the
    /// certificate.
    for_browsers: Vec<String>,
}

impl Addresses {
    fn of(listeners: &[(ListenSetting, Listener)], name: Option<&str>) -> Self {
        let (mut all, mut local) = (Vec::new(), Vec::new());
        let (mut plain, mut secure) = (Vec::new(), Vec::new());
        for (on, listener) in listeners {
            let Ok(address) = listener.address() else {
                continue;
            };
            let scheme = if on.speaks_tls { "https" } else { "http" };
            let url = format!("{scheme}://{address}");
            match address {
                ListenAddress::Ip(_) if on.is_for_proxies || on.redirects => {}
                // No certificate names an address, usually.
                ListenAddress::Ip(at) if on.speaks_tls => secure.push(match name {
                    Some(name) => format!("https://{name}:{}", at.port()),
                    None => url.clone(),
                }),
                ListenAddress::Ip(at) if at.ip().is_loopback() => local.push(url.clone()),
                ListenAddress::Ip(_) => plain.push(url.clone()),
                ListenAddress::Unix(_) => {}
            }
            all.push(url);
        }
        Self {
            all: all.join(" "),
            for_browsers: [local, plain, secure].concat(),
        }
    }
}
