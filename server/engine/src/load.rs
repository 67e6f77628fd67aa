//! How busy a device is: how long a read takes, and whether jobs come in time.
//!
//! The one idea: a device is overloaded when more than half of the jobs for viewers it already
//! serves come after their deadline. New viewers who have to wait a moment longer than a start
//! should take are not overload; viewers running dry are.

use headlong_units::Duration;

/// What a read is taken to last before any was seen: a seek and a few megabytes.
const SERVICE_FIRST: Duration = Duration::from_millis(30);
/// Lateness, in parts of 1024, above which the device is overloaded.
const LATE_OVERLOADED: u32 = 512;
/// Lateness below which it no longer is.
const LATE_RECOVERED: u32 = 256;

/// Running averages. How long a new read took weighs an eighth; whether a new job was late weighs a
/// thirty-second, so that the few seconds in which many come back at once after a restart, and are
/// served, are no overload: with an eighth, new viewers were refused in three of six such starts.
#[derive(Debug)]
pub(crate) struct Load {
    service: Duration,
    late: u32,
    overloaded: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            service: SERVICE_FIRST,
            late: 0,
            overloaded: false,
        }
    }
}

impl Load {
    /// How long a read takes.
    pub(crate) fn service(&self) -> Duration {
        self.service
    }

    /// The same, as an earlier process had seen it.
    pub(crate) fn resume(&mut self, service: Duration) {
        self.service = service;
    }

    /// Whether new viewers should be sent elsewhere.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    pub(crate) fn record_service(&mut self, took: Duration) {
        self.service = Duration(self.service.0 / 8 * 7 + took.0 / 8);
    }

    pub(crate) fn record_job(&mut self, was_late: bool) {
        self.late = self.late * 31 / 32 + if was_late { 32 } else { 0 };
        if self.late > LATE_OVERLOADED {
            self.overloaded = true;
        } else if self.late < LATE_RECOVERED {
            self.overloaded = false;
        }
    }

    /// The device has nothing to do.
    pub(crate) fn record_idle(&mut self) {
        self.late = 0;
        self.overloaded = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_job_is_no_overload_but_many_in_a_row_are() {
        let mut load = Load::default();
        load.record_job(true);
        assert!(!load.is_overloaded());
        for _ in 0..30 {
            load.record_job(true);
        }
        assert!(load.is_overloaded());
        load.record_job(false);
        assert!(load.is_overloaded(), "one in time is no recovery");
        for _ in 0..40 {
            load.record_job(false);
        }
        assert!(!load.is_overloaded());
    }
}
