//! Device health: online, failing or offline.
//!
//! A device goes offline if it fails in many regions and most of its last reads failed. A bad spot,
//! or a whole bad file, is only a few regions; while other reads succeed, the device stays in use.
//! An offline device is retried periodically.

use alloc::collections::BTreeMap;

use headlong_units::{Duration, Instant};

use crate::ids::StreamId;

/// Errors closer together than this are one: a scratch or a weak head spoils some mebibytes (bad
/// areas that drives remap lie close together).
const REGION_BYTES: u64 = 16 << 20;
/// Weight of each read in the share of failed reads, of 1024: the share covers about the last four.
const READ_WEIGHT: u32 = 256;
/// A device that fails less often than this, of 1024, stays in service. Four failures in a row are
/// more; if every second read fails, the share stays below.
const SHARE_OFFLINE: u32 = 640;

/// A part of a device within which errors count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorRegion {
    /// By physical position, if it is known.
    Physical(u64),
    /// By logical offset in a stream, if the physical position is unknown.
    Logical(StreamId, u64),
}

impl ErrorRegion {
    /// The region of a byte of a stream, and of the device if that is known.
    pub(crate) fn of(stream: StreamId, logical: u64, physical: Option<u64>) -> Self {
        match physical {
            Some(at) => Self::Physical(at / REGION_BYTES),
            None => Self::Logical(stream, logical / REGION_BYTES),
        }
    }
}

/// Health of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceState {
    /// No error within the window.
    Online,
    /// Some errors within the window; it is still used.
    Failing,
    /// Too many errors, or no response at all: no reads are issued, and requests that need the
    /// device are refused.
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
pub(crate) struct DeviceHealth {
    /// Regions with errors within the window, and the time of the last one. At most
    /// `errors_offline` of them matter, and no more are kept.
    errors: BTreeMap<ErrorRegion, Instant>,
    /// Share of the last reads that failed, of 1024.
    failing: u32,
    offline_until: Option<Instant>,
    /// Retried after being offline: one more error takes it offline again.
    on_probation: bool,
}

impl DeviceHealth {
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

    /// A read failed. Returns whether the device just went offline.
    pub(crate) fn record_error(
        &mut self,
        now: Instant,
        region: ErrorRegion,
        config: HealthConfig,
    ) -> bool {
        self.failing = self.failing - self.failing * READ_WEIGHT / 1024 + READ_WEIGHT;
        let is_known = self.errors.contains_key(&region);
        if is_known || self.errors.len() < config.errors_offline as usize {
            self.errors.insert(region, now);
        }
        let is_ill =
            self.errors.len() as u32 >= config.errors_offline && self.failing > SHARE_OFFLINE;
        if self.offline_until.is_none() && (self.on_probation || is_ill) {
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
        self.failing -= self.failing * READ_WEIGHT / 1024;
    }

    /// Forgets errors that left the window; ends an offline period that has passed.
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

    fn region(number: u64) -> ErrorRegion {
        ErrorRegion::of(StreamId(1), 0, Some(number * REGION_BYTES))
    }

    #[test]
    fn bad_regions_keep_device_online_while_reads_succeed() {
        let mut health = DeviceHealth::default();
        for number in 0..100 {
            assert!(!health.record_error(at(0), region(number), CONFIG));
            health.record_success();
        }
        assert_eq!(health.state(), DeviceState::Failing);
        assert!(health.errors.len() <= CONFIG.errors_offline as usize);
    }

    #[test]
    fn share_of_failures_stays_within_bounds() {
        let mut health = DeviceHealth::default();
        for _ in 0..1_000 {
            health.record_error(at(0), region(0), CONFIG);
            assert!(health.failing <= 1024);
        }
        for _ in 0..1_000 {
            health.record_success();
        }
        assert!(health.failing < 8, "{}", health.failing);
    }

    #[test]
    fn repeated_errors_of_one_region_count_once() {
        let mut health = DeviceHealth::default();
        for second in 0..20 {
            assert!(!health.record_error(at(second), region(7), CONFIG));
        }
        assert_eq!(health.state(), DeviceState::Failing);
        health.handle_timeout(at(100), CONFIG);
        assert_eq!(health.state(), DeviceState::Online);
    }

    #[test]
    fn errors_everywhere_take_device_offline_until_retry() {
        let mut health = DeviceHealth::default();
        let went = [0, 1, 2, 3].map(|n| health.record_error(at(0), region(n), CONFIG));
        assert_eq!(went, [false, false, false, true]);
        assert_eq!(health.poll_timeout(CONFIG), Some(at(30)));
        health.handle_timeout(at(30), CONFIG);
        assert_eq!(health.state(), DeviceState::Failing);
        assert!(
            health.record_error(at(31), region(9), CONFIG),
            "on probation"
        );
        health.handle_timeout(at(61), CONFIG);
        health.record_success();
        assert_eq!(health.state(), DeviceState::Online);
    }
}
