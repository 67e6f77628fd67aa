//! Reload: reads the configuration again and applies the settings that can change at run time.
//!
//! If the new configuration has a mistake, the old one stays in force as a whole. The log lists the
//! applied settings, and those not applied with the reason.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_net::ReloadingCertificates;
use headlong_telemetry::DaemonLog;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::certificate_expiry;
use crate::devices;
use crate::http::{HttpSettings, MediaState};
use crate::service_manager::{self, NotifyState};
use crate::start;
use headlong_config::{Changes, Config, Mistakes};

/// Reads the configuration again, as at the start; errors name file, line, key and remedy.
pub type ReadConfig = Arc<dyn Fn() -> Result<Config, Mistakes> + Send + Sync>;

/// Time limit for reading it, because it accesses folders and files whose disk may hang.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// State that a reload changes.
pub(crate) struct Reloader {
    pub(crate) state: Arc<MediaState>,
    pub(crate) read_config: ReadConfig,
    pub(crate) tls: Option<Arc<ReloadingCertificates>>,
    pub(crate) daemon_log: DaemonLog,
    /// The configuration at start-up, still in force for settings that need a restart.
    pub(crate) started: Config,
    /// The configuration of the last reload.
    pub(crate) last: Mutex<Config>,
}

impl Reloader {
    /// Reads the configuration and applies it, or logs why not.
    pub(crate) async fn reload(&self) {
        service_manager::notify(&[NotifyState::Reloading]);
        let status = self.take_in().await;
        service_manager::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// As a reload, without notifying the service manager; returns the new status text.
    pub(crate) async fn take_in(&self) -> &'static str {
        let read = Arc::clone(&self.read_config);
        let read = timeout(READ_TIMEOUT, spawn_blocking(move || read())).await;
        match read {
            Ok(Ok(Ok(config))) => {
                self.apply(&config).await;
                "serving; see the journal for the changes of the last reload"
            }
            Ok(Ok(Err(errors))) => {
                for error in errors.iter() {
                    tracing::error!("reload: {error}");
                }
                tracing::error!(
                    "reload failed: the configuration has mistakes; the old one stays in force"
                );
                "serving with the old configuration: the new one has mistakes, see the journal"
            }
            Ok(Err(_)) | Err(_) => {
                tracing::error!(
                    "reload failed: a folder or file of the configuration does not respond; check \
                     the disks. The old configuration stays in force"
                );
                "serving with the old configuration: the new one could not be checked"
            }
        }
    }

    async fn apply(&self, config: &Config) {
        let infos = self.state.library.devices();
        let found = headlong_config::names(&infos);
        let are_all = !self.state.library.had_missing_root();
        let engines = match devices::engines(config, &infos, are_all) {
            Ok(engines) => engines,
            Err(errors) => {
                tracing::error!("reload: {errors}; the old configuration stays in force");
                return;
            }
        };
        for warning in config.warnings(&found) {
            tracing::warn!("reload: {warning}");
        }
        let mut refused = Vec::new();
        let mut renewed = 0;
        if let Some(tls) = &self.tls {
            let reload = tls.reload();
            renewed = reload.renewed.len();
            for certificate in &reload.renewed {
                let (file, expires) = (certificate.file.display(), certificate.expires());
                tracing::info!(%file, expires, "reload: certificate renewed");
            }
            for error in reload.failed {
                refused.push(format!(
                    "the certificate ({error}); the old one stays in use"
                ));
            }
            certificate_expiry::report(tls);
        }
        for (device, engine) in self.state.devices.iter().zip(engines) {
            if let Err(error) = device.reconfigure(engine).await {
                let name = device.name();
                refused.push(format!(
                    "device {name} ({error}); its old settings stay in force"
                ));
            }
        }
        let now = self.state.settings();
        let settings = HttpSettings {
            time_scale: now.time_scale,
            steering: now.steering.clone(),
            ..start::http_settings(config)
        };
        self.state.reconfigure(settings);
        if let Err(error) = self.daemon_log.set_level(config.log.level.name()) {
            refused.push(format!("log.level ({error})"));
        }
        self.state.log.reopen();
        self.log_changes(config, renewed, &refused);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = config.clone();
    }

    fn log_changes(&self, config: &Config, renewed: usize, refused: &[String]) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = Changes::between(&last, config).taken;
        for setting in &taken {
            tracing::info!("reload: now {setting}");
        }
        let of_restart = Changes::between(&self.started, config).needs_restart;
        for setting in &of_restart {
            tracing::warn!("reload: not applied, as it needs a restart: {setting}");
        }
        for what in refused {
            tracing::error!("reload: not applied: {what}");
        }
        let (changed, refused) = (taken.len(), refused.len() + of_restart.len());
        tracing::info!(changed, renewed, refused, "reloaded");
    }
}
