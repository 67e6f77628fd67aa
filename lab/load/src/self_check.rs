//! Self-check of the generator: the limits of its process, and the results that its own lateness or
//! CPU shortage distorted.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::thread_cpu;
use crate::report::Recording;

/// A larger share of a core over [`CPU_STRETCH`] means that the generator was CPU-bound.
pub const CPU_SHARE_MAX: f64 = 0.95;
/// Length of the periods in which CPU use is checked.
const CPU_STRETCH: Duration = Duration::from_secs(5);
/// A shorter last period is ignored.
const CPU_STRETCH_MIN: Duration = Duration::from_secs(1);

/// CPU use of the generator's thread, by period.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuMeter {
    cpu_at_start: Duration,
    /// Wall time and CPU time at the start of the period.
    stretch: (Duration, Duration),
    share: f64,
    share_max: f64,
}

impl CpuMeter {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        let cpu = thread_cpu();
        Self {
            cpu_at_start: cpu,
            stretch: (Duration::ZERO, cpu),
            ..Self::default()
        }
    }

    /// Samples the clocks; `wall` is the wall time since the start.
    pub(crate) fn sample(&mut self, wall: Duration) {
        self.account(wall, thread_cpu(), CPU_STRETCH);
    }

    /// Ends the last period.
    pub(crate) fn finish(&mut self, wall: Duration) {
        let cpu = thread_cpu();
        self.account(wall, cpu, CPU_STRETCH_MIN);
        self.share = share(cpu.saturating_sub(self.cpu_at_start), wall);
    }

    fn account(&mut self, wall: Duration, cpu: Duration, least: Duration) {
        let (wall_before, cpu_before) = self.stretch;
        let length = wall.saturating_sub(wall_before);
        if length >= least {
            let used = share(cpu.saturating_sub(cpu_before), length);
            self.share_max = self.share_max.max(used);
            self.stretch = (wall, cpu);
        }
    }

    /// Share of one core, over the whole run.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Share of one core, over the busiest period.
    pub(crate) fn share_max(&self) -> f64 {
        self.share_max
    }
}

fn share(cpu: Duration, wall: Duration) -> f64 {
    match wall.is_zero() {
        true => 0.0,
        false => cpu.as_secs_f64() / wall.as_secs_f64(),
    }
}

impl Recording {
    /// Adds the reasons why the generator itself makes the result invalid.
    pub fn judge(&mut self) {
        let max = self.report.schedule_error_allowed_ms;
        if let Some(p99) = self
            .schedule_error
            .quantile_ms(0.99)
            .filter(|p99| *p99 > max)
        {
            self.report.invalid_because.push(format!(
                "the generator was late: one request in a hundred was sent more than {p99:.3} ms \
                 late (model time; {max} ms are allowed)"
            ));
        }
        if self.report.cpu_share_max > CPU_SHARE_MAX {
            let percent = self.report.cpu_share_max * 100.0;
            self.report.invalid_because.push(format!(
                "the generator had too little CPU: its thread was busy for {percent:.0} % of 5 s"
            ));
        }
    }
}

/// Descriptors other than viewers' connections: standard streams, epoll, result files.
pub(crate) const DESCRIPTORS_OTHER: u64 = 32;
/// Linux' default number of client ports per source address.
const PORTS_DEFAULT: u64 = 28_232;

/// Raises the limit of open files to its maximum, and returns it.
pub(crate) fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this fails, the old limit applies.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Number of connections from one source address to one server.
pub(crate) fn ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    text.ok()
        .and_then(|text| ports_of(&text))
        .unwrap_or(PORTS_DEFAULT)
}

fn ports_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

#[cfg(test)]
mod tests {
    use headlong_units::{Duration as ModelDuration, Instant};

    use super::*;

    fn recording(late_max_ms: f64, late: &[u64]) -> Recording {
        let mut recording = Recording::new(
            &[],
            Instant::ZERO,
            Instant::NEVER,
            ModelDuration::from_secs(5),
        );
        recording.report.schedule_error_allowed_ms = late_max_ms;
        for &micros in late {
            recording
                .schedule_error
                .record(ModelDuration::from_micros(micros));
        }
        recording
    }

    #[test]
    fn late_generator_invalidates_result() {
        let mut late = vec![10; 980];
        late.extend([1500; 20]);
        let mut slow = recording(1.0, &late);
        slow.judge();
        assert!(slow.report.invalid_because[0].contains("late"), "{slow:?}");
        // In a run twice as fast, 1 ms of wall time is 2 ms.
        let mut fast = recording(2.0, &late);
        fast.judge();
        assert!(fast.report.invalid_because.is_empty());
    }

    #[test]
    fn cpu_bound_generator_invalidates_result() {
        let mut meter = CpuMeter::default();
        let second = Duration::from_secs(1);
        meter.account(second * 5, second * 2, CPU_STRETCH);
        meter.account(second * 7, second * 4, CPU_STRETCH);
        meter.account(
            second * 10,
            second * 2 + Duration::from_millis(4900),
            CPU_STRETCH,
        );
        assert!((meter.share_max() - 0.98).abs() < 1e-9);
        let mut recording = recording(1.0, &[]);
        recording.report.cpu_share_max = meter.share_max();
        recording.judge();
        assert!(
            recording.report.invalid_because[0].contains("98 %"),
            "{recording:?}"
        );
    }

    #[test]
    fn port_range_is_inclusive() {
        assert_eq!(ports_of("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_of("60999 32768"), None);
        assert_eq!(ports_of(""), None);
    }
}
