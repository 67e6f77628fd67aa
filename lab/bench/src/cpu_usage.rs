//! CPU use of processes and properties of the machine, from the kernel.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// CPU time so far, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct CpuTicks {
    machine_busy: u64,
    machine_all: u64,
    server: u64,
    load: u64,
    drive: u64,
}

/// CPU used over a period, in cores, except `machine_share`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuUsage {
    /// Seconds of wall time observed.
    pub seconds: f64,
    /// Share of all cores together: 1 is a saturated machine.
    pub machine_share: f64,
    /// Cores used by the server.
    pub server_cores: f64,
    /// Cores used by the load generator.
    pub load_cores: f64,
    /// Cores used by the emulated drives.
    pub drive_cores: f64,
}

/// Samples CPU times, to report the use of any part of the run afterwards.
#[derive(Debug)]
pub(crate) struct CpuSampler {
    started: Instant,
    samples: Vec<(Duration, CpuTicks)>,
}

/// The processes to observe.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedProcesses {
    pub(crate) server: Vec<u32>,
    pub(crate) load: u32,
    pub(crate) drives: Vec<u32>,
}

impl CpuSampler {
    pub(crate) fn start() -> Self {
        let samples = Vec::new();
        Self {
            started: Instant::now(),
            samples,
        }
    }

    pub(crate) fn look(&mut self, watched: &WatchedProcesses) {
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (machine_busy, machine_all) = machine_ticks(&machine);
        let ticks = CpuTicks {
            machine_busy,
            machine_all,
            server: watched.server.iter().map(|pid| process_ticks(*pid)).sum(),
            load: process_ticks(watched.load),
            drive: watched.drives.iter().map(|pid| process_ticks(*pid)).sum(),
        };
        self.samples.push((self.started.elapsed(), ticks));
    }

    /// CPU use between two times since the start; of the whole run if no sample lies between
    /// them.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> CpuUsage {
        let inside = |(at, _): &&(Duration, CpuTicks)| (from..=to).contains(at);
        let part: Vec<_> = self.samples.iter().filter(inside).collect();
        let part: Vec<_> = match part.len() {
            0 | 1 => self.samples.iter().collect(),
            _ => part,
        };
        let (Some((first_at, first)), Some((last_at, last))) = (part.first(), part.last()) else {
            return CpuUsage::default();
        };
        let seconds = last_at.saturating_sub(*first_at).as_secs_f64();
        let cores = |from: u64, to: u64| {
            let ticks = to.saturating_sub(from) as f64;
            ticks / rustix::param::clock_ticks_per_second() as f64 / seconds.max(1e-9)
        };
        let all = last.machine_all.saturating_sub(first.machine_all) as f64;
        let busy = last.machine_busy.saturating_sub(first.machine_busy) as f64;
        CpuUsage {
            seconds,
            machine_share: busy / all.max(1.0),
            server_cores: cores(first.server, last.server),
            load_cores: cores(first.load, last.load),
            drive_cores: cores(first.drive, last.drive),
        }
    }
}

/// Busy and total ticks of all processors, from `/proc/stat`. Stolen time counts as busy: it is not
/// available to this machine.
fn machine_ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; guest time is in user time already.
    let fields = line.split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let all = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// User and system ticks of a process and of its children that have ended.
fn process_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The fields after the name, which may contain any character; the first is the state.
    let fields = stat
        .rsplit_once(") ")
        .map(|(_, fields)| fields)
        .unwrap_or_default();
    let times = fields.split(' ').skip(11).take(4);
    times.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The machine, as recorded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MachineInfo {
    /// `uname -sr`.
    pub kernel: String,
    /// Processors that may be used.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl MachineInfo {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        let name = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().next().unwrap_or_default();
        let kib = total
            .split_whitespace()
            .nth(1)
            .and_then(|number| number.parse::<u64>().ok());
        Self {
            kernel: format!("{} {}", text(name.sysname()), text(name.release())),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib.unwrap_or(0) * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_busy_and_iowait_is_idle() {
        let stat = "cpu  10 1 20 60 5 1 1 2 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_ticks(stat), (35, 100));
        assert_eq!(machine_ticks(""), (0, 0));
    }

    #[test]
    fn reports_use_of_requested_period() {
        let second = u64::from(rustix::param::clock_ticks_per_second() as u32);
        let at = |seconds, server, busy| {
            let ticks = CpuTicks {
                machine_busy: busy * second,
                machine_all: 2 * seconds * second,
                server: server * second,
                ..CpuTicks::default()
            };
            (Duration::from_secs(seconds), ticks)
        };
        let samples = vec![at(0, 0, 0), at(10, 9, 20), at(20, 14, 25), at(30, 14, 45)];
        let watch = CpuSampler {
            started: Instant::now(),
            samples,
        };
        let part = watch.between(Duration::from_secs(5), Duration::from_secs(25));
        assert_eq!((part.server_cores, part.machine_share), (0.5, 0.25));
        let whole = watch.between(Duration::from_secs(90), Duration::from_secs(95));
        assert_eq!((whole.seconds, whole.machine_share), (30.0, 0.75));
    }
}
