//! Whether a device can be trusted: ONLINE, FAILING, OFFLINE.
//!
//! The one idea: errors at different places within a window. One bad spot that a popular title
//! keeps hitting is one error; a device that fails everywhere is out of service soon, and is
//! tried again now and then.

use alloc::collections::BTreeMap;

use headlong_units::{Duration, Instant};

use crate::ids::StreamId;

/// Health of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceState {
    /// No error within the window.
    Online,
    /// Some errors within the window; it is still used.
    Failing,
    /// Too many errors, or it does not answer at all: nothing is asked of it, and requests that
    /// need it are refused.
    Offline,
}

impl DeviceState {
    /// Its name in `/status`, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Failing => "failing",
            Self::Offline => "offline",
        }
    }
}

/// Settings of the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HealthConfig {
    pub(crate) window: Duration,
    pub(crate) errors_offline: u32,
    pub(crate) offline_retry: Duration,
}

/// The recent errors of one device.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Where, and when last.
    errors: BTreeMap<(StreamId, u32), Instant>,
    offline_until: Option<Instant>,
    /// Tried again after being offline: one more error is enough.
    on_probation: bool,
}

impl Health {
    pub(crate) fn state(&self) -> DeviceState {
        if self.offline_until.is_some() {
            DeviceState::Offline
        } else if self.errors.is_empty() && !self.on_probation {
            DeviceState::Online
        } else {
            DeviceState::Failing
        }
    }

    /// When an offline device will be tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.offline_until
    }

    /// An error at a piece. Answers whether the device just went offline.
    pub(crate) fn record_error(
        &mut self,
        now: Instant,
        place: (StreamId, u32),
        config: HealthConfig,
    ) -> bool {
        self.errors.insert(place, now);
        let count = self.errors.len() as u32;
        if self.offline_until.is_none() && (self.on_probation || count >= config.errors_offline) {
            self.offline_until = Some(now + config.offline_retry);
            self.on_probation = false;
            self.errors.clear();
            return true;
        }
        false
    }

    /// A read succeeded.
    pub(crate) fn record_success(&mut self) {
        self.on_probation = false;
    }

    /// Forgets errors that left the window; ends an offline period that is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant, config: HealthConfig) {
        self.errors.retain(|_, at| now.since(*at) < config.window);
        if self.offline_until.is_some_and(|until| until <= now) {
            self.offline_until = None;
            self.on_probation = true;
        }
    }

    /// When [`Self::handle_timeout`] would next change something.
    pub(crate) fn poll_timeout(&self, config: HealthConfig) -> Option<Instant> {
        let oldest = self.errors.values().min().map(|at| *at + config.window);
        [oldest, self.offline_until].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: HealthConfig = HealthConfig {
        window: Duration::from_secs(60),
        errors_offline: 3,
        offline_retry: Duration::from_secs(30),
    };

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn one_bad_spot_asked_often_is_one_error() {
        let mut health = Health::default();
        for second in 0..20 {
            assert!(!health.record_error(at(second), (StreamId(1), 7), CONFIG));
        }
        assert_eq!(health.state(), DeviceState::Failing);
        health.handle_timeout(at(100), CONFIG);
        assert_eq!(health.state(), DeviceState::Online);
    }

    #[test]
    fn errors_everywhere_take_the_device_out_until_it_is_tried_again() {
        let mut health = Health::default();
        let went = [0, 1, 2].map(|n| health.record_error(at(0), (StreamId(n), 0), CONFIG));
        assert_eq!(went, [false, false, true]);
        assert_eq!(health.poll_timeout(CONFIG), Some(at(30)));
        health.handle_timeout(at(30), CONFIG);
        assert_eq!(health.state(), DeviceState::Failing);
        assert!(
            health.record_error(at(31), (StreamId(9), 0), CONFIG),
            "on probation"
        );
        health.handle_timeout(at(61), CONFIG);
        health.record_success();
        assert_eq!(health.state(), DeviceState::Online);
    }
}
