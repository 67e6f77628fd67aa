//! A reload: the configuration is read again, and what can change while serving changes.
//!
//! Whatever is wrong with the new configuration, the old one stays in force as a whole. What a
//! running server cannot change (addresses, roots, memory, pieces) is named in the log.

use std::sync::Arc;

use crate::config::Config;
use crate::http::{HttpSettings, MediaState};
use crate::log::DaemonLog;
use crate::net::ReloadingCertificates;
use crate::run::ReadConfig;
use crate::start;

/// All that a reload touches.
pub(crate) struct Reloader {
    pub(crate) state: Arc<MediaState>,
    pub(crate) read_config: ReadConfig,
    pub(crate) tls: Option<Arc<ReloadingCertificates>>,
    pub(crate) daemon_log: DaemonLog,
}

impl Reloader {
    /// Reads the configuration and takes it into force, or says why not.
    pub(crate) async fn reload(&self) {
        start::notify(&[sd_notify::NotifyState::Reloading]);
        match (self.read_config)() {
            Ok(config) => self.apply(&config).await,
            Err(errors) => {
                for error in errors.iter() {
                    tracing::error!("reload: {error}");
                }
                tracing::error!("the configuration is wrong, so the old one stays in force");
            }
        }
        start::notify(&[sd_notify::NotifyState::Ready]);
    }

    async fn apply(&self, config: &Config) {
        if let Some(tls) = &self.tls
            && let Err(error) = tls.reload()
        {
            tracing::error!("reload: {error}; the old certificate stays in use");
        }
        let devices = self.state.library.devices();
        let found = start::names(&devices);
        let engines = match start::engines(config, &devices) {
            Ok(engines) => engines,
            Err(errors) => {
                tracing::error!("reload: {errors}; the old configuration stays in force");
                return;
            }
        };
        for warning in config.warnings(&found) {
            tracing::warn!("reload: {warning}");
        }
        for (device, engine) in self.state.devices.iter().zip(engines) {
            if let Err(error) = device.reconfigure(engine).await {
                tracing::error!(device = %device.name(), "reload: {error}; the device goes on as before");
            }
        }
        let settings = HttpSettings {
            time_scale: self.state.settings().time_scale,
            ..start::http_settings(config)
        };
        self.state.reconfigure(settings);
        if let Err(error) = self.daemon_log.set_level(config.log.level.name()) {
            tracing::error!("reload: {error}");
        }
        self.state.log.reopen();
        tracing::info!(
            "configuration reloaded; changes of listen, admin, roots, memory, piece, state, io, rescan, \
             revalidate, time_scale, [limits], [tcp] and of log paths need a restart"
        );
    }
}
