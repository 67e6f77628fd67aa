//! The start of a server, up to the first request or the handover.

use std::sync::Arc;

use headlong_edge::{EdgeServer, Pulls};
use headlong_kernel::descriptors::{self, DescriptorLimits};
use headlong_net::{ConnectionThreads, Encryption, Listener, ReloadingCertificates};
use headlong_telemetry::degraded_parts::DegradedParts;

use crate::devices;
use crate::flash_attachment::TierHolder;
use crate::http::{HttpSettings, LookupThreads, MediaState};
use crate::listeners::Listeners;
use crate::run_error::RunError;
use crate::start;
use crate::upgrade::{InheritedSockets, Predecessor};
use headlong_config::{Admin, Config, ListenSetting};

/// Everything that may fail at a start, opened before the service begins or the old process is asked
/// to hand it over.
pub(crate) struct Prepared {
    /// The process that serves until the handover, in an upgrade.
    pub(crate) predecessor: Option<Predecessor>,
    /// Owner of the socket files, and the duplicates for a next process.
    pub(crate) doors: Listeners,
    pub(crate) media_listeners: Vec<(ListenSetting, Listener)>,
    pub(crate) admin_listener: Option<Listener>,
    pub(crate) agent_listener: Option<Listener>,
    /// Reloaded on SIGHUP.
    pub(crate) certificates: Option<Arc<ReloadingCertificates>>,
    /// Uses `certificates`.
    pub(crate) encryption: Option<Encryption>,
    pub(crate) connections_max: usize,
    pub(crate) threads: ConnectionThreads,
    /// The library, its devices and the logs.
    pub(crate) state: Arc<MediaState>,
    /// Empty in an upgrade: the old process still holds the SSDs.
    pub(crate) tier: TierHolder,
    pub(crate) degraded: Arc<DegradedParts>,
}

impl Prepared {
    /// Opens the parts, or takes them from the old process.
    ///
    /// # Errors
    /// Of the first part that cannot be opened.
    pub(crate) async fn open(
        config: &Config,
        of_manager: InheritedSockets,
    ) -> Result<Self, RunError> {
        let (predecessor, mut inherited) = match Predecessor::meet().await? {
            Some((predecessor, inherited)) => (Some(predecessor), inherited),
            None => (None, of_manager),
        };
        let files = config.tls.files();
        let certificates = match files.is_empty() {
            true => None,
            false => Some(Arc::new(ReloadingCertificates::load(files)?)),
        };
        let encryption = certificates.clone().map(Encryption::new).transpose()?;
        let degraded = Arc::new(DegradedParts::default());
        let library = start::library(config)?;
        let edge = EdgeServer {
            library: &library,
            scale: config.time_scale(),
            is_heir: predecessor.is_some(),
            degraded: &degraded,
        };
        let pulls = Pulls::open(&config.pull, &config.folders(), &edge);
        let pulls = pulls.map_err(RunError::Pull)?;
        let steering = config.steering();
        let steering =
            steering.map_err(|(key, text)| RunError::Steering(format!("{key}: {text}")))?;
        let engines = devices::engines(config, &library.devices(), !library.had_missing_root())?;
        let mut doors = Listeners::new(config.unix_mode);
        let media_listeners = doors.open_all(config, &mut inherited)?;
        let admin_listener = match &config.admin {
            Admin::Off => None,
            Admin::Address(address) => Some(doors.open(address, &mut inherited)?),
        };
        let agent = config.agent.as_ref();
        let agent_listener = agent.map(|address| doors.open(address, &mut inherited));
        let agent_listener = agent_listener.transpose()?;
        match &predecessor {
            // Addresses no longer configured end with the old process.
            Some(_) => doors.close(inherited),
            None => inherited.all_taken()?,
        }
        let log = Arc::new(start::open_log(config, &degraded)?);
        let wanted = DescriptorLimits {
            connections_max: config.limits.connections_max as usize,
            open_files_max: config.open_files_max as usize,
            are_chosen: config.has_chosen_descriptors(),
        };
        let shares = descriptors::share_out(descriptors::raise_limit(), wanted, engines.len());
        if let Some(predecessor) = &predecessor {
            predecessor.checked().await?;
        }
        let tier = match &predecessor {
            Some(_) => None,
            None => start::tier(config, engines.len(), &degraded)?,
        };
        let devices = devices::start(
            config,
            library.devices(),
            engines,
            tier.as_ref(),
            shares.open_files_max,
        )?;
        pulls.attach(&devices);
        let lookups = LookupThreads::start(&library)?;
        let threads = start::connection_threads()?;
        let settings = HttpSettings {
            steering: steering.map(Arc::new),
            ..start::http_settings(config)
        };
        let pulls = Arc::new(pulls);
        let state = MediaState::new(library, lookups, devices, log, settings, pulls);
        Ok(Self {
            predecessor,
            doors,
            media_listeners,
            admin_listener,
            agent_listener,
            certificates,
            encryption,
            connections_max: shares.connections_max,
            threads,
            state: Arc::new(state),
            tier: TierHolder::new(tier),
            degraded,
        })
    }
}
