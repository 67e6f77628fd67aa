//! A reload: the configuration is read again, and what can change while serving changes.
//!
//! Whatever is wrong with the new configuration, the old one stays in force as a whole. The log
//! says which settings were taken, and which were not and why.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::config::{Changes, Config, Mistakes};
use crate::devices;
use crate::http::{HttpSettings, MediaState};
use crate::log::DaemonLog;
use crate::net::ReloadingCertificates;
use crate::service_manager::{self, NotifyState};
use crate::start;

/// Reads the configuration again, as the start did; errors name file, line, key and remedy.
pub type ReadConfig = Arc<dyn Fn() -> Result<Config, Mistakes> + Send + Sync>;

/// How long reading it may take: it looks at folders and files, and their disk may hang.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// All that a reload touches.
pub(crate) struct Reloader {
    pub(crate) state: Arc<MediaState>,
    pub(crate) read_config: ReadConfig,
    pub(crate) tls: Option<Arc<ReloadingCertificates>>,
    pub(crate) daemon_log: DaemonLog,
    /// The configuration of the start, which is in force where a restart is needed.
    pub(crate) started: Config,
    /// The configuration of the last reload.
    pub(crate) last: Mutex<Config>,
}

impl Reloader {
    /// Reads the configuration and takes it into force, or says why not.
    pub(crate) async fn reload(&self) {
        service_manager::notify(&[NotifyState::Reloading]);
        let status = self.take_in().await;
        service_manager::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// As a reload, without a word to the service manager; answers what the status is then.
    pub(crate) async fn take_in(&self) -> &'static str {
        let read = Arc::clone(&self.read_config);
        let read = timeout(READ_TIMEOUT, spawn_blocking(move || read())).await;
        match read {
            Ok(Ok(Ok(config))) => {
                self.apply(&config).await;
                "serving; the journal says what the last reload changed"
            }
            Ok(Ok(Err(errors))) => {
                for error in errors.iter() {
                    tracing::error!("reload: {error}");
                }
                tracing::error!("the configuration is wrong, so the old one stays in force");
                "serving by the old configuration: the new one is wrong, as the journal says"
            }
            Ok(Err(_)) | Err(_) => {
                tracing::error!(
                    "reload: a folder or file of the configuration cannot be looked at: does a disk \
                     hang? The old configuration stays in force"
                );
                "serving by the old configuration: the new one could not be looked at"
            }
        }
    }

    async fn apply(&self, config: &Config) {
        let infos = self.state.library.devices();
        let found = devices::names(&infos);
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
        if let Some(tls) = &self.tls
            && let Err(error) = tls.reload()
        {
            refused.push(format!(
                "the certificate ({error}); the old one stays in use"
            ));
        }
        for (device, engine) in self.state.devices.iter().zip(engines) {
            if let Err(error) = device.reconfigure(engine).await {
                let name = device.name();
                refused.push(format!("device {name} ({error}); it goes on as before"));
            }
        }
        let settings = HttpSettings {
            time_scale: self.state.settings().time_scale,
            ..start::http_settings(config)
        };
        self.state.reconfigure(settings);
        if let Err(error) = self.daemon_log.set_level(config.log.level.name()) {
            refused.push(format!("log.level ({error})"));
        }
        self.state.log.reopen();
        self.say(config, &refused);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = config.clone();
    }

    fn say(&self, config: &Config, refused: &[String]) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = Changes::between(&last, config).taken;
        for setting in &taken {
            tracing::info!("reload: now {setting}");
        }
        let of_restart = Changes::between(&self.started, config).needs_restart;
        for setting in &of_restart {
            tracing::warn!("reload: not taken, as it needs a restart: {setting}");
        }
        for what in refused {
            tracing::error!("reload: not taken: {what}");
        }
        let (changed, refused) = (taken.len(), refused.len() + of_restart.len());
        tracing::info!(changed, refused, "reloaded");
    }
}
