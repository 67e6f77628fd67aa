//! A box's answer to HAProxy's agent check: the share of its usual load that it can bear.
//!
//! The share falls while disks are late or refuse viewers, and rises slowly: each change moves
//! titles to boxes whose memory does not hold them, so it must not follow the load of a second.
//! Format of the answer: HAProxy's configuration manual, `agent-check`.

use core::fmt;

/// Seconds between two changes of the share, in which the effect of the first becomes visible.
const CHANGE_INTERVAL_S: u32 = 5;
/// A share under pressure is multiplied by 4/5, and otherwise rises by 5 points.
const FALL: (u32, u32) = (4, 5);
const RISE_PERCENT: u32 = 5;
/// A box under pressure keeps at least this share: more would leave its cached titles unused.
pub(crate) const SHARE_PERCENT_MIN: u32 = 20;
/// Jobs after their deadline, of those of a second, at which a disk counts as late.
const LATE_PERCENT: u64 = 2;

/// A disk in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskSample {
    /// Out of service: its device does not work, or its roots are missing.
    pub is_gone: bool,
    /// Refuses new viewers.
    pub is_refusing: bool,
    /// Prefetch jobs that ended.
    pub jobs: u64,
    /// Of those, jobs that ended after their deadline.
    pub jobs_late: u64,
}

impl DiskSample {
    fn is_pressed(&self) -> bool {
        let is_late = self.jobs_late * 100 > self.jobs.max(1) * LATE_PERCENT;
        !self.is_gone && (self.is_refusing || is_late)
    }
}

/// The answer of a box to its balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentAnswer {
    /// Takes this percentage of its usual share.
    Up(u32),
    /// Completes its replies and takes no more requests. A weight of zero, because HAProxy would
    /// keep the state `drain` until it is told `ready`, which would also end a drain that its
    /// operator has ordered.
    Drain,
    /// Can serve nothing.
    Down,
}

/// The line that HAProxy reads.
impl fmt::Display for AgentAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(percent) => writeln!(f, "up {percent}%"),
            Self::Drain => f.write_str("up 0%\n"),
            Self::Down => f.write_str("down#no disk in service\n"),
        }
    }
}

/// The share that a box can bear, followed over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BearableShare {
    percent: u32,
    /// Seconds until it may change.
    wait_s: u32,
}

impl Default for BearableShare {
    fn default() -> Self {
        Self {
            percent: 100,
            wait_s: 0,
        }
    }
}

impl BearableShare {
    /// Takes the samples of one second, one for each disk, and returns the answer from then on.
    pub fn handle_second(&mut self, disks: &[DiskSample], is_draining: bool) -> AgentAnswer {
        self.wait_s = self.wait_s.saturating_sub(1);
        let is_pressed = disks.iter().any(DiskSample::is_pressed);
        let next = match is_pressed {
            true => (self.percent * FALL.0 / FALL.1).max(SHARE_PERCENT_MIN),
            false => (self.percent + RISE_PERCENT).min(100),
        };
        if self.wait_s == 0 && next != self.percent {
            self.percent = next;
            self.wait_s = CHANGE_INTERVAL_S;
        }
        let working = disks.iter().filter(|disk| !disk.is_gone).count() as u64;
        match (is_draining, working) {
            (true, _) => AgentAnswer::Drain,
            (false, 0) if !disks.is_empty() => AgentAnswer::Down,
            (false, working) => {
                let (working, all) = (working.max(1), disks.len().max(1) as u64);
                let percent = u64::from(self.percent) * working / all;
                AgentAnswer::Up((percent as u32).max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const GOOD: DiskSample = DiskSample {
        is_gone: false,
        is_refusing: false,
        jobs: 200,
        jobs_late: 0,
    };
    const GONE: DiskSample = DiskSample {
        is_gone: true,
        // The refusals of a missing disk are no load.
        is_refusing: true,
        ..GOOD
    };
    const FULL: DiskSample = DiskSample {
        is_refusing: true,
        ..GOOD
    };

    fn late(jobs_late: u64) -> DiskSample {
        DiskSample { jobs_late, ..GOOD }
    }

    #[test]
    fn answer_follows_disks_and_drain() {
        let eight = |gone: usize| [vec![GONE; gone], vec![GOOD; 8 - gone]].concat();
        let table: [(Vec<DiskSample>, bool, &str); 11] = [
            (vec![GOOD], false, "up 100%\n"),
            (vec![DiskSample::default()], false, "up 100%\n"),
            (eight(1), false, "up 87%\n"),
            (eight(4), false, "up 50%\n"),
            (eight(8), false, "down#no disk in service\n"),
            (vec![], false, "up 100%\n"),
            (vec![GOOD, FULL], false, "up 80%\n"),
            (vec![GOOD, late(4)], false, "up 100%\n"),
            (vec![GOOD, late(5)], false, "up 80%\n"),
            (vec![GONE, late(5)], false, "up 40%\n"),
            (vec![GOOD], true, "up 0%\n"),
        ];
        for (disks, is_draining, expected) in table {
            let mut share = BearableShare::default();
            let answer = share.handle_second(&disks, is_draining).to_string();
            assert_eq!(answer, expected, "{disks:?}");
        }
    }

    #[test]
    fn share_falls_to_its_floor_and_recovers_slowly() {
        let mut share = BearableShare::default();
        let mut run = |disk: DiskSample, seconds: u32| {
            let answers = (0..seconds).map(|_| share.handle_second(&[disk], false));
            let mut answers: Vec<AgentAnswer> = answers.collect();
            answers.dedup();
            answers
        };
        let up = |percents: &[u32]| -> Vec<_> {
            let percents = percents.iter();
            percents.map(|percent| AgentAnswer::Up(*percent)).collect()
        };
        assert_eq!(run(FULL, 16), up(&[80, 64, 51, 40]));
        assert_eq!(run(FULL, 60), up(&[40, 32, 25, 20]));
        assert_eq!(run(GOOD, 14), up(&[25, 30, 35]));
        assert_eq!(run(GOOD, 600).last(), Some(&AgentAnswer::Up(100)));
    }
}
